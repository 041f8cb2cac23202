"""Container images made on the spot: a pause and a busybox, as OCI archives.

No registry can be relied on, and no image builder: an image here is a few files of our own,
put into a layer, a configuration and a manifest by the standard library.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.install import Skip

PAUSE = "kubelet.test/pause:1"
BUSYBOX = "kubelet.test/busybox:1"
# The user that images run tests of "not root" as; it is in busybox's /etc/passwd.
NOBODY = 65534

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "riscv64": "riscv64"}

# Holds a pod's namespaces: ends when asked, and reaps what is orphaned in a shared PID namespace.
# Signals are taken one at a time by sigwait, so that none falls between a check and a pause.
PAUSE_SOURCE = r"""
#include <signal.h>
#include <sys/wait.h>

int main(void) {
    sigset_t wanted;
    int got;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted, 0);
    for (;;) {
        if (sigwait(&wanted, &got)) return 1;
        if (got != SIGCHLD) return 0;
        while (waitpid(-1, 0, WNOHANG) > 0) {}
    }
}
"""
# The same in shell, for a machine without a C compiler.
PAUSE_SCRIPT = "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait; done"

PASSWD = f"root:x:0:0:root:/root:/bin/sh\nnobody:x:{NOBODY}:{NOBODY}:nobody:/tmp:/bin/false\n"
GROUP = f"root:x:0:\nnogroup:x:{NOBODY}:\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in an image's file system: a file, a link (`target`) or a directory (neither)."""

    path: str
    data: bytes | None = None
    target: str | None = None
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class Image:
    """An image with every blob it consists of, by digest."""

    name: str
    manifest: bytes
    config: bytes
    layers: tuple[bytes, ...]

    @property
    def repository(self) -> str:
        """The path without host and tag, as a registry knows it."""
        return self.name.partition("/")[2].rpartition(":")[0]

    @property
    def tag(self) -> str:
        """What follows the colon."""
        return self.name.rpartition(":")[2]

    @property
    def digest(self) -> str:
        """The manifest's digest: what an image reference is pinned by."""
        return digest_of(self.manifest)

    @property
    def image_id(self) -> str:
        """The configuration's digest: what CRI calls the image's ID."""
        return digest_of(self.config)

    @property
    def blobs(self) -> dict[str, bytes]:
        """Configuration and layers by digest; the manifest is not among them."""
        return {digest_of(blob): blob for blob in (self.config, *self.layers)}

    def archive(self, name: str | None = None) -> bytes:
        """The image as an OCI archive, to be imported under its own or another name."""
        index = {
            "schemaVersion": 2,
            "manifests": [
                {
                    "mediaType": MANIFEST_TYPE,
                    "digest": self.digest,
                    "size": len(self.manifest),
                    "annotations": {
                        "io.containerd.image.name": name or self.name,
                        "org.opencontainers.image.ref.name": self.tag,
                    },
                    "platform": {"architecture": architecture(), "os": "linux"},
                }
            ],
        }
        files = {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps(index).encode(),
            **{f"blobs/sha256/{d[7:]}": blob for d, blob in self.blobs.items()},
            f"blobs/sha256/{self.digest[7:]}": self.manifest,
        }
        return _tar(Entry(path, data, mode=0o644) for path, data in files.items())


def digest_of(blob: bytes) -> str:
    """A blob's digest as image manifests write it."""
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def architecture() -> str:
    """This machine's architecture in Go's words."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def build(name: str, entries: tuple[Entry, ...], **settings: Any) -> Image:
    """An image of one layer; settings are those of its configuration (Entrypoint, Env, User...)."""
    plain = _tar(entries)
    layer = gzip.compress(plain, mtime=0)
    config = json.dumps(
        {
            "architecture": architecture(),
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [digest_of(plain)]},
            "history": [{"created_by": "kubelet tests"}],
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor(CONFIG_TYPE, config),
            "layers": [_descriptor(LAYER_TYPE, layer)],
        }
    ).encode()
    return Image(name, manifest, config, (layer,))


def busybox(name: str = BUSYBOX, **settings: Any) -> Image | Skip:
    """An image with every applet of Debian's busybox-static; it sleeps unless told otherwise."""
    program = _busybox_program()
    if isinstance(program, Skip):
        return program
    listing = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True)
    links = (Entry(f"bin/{applet}", target="busybox") for applet in listing.stdout.split())
    entries = (
        *(Entry(directory) for directory in ("bin", "etc", "root", "var", "dev", "proc", "sys")),
        Entry("tmp", mode=0o1777),
        Entry("bin/busybox", program.read_bytes()),
        *(link for link in links if link.path != "bin/busybox"),
        Entry("etc/passwd", PASSWD.encode(), mode=0o644),
        Entry("etc/group", GROUP.encode(), mode=0o644),
    )
    return build(name, entries, **{"Env": ["PATH=/bin"], "Cmd": ["sleep", "86400"], **settings})


def pause(name: str = PAUSE) -> Image | Skip:
    """The image of a pod's sandbox: a static program of ours, or busybox's shell without gcc."""
    program = _compiled_pause()
    if program is not None:
        return build(name, (Entry("pause", program),), Entrypoint=["/pause"])
    shell = _busybox_program()
    if isinstance(shell, Skip):
        return shell
    entries = (Entry("bin"), Entry("bin/busybox", shell.read_bytes()))
    command = ["/bin/busybox", "sh", "-c", PAUSE_SCRIPT]
    return build(name, entries, Entrypoint=command, Env=["PATH=/bin"])


def _busybox_program() -> Path | Skip:
    path = shutil.which("busybox")
    if path is None:
        return Skip("busybox is missing (Debian package busybox-static)")
    program = Path(path).resolve()
    if _needs_loader(program.read_bytes()):
        return Skip(
            f"{program} needs shared libraries; Debian package busybox-static has one without"
        )
    return program


def _needs_loader(elf: bytes) -> bool:
    """Whether a 64-bit little-endian ELF file has a PT_INTERP segment: it is not static then."""
    table = struct.unpack_from("<Q", elf, 32)[0]
    size, count = struct.unpack_from("<HH", elf, 54)
    return any(struct.unpack_from("<I", elf, table + i * size)[0] == 3 for i in range(count))


def _compiled_pause() -> bytes | None:
    if shutil.which("gcc") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="kt-pause-") as directory:
        output = Path(directory) / "pause"
        command = ["gcc", "-static", "-Os", "-s", "-x", "c", "-", "-o", str(output)]
        built = subprocess.run(
            command, input=PAUSE_SOURCE.encode(), capture_output=True, check=False
        )
        # gcc without a static C library is as good as none.
        return output.read_bytes() if built.returncode == 0 else None


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of(blob), "size": len(blob)}


def _tar(entries: Iterable[Entry]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.path)
            info.mode = entry.mode
            if entry.data is not None:
                info.size = len(entry.data)
            elif entry.target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            else:
                info.type = tarfile.DIRTYPE
            archive.addfile(info, io.BytesIO(entry.data or b""))
    return buffer.getvalue()
