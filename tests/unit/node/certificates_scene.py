"""A cluster that signs certificates with a real authority, as the tests tell it to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import os
import time
from collections import Counter
from copy import deepcopy

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubelet import config
from procs.node.apiserver.kubeconfig import KubeconfigError
from procs.node.apiserver.resolve import BadKubeconfigError, resolve
from procs.node.apiserver.types import ApiError
from procs.node.certificates import csr, tool
from procs.node.certificates.client import Tool, ToolError
from procs.node.kit import Kit
from procs.node.ledger import Ledger
from procs.node.troubles import Troubles
from procs.node.view import NodeView

NODE = "worker-1"
HOUR = 3600 * 10**9
DAY = 24 * HOUR


def pem_of(thing) -> str:
    return thing.public_bytes(serialization.Encoding.PEM).decode()


def key_pem(key) -> str:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    done = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return done.decode()


def moment(wall_ns: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(wall_ns // 10**9, dt.UTC)


class Authority:
    """A certificate authority."""

    def __init__(self, name="kubernetes"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self._sign(
            self.name,
            self.key.public_key(),
            time.time_ns() - HOUR,
            time.time_ns() + 3650 * DAY,
            [(x509.BasicConstraints(ca=True, path_length=None), True)],
        )

    def _sign(self, subject, public, before, after, extensions):
        serial = x509.random_serial_number()
        builder = x509.CertificateBuilder(self.name, subject, public, serial)
        builder = builder.not_valid_before(moment(before)).not_valid_after(moment(after))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return pem_of(builder.sign(self.key, hashes.SHA256()))

    def sign(self, request_pem, before, after, *, bare=False):
        """Sign a request; ``bare``: without the names that it asks for."""
        request = x509.load_pem_x509_csr(request_pem)
        assert request.is_signature_valid
        kept = [(one.value, one.critical) for one in request.extensions if not bare]
        return self._sign(request.subject, request.public_key(), before, after, kept)

    def pair(self, name=f"system:node:{NODE}", before=None, after=None):
        """Make a certificate with a key of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = [(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)]
        before = time.time_ns() - HOUR if before is None else before
        after = time.time_ns() + DAY if after is None else after
        return self._sign(subject, key.public_key(), before, after, usage), key_pem(key)


class QuickTool(Tool):
    """The same program, without starting it."""

    async def _run(self, verb, wish):
        try:
            return tool.VERBS[verb](wish)
        except ValueError as err:
            raise ToolError(str(err)) from None


class Watching:
    """One who watches the cluster's requests."""

    def __init__(self, cluster, watched, watcher, told):
        self.cluster, self.watched, self.watcher, self.told = cluster, watched, watcher, told
        self.name = watched.fields.removeprefix("metadata.name=")
        self.stopped = False
        asyncio.get_running_loop().call_soon(self._list)

    def _list(self):
        if self.stopped:
            return
        if self.cluster.watch_error is not None:
            self.told(self.cluster.watch_error)
            return
        items = [self.cluster.items[self.name]] if self.name in self.cluster.items else []
        hidden = self.cluster.stale_lists
        self.watcher.listed([] if hidden else deepcopy(items), "1")

    async def stop(self):
        self.stopped = True
        self.cluster.watchers.remove(self)


class Cluster:
    """The API server's part: an Api and a Watch. ``policy`` is called with each new request."""

    def __init__(self):
        self.authority = Authority()
        self.items = {}
        self.created = []  # names, in order, also of what was there already
        self.watchers = []
        self.errors = []  # raised by the next calls, first to last
        self.watch_error = None
        self.stale_lists = False
        self.policy = self.approve
        self.life = (-HOUR, 10 * DAY)  # of what is signed, from now
        self.bare = False
        self.wall = time.time_ns

    # What is done with requests.

    def approve(self, name):
        """Approve and sign."""
        item = self.items[name]
        request = base64.b64decode(item["spec"]["request"])
        before, after = (self.wall() + part for part in self.life)
        chain = self.authority.sign(request, before, after, bare=self.bare)
        self.set(name, "Approved", certificate=base64.b64encode(chain.encode()).decode())

    def set(self, name, kind, certificate=None, message="because"):
        """Give a request a condition."""
        condition = {"type": kind, "status": "True", "reason": "Test", "message": message}
        status = {"conditions": [condition]}
        if certificate is not None:
            status["certificate"] = certificate
        self.items[name]["status"] = status
        self._tell("changed", self.items[name])

    def delete_request(self, name):
        self._tell("deleted", self.items.pop(name))

    def _tell(self, what, item):
        for one in list(self.watchers):
            if one.name == item["metadata"]["name"]:
                getattr(one.watcher, what)(deepcopy(item))

    # What the node calls.

    async def create(self, path, body, **_more):
        await asyncio.sleep(0)
        assert path == csr.PATH
        if self.errors:
            raise self.errors.pop(0)
        name = body["metadata"]["name"]
        self.created.append(name)
        if name in self.items:
            raise ApiError("already exists", status=409, reason="AlreadyExists")
        self.items[name] = deepcopy(body) | {"status": {}}
        made = deepcopy(self.items[name])
        self.policy(name)
        return made

    async def get(self, path, **_more):
        await asyncio.sleep(0)
        name = path.rpartition("/")[2]
        if name not in self.items:
            raise ApiError("not found", status=404, reason="NotFound")
        return deepcopy(self.items[name])

    def watch(self, watched, watcher, told):
        assert watched.path == csr.PATH
        one = Watching(self, watched, watcher, told)
        self.watchers.append(one)
        return one


class Row:
    """The board's row."""

    def __init__(self):
        self.counters = Counter()

    def count(self, name, n=1):
        self.counters[name] += n


class _Tables:
    def __init__(self):
        self.rows = {}

    def value(self, table, key):
        return self.rows.get((table, key))

    def put(self, table, key, value, _stamp_ns=0):
        self.rows[table, key] = value


class Channels:
    """Keeps the handlers."""

    def __init__(self):
        self.handlers = {}

    def handle(self, body, handler, limit=32):
        assert limit
        self.handlers[body] = handler


class Standing:
    """A node with its directories, its configuration and the frame that its parts run in."""

    def __init__(self, root, *flags, fields="", cluster=None):
        self.root = root
        self.kubeconfig = str(root / "etc/kubelet.conf")
        self.bootstrap = str(root / "etc/bootstrap-kubelet.conf")
        self.pki = str(root / "pki")
        head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        path = root / "config.yaml"
        path.write_text(head + fields)
        own = (f"--config={path}", f"--kubeconfig={self.kubeconfig}", f"--cert-dir={self.pki}")
        given = (f"--bootstrap-kubeconfig={self.bootstrap}", f"--hostname-override={NODE}")
        self.config = config.load([*own, *given, *flags]).config
        self.node = NODE
        self.cluster = cluster or Cluster()
        self.tables = _Tables()
        self.row = Row()
        self.channels = Channels()
        self.records = []
        self.tasks = []
        self.opened = []
        self.troubles = Troubles(self)
        self.ledger = Ledger(self)

    # The process.

    def put(self, table, key, value, _stamp_ns=0):
        self.tables.put(table, key, value)

    def record(self, what, text=""):
        self.records.append((what, text))

    def doing(self, _operation, _pod=""):
        return contextlib.nullcontext()

    def spawn(self, work, name):
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.append(task)
        return task

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []

    # The cluster.

    @contextlib.asynccontextmanager
    async def open_api(self, path):
        self.opened.append(path)
        yield self.cluster, self.cluster.watch

    async def read(self, path):
        try:
            return resolve(path)[0]
        except BadKubeconfigError as err:
            raise KubeconfigError(str(err)) from None

    def kit(self, wall=time.time_ns):
        none = lambda *_: None  # noqa: E731
        view = NodeView(self)
        cluster = self.cluster
        return Kit(self, cluster, cluster.watch, none, self.ledger, view, self.troubles, wall)

    def addresses(self, kit, *pairs):
        """Have the node's addresses heard of."""
        found = [{"type": kind, "address": text} for kind, text in pairs]
        kit.view.heard({"metadata": {"name": NODE, "uid": "u"}, "status": {"addresses": found}})

    # Files.

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".w", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".w", path)

    def write_bootstrap(self, token="abcdef.0123456789abcdef"):
        """Write what kubeadm join writes."""
        self.write(self.bootstrap, _kubeconfig(self.cluster, f"token: {token}"))

    def write_kubeconfig(self, *lines):
        self.write(self.kubeconfig, _kubeconfig(self.cluster, *lines))

    def files(self):
        """The names in the directory of certificates."""
        return sorted(os.listdir(self.pki)) if os.path.isdir(self.pki) else []

    def told(self):
        """What is wrong, by name."""
        return {one.what: one.error for one in self.troubles.row.troubles}


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _kubeconfig(cluster, *user):
    lines = [
        "apiVersion: v1",
        "kind: Config",
        "clusters:",
        "- name: kubernetes",
        "  cluster:",
        f"    certificate-authority-data: {data(cluster.authority.pem)}",
        "    server: https://10.0.0.1:6443",
        "contexts:",
        "- name: tls-bootstrap-token-user@kubernetes",
        "  context: {cluster: kubernetes, user: tls-bootstrap-token-user}",
        "current-context: tls-bootstrap-token-user@kubernetes",
        "users:",
        "- name: tls-bootstrap-token-user",
        "  user:",
        *(f"    {line}" for line in user),
    ]
    return "\n".join(lines) + "\n"


async def until(condition, seconds=10.0):
    """Let the loop run until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - a program and inotify are awaited
            await asyncio.sleep(0.002)
