"""What the tests of images stand on: a clock, a pod, and a runtime that is asked over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from kubelet import config
from kubelet.api.container import Container
from kubelet.api.meta import LocalObjectReference, ObjectMeta
from kubelet.api.pod import Pod, PodSpec
from kubelet.cri import api_pb2 as pb
from kubelet.cri.client import ImageClient
from kubelet.cri.core import grpc
from procs.syncloop.images.credentials import no_secrets
from procs.syncloop.images.manager import ImageManager

SECOND = 10**9
START = 1_767_323_045 * SECOND


class Clock:
    """Stands still unless it is moved."""

    def __init__(self, now=START):
        self.now = now

    def __call__(self):
        return self.now


async def settled(turns=20):
    """Let the loop run everything that is ready."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def until(condition, seconds=10.0):
    """Let the loop run until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.001)


def pod(uid="u1", *, secrets=(), annotations=None, account=""):
    """A pod; its containers do not matter here."""
    meta = ObjectMeta(name=f"p-{uid}", namespace="ns", uid=uid, annotations=annotations or {})
    refs = tuple(LocalObjectReference(name) for name in secrets)
    return Pod(metadata=meta, spec=PodSpec(image_pull_secrets=refs, service_account_name=account))


def container(image, policy=""):
    """A container with an image."""
    return Container(name="c", image=image, image_pull_policy=policy)


@dataclass
class Runtime(grpc.GenericRpcHandler):
    """A runtime with images, and a registry behind it that can be told to refuse and to wait."""

    images: dict[str, pb.Image] = field(default_factory=dict)  # by name, and by ID
    pulls: list[pb.PullImageRequest] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)
    passwords: set[str] = field(default_factory=set)  # of which one is needed, if any are
    errors: dict[str, tuple[grpc.StatusCode, str]] = field(default_factory=dict)  # by call
    doors: dict[str, asyncio.Event] = field(default_factory=dict)  # by image: a pull waits
    running: int = 0
    most: int = 0
    given_up: int = 0

    def have(self, name, size=7):
        """Have an image there."""
        image = pb.Image(id=f"sha256:{name}", repo_tags=[name], size=size)
        self.images[name] = self.images[image.id] = image
        return image.id

    def service(self, details):
        name = details.method.rpartition("/")[2]
        kind = {"ImageStatus": pb.ImageStatusRequest, "PullImage": pb.PullImageRequest}[name]

        async def handle(data, context):
            return await getattr(self, name)(kind.FromString(data), context)

        return grpc.unary_unary_rpc_method_handler(
            handle, response_serializer=lambda answer: answer.SerializeToString()
        )

    async def ImageStatus(self, request, context):  # noqa: N802 - the call's name
        self.looks.append(request.image.image)
        await self._refuse("ImageStatus", context)
        return pb.ImageStatusResponse(image=self.images.get(request.image.image))

    async def PullImage(self, request, context):  # noqa: N802 - as above
        self.pulls.append(request)
        name = request.image.image
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if name in self.doors:
                await self.doors[name].wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        finally:
            self.running -= 1
        await self._refuse("PullImage", context)
        if self.passwords and request.auth.password not in self.passwords:
            await context.abort(grpc.StatusCode.UNKNOWN, f"401 for {request.auth.username!r}")
        return pb.PullImageResponse(image_ref=self.have(name))

    async def _refuse(self, call, context):
        if call in self.errors:
            await context.abort(*self.errors[call])


class Node:
    """An image manager on a runtime, with what it said and what it reached."""

    def __init__(self, runtime, client, root, *flags, secrets=no_secrets):
        self.runtime = runtime
        self.clock = Clock()
        self.events = []
        self.reached = []
        self.backoffs = {}
        self._client = client
        self._flags = (f"--root-dir={root}", *flags)
        self._secrets = secrets
        self.manager = self.make()

    def make(self):
        """A manager as a new process would have it."""
        return ImageManager(
            self._client,
            config.load(self._flags).config,
            lambda pod, *what: self.events.append((pod.uid, *what)),
            self.clock,
            lambda step, uid: self.reached.append((step, uid)),
            secrets=self._secrets,
            monotonic=self.clock,
        )

    async def ensure(self, image, policy="", of=None, backoffs=None, **more):
        """Ask for a container's image."""
        kept = self.backoffs if backoffs is None else backoffs
        sandbox = pb.PodSandboxConfig(hostname="box")
        asked = container(image, policy)
        return await self.manager.ensure(of or pod(), asked, sandbox, kept, **more)

    def told(self):
        """Reasons and messages since the last time."""
        said = [(kind, reason, text) for _, kind, reason, text, _ in self.events]
        self.events.clear()
        return said


@contextlib.asynccontextmanager
async def node(directory, sockets, *flags, **more):
    """A node to ask."""
    runtime = Runtime()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((runtime,))
    path = sockets / "runtime.sock"
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        async with await ImageClient.connect(f"unix://{path}") as client:
            yield Node(runtime, client, directory, *flags, **more)
    finally:
        await server.stop(None)
