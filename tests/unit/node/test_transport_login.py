"""Headers by which the server knows us: tokens, their files, passwords, plugins."""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import timedelta

import pytest
from transport_kit import Authority, Server, States, answer, endpoint, now, server_context, serving

from procs.node.apiserver import execplugin
from procs.node.apiserver.connection import Connection
from procs.node.apiserver.credentials import Credentials
from procs.node.apiserver.types import ApiError, Endpoint, Request

GET = Request("GET", "/x")
V1 = "client.authentication.k8s.io/v1"
SECOND = 10**9


def talk(handler, story, context=None, **fields):
    async def whole():
        async with serving(Server(handler, context)) as server:
            states = States()
            connection = Connection(endpoint(server, **fields), states, environment={})
            try:
                await story(server, connection, states)
            finally:
                await connection.close()

    asyncio.run(asyncio.wait_for(whole(), 120))


async def good(_asked, writer):
    writer.write(answer())


def accepts(token):
    """Return a handler that knows one token."""

    async def handler(asked, writer):
        known = asked.header("authorization") == f"Bearer {token}"
        writer.write(answer(200 if known else 401))

    return handler


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"username": "me", "password": "p:w"}, "Basic bWU6cDp3"),
        ({}, None),
    ],
)
def test_fixed_login(fields, header):
    """A token and a password each have their header."""

    async def story(server, connection, _states):
        await connection.send(GET)
        assert server.asked[0].header("authorization") == header

    talk(good, story, **fields)


def test_impersonation():
    """Who we want to be goes along with who we are."""

    async def story(server, connection, _states):
        await connection.send(GET)
        asked = server.asked[0]
        assert asked.header("authorization") == "Bearer abc"
        assert asked.header("impersonate-user") == "jane"
        assert asked.all("impersonate-group") == ["a", "b"]
        assert asked.header("impersonate-uid") == "42"
        assert asked.all("impersonate-extra-acme.com%2Fscope") == ["x", "y"]

    talk(
        good,
        story,
        token="abc",
        impersonate="jane",
        impersonate_groups=("a", "b"),
        impersonate_uid="42",
        impersonate_extra={"acme.com/scope": ("x", "y")},
    )


def test_refused_token_without_another_is_the_answer():
    """A 401 that nothing can be done about is passed on, and asked for once."""

    async def story(server, connection, states):
        assert (await connection.send(GET)).status == 401
        assert len(server.asked) == 1
        assert states.told == [None]

    talk(accepts("other"), story, token="abc")


def test_token_file_is_read_again_when_refused(tmp_path):
    """A token that was replaced is found at the first 401, by requests and by streams."""
    file = tmp_path / "token"
    file.write_text("old\n")
    valid = ["old"]

    async def handler(asked, writer):
        await accepts(valid[0])(asked, writer)

    async def story(server, connection, _states):
        assert (await connection.send(GET)).status == 200
        valid[0] = "new"
        assert (await connection.send(GET)).status == 401
        file.write_text("new\n")
        assert (await connection.send(GET)).status == 200
        assert len(server.asked) == 4
        valid[0] = "newer"
        file.write_text("newer")
        async with connection.stream(GET) as stream:
            assert stream.status == 200

    talk(handler, story, token="fallback", token_file=str(file))


def test_token_file_is_read_once_a_minute(tmp_path):
    """The file counts for 60 s; one that is away keeps the last token."""
    file = tmp_path / "token"
    file.write_text("one")
    clock = [0]
    where = Endpoint(server="http://x", token_file=str(file))
    credentials = Credentials(where, lambda: None, clock=lambda: clock[0])

    async def header(at):
        clock[0] = at * SECOND
        return (await credentials.headers()).decode().strip()

    async def story():
        assert await header(0) == "Authorization: Bearer one"
        file.write_text("two")
        assert await header(59) == "Authorization: Bearer one"
        assert await header(60) == "Authorization: Bearer two"
        file.unlink()
        assert await header(200) == "Authorization: Bearer two"
        file.write_text("")
        assert await header(201) == "Authorization: Bearer two"
        file.write_text("three")  # not waited for a minute: there was none
        assert await header(202) == "Authorization: Bearer three"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b" \n", "is empty"),
        (b"a\nb", "holds characters that cannot be sent"),
        (b"\xff", "is not text"),
    ],
)
def test_token_file_without_a_token(tmp_path, content, problem):
    """No token at all: the sentence names the file, and nothing is asked for."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    async def story(server, connection, states):
        with pytest.raises(ApiError, match=f"token file {file}: {problem}") as caught:
            await connection.send(GET)
        assert caught.value.unreachable
        assert states.told == [str(caught.value)]
        assert not server.asked

    talk(good, story, token_file=str(file))


# --- plugins -------------------------------------------------------------------------------------


def plugin(tmp_path, body):
    """Write a program that counts its runs and notes what it was told."""
    path = tmp_path / "plugin"
    path.write_text(
        f'#!/bin/sh\necho run >> "{tmp_path}/runs"\n'
        f'printf %s "$KUBERNETES_EXEC_INFO" > "{tmp_path}/info"\n{body}\n'
    )
    path.chmod(stat.S_IRWXU)
    return str(path)


def runs(tmp_path):
    file = tmp_path / "runs"
    return len(file.read_text().split()) if file.exists() else 0


def credential(**status):
    return json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": status})


def later(**delta):
    return (now() + timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_plugin_gives_a_token(tmp_path):
    """The program is run once for many requests, with its arguments and variables."""
    path = plugin(tmp_path, f"printf '%s' '{credential(token='X')}' | sed s/X/$1$ADD/")

    async def story(server, connection, _states):
        await asyncio.gather(*(connection.send(GET) for _ in range(5)))
        assert {asked.header("authorization") for asked in server.asked} == {"Bearer tok-en"}
        assert runs(tmp_path) == 1
        told = json.loads((tmp_path / "info").read_text())
        assert told == {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}

    fields = {"exec_command": (path, "tok"), "exec_env": {"ADD": "-en"}, "exec_api_version": V1}
    talk(good, story, **fields)


def test_plugin_is_told_about_the_cluster():
    """provideClusterInfo: server, CA and the cluster's own settings for the plugin."""
    where = Endpoint(
        server="https://h:6443",
        server_name="kubernetes",
        ca_pem="PEM",
        exec_command=("x",),
        exec_api_version=V1,
        exec_cluster_info=True,
        exec_cluster_config='{"audience":"a"}',
    )
    assert json.loads(execplugin.info(where))["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://h:6443",
            "tls-server-name": "kubernetes",
            "certificate-authority-data": "UEVN",
            "config": {"audience": "a"},
        },
    }


def test_plugin_is_run_again_when_its_token_expires(tmp_path):
    """The expirationTimestamp is obeyed, by the wall clock."""
    path = plugin(tmp_path, f"echo '{credential(token='t', expirationTimestamp=later(hours=1))}'")
    clock, wall = [0], [int(now().timestamp()) * SECOND]
    where = Endpoint(server="http://x", exec_command=(path,), exec_api_version=V1)
    credentials = Credentials(where, lambda: None, clock=lambda: clock[0], wall=lambda: wall[0])

    async def story():
        await credentials.headers()
        wall[0] += 3590 * SECOND
        await credentials.headers()
        assert runs(tmp_path) == 1
        wall[0] += 20 * SECOND
        clock[0] += 3610 * SECOND
        await credentials.headers()
        assert runs(tmp_path) == 2
        # What comes out expired is used, but not asked for at each request.
        await credentials.headers()
        assert runs(tmp_path) == 2

    asyncio.run(story())


def test_plugin_is_run_again_when_refused_but_makes_no_storm(tmp_path):
    """At a 401 the program is asked anew, but not at each of many."""
    path = plugin(tmp_path, f"echo '{credential(token='T')}' | sed s/T/$(wc -l < {tmp_path}/runs)/")
    clock = [0]

    async def story(server, connection, _states):
        connection._credentials._plugin._clock = lambda: clock[0]
        assert (await connection.send(GET)).status == 401
        assert runs(tmp_path) == 1
        clock[0] += 10 * SECOND
        assert (await connection.send(GET)).status == 200
        assert runs(tmp_path) == 2
        assert [a.header("authorization")[-1] for a in server.asked] == ["1", "1", "2"]

    talk(accepts("2"), story, exec_command=(path,), exec_api_version=V1)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("echo 'no login' >&2; echo more >&2; exit 3", "exit status 3: no login$"),
        ("kill -9 $$", "ended by signal 9"),
        ("echo no", "what it printed is not JSON"),
        ("echo '[]'", "what it printed is no ExecCredential"),
        ('echo \'{"kind":"Pod"}\'', "what it printed is no ExecCredential"),
        (
            'echo \'{"kind":"ExecCredential","apiVersion":"v2","status":{}}\'',
            f"it answered in apiVersion v2, not {V1}",
        ),
        (f"echo '{credential()}'", "has neither token nor clientCertificateData"),
        (f"echo '{credential(clientCertificateData='x')}'", "need each other"),
        (f"echo '{credential(token=5)}'", r"status\.token: must be a string"),
        (
            f"echo '{credential(token='secret', expirationTimestamp='soon')}'",
            "status.expirationTimestamp: 'soon' is no time",
        ),
    ],
)
def test_plugin_that_fails(tmp_path, body, sentence):
    """Whatever a program does wrong is one sentence with its path, and not done again at once."""
    path = plugin(tmp_path, body)

    async def story(server, connection, states):
        for _ in range(3):
            with pytest.raises(ApiError, match=f"credential plugin {path}: .*{sentence}") as caught:
                await connection.send(GET)
            assert caught.value.unreachable
            assert "secret" not in str(caught.value)
        assert runs(tmp_path) == 1
        assert len(states.told) == 1
        assert not server.asked

    talk(good, story, exec_command=(path,), exec_api_version=V1)


def test_plugin_that_is_not_there(tmp_path):
    """A program that is missing: the hint of the kubeconfig says how to get it."""

    async def story(_server, connection, _states):
        with pytest.raises(ApiError, match=r"cannot be run: No such file.*: apt install it"):
            await connection.send(GET)

    missing = (str(tmp_path / "missing"),)
    hint = {"exec_install_hint": "apt install it"}
    talk(good, story, exec_command=missing, exec_api_version=V1, **hint)


def test_plugin_that_hangs_does_not_hold_a_request(tmp_path):
    """The request ends in its time; the next one finds the same run, and nothing is left."""
    path = plugin(tmp_path, "exec sleep 600")

    async def story(_server, connection, _states):
        short = Request("GET", "/x", seconds=0.3)
        with pytest.raises(ApiError, match=r"within 0\.3 s"):
            await connection.send(short)
        run = connection._credentials._plugin._run
        while not runs(tmp_path):  # noqa: ASYNC110 - it tells nobody when it begins
            await asyncio.sleep(0.01)
        with pytest.raises(ApiError, match=r"within 0\.3 s"):
            await connection.send(short)
        assert connection._credentials._plugin._run is run
        assert runs(tmp_path) == 1
        await connection.close()
        await asyncio.wait([run])
        assert run.cancelled()

    talk(good, story, exec_command=(path,), exec_api_version=V1)


def test_plugin_gives_a_certificate(tmp_path):
    """A client certificate from a program; another one replaces the connections (N-46)."""
    ca = Authority()
    first, second = ca.issue("first"), ca.issue("second")
    for name, pair in (("1", first), ("2", second)):
        text = credential(clientCertificateData=pair[0], clientKeyData=pair[1])
        (tmp_path / f"answer-{name}").write_text(text)
    path = plugin(tmp_path, f'cat "{tmp_path}/answer-$(wc -l < {tmp_path}/runs)"')
    refuse = [""]
    clock = [0]

    async def handler(asked, writer):
        writer.write(answer(401 if asked.peer in refuse else 200, asked.peer.encode()))

    async def story(server, connection, _states):
        connection._credentials._plugin._clock = lambda: clock[0]
        assert (await connection.send(GET)).body == b"first"
        refuse.append("first")
        clock[0] += 10 * SECOND
        response = await connection.send(GET)
        assert (response.status, response.body) == (200, b"second")
        assert server.connections == 2
        assert runs(tmp_path) == 2

    context = server_context(ca.issue(), tmp_path, ca)
    talk(handler, story, context, ca_pem=ca.pem, exec_command=(path,), exec_api_version=V1)
