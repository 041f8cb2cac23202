"""What keeps a log from being shown, as sentences for whoever asked."""

from __future__ import annotations


class LogError(Exception):
    """A log cannot be shown; says why."""


class NoLogError(LogError):
    """The file is not there."""
