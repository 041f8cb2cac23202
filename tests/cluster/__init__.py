"""A real control plane, real nodes, and tests of both together."""
