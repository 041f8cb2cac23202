"""From one log record to one line of text or JSON. Pure."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """How bad it is: klog's letter, and the priority that journald reads from ``<N>``."""

    INFO = ("I", 6)
    WARNING = ("W", 4)
    ERROR = ("E", 3)

    @property
    def letter(self) -> str:
        """Klog's first letter of a line."""
        return self.value[0]

    @property
    def priority(self) -> int:
        """The syslog priority."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Record:
    """One thing said."""

    severity: Severity
    level: int  # verbosity it was said at; 0 for warnings and errors
    message: str
    fields: Mapping[str, Any]
    unix: float
    pid: int
    process: str
    file: str
    line: int


def as_text(record: Record) -> str:
    """Klog's line: ``I1116 03:30:10.123456   12345 relist.py:20] "Message" key="value"``."""
    whole = int(record.unix)
    stamp = time.strftime("%m%d %H:%M:%S", time.localtime(whole))
    micros = int((record.unix - whole) * 1_000_000)
    head = (
        f"{record.severity.letter}{stamp}.{micros:06d} {record.pid:7d} {record.file}:{record.line}]"
    )
    pairs = [f"process={_quote(record.process)}"] if record.process else []
    pairs += [f"{key}={_text_value(value)}" for key, value in record.fields.items()]
    return " ".join([head, _quote(record.message), *pairs])


def as_json(record: Record) -> str:
    """The line of component-base's JSON format, with the process beside it."""
    body: dict[str, Any] = {
        "ts": round(record.unix * 1000, 4),
        "caller": f"{record.file}:{record.line}",
        "msg": record.message,
    }
    if record.severity is Severity.INFO:
        body["v"] = record.level
    else:
        body["severity"] = record.severity.name.lower()
    if record.process:
        body["process"] = record.process
    for key, value in record.fields.items():
        body[key] = _json_value(value)
    return json.dumps(body, ensure_ascii=False, default=str)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text_value(value: Any) -> str:
    if value is None:
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, BaseException):
        value = describe(value)
    text = value if isinstance(value, str) else json.dumps(_json_value(value), default=str)
    if "\n" in text:  # klog's form for many lines: each indented, so that a reader sees its end
        indented = "\n\t".join(text.rstrip("\n").split("\n"))
        return f"<\n\t{indented}\n >"
    return _quote(text)


def _json_value(value: Any) -> Any:
    if isinstance(value, BaseException):
        return describe(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return value


def describe(error: BaseException) -> str:
    """An error as a sentence: its text, or its type where it has none."""
    return str(error) or type(error).__name__
