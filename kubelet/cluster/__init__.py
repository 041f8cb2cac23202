"""What the node process has heard from the API server, as the other processes read it."""
