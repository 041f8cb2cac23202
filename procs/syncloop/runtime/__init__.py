"""What is done to a pod's containers: the decisions, all of them pure, and the lifecycle hooks."""
