"""The frame that every process of the tree runs in: heartbeat, tables, channels, requests, stop."""

from kubelet.process.process import Process

__all__ = ["Process"]
