"""What goes over the sockets of CSI drivers: message types, written anew by ``make proto``.

Importing one of the stubs loads protobuf. A node without a CSI driver has no use for it, so what
runs on every node imports them where the first driver appears, not at the top of a module.
"""
