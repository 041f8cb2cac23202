"""An image registry on loopback: Debian's docker-registry, with everything in its memory."""

from __future__ import annotations

import base64
import http.client
import json
import os
import queue
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from typing import IO

from tests.node.images import MANIFEST_TYPE, Image

START_SECONDS = 20.0
LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True)
class Login:
    """Who may pull from a private registry."""

    user: str
    password: str
    bcrypt: str  # of the password, the one form that the registry reads

    @property
    def header(self) -> str:
        """The value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


LOGIN = Login(
    "kubelet", "let-me-in", "$2b$04$Yb0hf/gqXCOrnAaPnlk3hOBt5xHrKQkLv7w.eA8jtQ0dqI0vX70X6"
)


class Registry:
    """One registry that speaks plain HTTP; with a login it lets nobody else in."""

    def __init__(self, login: Login | None = None) -> None:
        self.login = login
        self._lines: list[str] = []
        self._told: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._process = self._start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.port = self._await_port()
        except BaseException:
            self.close()
            raise

    @property
    def host(self) -> str:
        """What an image's name begins with, and where it is pulled from."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address for a runtime's registry settings."""
        return f"http://{self.host}"

    @property
    def log(self) -> str:
        """What the registry has said: one line for each request among it."""
        return "".join(self._lines)

    def reference(self, image: Image) -> str:
        """The image's name in this registry."""
        return f"{self.host}/{image.repository}:{image.tag}"

    def push(self, image: Image) -> str:
        """Upload an image; its name here."""
        for digest, blob in image.blobs.items():
            self._upload(image.repository, digest, blob)
        path = f"/v2/{image.repository}/manifests/{image.tag}"
        self._request("PUT", path, image.manifest, {"Content-Type": MANIFEST_TYPE})
        return self.reference(image)

    def tags(self, repository: str) -> list[str]:
        """The tags that a repository has."""
        answer, _ = self._request("GET", f"/v2/{repository}/tags/list")
        return list(json.loads(answer)["tags"])

    def close(self) -> None:
        """End the registry; what it held was in its memory."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _upload(self, repository: str, digest: str, blob: bytes) -> None:
        _, location = self._request("POST", f"/v2/{repository}/blobs/uploads/")
        path = location.removeprefix(self.url)
        separator = "&" if "?" in path else "?"
        kind = {"Content-Type": "application/octet-stream"}
        self._request("PUT", f"{path}{separator}digest={digest}", blob, kind)

    def _request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[bytes, str]:
        """One request; the body and the Location of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        authorisation = {"Authorization": self.login.header} if self.login else {}
        try:
            connection.request(method, path, body, {**authorisation, **(headers or {})})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, f"{method} {path}: {answer.status} {data!r}"
        return data, answer.getheader("Location", "")

    def _start(self) -> subprocess.Popen[str]:
        # Its files are in memory too: a registry whose session was killed leaves nothing.
        passwords = f"{self.login.user}:{self.login.bcrypt}\n" if self.login else ""
        with _memory_file(passwords) as htpasswd:
            config = json.dumps(self._config(_path(htpasswd)))  # JSON is YAML
            with _memory_file(config) as file:
                serve = [str(shutil.which("docker-registry")), "serve", _path(file)]
                return subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *serve],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=(htpasswd.fileno(), file.fileno()),
                    text=True,
                )

    def _config(self, passwords: str) -> dict[str, object]:
        config: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "info", "formatter": "text"},
            "storage": {"inmemory": {}, "delete": {"enabled": True}},
            "http": {"addr": "127.0.0.1:0"},
        }
        if self.login:
            config["auth"] = {"htpasswd": {"realm": "kubelet tests", "path": passwords}}
        return config

    def _read(self) -> None:
        """Keep what the registry says; its first words of interest are its port."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.append(line)
            listening = LISTENING.search(line)
            if listening:
                self._told.put(int(listening[1]))
        self._told.put(None)

    def _await_port(self) -> int:
        try:
            port = self._told.get(timeout=START_SECONDS)
        except queue.Empty:
            port = None
        assert port is not None, f"docker-registry does not listen; it said:\n{self.log[-2000:]}"
        return port


def _memory_file(text: str) -> IO[str]:
    file = os.fdopen(os.memfd_create("registry"), "w")
    file.write(text)
    file.flush()
    return file


def _path(file: IO[str]) -> str:
    """How a child that inherits the file can open it by name."""
    return f"/proc/self/fd/{file.fileno()}"
