"""Pods of the API server: what is assigned here, what is said of them, mirror pods."""
