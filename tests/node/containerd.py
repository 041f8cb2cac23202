"""One private containerd: own root, state, socket, configuration, bridge and cgroups."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from kubelet.cri import api_pb2, api_pb2_grpc
from tests.node import leftovers, settings
from tests.node.images import Image
from tests.node.leftovers import Leftovers
from tests.node.settings import Place
from tests.tools.install import ensure

START_SECONDS = 30.0
STOP_SECONDS = 20.0
PREFIX = "kt"
HOSTS = """server = "{url}"
[host."{url}"]
  capabilities = ["pull", "resolve"]
"""


class Containerd:
    """A runtime that a test may start, stop, kill, freeze and restart; its state is kept."""

    def __init__(self, version: str, tools: Path | None = None) -> None:
        """Prepare an instance of this version; tools is where its commands are, None is PATH."""
        self.version = version
        self.tools = tools
        self._process: subprocess.Popen[bytes] | None = None
        self._kept: dict[str, Image] = {}
        self.place, self._owner = _new_place(version)
        self._leftovers = Leftovers(self.place)
        settings.write(self.place, version)

    @property
    def directory(self) -> Path:
        """Where everything of this instance is."""
        return self.place.directory

    @property
    def endpoint(self) -> str:
        """The runtime's address as a kubelet is given it."""
        return f"unix://{self.place.socket}"

    @property
    def log(self) -> Path:
        """What the runtime has written, over all its restarts."""
        return self.directory / "containerd.log"

    @property
    def cgroup_parent(self) -> str:
        """The cgroup below which a test puts its pods; it is removed with everything in it."""
        return f"/{self.place.name}"

    @property
    def pid(self) -> int:
        """The runtime's process; it must be running."""
        assert self._process is not None, f"containerd {self.version} is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there, be it frozen."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Containerd:
        """Start, and return when the runtime answers and says that pods can run."""
        assert not self.running, f"containerd {self.version} runs already"
        with _notify_socket(self.directory) as notify, self.log.open("ab") as log:
            # No parent-death signal: the kernel sends it when the starting thread ends, and a test
            # may start this in any thread. A runtime that its session left is swept by the next.
            self._process = subprocess.Popen(
                [self._command("containerd"), "--config", str(self.place.config)],
                env=self._environ(NOTIFY_SOCKET=str(notify.getsockname())),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                process_group=0,  # Ctrl-C of a terminal is for whoever started this
            )
            self._await_notice(notify)
        self.await_ready()
        return self

    def stop(self) -> None:
        """Ask the runtime to end, as a service manager does; its containers run on."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the runtime at once; its containers run on."""
        self._end(signal.SIGKILL)

    def restart(self, *, kill: bool = False) -> None:
        """Stop or kill, and start with everything kept."""
        (self.kill if kill else self.stop)()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: the socket accepts, nobody answers. Returns when every thread has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def await_ready(self, seconds: float = START_SECONDS) -> None:
        """Return when the runtime says that it and its network are ready."""
        self._await("the runtime to be ready", self._is_ready, seconds)

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own command in the namespace of kubelets' containers."""
        command = [self._command("ctr"), "--address", str(self.place.socket)]
        return self._output([*command, "--namespace", "k8s.io", *arguments])

    def crictl(self, *arguments: str) -> str:
        """Run crictl on this runtime; it is built now if no fixture saw to it before."""
        tools = ensure("cri-tools")
        assert isinstance(tools, Path), tools.reason
        command = [str(tools / "crictl"), "--config", str(self.directory / "crictl.yaml")]
        return self._output([*command, *arguments])

    def load(self, image: Image, name: str | None = None) -> None:
        """Import an image, and return when the runtime shows it to a kubelet."""
        name = name or image.name
        with tempfile.NamedTemporaryFile(dir=self.directory, suffix=".tar") as archive:
            archive.write(image.archive(name))
            archive.flush()
            self.ctr("images", "import", archive.name)
        # The CRI plugin hears of the import by an event of its own, which nobody else is shown.
        wanted = image.image_id
        self._await(f"image {name}", lambda: self._image_id(name) == wanted, START_SECONDS)

    def keep(self, *kept: Image) -> None:
        """Load images that every test finds; `reset` brings them back and removes all others."""
        for image in kept:
            self._kept[image.name] = image
            self.load(image)

    def trust(self, host: str, url: str) -> None:
        """Have images whose names begin with this host pulled from this address."""
        directory = self.place.registries / host
        directory.mkdir(exist_ok=True)
        (directory / "hosts.toml").write_text(HOSTS.format(url=url))

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """A connection for calls without a kubelet's client."""
        with grpc.insecure_channel(self.endpoint) as channel:
            yield channel

    def remove_pods(self) -> None:
        """Remove every pod by the runtime's own means, then what those leave of our cgroups."""
        self._leftovers.remember()
        with self.channel() as channel:
            runtime = api_pb2_grpc.RuntimeServiceStub(channel)
            pods = runtime.ListPodSandbox(api_pb2.ListPodSandboxRequest(), timeout=20).items

            def remove(pod: api_pb2.PodSandbox) -> None:
                stop = api_pb2.StopPodSandboxRequest(pod_sandbox_id=pod.id)
                runtime.StopPodSandbox(stop, timeout=60)
                request = api_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod.id)
                runtime.RemovePodSandbox(request, timeout=60)

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(remove, pods))
        self._leftovers.remove_cgroups()

    def reset(self) -> None:
        """Bring the runtime back to what a test may expect: running, without pods, our images."""
        if self.running:
            self.thaw()
        else:
            self.start()
        self.remove_pods()
        self._reset_images()

    def leftovers(self) -> list[str]:
        """What is left of this instance on the machine, a line for each thing."""
        return self._leftovers.find()

    def close(self) -> None:
        """End everything and remove every trace, in whatever state the instance is."""
        if self._process is not None:
            self.kill()
        self._leftovers.remove()
        os.close(self._owner)
        remove_shared(self.place.forwarding)

    def _reset_images(self) -> None:
        ids = {image.image_id for image in self._kept.values()}
        with self.channel() as channel:
            service = api_pb2_grpc.ImageServiceStub(channel)
            there = service.ListImages(api_pb2.ListImagesRequest(), timeout=20).images
            for image in there:
                # A removal takes every name of an image with it, also those that are kept.
                if image.id not in ids or set(image.repo_tags) - set(self._kept):
                    unwanted = api_pb2.ImageSpec(image=image.id)
                    service.RemoveImage(api_pb2.RemoveImageRequest(image=unwanted), timeout=20)
        for name, image in self._kept.items():
            if self._image_id(name) != image.image_id:
                self.load(image)

    def _command(self, name: str) -> str:
        return str(self.tools / name) if self.tools else str(shutil.which(name))

    def _environ(self, **more: str) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        # The instance's own shim comes first; runc is in a directory that a user's PATH lacks.
        paths = (str(self.tools) if self.tools else "", path, "/usr/sbin", "/sbin")
        return {**os.environ, **more, "PATH": os.pathsep.join(filter(None, paths))}

    def _output(self, command: list[str]) -> str:
        done = subprocess.run(
            command, env=self._environ(), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
        return done.stdout

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, f"containerd {self.version} is not running"
        self._leftovers.remember()
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _await_notice(self, notify: socket.socket) -> None:
        """Wait for READY=1, which the runtime sends when its socket answers."""
        deadline = time.monotonic() + START_SECONDS
        notify.settimeout(0.2)  # how soon the death of a runtime that cannot start is seen
        while True:
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in notify.recv(4096):
                    return
            self._check_alive()
            assert time.monotonic() < deadline, self._complaint("has not said READY")

    def _await(self, what: str, check: Callable[[], bool], seconds: float) -> None:
        """Look until it is so; a poll, for the runtime tells nobody of these changes."""
        deadline = time.monotonic() + seconds
        while not check():
            self._check_alive()
            assert time.monotonic() < deadline, self._complaint(f"waited {seconds:g}s for {what}")
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        with self.channel() as channel:
            try:
                runtime = api_pb2_grpc.RuntimeServiceStub(channel)
                answer = runtime.Status(api_pb2.StatusRequest(), timeout=5)
            except grpc.RpcError:  # the CRI part comes up after the rest
                return False
            # Others there may be, such as 2.x's opinion of deprecated settings.
            true = {condition.type for condition in answer.status.conditions if condition.status}
            return {"RuntimeReady", "NetworkReady"} <= true

    def _image_id(self, name: str) -> str:
        """The ID that the runtime shows for a name; empty when there is no such image."""
        with self.channel() as channel:
            wanted = api_pb2.ImageStatusRequest(image=api_pb2.ImageSpec(image=name))
            stub = api_pb2_grpc.ImageServiceStub(channel)
            return str(stub.ImageStatus(wanted, timeout=10).image.id)

    def _check_alive(self) -> None:
        assert self.running, self._complaint("has ended")

    def _complaint(self, what: str) -> str:
        last = self.log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join((f"containerd {self.version} {what}; the end of its log:", *last))


def live_instances() -> list[Path]:
    """Directories of instances that somebody is using now."""
    live = []
    for directory in _directories():
        try:
            # Shared, so that two who look do not take each other for users.
            os.close(_lock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB))
        except BlockingIOError:
            live.append(directory)
        except OSError:
            continue
    return live


def remove_shared(forwarding: str) -> None:
    """Put back what instances have changed in common, when none is left to need it."""
    if not live_instances():
        leftovers.remove_shared(forwarding)


def sweep() -> list[str]:
    """Clean up after earlier runs that were killed; the names of what they left."""
    swept = []
    for directory in _directories():
        with contextlib.suppress(OSError):  # in use, or just gone
            owner = _lock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                place = _place_at(directory)
                if place is not None:
                    Leftovers(place).remove()
                    remove_shared(place.forwarding)
                    swept.append(directory.name)
            finally:
                os.close(owner)
    return swept


def base_directory() -> Path:
    """Where instances live: a temporary directory with a short name.

    Below it a shim's socket has a name of 80 characters, and an address has room for 107.
    """
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= 20 else "/tmp")


def _directories() -> list[Path]:
    return sorted(base_directory().glob(f"{PREFIX}[0-9][0-9]-*"))


def _new_place(version: str) -> tuple[Place, int]:
    """A directory and a bridge of our own, with the lock that says that they are in use."""
    prefix = f"{PREFIX}{version.replace('.', '')}-"
    forwarding = _forwarding()
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=base_directory()))
    owner = _lock(directory, fcntl.LOCK_EX)  # before it can be taken for one that was left
    directory.chmod(0o711)  # containers without root pass through to their volumes
    place = Place(directory, *settings.reserve_bridge(), forwarding)
    place.save()
    return place, owner


def _forwarding() -> str:
    """What the machine's own setting is; with another instance at work it may be that one's."""
    for directory in live_instances():
        place = _place_at(directory)
        if place is not None:
            return place.forwarding
    return leftovers.FORWARDING.read_text()


def _place_at(directory: Path) -> Place | None:
    try:
        return Place.load(directory)
    except (OSError, ValueError, TypeError):  # being made or removed, or not one of ours
        return None


def _lock(directory: Path, how: int) -> int:
    """Lock a directory; the lock goes with the process that holds it."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, how)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextlib.contextmanager
def _notify_socket(directory: Path) -> Iterator[socket.socket]:
    """A socket on which a service says that it is up, as systemd has one."""
    path = directory / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(path))
        yield notify
    path.unlink()
