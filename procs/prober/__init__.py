"""Liveness, readiness and startup probes, without root and without the runtime's socket.

``lookout`` sees what is to be probed, ``schedule`` says when, ``handlers`` do it, ``track`` says
what it means, and ``manager`` brings them together; ``book`` and ``course`` keep the tables.
"""
