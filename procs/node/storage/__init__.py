"""What is said to the API server about volumes: CSINode, attachments, claims that grow."""
