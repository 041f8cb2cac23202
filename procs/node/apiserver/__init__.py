"""The connection to the API server: who we are there, how bytes go, list and watch."""
