"""CSI: drivers that register here, and the volumes that they make (L-40..L-47)."""
