"""Where requests go, and how they read (B-12, B-19)."""

from __future__ import annotations

import pytest

from kubelet.api.container import Container, ContainerPort
from kubelet.api.handlers import HTTPGetAction, HTTPHeader
from kubelet.http.target import (
    Target,
    TargetError,
    is_redirection,
    may_follow,
    port_of,
    redirected,
    refusal,
    request_of,
    target_of,
)
from kubelet.http.words import quoted

CONTAINER = Container(name="c", ports=(ContainerPort(name="web", container_port=8080),))
AT = Target("http", "10.0.0.1", 80, "/a/b?c", (("Host", "h"), ("X", "1")))


def test_ports_by_name_and_number_are_found():
    """A name of a port of the container, a number, or a number as text (B-19)."""
    assert [port_of(CONTAINER, port) for port in ("web", 81, "82")] == [8080, 81, 82]


@pytest.mark.parametrize(
    ("port", "why"),
    [
        (0, "invalid port number: 0"),
        (65536, "invalid port number: 65536"),
        ("none", "couldn't find port: 'none' in container c"),
        (None, "couldn't find port: '' in container c"),
    ],
)
def test_port_that_is_none_is_named(port: int | str | None, why: str):
    """The sentence has its value."""
    with pytest.raises(TargetError, match=f"^{why}$"):
        port_of(CONTAINER, port)


def test_target_is_the_pod_unless_another_host_is_given():
    """An IPv6 address is written in brackets."""
    action = HTTPGetAction(port="web", path="x?y=z", scheme="HTTPS")
    assert str(target_of(CONTAINER, action, "fd00::1")) == "https://[fd00::1]:8080/x?y=z"
    other = HTTPGetAction(port=1, host="other")
    assert str(target_of(CONTAINER, other, "fd00::1")) == "http://other:1/"


def test_secret_header_is_not_shown():
    """A value that cannot be sent may still be a password."""
    action = HTTPGetAction(port=1, http_headers=(HTTPHeader("Authorization", "Bearer x\n"),))
    with pytest.raises(TargetError) as caught:
        target_of(CONTAINER, action, "10.0.0.1")
    assert "Bearer" not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "goes", "follows"),
    [
        ("/x", "http://10.0.0.1:80/x", True),
        ("x?y#z", "http://10.0.0.1:80/a/x?y", True),
        ("https://10.0.0.1/x", "https://10.0.0.1/x", True),
        ("http://user:pw@10.0.0.1:81/", "http://10.0.0.1:81/", True),
        ("//10.0.0.1:82/x", "http://10.0.0.1:82/x", True),
        ("http://10.0.0.2/x", "http://10.0.0.2/x", False),
        ("http://10.0.0.1@10.0.0.2/x", "http://10.0.0.2/x", False),
        ("http://10.0.0.1.example/x", "http://10.0.0.1.example/x", False),
        ("file:///etc/passwd", "file://:0/etc/passwd", False),
        ("unix:/run/x.sock", "unix://:0/run/x.sock", False),
    ],
)
def test_redirections_stay_with_the_host(location: str, goes: str, follows: bool):
    """Another host is not asked, whatever an answer says (B-12)."""
    further = redirected(AT, location)
    assert str(further) == goes
    assert may_follow(AT, further) is follows


def test_other_schemes_of_the_same_host_are_refused():
    """There is http, and there is https."""
    assert refusal(redirected(AT, "ftp://10.0.0.1/")) == 'unsupported protocol scheme "ftp"'
    assert refusal(redirected(AT, "https://10.0.0.1/")) is None


def test_host_header_is_kept_for_a_path_alone():
    """The name that was asked for is not that of another place."""
    assert b"Host: h\r\n" in request_of(redirected(AT, "/x"), "me")
    assert b"Host: 10.0.0.1\r\n" in request_of(redirected(AT, "http://10.0.0.1/x"), "me")


def test_request_says_nothing_of_a_body():
    """Nor of a connection that stays."""
    headers = (("Content-Length", "5"), ("Connection", "keep-alive"), ("User-Agent", ""))
    sent = request_of(Target("http", "h", 1, "/", headers), "me")
    assert sent == b"GET / HTTP/1.1\r\nHost: h:1\r\nAccept: */*\r\nConnection: close\r\n\r\n"


def test_answers_that_lead_nowhere_are_final():
    """A place to go to is what makes a redirection."""
    assert is_redirection(308, "/x")
    assert not is_redirection(302, "")
    assert not is_redirection(304, "/x")


def test_quotes_hold_whatever_was_said():
    """As Go writes them."""
    assert quoted(b'a"\\\n\x00\xff\xc3\xa4') == '"a\\"\\\\\\n\\x00\\xff\u00e4"'
    assert quoted("\u200b\U000e0001") == '"\\u200b\\U000e0001"'
