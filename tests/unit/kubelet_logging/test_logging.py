"""Log lines: their form, their levels, and a reader that has stopped reading."""

from __future__ import annotations

import json
import os
import re

import pytest

from kubelet import logging as klog
from kubelet.logging.render import Record, Severity, as_json, as_text
from kubelet.logging.settings import level_for
from kubelet.logging.sink import Sink, is_journal


def record(message: str = "Pod started", severity: Severity = Severity.INFO, **fields) -> Record:
    """Make a record with fixed time and place."""
    return Record(severity, 0, message, fields, 1_700_000_000.25, 42, "pleg", "relist.py", 7)


def test_text_is_klogs_line_with_process_and_pod() -> None:
    """Severity, date, pid, place, quoted message, then the pairs."""
    line = as_text(record(pod="u-1", count=3, ok=True, ratio=0.5, nothing=None))
    assert re.fullmatch(
        r'I\d{4} \d\d:\d\d:\d\d\.250000 {6}42 relist\.py:7\] "Pod started" process="pleg" '
        r'pod="u-1" count=3 ok=true ratio=0\.5 nothing=""',
        line,
    )


def test_a_quote_or_line_break_cannot_forge_a_line() -> None:
    """Quotes are escaped, and each line of a long value is indented."""
    line = as_text(record('a "b"\nE1116 forged', err=ValueError("x\ny")))
    assert '"a \\"b\\"\\nE1116 forged"' in line
    assert line.endswith("err=<\n\tx\n\ty\n >")


def test_json_is_one_object_per_line() -> None:
    """Milliseconds, caller, message, level, process and the pairs."""
    found = json.loads(as_json(record("a\nb", pod="u", err=OSError(2, "no such thing"))))
    assert found["ts"] == 1_700_000_000_250.0
    assert (found["msg"], found["v"], found["process"], found["pod"]) == ("a\nb", 0, "pleg", "u")
    assert found["err"] == "[Errno 2] no such thing"
    assert json.loads(as_json(record(severity=Severity.ERROR)))["severity"] == "error"


def test_vmodule_sets_a_level_for_matching_modules() -> None:
    """The last part of the dotted name is matched, the first pattern wins."""
    settings = klog.Settings(verbosity=1, vmodule=klog.parse_vmodule("rel*=4,relist=9"))
    assert level_for(settings, "procs.pleg.relist") == 4
    assert level_for(settings, "procs.pleg.main") == 1


@pytest.mark.parametrize("text", ["x", "x=", "=3", "x=-1", "x=a"])
def test_a_bad_vmodule_names_the_part(text: str) -> None:
    """What is wrong is shown."""
    with pytest.raises(ValueError, match=r"is not of the form pattern=N"):
        klog.parse_vmodule(text)


def test_a_reader_that_has_stopped_reading_costs_lines_not_the_process() -> None:
    """Writing to a full pipe returns; the loss is counted, and said when somebody reads again."""
    read, write = os.pipe()
    try:
        sink = Sink(write)
        for number in range(2000):
            sink.write(b"x" * 99 + b"\n", urgent=number % 2 == 0)
        assert sink.lost_total > 0
        os.read(read, 1 << 20)
        sink.write(b"back\n", urgent=True)
        assert os.read(read, 1 << 20) == (
            f"... {sink.lost_total} log lines lost: nobody read\nback\n".encode()
        )
    finally:
        os.close(read)
        os.close(write)


def test_info_lines_wait_and_an_error_brings_them_along() -> None:
    """With a buffer, info is kept until something urgent, a flush, or the buffer's end."""
    read, write = os.pipe2(os.O_NONBLOCK)
    try:
        sink = Sink(write, buffer_bytes=100, flush_seconds=3600)
        sink.write(b"kept\n", urgent=False)
        sink.flush_if_due()
        with pytest.raises(BlockingIOError):
            os.read(read, 100)
        sink.write(b"urgent\n", urgent=True)
        assert os.read(read, 100) == b"kept\nurgent\n"
    finally:
        os.close(read)
        os.close(write)


def test_only_the_journals_own_stream_gets_priorities(tmp_path) -> None:
    """JOURNAL_STREAM must name this very descriptor."""
    with open(tmp_path / "log", "w") as file:
        assert not is_journal(file.fileno(), {"JOURNAL_STREAM": "1:2"})


def test_a_throttle_lets_one_through_and_counts_the_rest() -> None:
    """The first passes, the others are counted."""
    throttle = klog.every(3600)
    assert [throttle.ready() for _ in range(4)] == [True, False, False, False]
