"""The administrator of a test cluster: a plain client that watches instead of polling; kubectl."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

SECONDS = 60.0  # that anything may take on a machine that has other things to do
RETRY_SECONDS = 0.1  # to the next try of a server that is down or overloaded
CONTENT = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
TERMINATED = {"gracePeriodSeconds": 0}

Json = dict[str, Any]
Objects = dict[str, Json]  # by name
Found = TypeVar("Found")


class Unreachable(Exception):  # noqa: N818 - it is what the server is
    """No answer came."""


class Refused(Exception):  # noqa: N818 - it is what the request is
    """An answer that is not the wanted one."""

    def __init__(self, status: int, request: str, answer: bytes) -> None:
        try:
            decoded = json.loads(answer)
        except ValueError:
            decoded = {}
        known = decoded if isinstance(decoded, dict) else {}
        self.status = status
        self.reason = str(known.get("reason", ""))
        self.message = str(known.get("message", answer.decode(errors="replace")))
        super().__init__(f"{request}: {status} {self.message}")


class Admin:
    """A client with every right; each request has a connection of its own, so threads may share."""

    def __init__(self, server: str, ca: Path, certificate: Path, key: Path) -> None:
        where = urlsplit(server)
        self._address = str(where.hostname), int(where.port or 443)
        self._tls = ssl.create_default_context(cafile=ca)
        self._tls.load_cert_chain(certificate, key)

    # One request.

    def text(self, path: str, method: str = "GET", seconds: float = SECONDS) -> str:
        """The answer as it is."""
        with self._answer(method, path, None, {}, seconds) as answer:
            return str(answer.read().decode())

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        **query: Any,
    ) -> Json:
        """One request; what was answered, decoded."""
        full = f"{path}?{urlencode(query)}" if query else path
        with self._answer(method, full, body, {"Content-Type": content}) as answer:
            decoded: Json = json.loads(answer.read() or b"{}")
            return decoded

    def get(self, path: str, **query: Any) -> Json:
        """An object or a list."""
        return self.request("GET", path, **query)

    def find(self, path: str) -> Json | None:
        """An object; None when there is none."""
        try:
            return self.get(path)
        except Refused as err:
            if err.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def create(self, collection: str, document: Mapping[str, Any]) -> Json:
        """Make an object."""
        return self.request("POST", collection, document)

    def ensure(self, collection: str, document: Mapping[str, Any]) -> None:
        """Make an object unless it is there."""
        try:
            self.create(collection, document)
        except Refused as err:
            if err.status != http.HTTPStatus.CONFLICT:
                raise

    def patch(self, path: str, change: Any, kind: str = "merge") -> Json:
        """Change an object: `merge`, `strategic` or `json`."""
        return self.request("PATCH", path, change, content=CONTENT[kind])

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object, if it is there."""
        try:
            self.request("DELETE", path, options or None)
        except Refused as err:
            if err.status != http.HTTPStatus.NOT_FOUND:
                raise

    @contextlib.contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        seconds: float = SECONDS,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send one request; its answer, whose body is not read yet."""
        connection = http.client.HTTPSConnection(*self._address, timeout=seconds, context=self._tls)
        data = json.dumps(body) if body is not None else None
        try:
            try:
                connection.request(method, path, data, dict(headers))
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as err:
                raise Unreachable(f"{method} {path}: {err!r}") from None
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                raise Refused(answer.status, f"{method} {path}", answer.read())
            yield answer
        finally:
            connection.close()

    # Watching.

    def wait_for(
        self,
        what: str,
        collection: str,
        check: Callable[[Objects], Found],
        seconds: float = SECONDS,
        **query: str,
    ) -> Found:
        """Wait until a check of a collection finds something; what it found."""
        deadline = time.monotonic() + seconds
        seen: Objects = {}
        for objects in self._states(collection, deadline, query):
            seen = objects
            found = check(objects)
            if found:
                return found
        state = json.dumps(seen, indent=1)
        raise AssertionError(f"not within {seconds:g}s: {what}\n{state[-20000:]}")

    def wait_one(
        self,
        what: str,
        path: str,
        check: Callable[[Json], Found],
        seconds: float = SECONDS,
    ) -> Found:
        """Wait until a check of one object finds something; while there is none, it is empty."""
        collection, _, name = path.rpartition("/")
        chosen = {"fieldSelector": f"metadata.name={name}"}
        return self.wait_for(what, collection, lambda o: check(o.get(name, {})), seconds, **chosen)

    def wait_gone(self, path: str, seconds: float = SECONDS, uid: str = "") -> None:
        """Wait until there is no such object, or one with another uid."""

        def gone(found: Json) -> bool:
            return not found or bool(uid and found["metadata"]["uid"] != uid)

        self.wait_one(f"{path} is gone", path, gone, seconds)

    def _states(
        self, collection: str, deadline: float, query: Mapping[str, str]
    ) -> Iterator[Objects]:
        """The collection now and after each change, until the deadline."""
        while time.monotonic() < deadline:
            try:
                listed = self.get(collection, **query)
                objects = {item["metadata"]["name"]: item for item in listed.get("items") or ()}
                yield objects
                version = listed["metadata"]["resourceVersion"]
                for event in self.watch(collection, version, deadline, **query):
                    _take(objects, event)
                    yield objects
            except (Unreachable, Refused) as err:
                if isinstance(err, Refused) and err.status in {400, 401, 403, 404}:
                    raise
                time.sleep(RETRY_SECONDS)

    def watch(self, collection: str, version: str, deadline: float, **query: str) -> Iterator[Json]:
        """The changes of a collection since a version, until the deadline or its end."""
        asked = urlencode({**query, "watch": "1", "resourceVersion": version})
        left = max(0.01, deadline - time.monotonic())
        with self._answer("GET", f"{collection}?{asked}", None, {}, left) as answer:
            sock = answer.fp.raw._sock  # type: ignore[attr-defined]
            while True:
                sock.settimeout(max(0.01, deadline - time.monotonic()))
                try:
                    line = answer.readline()
                except (OSError, http.client.HTTPException):  # late, or the server ended
                    return
                if not line.strip():
                    return
                event: Json = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event


class Kubectl:
    """The real kubectl with the administrator's rights."""

    def __init__(self, program: Path, kubeconfig: Path, cache: Path) -> None:
        self._head = [str(program), f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}"]

    def run(
        self, *arguments: str, given: str | None = None, seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        return subprocess.run(
            [*self._head, *arguments],
            input=given if given is not None else "",
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, "KUBECTL_KUBERC": "false"},
        )

    def __call__(self, *arguments: str, given: str | None = None, seconds: float = SECONDS) -> str:
        """Run it to its good end; what it printed."""
        done = self.run(*arguments, given=given, seconds=seconds)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *arguments: str) -> Json:
        """Run it with `-o json`; the document."""
        document: Json = json.loads(self(*arguments, "-o", "json"))
        return document

    def apply(self, *documents: Mapping[str, Any], namespace: str = "default") -> str:
        """Apply documents."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
        return self("apply", "-n", namespace, "-f", "-", given=text)


def _take(objects: Objects, event: Json) -> None:
    """Put a change into a collection."""
    document = event["object"]
    if event["type"] == "BOOKMARK":
        return
    name = document["metadata"]["name"]
    if event["type"] == "DELETED":
        objects.pop(name, None)
    else:
        objects[name] = document
