"""A pod described in sections, as ``kubectl describe pod`` has them. Pure."""
