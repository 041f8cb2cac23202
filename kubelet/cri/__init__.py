"""The Container Runtime Interface: wire types, a typed asynchronous client and its errors.

``api.proto`` is the interface, ``client`` speaks it. Nothing is imported by this file, so that
``errors`` and ``endpoint`` stay free of gRPC. Importing the client before a fork is safe and saves
each child the cost; opening it is not: a channel belongs to the process that opened it.
"""
