"""Liveness, readiness and startup probes, without root and without the runtime's socket."""
