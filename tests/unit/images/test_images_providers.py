"""Credential providers, with programs that are really run (I-26, I-27)."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from kubelet.programs import MAX_OUTPUT
from procs.syncloop.images.keyring import Auth
from procs.syncloop.images.provider_api import ProviderError
from procs.syncloop.images.provider_config import EnvVar, ProviderSpec, TokenAttributes
from procs.syncloop.images.providers import PURGE_NS, Provider
from tests.unit.images.parts import SECOND, Clock, until

API = "credentialprovider.kubelet.k8s.io/v1"


def reply(**changes):
    made = {
        "apiVersion": API,
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Image",
        "auth": {"*.r.io": {"username": "me", "password": "pw"}},
    }
    return json.dumps({k: v for k, v in (made | changes).items() if v is not None})


class Helper:
    """A provider whose program is a script; it counts its runs and keeps its last input."""

    def __init__(self, directory):
        self.directory = directory
        self.clock = Clock()
        self.program = directory / "helper"

    def says(self, text):
        (self.directory / "reply").write_text(text)
        self.does('cat "$DIR/reply"')

    def does(self, script):
        self.program.write_text(f'#!/bin/sh\ncat > "$DIR/input"\necho >> "$DIR/runs"\n{script}\n')
        self.program.chmod(0o755)

    @property
    def runs(self):
        path = self.directory / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def provider(self, seconds=30.0, **changes):
        fields = {
            "name": "helper",
            "match_images": ("*.r.io",),
            "default_cache_duration": "10s",
            "api_version": API,
            "args": ("get", "a b"),
            "env": (EnvVar("DIR", str(self.directory)), EnvVar("EXTRA", "1")),
        }
        spec = ProviderSpec(**(fields | changes))
        return Provider(spec, str(self.directory), self.clock, os.environ, seconds)


@pytest.fixture
def helper(tmp_path):
    return Helper(tmp_path)


def ask(provider, image="x.r.io/a", account=""):
    return asyncio.run(provider.credentials(image, account))


def test_a_program_is_asked_in_its_language(helper):
    """It reads a request and gets its arguments, our environment and its own variables (I-26)."""
    helper.says(reply())
    helper.does('printf "%s|" "$@" "$EXTRA" "$PATH" > "$DIR/seen"; cat "$DIR/reply"')
    assert ask(helper.provider()) == {"*.r.io": Auth("me", "pw")}
    assert json.loads((helper.directory / "input").read_bytes()) == {
        "apiVersion": API,
        "kind": "CredentialProviderRequest",
        "image": "x.r.io/a",
    }
    seen = (helper.directory / "seen").read_text().split("|")
    assert seen[:4] == ["get", "a b", "1", os.environ["PATH"]]


def test_it_is_for_the_images_that_are_configured(helper):
    """The patterns are those of the keyring (I-23)."""
    provider = helper.provider(match_images=("*.r.io:80/team", "q.io"))
    images = ("x.r.io:80/team/app", "x.r.io/team/app", "q.io/a", "z.q.io/a")
    assert [provider.serves(image) for image in images] == [True, False, True, False]


@pytest.mark.parametrize(
    ("key", "asked", "runs"),
    [
        ("Image", ["x.r.io/a", "x.r.io/a", "x.r.io/b"], 2),
        ("Registry", ["x.r.io/a", "x.r.io/b", "y.r.io/a"], 2),
        ("Global", ["x.r.io/a", "x.r.io/b", "y.r.io/a"], 1),
    ],
)
def test_an_answer_is_kept_for_what_it_is_good_for(helper, key, asked, runs):
    """The cacheKeyType says what else need not be asked (I-26)."""
    helper.says(reply(cacheKeyType=key))
    provider = helper.provider()
    for image in asked:
        assert ask(provider, image) == {"*.r.io": Auth("me", "pw")}
    assert helper.runs == runs


@pytest.mark.parametrize(
    ("said", "default", "seconds"),
    [("5s", "10s", 5), (None, "10s", 10), ("0s", "10s", 0), (None, "0s", 0)],
)
def test_an_answer_is_kept_for_as_long_as_it_says(helper, said, default, seconds):
    """The answer goes before the configuration, and zero in either keeps nothing (I-26)."""
    helper.says(reply(cacheDuration=said))
    provider = helper.provider(default_cache_duration=default)
    ask(provider)
    helper.clock.now += max(seconds * SECOND - 1, 0)
    ask(provider)
    assert helper.runs == (1 if seconds else 2)
    helper.clock.now += 1
    ask(provider)
    assert helper.runs == (2 if seconds else 3)


def test_what_has_expired_is_dropped(helper):
    """Each 15 minutes old credentials go, asked for or not (I-26)."""
    helper.says(reply())
    provider = helper.provider()
    for name in ("a", "b", "c"):
        ask(provider, f"x.r.io/{name}")
    assert len(provider._cache) == 3
    helper.clock.now += PURGE_NS
    ask(provider, "x.r.io/d")
    assert len(provider._cache) == 1


def test_one_run_serves_all_who_wait(helper):
    """Many pods with one image cause one run (I-26)."""
    helper.says(reply(cacheDuration="0s"))
    provider = helper.provider()

    async def main():
        asked = [provider.credentials("x.r.io/a") for _ in range(5)]
        return await asyncio.gather(*asked)

    assert asyncio.run(main()) == [{"*.r.io": Auth("me", "pw")}] * 5
    assert helper.runs == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hunter2", "its answer is not JSON"),
        ("[]", "its answer does not fit: document: must be an object"),
        (reply(auth={"r": {"password": 77123}}), "password: must be a string$"),
        (reply(kind="Pod"), "its answer is Pod of .*, and must be CredentialProviderResponse"),
        (reply(apiVersion=f"{API}beta1"), f"must be CredentialProviderResponse of {API}$"),
        (reply(cacheKeyType="Day"), "cacheKeyType in its answer is 'Day', must be one of Image"),
        (reply(cacheDuration="soon"), "cacheDuration in its answer is 'soon', must be a duration"),
        ("{}", "its answer is nothing of no version"),
    ],
)
def test_an_answer_that_makes_no_sense_is_said(helper, text, words):
    """The sentence says what is wrong, and shows nothing that may be secret."""
    helper.says(text)
    with pytest.raises(ProviderError, match=words) as caught:
        ask(helper.provider())
    assert "hunter2" not in str(caught.value)
    assert "77123" not in str(caught.value)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo hunter2 >&2; exit 3", "exit status 3$"),
        ("kill -9 $$", "ended by signal 9$"),
        (f"head -c {MAX_OUTPUT + 1} /dev/zero; sleep 60", f"printed more than {MAX_OUTPUT} bytes"),
    ],
)
def test_a_program_that_fails_is_said(helper, script, words):
    """Its exit, signal or flood is in the error; what it wrote to stderr is not."""
    helper.does(script)
    with pytest.raises(ProviderError, match=words) as caught:
        ask(helper.provider())
    assert "hunter2" not in str(caught.value)


def test_a_program_that_is_not_there_is_said(helper):
    """A program may go away after the start."""
    with pytest.raises(ProviderError, match="helper: cannot be run: No such file"):
        ask(helper.provider())


def test_much_on_stderr_blocks_nobody(helper):
    """A chatty program is read to its end."""
    helper.says(reply())
    helper.does('head -c 300000 /dev/zero >&2; cat "$DIR/reply"')
    assert ask(helper.provider()) == {"*.r.io": Auth("me", "pw")}


def test_an_answer_without_reading_the_question_counts(helper):
    """A program need not read its input."""
    helper.says(reply())
    helper.program.write_text(f'#!/bin/sh\nexec <&-\ncat "{helper.directory}/reply"\n')
    assert ask(helper.provider()) == {"*.r.io": Auth("me", "pw")}


def test_a_program_that_hangs_is_ended_with_its_children(helper):
    """When its time is over, nothing of it is left."""
    helper.does('sleep 600 & echo $! > "$DIR/child"; wait')
    path = helper.directory / "child"
    for seconds in (0.3, 1, 5, 20):  # a busy machine may need longer to begin
        with pytest.raises(ProviderError, match=f"did not answer within {seconds}s"):
            ask(helper.provider(seconds=seconds))
        if path.exists() and path.read_text().endswith("\n"):
            break
    child = int(path.read_text())

    async def gone():
        await until(lambda: _state(child) in {"", "Z"})

    asyncio.run(gone())


def test_giving_up_ends_the_program(helper):
    """When nobody waits for the answer any more, the program is ended."""
    helper.does('echo $$ > "$DIR/pid"; exec sleep 600')
    provider = helper.provider()

    async def main():
        task = asyncio.create_task(provider.credentials("x.r.io/a"))
        path = helper.directory / "pid"
        await until(lambda: path.exists() and path.read_text().endswith("\n"))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await until(lambda: _state(int(path.read_text())) in {"", "Z"})

    asyncio.run(main())


def _state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_token_needs_an_api_server(helper):
    """With tokenAttributes a clear sentence comes instead of a run without a token (I-27)."""
    helper.says(reply())
    needed = helper.provider(token_attributes=TokenAttributes("r.io", "Token", True))
    for account in ("", "default"):
        with pytest.raises(ProviderError, match="needs a service account token"):
            ask(needed, account=account)
    wished = helper.provider(token_attributes=TokenAttributes("r.io", "Token", False))
    with pytest.raises(ProviderError, match="no API server"):
        ask(wished, account="default")
    assert helper.runs == 0
    assert ask(wished) == {"*.r.io": Auth("me", "pw")}
