"""This node's object: registration, status, lease."""
