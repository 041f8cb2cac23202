"""Cgroups, stats, pressure, eviction decisions, and what garbage there is to collect."""
