"""Kubeconfigs that cannot be used: each is one sentence with file, field and value."""

from __future__ import annotations

import asyncio
import base64
import json
import re

import pytest
import yaml
from transport_kit import Authority

from procs.node.apiserver import resolve
from procs.node.apiserver.kubeconfig import KubeconfigError, read_endpoint

V1 = "client.authentication.k8s.io/v1"
PAIRS = [Authority().issue("a"), Authority().issue("b")]


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def document(cluster=None, user=None, **more):
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def plugin(**more):
    return {"exec": {"apiVersion": V1, "command": "x", **more}}


CLUSTER = r"clusters\[c\]\.cluster"
USER = r"users\[u\]\.user"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        # The file.
        ("", "is empty"),
        ("a: [b", "is not YAML: line 1, column 6: "),
        ("user:\n  token: s3cret: x", "is not YAML: line 2, column 16: "),
        ("\x00", "is not YAML"),
        ("[1]", "is not a kubeconfig: must be a mapping"),
        ("text", "is not a kubeconfig: must be a mapping"),
        ({"kind": "Pod", "apiVersion": "v1"}, "is not a kubeconfig: kind Pod, apiVersion v1"),
        # The context.
        ({}, "current-context: is not set"),
        (document(**{"current-context": ""}), "current-context: is not set"),
        (document(**{"current-context": 5}), "current-context: must be a string"),
        (
            document(**{"current-context": "there"}),
            'current-context: "there": no such context; there are: here',
        ),
        (document(contexts=None), 'current-context: "here": no such context'),
        (document(contexts={"a": 1}), "contexts: must be a list of mappings with a name"),
        (document(contexts=["a"]), "contexts: must be a list of mappings with a name"),
        (
            document(contexts=[{"name": "here", "context": "x"}]),
            r"contexts\[here\]\.context: must be a mapping",
        ),
        (document(contexts=[{"name": "here"}]), 'cluster: "": no such cluster; there are: c'),
        (
            document(clusters=[]),
            r'contexts\[here\]\.context\.cluster: "c": no such cluster$',
        ),
        (
            document(users=[{"name": "v"}]),
            r'contexts\[here\]\.context\.user: "u": no such user; there are: v',
        ),
        (document(users=[{"name": "u"}] * 2), 'users: "u": stands there more than once'),
        # The cluster.
        (document({"server": ""}), f"{CLUSTER}.server: is not set"),
        (document({"server": 5}), f"{CLUSTER}.server: must be a string"),
        (document({"server": "ftp://h"}), f'{CLUSTER}.server: "ftp://h": must be a URL such as'),
        (document({"server": "https://"}), f'{CLUSTER}.server: "https://": must be a URL'),
        (document({"server": "https://h:port"}), 'server: "https://h:port": must be a URL'),
        (document({"server": "https://h h"}), 'server: "https://h h": must be a URL'),
        (document({"server": "https://h?a=b"}), "must be a URL"),
        (document({"server": "https://[::1"}), "must be a URL"),
        (document({"proxy-url": "ftp://me:s3cret@h"}), f"{CLUSTER}.proxy-url: must be a URL with"),
        (document({"insecure-skip-tls-verify": "yes"}), 'verify: "yes": must be true or false'),
        (
            document(
                {
                    "insecure-skip-tls-verify": True,
                    "certificate-authority-data": encoded(PAIRS[0][0]),
                }
            ),
            "insecure-skip-tls-verify: true: cannot go with a certificate authority",
        ),
        (
            document({"certificate-authority-data": "s3cret!"}),
            f"{CLUSTER}.certificate-authority-data: is not PEM text in base64",
        ),
        (
            document({"certificate-authority-data": encoded("s3cret")}),
            f"{CLUSTER}.certificate-authority-data: holds no PEM certificate",
        ),
        (
            document({"certificate-authority": "/missing.crt"}),
            f'{CLUSTER}.certificate-authority: "/missing.crt": No such file or directory',
        ),
        (
            document({"certificate-authority": "/"}),
            f'{CLUSTER}.certificate-authority: "/": Is a directory',
        ),
        (
            document({"certificate-authority": "/dev/zero"}),
            'certificate-authority: "/dev/zero": is larger than',
        ),
        # The user.
        (document(user=["x"]), f"{USER}: must be a mapping"),
        (document(user={"token": 12345}), f"{USER}.token: must be a string"),
        (document(user={"token": "s3cret\nx"}), f"{USER}.token: holds characters"),
        (
            document(user={"tokenFile": "/missing"}),
            f'{USER}.tokenFile: "/missing": No such file or directory',
        ),
        (
            document(user={"token": "s3cret", "username": "me"}),
            f"{USER}.username: cannot go with a token",
        ),
        (
            document(user={"client-certificate-data": encoded(PAIRS[0][0])}),
            f"{USER}.client-key: is not set, but client-certificate is",
        ),
        (
            document(user={"client-key-data": encoded(PAIRS[0][1])}),
            f"{USER}.client-certificate: is not set, but client-key is",
        ),
        (
            document(user={"client-certificate": "/missing.pem", "client-key": "/missing.pem"}),
            f'{USER}.client-certificate: "/missing.pem": No such file or directory',
        ),
        (
            document(
                user={
                    "client-certificate-data": encoded(PAIRS[0][0]),
                    "client-key-data": encoded(PAIRS[1][1]),
                }
            ),
            f"{USER}.client-key-data: does not belong to the client certificate",
        ),
        (
            document(
                user={
                    "client-certificate-data": encoded(PAIRS[0][0]),
                    "client-key-data": encoded("s3cret"),
                }
            ),
            f"{USER}.client-key-data: holds no PEM private key",
        ),
        (document(user={"as-groups": "x"}), f"{USER}.as-groups: must be a list of strings"),
        (document(user={"exec": 5}), f"{USER}.exec: must be a mapping"),
        (document(user=plugin(command="")), f"{USER}.exec.command: is not set"),
        (
            document(user=plugin(apiVersion="client.authentication.k8s.io/v1alpha1")),
            f'{USER}.exec.apiVersion: ".*v1alpha1": must be {V1} or',
        ),
        (document(user=plugin(args="x")), f"{USER}.exec.args: must be a list of strings"),
        (document(user=plugin(env={"a": "b"})), f"{USER}.exec.env: must be a list"),
        (
            document(user=plugin(interactiveMode="Always")),
            f"{USER}.exec.interactiveMode: .*no terminal",
        ),
        (
            document(user={"auth-provider": {"name": "azure"}}),
            f'{USER}.auth-provider.name: "azure": must be gcp or oidc',
        ),
        (
            document(user={"auth-provider": {"name": "oidc", "config": {"id-token": "s3cret"}}}),
            f"{USER}.auth-provider.config: no token",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, capsys, content, sentence):
    """File, field, value and what is allowed, in one line that holds no secret."""
    path = tmp_path / "kubelet.conf"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    resolve.main(str(path))
    problem = json.loads(capsys.readouterr().out)["problem"]
    assert problem.startswith(f"{path}: ")
    assert re.search(sentence, problem), problem
    assert "s3cret" not in problem
    assert "\n" not in problem


def test_missing_and_unreadable_files(tmp_path):
    """Without a file no process is started to read it."""
    for path, words in (
        (tmp_path / "missing.conf", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(KubeconfigError, match=f"^{path}: {words}$"):
            asyncio.run(read_endpoint(str(path), None))
    path = tmp_path / "binary.conf"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(KubeconfigError, match=f"^{path}: is not text$"):
        asyncio.run(read_endpoint(str(path), None))


def test_sentence_comes_through_the_real_process(tmp_path):
    """The reader's sentence is the error's text."""
    path = tmp_path / "kubelet.conf"
    path.write_text(yaml.safe_dump(document({"server": "ftp://h"})))
    with pytest.raises(KubeconfigError) as caught:
        asyncio.run(read_endpoint(str(path), None))
    assert str(caught.value).startswith(f'{path}: clusters[c].cluster.server: "ftp://h": must be')
