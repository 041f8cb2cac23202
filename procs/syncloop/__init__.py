"""The only process that changes containers: desired and observed pods in, actions out."""
