"""The loggers, and the one place that holds how this process logs."""

from __future__ import annotations

import logging as stdlib
import os
import sys
import time
import traceback
from typing import Any

from kubelet.logging.render import Record, Severity, as_json, as_text
from kubelet.logging.settings import Settings, level_for
from kubelet.logging.sink import STDERR, STDOUT, Sink, is_journal


class _Backend:
    """This process's settings, name and sinks; a forked child changes only the name."""

    def __init__(self) -> None:
        self.process = ""
        self.generation = 0  # moves when levels change, so that loggers forget what they cached
        self.apply(Settings())

    def apply(self, settings: Settings) -> None:
        self.settings = settings
        self.generation += 1
        self.errors = Sink(STDERR)
        self.infos = self.errors
        if settings.split_stream or settings.info_buffer:
            fd = STDOUT if settings.split_stream else STDERR
            self.infos = Sink(fd, settings.info_buffer, settings.flush_seconds)
        self.journal = is_journal(STDERR, os.environ)

    def emit(self, record: Record) -> None:
        line = as_json(record) if self.settings.format == "json" else as_text(record)
        if self.journal:
            prefix = f"<{record.severity.priority}>"
            line = prefix + line.replace("\n", "\n" + prefix)
        urgent = record.severity is not Severity.INFO
        if urgent and self.infos is not self.errors:
            self.infos.flush()  # an error must not overtake what led to it
        (self.errors if urgent else self.infos).write(
            line.encode(errors="replace") + b"\n", urgent=urgent
        )


_backend = _Backend()


class Logger:
    """Says things for one module."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._level = 0
        self._generation = -1

    def enabled(self, level: int) -> bool:
        """Whether ``v(level, ...)`` would be written."""
        if self._generation != _backend.generation:
            self._level = level_for(_backend.settings, self._module)
            self._generation = _backend.generation
        return level <= self._level

    def info(self, message: str, **fields: Any) -> None:
        """What an operator should see by default."""
        self._say(Severity.INFO, 0, message, fields)

    def v(self, level: int, message: str, **fields: Any) -> None:
        """What is seen from verbosity ``level`` on."""
        if self.enabled(level):
            self._say(Severity.INFO, level, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Something is off, and work goes on."""
        self._say(Severity.WARNING, 0, message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """Something did not work."""
        self._say(Severity.ERROR, 0, message, fields)

    def bug(self, message: str, error: BaseException, **fields: Any) -> None:
        """An error that nobody expected, with its stack."""
        stack = "".join(traceback.format_exception(error))
        self._say(Severity.ERROR, 0, message, {**fields, "err": error, "stack": stack})

    def _say(self, severity: Severity, level: int, message: str, fields: dict[str, Any]) -> None:
        frame = sys._getframe(2)  # noqa: SLF001 - the caller's line; inspect costs 100x as much
        _backend.emit(
            Record(
                severity=severity,
                level=level,
                message=message,
                fields=fields,
                unix=time.time(),
                pid=os.getpid(),
                process=_backend.process,
                file=os.path.basename(frame.f_code.co_filename),
                line=frame.f_lineno,
            )
        )


class Throttle:
    """Lets one thing through per period, and counts what it held back."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._held = 0
        self.skipped = 0  # how many were held back before the one let through last

    def ready(self) -> bool:
        """Whether now is the time; counts the call otherwise."""
        now = time.monotonic()
        if now < self._next:
            self._held += 1
            return False
        self._next = now + self._seconds
        self.skipped, self._held = self._held, 0
        return True


class _Bridge(stdlib.Handler):
    """Sends what libraries say through the standard ``logging`` module the same way."""

    def emit(self, record: stdlib.LogRecord) -> None:
        severity = Severity.INFO
        if record.levelno >= stdlib.WARNING:
            severity = Severity.ERROR if record.levelno >= stdlib.ERROR else Severity.WARNING
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info and record.exc_info[1]:
            fields["err"] = record.exc_info[1]
            fields["stack"] = "".join(traceback.format_exception(record.exc_info[1]))
        _backend.emit(
            Record(
                severity=severity,
                level=0,
                message=record.getMessage(),
                fields=fields,
                unix=record.created,
                pid=os.getpid(),
                process=_backend.process,
                file=record.filename,
                line=record.lineno,
            )
        )


def get_logger(module: str) -> Logger:
    """A logger for a module, by its ``__name__``."""
    return Logger(module)


def every(seconds: float) -> Throttle:
    """A throttle: ``if throttle.ready(): log.warning(..., more=throttle.skipped)``."""
    return Throttle(seconds)


def configure(settings: Settings) -> None:
    """Take over the settings, and what libraries log at warning level and above."""
    _backend.apply(settings)
    root = stdlib.getLogger()
    root.handlers = [_Bridge()]
    root.setLevel(stdlib.DEBUG if settings.verbosity >= 8 else stdlib.WARNING)


def set_process(name: str) -> None:
    """Name this process on each of its lines."""
    _backend.process = name


def process_name() -> str:
    """The name given by ``set_process``."""
    return _backend.process


def set_verbosity(level: int) -> None:
    """Change ``-v`` while running."""
    from dataclasses import replace

    _backend.apply(replace(_backend.settings, verbosity=level))


def verbosity() -> int:
    """The ``-v`` in force."""
    return _backend.settings.verbosity


def flush() -> None:
    """Write out info lines whose time has come; called by each process's heartbeat."""
    _backend.infos.flush_if_due()


def lost_lines() -> int:
    """How many lines this process dropped because nobody read its log."""
    sinks = {id(s): s for s in (_backend.infos, _backend.errors)}
    return sum(s.lost_total for s in sinks.values())
