"""Fixtures: real containerds, their images and registries; skipped with a reason where impossible.

    containerd           each of both versions in turn: running, awake, without pods
    containerd16, containerd24        one version
    shared_containerd    one for all tests of a file: of 2.4, or of both with mark `both_versions`
    registry, private_registry        on loopback, known to the runtimes, holding our images
    crictl               for tests that call `containerd.crictl(...)`

Instances live as long as the session; after each test its pods are removed, and a runtime that the
test stopped, killed or froze is brought back. At the end everything is removed, and what is still
there fails the session. Long installations are made before the first test, outside its time limit.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.node import images
from tests.node.containerd import Containerd, base_directory, sweep
from tests.node.registry import LOGIN, Login, Registry
from tests.node.settings import CNI_PLUGINS, VERSIONS
from tests.tools.install import Say, Skip, ensure, ensure_packages

RUNTIME_PACKAGES = (
    "containerd",
    "runc",
    "containernetworking-plugins",
    "iptables",
    "iproute2",
    "busybox-static",
)
REGISTRY_PACKAGES = ("docker-registry",)

Thing = TypeVar("Thing")


def need(thing: Thing | Skip) -> Thing:
    """The thing, or a skipped test that says why it cannot be had."""
    if isinstance(thing, Skip):
        pytest.skip(thing.reason)
    return thing


def sayer(config: pytest.Config) -> Say:
    """A teller of progress that is heard although pytest captures what tests write."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        heard = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
        with heard:
            os.write(2, f"==> {line}\n".encode())

    return say


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install what the collected tests will ask for, before any test's time begins."""
    if session.config.option.collectonly or why_not_here() is not None:
        return
    say = sayer(session.config)
    names = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    versions = {v for item in session.items for v in _versions(item)}
    if versions:
        ensure_packages(*RUNTIME_PACKAGES, say=say)
    if "2.4" in versions:
        ensure("containerd", say)
    if "crictl" in names:
        ensure("cri-tools", say)
    if names & {"registry", "private_registry"}:
        ensure_packages(*REGISTRY_PACKAGES, say=say)


def _versions(item: pytest.Item) -> set[str]:
    names = getattr(item, "fixturenames", ())
    asked = {v for v in VERSIONS if f"containerd{v.replace('.', '')}" in names}
    for name in ("containerd", "shared_containerd"):
        if name in names:
            asked.add(item.callspec.params.get(name, VERSIONS[0]))
    return asked


def why_not_here() -> str | None:
    """What forbids containers on this machine, whatever is installed; None when nothing does."""
    if os.geteuid() != 0:
        return "containers need root"
    if not os.access("/sys/fs/cgroup", os.W_OK):
        return "/sys/fs/cgroup is not writable"
    with tempfile.TemporaryDirectory(prefix="kt-probe-", dir=base_directory()) as probe:
        for name in "luwm":
            Path(probe, name).mkdir()
        options = f"lowerdir={probe}/l,upperdir={probe}/u,workdir={probe}/w"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, f"{probe}/m"]
        return _failure("no overlay mount here", "--mount", *mount)


def _no_network() -> Skip | None:
    """Why a pod could not have a network, in a network namespace of its own; it needs iproute2."""
    missing = [n for n in ("bridge", "host-local", "portmap") if not Path(CNI_PLUGINS, n).exists()]
    if missing:
        return Skip(f"no CNI plugins in {CNI_PLUGINS}: {', '.join(missing)}")
    script = "ip link add kt-b type bridge && ip link add kt-v type veth && iptables -t nat -S"
    failure = _failure("no bridge, veth or iptables here", "--net", "sh", "-c", script)
    return Skip(failure) if failure else None


def _failure(title: str, *command: str) -> str | None:
    """What a command in namespaces of its own complains of."""
    tried = subprocess.run(["unshare", *command], capture_output=True, text=True, check=False)
    return f"{title}: {tried.stderr.strip()}" if tried.returncode else None


class Instances:
    """The session's runtimes, each made when it is first asked for."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._made: dict[str, Containerd] = {}
        self._ended: list[Containerd] = []
        self._refused: dict[str, Skip] = {}
        self._registries: list[Registry] = []

    def get(self, version: str) -> Containerd:
        """The runtime of this version, running and with our images; or a skip."""
        if version in self._refused:
            need(self._refused[version])
        if version not in self._made:
            try:
                self._made[version] = self._make(version)
            except pytest.skip.Exception as skip:
                self._refused[version] = Skip(str(skip.msg))
                raise
        return self._made[version]

    def trust(self, registry: Registry) -> None:
        """Tell every runtime, also those to come, that this registry speaks plain HTTP."""
        self._registries.append(registry)
        for instance in self._made.values():
            instance.trust(registry.host, registry.url)

    def discard(self, version: str) -> None:
        """End one that cannot be put right."""
        instance = self._made.pop(version)
        self._ended.append(instance)
        instance.close()

    def close(self) -> list[str]:
        """End them all; what is left, a line for each thing."""
        for version in list(self._made):
            self.discard(version)
        return [left for instance in self._ended for left in instance.leftovers()]

    def _make(self, version: str) -> Containerd:
        reason = why_not_here()
        need(Skip(reason) if reason else None)
        need(ensure_packages(*RUNTIME_PACKAGES, say=self.say))
        tools = need(ensure("containerd", self.say)) if version == "2.4" else None
        need(_no_network())
        local = [need(image) for image in (images.pause(), images.busybox())]
        for name in sweep():
            self.say(f"cleaned up after an earlier run that was killed: {name}")
        instance = Containerd(version, tools)
        try:
            instance.start()
            instance.keep(*local)
            for registry in self._registries:
                instance.trust(registry.host, registry.url)
        except BaseException:
            instance.close()
            raise
        return instance


@pytest.fixture(scope="session")
def containerds(request: pytest.FixtureRequest) -> Iterator[Instances]:
    """The session's runtimes by version; gone without a trace at its end."""
    instances = Instances(sayer(request.config))
    yield instances
    left = instances.close()
    assert not left, "containerd left behind:\n" + "\n".join(left)


def _lent(containerds: Instances, version: str) -> Iterator[Containerd]:
    """Lend a runtime to one test, and put right afterwards what the test did to it."""
    instance = containerds.get(version)
    yield instance
    try:
        instance.reset()
    except BaseException:
        containerds.discard(version)  # the next test gets another one
        raise


@pytest.fixture(params=VERSIONS)
def containerd(request: pytest.FixtureRequest, containerds: Instances) -> Iterator[Containerd]:
    """A running containerd without pods; the test runs once with each version."""
    yield from _lent(containerds, request.param)


@pytest.fixture
def containerd16(containerds: Instances) -> Iterator[Containerd]:
    """A running containerd 1.6 without pods: Debian's, without events and RuntimeConfig."""
    yield from _lent(containerds, "1.6")


@pytest.fixture
def containerd24(containerds: Instances) -> Iterator[Containerd]:
    """A running containerd 2.4 without pods: what clusters run, built from its Go module."""
    yield from _lent(containerds, "2.4")


@pytest.fixture(scope="module")
def shared_containerd(
    request: pytest.FixtureRequest, containerds: Instances
) -> Iterator[Containerd]:
    """A running containerd that the tests of a file share; it is put right after the last."""
    yield from _lent(containerds, request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of a shared runtime on the newest version, and marked ones on every version."""
    if "shared_containerd" in metafunc.fixturenames:
        every = metafunc.definition.get_closest_marker("both_versions") is not None
        versions = VERSIONS if every else VERSIONS[-1:]
        metafunc.parametrize("shared_containerd", versions, indirect=True, scope="module")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "both_versions: runs on every version of the shared runtime")


@pytest.fixture(scope="session")
def crictl(request: pytest.FixtureRequest) -> Path:
    """The directory of crictl; ask for it before calling `containerd.crictl`."""
    return need(ensure("cri-tools", sayer(request.config)))


def _registry(containerds: Instances, login: Login | None) -> Iterator[Registry]:
    need(ensure_packages(*REGISTRY_PACKAGES, "busybox-static", say=containerds.say))
    # An image ID of its own: to remove an image is to remove every name of its ID.
    label = {"registry": "private" if login else "plain"}
    image = need(images.busybox(Labels=label))
    registry = Registry(login)
    try:
        registry.push(image)
        containerds.trust(registry)
        yield registry
    finally:
        registry.close()


@pytest.fixture(scope="session")
def registry(containerds: Instances) -> Iterator[Registry]:
    """A registry that anybody may pull from; it holds busybox:1."""
    yield from _registry(containerds, None)


@pytest.fixture(scope="session")
def private_registry(containerds: Instances) -> Iterator[Registry]:
    """A registry that wants `registry.login`; it holds busybox:1."""
    yield from _registry(containerds, LOGIN)
