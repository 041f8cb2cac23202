"""The pod lifecycle event generator: what the runtime holds, written to the status cache."""
