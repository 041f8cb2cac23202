"""From a bootstrap token to a kubeconfig that works, whatever happens on the way (N-41, K-7)."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

import pytest

from procs.node.apiserver.types import ApiError, Endpoint
from procs.node.certificates import files, signing
from procs.node.certificates.bootstrap import Bootstrap, State, Step, decide, judge, with_stored
from procs.node.certificates.client import Tool
from procs.node.certificates.service import Certificates
from procs.node.certificates.store import CLIENT, Store
from tests.unit.node.certificates_scene import DAY, HOUR, QuickTool, Standing, data, until

CURRENT = "kubelet-client-current.pem"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    """Retries come soon."""
    monkeypatch.setattr(signing, "_FIRST", 0.01)
    monkeypatch.setattr(signing, "_LAST", 0.02)
    monkeypatch.setattr(signing, "_LAST_REFUSED", 0.02)


@pytest.fixture
def node(tmp_path):
    return Standing(tmp_path)


def make(node, tool=None, **more):
    return Bootstrap(
        node,
        node.troubles,
        tool=tool or QuickTool(),
        store=Store(node.pki, CLIENT),
        read_endpoint=node.read,
        open_api=node.open_api,
        **more,
    )


def run(node, **more):
    return asyncio.run(asyncio.wait_for(make(node, **more).run(), 20))


@pytest.mark.parametrize(
    ("kubeconfig", "first", "step"),
    [
        (State.GOOD, State.GOOD, Step.USE),
        (State.GOOD, State.ABSENT, Step.USE),
        (State.ABSENT, State.GOOD, Step.BOOTSTRAP),
        (State.BROKEN, State.GOOD, Step.BOOTSTRAP),
        (State.WEAK, State.GOOD, Step.BOOTSTRAP),
        (State.WEAK, State.WEAK, Step.BOOTSTRAP),
        (State.WEAK, State.ABSENT, Step.USE),
        (State.WEAK, State.BROKEN, Step.USE),
        (State.ABSENT, State.ABSENT, Step.WAIT),
        (State.ABSENT, State.BROKEN, Step.WAIT),
        (State.BROKEN, State.ABSENT, Step.WAIT),
        (State.BROKEN, State.BROKEN, Step.WAIT),
    ],
)
def test_which_kubeconfig_counts(kubeconfig, first, step) -> None:
    """N-41: one that is good wins; otherwise the bootstrap; otherwise what there is."""
    assert decide(kubeconfig, first) is step


def test_what_credentials_are_worth(node) -> None:
    """A certificate counts until it ends; tokens and the like are the server's to judge."""
    now = time.time_ns()
    good, _ = node.cluster.authority.pair()
    old, _ = node.cluster.authority.pair(before=now - 2 * DAY, after=now - DAY)
    table = [
        (Endpoint("https://s", client_cert_pem=good), State.GOOD),
        (Endpoint("https://s", client_cert_pem=old), State.WEAK),
        (Endpoint("https://s", client_cert_pem="rubbish"), State.BROKEN),
        (Endpoint("https://s", client_cert_pem=good, client_cert_file="/none"), State.BROKEN),
        (Endpoint("https://s", token="t"), State.GOOD),
        (Endpoint("https://s", token_file="/t"), State.GOOD),
        (Endpoint("https://s", exec_command=("x",)), State.GOOD),
        (Endpoint("https://s", username="u"), State.GOOD),
        (Endpoint("https://s"), State.WEAK),
    ]
    assert [judge(endpoint, now).state for endpoint, _ in table] == [state for _, state in table]


def test_a_node_joins(node) -> None:
    """N-41, N-43: certificate, link and kubeconfig are there, and nothing else is."""
    node.write_bootstrap()

    endpoint = run(node, tool=Tool())

    assert node.opened == [node.bootstrap]
    (name,) = node.cluster.items
    assert name.startswith("node-csr-")
    dated, link = node.files()
    assert link == CURRENT
    assert os.path.realpath(os.path.join(node.pki, link)) == os.path.join(node.pki, dated)
    assert endpoint.server == "https://10.0.0.1:6443"
    assert endpoint.client_cert_file == endpoint.client_key_file == os.path.join(node.pki, CURRENT)
    assert endpoint.ca_pem == node.cluster.authority.pem
    assert endpoint.token == ""
    assert os.stat(node.kubeconfig).st_mode & 0o777 == 0o600
    assert "abcdef" not in files.read(node.kubeconfig)
    assert node.told() == {}
    assert [what for what, _ in node.records] == ["bootstrapped"]


def test_what_the_bootstrap_says_of_the_cluster_is_kept(node) -> None:
    """A CA in a file stays in its file; proxy and server name go along."""
    ca = node.root / "ca.crt"
    ca.write_text(node.cluster.authority.pem)
    text = "\n".join(
        [
            "apiVersion: v1",
            "kind: Config",
            "clusters:",
            "- name: k",
            "  cluster:",
            f"    certificate-authority: {ca}",
            "    server: https://10.0.0.1:6443",
            "    tls-server-name: 'api.local'",
            "    proxy-url: 'http://proxy:3128'",
            "contexts:",
            "- {name: c, context: {cluster: k, user: u}}",
            "current-context: c",
            "users:",
            "- {name: u, user: {token: a.b}}",
        ]
    )
    node.write(node.bootstrap, text + "\n")
    endpoint = run(node)
    assert (endpoint.ca_file, endpoint.server_name) == (str(ca), "api.local")
    assert endpoint.proxy == "http://proxy:3128"


def test_a_kubeconfig_that_is_good_wins(node) -> None:
    """N-41: nothing is asked for, and the file is not touched."""
    chain, key = node.cluster.authority.pair()
    node.write_bootstrap()
    node.write_kubeconfig(
        f"client-certificate-data: {data(chain)}", f"client-key-data: {data(key)}"
    )
    before = files.read(node.kubeconfig)
    assert run(node).client_cert_pem.strip() == chain.strip()
    assert not node.cluster.created
    assert files.read(node.kubeconfig) == before


@pytest.mark.parametrize("state", ["expired", "another key", "no yaml", "no file"])
def test_a_kubeconfig_that_is_not_good_is_replaced(node, state) -> None:
    """N-41: expired, mismatched, broken or pointing nowhere, with a bootstrap to go back to."""
    now = time.time_ns()
    chain, key = node.cluster.authority.pair()
    if state == "expired":
        chain, key = node.cluster.authority.pair(before=now - 2 * DAY, after=now - DAY)
    if state == "another key":
        key = node.cluster.authority.pair()[1]
    user = [f"client-certificate-data: {data(chain)}", f"client-key-data: {data(key)}"]
    if state == "no file":
        user = ["client-certificate: /nowhere.pem", "client-key: /nowhere.pem"]
    node.write_kubeconfig(*user)
    if state == "no yaml":
        node.write(node.kubeconfig, "a: [")
    node.write_bootstrap()
    assert run(node).client_cert_file == os.path.join(node.pki, CURRENT)
    assert len(node.cluster.items) == 1


def test_an_expired_kubeconfig_without_a_bootstrap_is_used(node) -> None:
    """The server's clock counts, not ours; and there is nothing better."""
    now = time.time_ns()
    chain, key = node.cluster.authority.pair(before=now - 2 * DAY, after=now - DAY)
    node.write_kubeconfig(
        f"client-certificate-data: {data(chain)}", f"client-key-data: {data(key)}"
    )
    assert run(node).client_key_pem.strip() == key.strip()


def test_a_pair_on_disk_that_is_broken_is_mended_first(node) -> None:
    """The pair before is used when the current one was cut by a power failure."""
    store = Store(node.pki, CLIENT)
    old = store.save(*node.cluster.authority.pair(), time.time_ns())
    new = store.save(*node.cluster.authority.pair(), time.time_ns())
    files.write(new.path, "")
    path = os.path.join(node.pki, CURRENT)
    node.write_kubeconfig(f"client-certificate: {path}", f"client-key: {path}")
    assert old.key.strip() in run(node).client_key_pem
    assert not node.cluster.created


@pytest.mark.parametrize("what", ["bootstrap", "kubeconfig"])
def test_files_that_come_later_are_waited_for(node, what) -> None:
    """K-7: kubeadm writes after the kubelet was started; what is missing is said meanwhile."""
    chain, key = node.cluster.authority.pair()

    async def story():
        doing = asyncio.create_task(make(node).run())
        await until(node.told)
        told = node.told()["bootstrap"]
        if what == "bootstrap":
            node.write_bootstrap()
        else:
            user = f"client-certificate-data: {data(chain)}", f"client-key-data: {data(key)}"
            node.write_kubeconfig(*user)
        async with asyncio.timeout(10):  # far less than the slow look
            return told, await doing

    told, endpoint = asyncio.run(story())
    assert told == f"{node.kubeconfig} is not there; {node.bootstrap} is not there"
    assert endpoint.client_cert_pem
    assert node.told() == {}
    assert len(node.cluster.items) == (what == "bootstrap")


def test_without_a_bootstrap_flag_the_kubeconfig_is_waited_for(tmp_path) -> None:
    """A broken one is named with its reason."""
    node = Standing(tmp_path, "--bootstrap-kubeconfig=")
    node.write(node.kubeconfig, "clusters: 5\n")

    async def story():
        doing = asyncio.create_task(make(node).run())
        await until(node.told)
        told = node.told()["bootstrap"]
        node.write_kubeconfig("token: abc")
        return told, await asyncio.wait_for(doing, 10)

    told, endpoint = asyncio.run(story())
    assert f"{node.kubeconfig} cannot be used: " in told
    assert "there is no --bootstrap-kubeconfig" in told
    assert endpoint.token == "abc"


def test_a_bootstrap_without_a_place_for_its_result_says_so(tmp_path) -> None:
    """--bootstrap-kubeconfig alone cannot work."""
    alone = "authentication: {webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n"
    node = Standing(tmp_path, "--kubeconfig=", fields=alone)
    node.write_bootstrap()

    async def story():
        doing = asyncio.create_task(make(node).run())
        await until(node.told)
        doing.cancel()

    asyncio.run(story())
    assert "without --kubeconfig" in node.told()["bootstrap"]
    assert not node.cluster.created


def test_errors_of_the_server_are_told_and_tried_again(node) -> None:
    """Unreachable, unknown token, no right, overload: one sentence each, and then it works."""
    node.write_bootstrap()
    node.cluster.errors = [
        ApiError("connection refused"),
        ApiError("Unauthorized", status=401),
        ApiError("forbidden", status=403),
        ApiError("slow down", status=429, retry_after=0.01),
        ApiError("boom", status=500),
    ]
    said = []
    tell = node.troubles.tell
    node.troubles.tell = lambda what, error: (said.append(error), tell(what, error))
    assert run(node).client_cert_pem
    found = [text.rpartition(": ")[2] for text in said if text]
    assert found == ["connection refused", "Unauthorized", "forbidden", "slow down", "boom"]
    assert len(node.cluster.items) == 1
    assert node.told() == {}


def test_a_denied_request_is_told_and_another_is_made(node) -> None:
    """An administrator who denies is heard, and may change his mind."""
    node.write_bootstrap()
    denied = []

    def policy(name):
        if denied:
            node.cluster.approve(name)
        else:
            node.cluster.set(name, "Denied", message="unknown machine")
            denied.append(name)

    node.cluster.policy = policy
    assert run(node).client_cert_pem
    assert len(node.cluster.items) == 2


def test_a_new_token_is_tried_at_once(node, monkeypatch) -> None:
    """A bootstrap file that is replaced ends the wait of the round with the old one."""
    monkeypatch.setattr(signing, "_FIRST", 3600.0)
    monkeypatch.setattr(signing, "_LAST", 3600.0)
    node.write_bootstrap()
    node.cluster.errors = [ApiError("Unauthorized", status=401)]

    async def story():
        doing = asyncio.create_task(make(node).run())
        await until(node.told)
        node.write_bootstrap("fedcba.9876543210fedcba")
        return await asyncio.wait_for(doing, 10)

    assert asyncio.run(story()).client_cert_pem


def test_a_limit_ends_the_wait_and_the_same_request_is_waited_for_again(node) -> None:
    """N-41: at most an hour each; the key and the request stay."""
    node.write_bootstrap()
    node.cluster.policy = lambda _name: None

    async def story():
        doing = asyncio.create_task(make(node, seconds=0.05).run())
        await until(lambda: len(node.cluster.created) > 2)
        node.cluster.approve(next(iter(node.cluster.items)))
        await asyncio.wait_for(doing, 10)

    asyncio.run(story())
    assert len(node.cluster.items) == 1


class KilledError(BaseException):
    """The process is no more."""


STEPS = ("replace", "fsync", "symlink", "unlink", "open")


def test_killed_at_any_step_the_successor_finishes(tmp_path, monkeypatch) -> None:
    """N-41: whichever call on files or to the server was the last one, there is one join.

    One request, one certificate, a kubeconfig that works, no key and no half file left over.
    """
    real = {name: getattr(os, name) for name in STEPS}
    deaths = 0
    for last in range(1, 200):
        (tmp_path / str(last)).mkdir()
        node = Standing(tmp_path / str(last))
        node.write_bootstrap()
        left = [last]

        def step(name, real=real, left=left):
            def call(*arguments, **more):
                left[0] -= 1
                if left[0] == 0:
                    raise KilledError
                done = real[name](*arguments, **more)
                left[0] -= 1
                if left[0] == 0:
                    raise KilledError
                return done

            return call

        with monkeypatch.context() as patch:
            for name in STEPS:
                patch.setattr(files.os, name, step(name))
            try:
                run(node)
                break
            except KilledError:
                deaths += 1
        endpoint = run(node)
        assert endpoint.client_cert_file == os.path.join(node.pki, CURRENT), last
        assert len(node.cluster.items) == 1, last
        assert [name for name in node.files() if not name.endswith(".pem")] == [], last
        assert len(node.files()) == 2, (last, node.files())
        both = sorted(os.listdir(os.path.dirname(node.kubeconfig)))
        assert both == ["bootstrap-kubelet.conf", "kubelet.conf"], last
    assert deaths > 20


def test_a_rotated_pair_counts_more_than_the_kubeconfigs_own(tmp_path) -> None:
    """What kubeadm init wrote into the kubeconfig counts less than the renewals beside it."""
    node = Standing(tmp_path, fields="rotateCertificates: true\n")
    now = time.time_ns()
    chain, key = node.cluster.authority.pair(before=now - 2 * DAY, after=now - DAY)
    node.write_kubeconfig(
        f"client-certificate-data: {data(chain)}", f"client-key-data: {data(key)}"
    )
    stored = Store(node.pki, CLIENT).save(*node.cluster.authority.pair(), now)
    node.write_bootstrap()
    endpoint = run(node)
    assert endpoint.client_key_pem == stored.key
    assert endpoint.client_cert_file == endpoint.client_key_file == os.path.join(node.pki, CURRENT)
    assert not node.cluster.created


def test_which_of_two_certificates_counts(node) -> None:
    """The newer one that is good: a store may be left from another cluster; a token has none."""
    now = time.time_ns()
    store = Store(node.pki, CLIENT)
    authority = node.cluster.authority

    def endpoint(before, after):
        chain, key = authority.pair(before=now + before, after=now + after)
        return Endpoint("https://s", client_cert_pem=chain, client_key_pem=key)

    fresh, old, over = endpoint(-HOUR, DAY), endpoint(-9 * DAY, DAY), endpoint(-HOUR, -1)
    store.save(*authority.pair(before=now - 2 * DAY, after=now - DAY), now)
    assert with_stored(fresh, store, now) == fresh
    assert with_stored(old, store, now) == old
    store.save(*authority.pair(before=now - 5 * DAY, after=now + DAY), now)
    assert with_stored(fresh, store, now) == fresh
    for one in (old, over, replace(fresh, client_cert_pem="rubbish")):
        assert with_stored(one, store, now).client_cert_file == store.current
    token = Endpoint("https://s", token="t")
    assert with_stored(token, store, now) == token


def test_the_kubeconfigs_own_pair_is_kept_where_renewals_go(tmp_path) -> None:
    """K-4: kubeadm init looks for kubelet-client-current.pem, and points the kubeconfig to it."""
    node = Standing(tmp_path, fields="rotateCertificates: true\n")
    chain, key = node.cluster.authority.pair()
    own = f"client-certificate-data: {data(chain)}", f"client-key-data: {data(key)}"
    node.write_kubeconfig(*own)
    endpoint = run(node)
    assert endpoint.client_cert_file == endpoint.client_key_file == os.path.join(node.pki, CURRENT)
    assert files.read(endpoint.client_cert_file) == chain + key
    assert run(node) == endpoint
    assert len(node.files()) == 2
    path = endpoint.client_cert_file
    node.write_kubeconfig(f"client-certificate: {path}", f"client-key: {path}")
    assert run(node).client_cert_file == path
    assert len(node.files()) == 2


def test_a_disk_that_cannot_be_written_is_a_sentence(tmp_path) -> None:
    """The pair cannot be kept: said, and the node goes on with what it has."""
    node = Standing(tmp_path, fields="rotateCertificates: true\n")
    chain, key = node.cluster.authority.pair()
    own = f"client-certificate-data: {data(chain)}", f"client-key-data: {data(key)}"
    node.write_kubeconfig(*own)
    with open(node.pki, "w", encoding="ascii") as file:
        file.write("a file where a directory should be")
    assert run(node).client_cert_pem.strip() == chain.strip()
    assert "cannot be kept" in node.told()["certificates on disk"]


def test_the_whole_start(node) -> None:
    """The service joins with the real programs, and a successor finds the kubeconfig at once."""
    node.write_bootstrap()

    async def start():
        certificates = Certificates(node, node.ledger, node.troubles)
        return await asyncio.wait_for(certificates.endpoint(node.open_api), 30)

    first = asyncio.run(start())
    assert first == asyncio.run(start())
    assert node.opened == [node.bootstrap]
    assert first.client_cert_pem
