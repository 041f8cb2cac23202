"""How processes nudge and ask each other: hints and requests over ZeroMQ in the run directory.

State is never carried here, it lies in the shared tables; a lost message costs a tick at most.
Nothing is imported by this file, so that ``paths`` and ``errors`` stay free of ZeroMQ.
"""
