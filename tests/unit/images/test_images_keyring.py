"""Docker configurations and the matching of their entries (I-22, I-23)."""

from __future__ import annotations

import base64
import json

import pytest

from procs.syncloop.images.keyring import (
    Auth,
    BadDockerConfigError,
    bad_pattern,
    lookup,
    matches,
    parse_config,
)


def b64(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("entry", "auth"),
    [
        ({"auth": b64("me:pa:ss")}, Auth("me", "pa:ss")),
        ({"auth": b64("me:p").rstrip("=")}, Auth("me", "p")),
        ({"auth": b64("me:p\0\0")}, Auth("me", "p")),
        ({"username": "me", "password": "p"}, Auth("me", "p")),
        ({"username": "x", "password": "y", "auth": b64("me:p")}, Auth("me", "p")),
        ({"auth": b64("<token>:"), "identitytoken": "t"}, Auth(identity_token="t")),
        ({"registrytoken": "t"}, Auth(registry_token="t")),
    ],
)
def test_an_entry_says_what_to_show(entry, auth):
    """Each of the known forms is read, in config.json and in .dockercfg alike (I-22)."""
    assert parse_config(json.dumps({"auths": {"r.io": entry}})) == {"r.io": auth}
    assert parse_config(json.dumps({"r.io": entry}), legacy=True) == {"r.io": auth}


@pytest.mark.parametrize("document", [{}, {"auths": None}, {"auths": {"r.io": {}}}])
def test_a_configuration_may_say_nothing(document):
    """Without entries, or with those of a helper, there are no credentials."""
    assert parse_config(json.dumps(document)) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"auths": []}', "auths: must be an object"),
        ('{"auths": {"r.io": "secret1"}}', r"auths\[r.io\]: must be an object"),
        ('{"auths": {"r.io": {"password": 77}}}', r"auths\[r.io\].password: must be a string"),
        ('{"auths": {"r.io": {"auth": "secret1!"}}}', "must be base64 of user:password"),
        (json.dumps({"auths": {"r.io": {"auth": b64("secret1")}}}), "must be base64"),
    ],
)
def test_a_bad_configuration_is_said_without_its_secrets(text, words):
    """The sentence names the place, and never what stands there."""
    with pytest.raises(BadDockerConfigError, match=words) as caught:
        parse_config(text)
    assert "secret1" not in str(caught.value)
    assert "77" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "repository", "fits"),
    [
        ("r.io", "r.io/a", True),
        ("r.io", "r.io:5000/a", False),
        ("r.io:5000", "r.io:5000/a", True),
        ("r.io:5000", "r.io/a", False),
        ("https://r.io", "r.io/a", True),
        ("http://r.io/v2/", "r.io/a", True),
        ("r.io/v1", "r.io/a", True),
        ("r.io/v1/a", "r.io/a", True),
        ("r.io/a", "r.io/v1/a", False),
        ("r.io/", "r.io/a", True),
        ("r.io/a", "r.io/a/b", True),
        ("r.io/a", "r.io/ab", True),
        ("r.io/a/", "r.io/ab", False),
        ("r.io/b", "r.io/a", False),
        ("*.r.io", "x.r.io/a", True),
        ("*.r.io", "r.io/a", False),
        ("*.r.io", "x.y.r.io/a", False),
        ("*.*.r.io", "x.y.r.io/a", True),
        ("*.io", "r.io/a", True),
        ("*", "localhost/a", True),
        ("reg?.io", "reg1.io/a", True),
        ("reg[1-3].io", "reg2.io/a", True),
        ("reg[^1-3].io", "reg2.io/a", False),
        ("reg[", "reg[/a", False),
        ("pre*.io:80/team", "prefix.io:80/team/app", True),
        ("[::1]:5000", "[::1]:5000/a", True),
        ("[::1]:5000", "[::2]:5000/a", False),
        ("r.*o", "rxo/a", False),
    ],
)
def test_a_pattern_is_matched_label_by_label(pattern, repository, fits):
    """A star stays within its label, ports are equal, paths begin alike (I-23)."""
    assert matches(pattern, repository) is fits


def test_the_most_specific_place_comes_first():
    """A longer path goes before a shorter, a name before a pattern (I-23)."""
    config = {
        "*.io": Auth("star"),
        "r.io": Auth("host"),
        "r.io/team/app": Auth("app"),
        "https://r.io/team": Auth("team"),
        "other.io": Auth("other"),
    }
    names = [auth.username for auth in lookup(config, "r.io/team/app")]
    assert names == ["app", "team", "host", "star"]
    assert [auth.username for auth in lookup(config, "r.io/x")] == ["host", "star"]


@pytest.mark.parametrize(
    "written", ["https://index.docker.io/v1/", "index.docker.io", "index.docker.io/v1", "docker.io"]
)
def test_the_first_registry_has_several_names(written):
    """What docker login wrote for it is found for an image of either spelling (I-23)."""
    assert lookup({written: Auth("me")}, "docker.io/library/busybox") == [Auth("me")]
    assert lookup({written: Auth("me")}, "r.io/busybox") == []


def test_a_better_name_of_the_first_registry_wins():
    """The old name is for images that nothing else is for."""
    config = {"index.docker.io": Auth("old"), "docker.io/team": Auth("team")}
    assert lookup(config, "docker.io/team/app") == [Auth("team")]


def test_credentials_do_not_show_themselves():
    """Neither the text of one nor its digest has the password in it."""
    auth = Auth("me", "hunter2", "idtok", "regtok")
    for word in ("hunter2", "idtok", "regtok"):
        assert word not in repr(auth) + auth.digest
    assert auth.digest != Auth("me", "hunter3", "idtok", "regtok").digest
    assert auth.to_cri().password == "hunter2"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("", "registry"), ("a b", "spaces"), ("a..io", "empty"), ("a:b", "port"), ("a[.io", "closed")],
)
def test_a_bad_pattern_is_said(pattern, words):
    """What could never match is an error of whoever wrote it."""
    assert words in bad_pattern(pattern)
    assert bad_pattern("*.r.io:80/x") is None
