"""What tests tell a running driver, and what it writes down of its calls.

Both are files in its state directory: they outlive the driver, and a test needs no connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import signal
import threading
import time

from google.protobuf.json_format import MessageToDict

from tests.csi.services import Refusal, code_of

CONTROL = "control.json"
CALLS = "calls.jsonl"
HIDDEN = ("csi.storage.k8s.io/serviceAccount.tokens",)

HANG, DIE_BEFORE, DIE_AFTER, FAIL, FAIL_AFTER = (
    "hang",
    "die-before",
    "die-after",
    "fail",
    "fail-after",
)


class Control:
    """The control file: faults by method, conditions by volume, and the number of volumes."""

    def __init__(self, state):
        self._path = os.path.join(state, CONTROL)

    def read(self):
        try:
            with open(self._path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    @contextlib.contextmanager
    def changed(self):
        """Change the content; the lock keeps test and driver apart."""
        with open(f"{self._path}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self.read()
            yield content
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.replace(f"{self._path}.new", self._path)

    def fault(self, method, do, *, times=1, code=13, message="as the test wants it"):
        """Let the next calls of a method go wrong; ``times`` 0: all of them."""
        with self.changed() as content:
            fault = {"do": do, "times": times, "code": code, "message": message}
            content.setdefault("faults", {})[method] = fault

    def clear(self, method):
        """Let a method work again, and those calls go on that hang in it."""
        with self.changed() as content:
            content.get("faults", {}).pop(method, None)

    def take(self, method):
        """Return the fault of this call, which is one less to come then."""
        with self.changed() as content:
            fault = content.get("faults", {}).get(method)
            if fault is None:
                return None
            if fault["times"] == 1 and fault["do"] != HANG:  # who hangs waits for its removal
                del content["faults"][method]
            elif fault["times"] > 1:
                fault["times"] -= 1
            return dict(fault)


class Log:
    """One line as a call begins and one as it ends."""

    def __init__(self, state):
        self._fd = os.open(
            os.path.join(state, CALLS), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def begin(self, method, request):
        with self._lock:
            number = f"{os.getpid()}-{next(self._numbers)}"
            self._write({"call": number, "method": method, "request": shown(request)})
            return number

    def end(self, number, code):
        with self._lock:
            self._write({"end": number, "code": code})

    def _write(self, line):
        os.write(self._fd, json.dumps(line).encode() + b"\n")


def shown(request):
    """Return a request as a document: of secrets only the names."""
    document = MessageToDict(request, preserving_proto_field_name=True)
    if "secrets" in document:
        document["secrets"] = sorted(document["secrets"])
    for key in HIDDEN:
        if key in document.get("volume_context", {}):
            document["volume_context"][key] = "<secret>"
    return document


def calls(state):
    """Return a driver's calls with method, request and code (None: it has not ended)."""
    found = {}
    with (
        contextlib.suppress(FileNotFoundError),
        open(os.path.join(state, CALLS), encoding="utf-8") as file,
    ):
        for text in file:
            if not text.endswith("\n"):
                break  # it is being written
            line = json.loads(text)
            if "call" in line:
                found[line["call"]] = {**line, "code": None}
            else:
                found[line["end"]]["code"] = line["code"]
    return list(found.values())


class Around:
    """What happens around each call: it is written down, and goes wrong if a test wants it to."""

    def __init__(self, control, log):
        self._control = control
        self._log = log

    def __call__(self, method, request, work):
        number = self._log.begin(method, request)
        code = 0
        try:
            return self._faulty(method, work)
        except Refusal as refusal:
            code = refusal.code.value[0]
            raise
        except BaseException:
            code = 2
            raise
        finally:
            self._log.end(number, code)

    def _faulty(self, method, work):
        fault = self._control.take(method) or {"do": ""}
        if fault["do"] == HANG:
            while method in self._control.read().get("faults", {}):
                time.sleep(0.02)  # a test's driver: nobody else has this file
        elif fault["do"] == DIE_BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault["do"] == FAIL:
            raise Refusal(code_of(fault["code"]), fault["message"])
        answer = work()
        if fault["do"] == DIE_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault["do"] == FAIL_AFTER:
            raise Refusal(code_of(fault["code"]), fault["message"])
        return answer
