"""The HTTP servers: the only process that accepts connections, and one without root."""
