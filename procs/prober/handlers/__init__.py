"""What a probe does: exec, httpGet, tcpSocket, grpc."""
