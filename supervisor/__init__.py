"""The supervisor: forks one process per kind, watches them, restarts them, stops them in stages.

Its own code is standard library only, and it never has a thread, a gRPC channel or a ZeroMQ
context: everything that a child could be harmed by at the fork is opened after it, by the child.
"""
