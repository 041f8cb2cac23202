"""What syncloop does for probes: it takes their results, and runs the commands of some."""
