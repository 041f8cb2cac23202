"""Certificates of a real cluster: joining with a token, renewing, serving (N-40 to N-47)."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from procs.node.certificates import der
from tests.cluster.cluster_node import configuration
from tests.cluster.control_plane import ControlPlane
from tests.processes.node import Node, wait_for

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
MINUTE = dt.timedelta(minutes=1)


class Member(Node):
    """A kubelet without a runtime: enough of one to be known to the cluster."""

    def __init__(
        self, plane: ControlPlane, root: Path, name: str, *flags: str, kubeconfig: Path, **config
    ) -> None:
        self.plane = plane
        self.kubeconfig = kubeconfig
        self.pki = root / f"{name}-pki"
        self.member = name
        own = (f"--hostname-override={name}", f"--cert-dir={self.pki}")
        super().__init__(
            root,
            name,
            (*own, f"--kubeconfig={kubeconfig}", *flags),
            config=configuration(plane, **config),
        )

    def requests(self) -> list[dict]:
        """What was asked for of this node's certificates."""
        items = self.plane.admin.get(REQUESTS)["items"]
        return [item for item in items if self.member in _subject(item)]

    def current(self, name: str = "client") -> der.Certificate | None:
        """The certificate in use."""
        path = self.pki / f"kubelet-{name}-current.pem"
        return der.leaf(path.read_text()) if path.exists() else None

    def registered(self) -> bool:
        return self.plane.admin.find(f"/api/v1/nodes/{self.member}") is not None

    def lease(self) -> str:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        found = self.plane.admin.find(f"{path}/{self.member}")
        return found["spec"]["renewTime"] if found else ""


def _subject(item: dict) -> str:
    """The request's bytes as text: names stand in them as they are."""
    pem = base64.b64decode(item["spec"]["request"]).decode()
    body = "".join(pem.splitlines()[1:-1])
    return base64.b64decode(body).decode("latin-1")


@pytest.fixture
def member(plane: ControlPlane, root: Path) -> Iterator[Callable[..., Member]]:
    """A maker of kubelets; each is ended and forgotten by the cluster."""
    made: list[Member] = []

    def make(name: str, *flags: str, **options) -> Member:
        made.append(Member(plane, root, name, *flags, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()
        for item in one.requests():
            plane.admin.delete(f"{REQUESTS}/{item['metadata']['name']}")
        plane.admin.delete(f"/api/v1/nodes/{one.member}")
        one.assert_nothing_left()


def test_a_node_joins_with_a_token(plane, root, member) -> None:
    """N-41: one request, approved and signed by the controllers; then it is a node like any."""
    boot = plane.bootstrap_kubeconfig()
    node = member("joins", f"--bootstrap-kubeconfig={boot}", kubeconfig=root / "joins.conf")
    node.start()
    wait_for("it is registered", node.registered)

    (request,) = node.requests()
    assert request["metadata"]["name"].startswith("node-csr-")
    assert request["spec"]["username"] == "system:bootstrap:" + _token(boot).partition(".")[0]
    assert node.current().common_name == "system:node:joins"
    wait_for("its servers have one, too", (node.pki / "kubelet.crt").exists)
    assert _token(boot) not in node.kubeconfig.read_text()
    assert "Traceback" not in node.log()


def _token(path: Path) -> str:
    return json.loads(path.read_text())["users"][0]["user"]["token"]


def test_killed_while_it_waits_for_approval(plane, root, member) -> None:
    """N-41: ten kills later, the request that an administrator approves is still the only one."""
    boot = plane.bootstrap_kubeconfig()
    plane.admin.delete(f"{BINDINGS}/test:first-certificate")  # nobody approves by itself
    node = member("waits", f"--bootstrap-kubeconfig={boot}", kubeconfig=root / "waits.conf")
    node.start()
    (request,) = wait_for("it asks", node.requests)
    for _ in range(10):
        pid = node.pids()["node"]
        os.kill(pid, signal.SIGKILL)
        wait_for("there is another", lambda pid=pid: node.beating("node", pid))
    assert not node.kubeconfig.exists()
    plane.kubectl("certificate", "approve", request["metadata"]["name"])
    wait_for("it is registered", node.registered)
    assert len(node.requests()) == 1
    assert not list(node.pki.glob("*.tmp"))
    plane.bootstrap_kubeconfig()


def test_a_certificate_that_nears_its_end_is_renewed(plane, member) -> None:
    """N-44, N-46: by a request of the node itself; the lease goes on with the new one."""
    old = plane.node_kubeconfig("renews", age=100 * MINUTE, life=1 * MINUTE)
    before = der.leaf((plane.directory / "node-renews.crt").read_text())
    node = member("renews", kubeconfig=old, rotateCertificates=True)
    node.start()
    wait_for("it is renewed", lambda: (now := node.current()) and now != before)
    (request,) = node.requests()
    assert request["spec"]["username"] == "system:node:renews"
    assert request["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    assert node.current().not_after_ns > before.not_after_ns
    lease = wait_for("there is a lease", node.lease)
    wait_for("the lease is renewed", lambda: node.lease() != lease, seconds=25)
    assert "Traceback" not in node.log()


def test_the_cluster_signs_the_serving_certificate(plane, member) -> None:
    """N-42, N-44: asked for with the node's addresses, used once an administrator approves."""
    kubeconfig = plane.node_kubeconfig("serves")
    node = member("serves", kubeconfig=kubeconfig, serverTLSBootstrap=True)
    node.start()
    (request,) = wait_for("it asks", node.requests)
    assert request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
    plane.kubectl("certificate", "approve", request["metadata"]["name"])
    made = wait_for("it is signed", lambda: node.current("server"))
    told = plane.admin.get("/api/v1/nodes/serves")["status"]["addresses"]
    assert set(made.ips) == {one["address"] for one in told if one["type"] == "InternalIP"}
    assert made.dns == ("serves",)
    context = ssl.create_default_context(cafile=str(plane.ca))
    context.load_cert_chain(str(node.pki / "kubelet-server-current.pem"))
