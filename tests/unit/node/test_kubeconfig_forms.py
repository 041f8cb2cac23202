"""Kubeconfigs in the forms that there are: what each says, read by a process of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys

import pytest
import yaml
from transport_kit import Authority

from procs.node.apiserver import kubeconfig, resolve
from procs.node.apiserver.endpoints import from_plain, to_plain
from procs.node.apiserver.kubeconfig import KEY, KubeconfigError, read_endpoint
from procs.node.apiserver.types import Endpoint

V1 = "client.authentication.k8s.io/v1"
SERVER = "https://10.0.0.1:6443"


@pytest.fixture(scope="module")
def ca():
    return Authority()


@pytest.fixture(scope="module")
def pair(ca):
    return ca.issue("system:node:n")


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def document(cluster=None, user=None, **more):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def written(tmp_path, content):
    path = tmp_path / "kubelet.conf"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def resolved(tmp_path, content):
    """Resolve within this process, by what the short-lived one runs."""
    return resolve.resolve(written(tmp_path, content))[0]


class Book:
    """A ledger in memory that holds what MessagePack would give back."""

    def __init__(self):
        self.values = {}

    def get(self, key):
        return self.values.get(key)

    def put(self, key, value):
        self.values[key] = json.loads(json.dumps(value))


def test_kubeadm_file(tmp_path, ca, pair):
    """K-4: the file that kubeadm writes, through the real process: CA inline, pem by path."""
    pem = tmp_path / "kubelet-client-current.pem"
    pem.write_text(pair[0] + pair[1])
    user = {"client-certificate": str(pem), "client-key": str(pem)}
    path = written(tmp_path, document({"certificate-authority-data": encoded(ca.pem)}, user))
    found = asyncio.run(read_endpoint(path, None))
    assert found == Endpoint(
        server=SERVER,
        ca_pem=ca.pem,
        client_cert_pem=pair[0] + pair[1],
        client_key_pem=pair[0] + pair[1],
        client_cert_file=str(pem),
        client_key_file=str(pem),
    )


def test_everything_at_once_through_the_real_process(tmp_path, ca):
    """Each field that there is survives the way through the other process."""
    (tmp_path / "ca.crt").write_text(ca.pem)
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://me:pw@proxy:3128",
        "disable-compression": True,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}],
    }
    user = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["g1", "g2"],
        "as-user-extra": {"scope": ["x", "y"]},
        "exec": {
            "apiVersion": V1,
            "command": "./bin/login",
            "args": ["--now"],
            "env": [{"name": "A", "value": "b"}],
            "provideClusterInfo": True,
            "interactiveMode": "Never",
            "installHint": "get it",
        },
    }
    path = written(tmp_path, document(cluster, user))
    found = asyncio.run(read_endpoint(path, None))
    assert found == Endpoint(
        server=SERVER,
        server_name="kubernetes",
        ca_pem=ca.pem,
        ca_file=str(tmp_path / "ca.crt"),
        proxy="http://me:pw@proxy:3128",
        disable_compression=True,
        impersonate="jane",
        impersonate_uid="7",
        impersonate_groups=("g1", "g2"),
        impersonate_extra={"scope": ("x", "y")},
        exec_command=(str(tmp_path / "bin/login"), "--now"),
        exec_env={"A": "b"},
        exec_api_version=V1,
        exec_cluster_info=True,
        exec_cluster_config='{"a": 1}',
        exec_install_hint="get it",
    )


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        ({}, {}, {}),
        ({"insecure-skip-tls-verify": True}, {}, {"insecure": True}),
        ({"insecure-skip-tls-verify": False}, {}, {"insecure": False}),
        ({"server": "https://h:6443/"}, {}, {"server": "https://h:6443"}),
        ({"server": "https://h/k8s/c1/"}, {}, {"server": "https://h/k8s/c1"}),
        ({"server": "https://[fd00::1]:6443"}, {}, {"server": "https://[fd00::1]:6443"}),
        ({"server": "http://localhost:8080"}, {}, {"server": "http://localhost:8080"}),
        ({"server": "10.0.0.1:8080"}, {}, {"server": "http://10.0.0.1:8080"}),
        (
            {"server": "10.0.0.1:6443", "insecure-skip-tls-verify": True},
            {},
            {"server": "https://10.0.0.1:6443", "insecure": True},
        ),
        ({"unknown-field": 5}, {"other": [1]}, {}),
        ({}, {"token": " abc\n"}, {"token": "abc"}),
        ({}, {"username": "u", "password": "p"}, {"username": "u", "password": "p"}),
        (
            {},
            {"exec": {"apiVersion": V1 + "beta1", "command": "aws"}},
            {"exec_command": ("aws",), "exec_api_version": V1 + "beta1"},
        ),
        ({"proxy-url": "socks5://p:1"}, {}, {"proxy": "socks5://p:1"}),
    ],
)
def test_forms(tmp_path, cluster, user, expected):
    """Each form and what it says."""
    assert resolved(tmp_path, document(cluster, user)) == Endpoint(**{"server": SERVER, **expected})


def test_inline_data_wins_over_files(tmp_path, ca, pair):
    """Data that stands in the file is used, though a path stands beside it."""
    cluster = {
        "certificate-authority": "missing.crt",
        "certificate-authority-data": encoded(ca.pem),
    }
    user = {
        "client-certificate": "missing.pem",
        "client-certificate-data": encoded(pair[0]),
        "client-key": "missing.key",
        "client-key-data": encoded(pair[1]),
    }
    found = resolved(tmp_path, document(cluster, user))
    assert (found.ca_pem, found.ca_file) == (ca.pem, "")
    assert (found.client_cert_pem, found.client_key_pem) == pair
    assert (found.client_cert_file, found.client_key_file) == ("", "")


def test_paths_are_relative_to_the_file(tmp_path, ca, pair):
    """Not to where the kubelet was started."""
    (tmp_path / "pki").mkdir()
    for name, text in (("ca", ca.pem), ("cert", pair[0]), ("key", pair[1]), ("token", "t")):
        (tmp_path / "pki" / name).write_text(text)
    user = {
        "client-certificate": "pki/cert",
        "client-key": "../" + tmp_path.name + "/pki/key",
        "tokenFile": "pki/token",
    }
    found = resolved(tmp_path, document({"certificate-authority": "pki/ca"}, user))
    assert found.ca_file == str(tmp_path / "pki/ca")
    assert found.client_cert_file == str(tmp_path / "pki/cert")
    assert found.client_key_file == str(tmp_path / "pki/key")
    assert (found.token_file, found.token) == (str(tmp_path / "pki/token"), "")


def test_the_current_context_decides(tmp_path):
    """Of several clusters and users, those of the current context."""
    content = document(
        contexts=[
            {"name": "a", "context": {"cluster": "ca", "user": "ua"}},
            {"name": "b", "context": {"cluster": "cb", "user": "ub"}},
        ],
        clusters=[{"name": n, "cluster": {"server": f"https://{n}"}} for n in ("ca", "cb")],
        users=[{"name": n, "user": {"token": n}} for n in ("ua", "ub")],
    )
    found = resolved(tmp_path, content | {"current-context": "b"})
    assert (found.server, found.token) == ("https://cb", "ub")


def test_context_without_a_user(tmp_path):
    """Nobody in particular."""
    contexts = [{"name": "here", "context": {"cluster": "c"}}]
    assert resolved(tmp_path, document(contexts=contexts, users=None)) == Endpoint(server=SERVER)


def test_auth_provider_of_the_library(tmp_path):
    """A token that the library's provider gives is used, and not kept for the next start."""
    config = {"id-token": "aaa.e30.ccc"}  # says nothing of an end
    content = document(user={"auth-provider": {"name": "oidc", "config": config}})
    found, lasting = resolve.resolve(written(tmp_path, content))
    assert (found.token, lasting) == ("aaa.e30.ccc", False)


# --- the process that reads, and what is kept ----------------------------------------------------


def test_reader_gets_no_secrets_of_ours(tmp_path, monkeypatch):
    """Neither its arguments nor its environment hold more than the path and where programs are."""
    spy = tmp_path / "python"
    seen = tmp_path / "seen"
    spy.write_text(
        f'#!/bin/sh\nenv > "{seen}"\necho "$@" >> "{seen}"\nexec {sys.executable} "$@"\n'
    )
    spy.chmod(0o755)
    monkeypatch.setenv("MY_SECRET", "hush-hush")
    monkeypatch.setattr(kubeconfig.sys, "executable", str(spy))
    path = written(tmp_path, document(user={"token": "top-secret"}))
    assert asyncio.run(read_endpoint(path, None)).token == "top-secret"
    text = seen.read_text()
    assert path in text
    assert "hush-hush" not in text
    assert "top-secret" not in text


def test_successor_needs_no_reader(tmp_path, ca, pair, monkeypatch):
    """What was read is kept until the kubeconfig, or a file that it names, is another."""
    for name, text in (("ca", ca.pem), ("cert", pair[0]), ("key", pair[1])):
        (tmp_path / name).write_text(text)
    user = {"client-certificate": "cert", "client-key": "key"}
    path = written(tmp_path, document({"certificate-authority": "ca"}, user))
    asked = []

    async def ask(name):
        asked.append(name)
        found, lasting = resolve.resolve(name)
        return {"endpoint": to_plain(found), "lasting": lasting}

    monkeypatch.setattr(kubeconfig, "_ask", ask)
    book = Book()

    def read(where=path):
        return asyncio.run(read_endpoint(where, book))

    first = read()
    assert read() == first
    assert len(asked) == 1
    os.utime(path)  # the same text
    assert read() == first
    assert len(asked) == 1
    (tmp_path / "ca").write_text(Authority().pem)
    assert read() != first
    assert len(asked) == 2
    written(tmp_path, document({"server": "https://other"}))
    assert read().server == "https://other"
    assert len(asked) == 3
    other = tmp_path / "other.conf"
    other.write_text(yaml.safe_dump(document({"server": "https://other"})))
    read(str(other))
    assert len(asked) == 4


@pytest.mark.parametrize("kept", [None, 5, {}, {"schema": 1}, {"endpoint": 5}, {"endpoint": {}}])
def test_odd_entry_in_the_ledger_is_not_believed(tmp_path, monkeypatch, kept):
    """An entry of another shape means that the file is read again."""
    path = written(tmp_path, document())
    book = Book()
    answers = ["https://first", "https://new"]

    async def ask(_path):
        found = Endpoint(server=answers.pop(0))
        return {"endpoint": to_plain(found), "lasting": True}

    monkeypatch.setattr(kubeconfig, "_ask", ask)
    asyncio.run(read_endpoint(path, book))
    good = book.values[KEY]
    book.values[KEY] = good | kept if isinstance(kept, dict) and "endpoint" in kept else kept
    assert asyncio.run(read_endpoint(path, book)).server == "https://new"
    assert not answers


def test_endpoint_survives_json():
    """What goes through the pipe and the ledger comes back as it was."""
    whole = Endpoint(
        server="s",
        exec_command=("a", "b"),
        exec_env={"x": "y"},
        impersonate_groups=("g",),
        impersonate_extra={"k": ("v", "w")},
    )
    assert from_plain(json.loads(json.dumps(to_plain(whole)))) == whole


def test_this_process_stays_light():
    """The heavy libraries are for the short-lived process: importing us does not bring them."""
    program = (
        "import sys, procs.node.apiserver.connection\n"
        "print([m for m in ('kubernetes', 'cryptography', 'yaml', 'requests', 'urllib3')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_reader_that_dies_is_a_sentence(tmp_path, monkeypatch):
    """A reader that cannot be run, or breaks, is said to be the reason."""
    path = written(tmp_path, document())
    for program, words in (("/bin/false", "exit status 1"), ("/nowhere", "No such file")):
        monkeypatch.setattr(kubeconfig.sys, "executable", program)
        with pytest.raises(KubeconfigError, match=f"{path}: reading it failed: .*{words}"):
            asyncio.run(read_endpoint(path, None))
