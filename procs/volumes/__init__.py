"""Mounts and unmounts: a mount that hangs, hangs only here."""
