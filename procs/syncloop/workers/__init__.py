"""Pod workers: one task for each pod, from its arrival until nothing of it is left (P-30)."""
