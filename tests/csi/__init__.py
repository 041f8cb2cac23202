"""A CSI driver that really mounts, the programs that speak for and with it, and their tests."""
