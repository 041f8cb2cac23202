"""Certificates of the node: bootstrap, rotation, serving."""
