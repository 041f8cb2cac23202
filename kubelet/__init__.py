"""What the processes share: configuration, channels, logging, the frame every process runs in."""

__version__ = "0.1.0"
