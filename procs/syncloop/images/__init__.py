"""Images: whether one must be pulled, with which credentials, and what the pod is told of it."""
