"""Answers of HTTP servers, good and bad, whole and in pieces (B-12)."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet.http.answer import BODY_LIMIT, HEAD_LIMIT, Answer, AnswerError, BodyError

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN = "net/http: HTTP/1.x transport connection broken: "


def heard(*pieces: bytes, ends=True, enough=None):
    """Read an answer from pieces."""
    answer = Answer(enough)
    for piece in pieces:
        answer.feed(piece)
    if ends and not answer.done:
        answer.end()
    return answer


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (OK + b"Content-Length: 2\r\n\r\nokay", 200, b"ok"),
        (OK + b"\r\nuntil the end", 200, b"until the end"),
        (OK + b"Content-Length:\r\n\r\nok", 200, b"ok"),
        (OK + b"content-length: 3\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc"),
        (CHUNKED + b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200, b"abc"),
        (
            OK + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n2\r\nab\r\n0\r\n",
            200,
            b"ab",
        ),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nabc", 200, b"abc"),
        (b"HTTP/1.1 100 C\r\n\r\n" * 8 + OK + b"\r\n", 200, b""),
        (b"HTTP/1.1 103 E\r\nContent-Length: 9\r\n\r\n" + OK + b"\r\nok", 200, b"ok"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", 101, b""),
        (b"HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n", 204, b""),
        (b"HTTP/1.1 200\n\nok", 200, b"ok"),
        (b"HTTP/1.1  503  Odd\r\nX Y: 1\r\n more of it\r\n\r\n", 503, b""),
        (b"HTTP/1.1 099 x\r\n\r\n", 99, b""),
    ],
)
def test_answers_are_understood_however_they_are_cut(said: bytes, status: int, body: bytes):
    """What Go's client takes is taken; bytes that come one by one say the same."""
    for pieces in ([said], [said[at : at + 1] for at in range(len(said))]):
        answer = heard(*pieces)
        assert (answer.status, answer.body, answer.done) == (status, body, True)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "EOF"),
        (b"HTTP/1.1", BROKEN + 'malformed HTTP response "HTTP/1.1"'),
        (
            b"\x15\x03\x01\x00\x02\x02F",
            BROKEN + r'malformed HTTP response "\x15\x03\x01\x00\x02\x02F"',
        ),
        (b"\r\n" + OK, BROKEN + 'malformed HTTP response ""'),
        (b"220 mail ready\r\n", BROKEN + 'malformed HTTP status code "mail"'),
        (b"HTTP/1.1 20 OK\r\n", BROKEN + 'malformed HTTP status code "20"'),
        (b"HTTP/x 200 OK\r\n", BROKEN + 'malformed HTTP version "HTTP/x"'),
        (b"x" * 70000, BROKEN + 'malformed HTTP response "' + "x" * 1024 + '"'),
        (OK, BROKEN + "unexpected EOF"),
        (OK + b"X: ", BROKEN + "unexpected EOF"),
        (OK + b"none\r\n\r\n", BROKEN + 'malformed MIME header: missing colon: "none"'),
        (OK + b" x: y\r\n\r\n", BROKEN + 'malformed MIME header initial line: " x: y"'),
        (OK + b": 1\r\n\r\n", BROKEN + 'malformed MIME header line: ": 1"'),
        (OK + b"X: \x01y\r\n\r\n", BROKEN + r'malformed MIME header line: "X: \x01y"'),
        (OK + b"Content-Length: +5\r\n\r\n", BROKEN + 'bad Content-Length "+5"'),
        (
            OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
            BROKEN + 'http: message cannot contain multiple Content-Length headers; got ["2" "3"]',
        ),
        (
            OK + b"Transfer-Encoding: gzip\r\n\r\n",
            BROKEN + 'unsupported transfer encoding: "gzip"',
        ),
        (
            OK + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n",
            BROKEN + 'too many transfer encodings: ["chunked" "chunked"]',
        ),
        (
            OK + b"X: y\r\n" * 2_000_000,
            BROKEN + f"net/http: server response headers exceeded {HEAD_LIMIT} bytes; aborted",
        ),
    ],
)
def test_what_is_no_answer_is_told_in_known_words(said: bytes, why: str):
    """They are those of Go's client."""
    with pytest.raises(AnswerError) as caught:
        heard(*(said[at : at + 65536] for at in range(0, len(said), 65536)))
    assert str(caught.value) == why
    assert not isinstance(caught.value, BodyError)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (OK + b"Content-Length: 10\r\n\r\nabc", "unexpected EOF"),
        (CHUNKED + b"5\r\nab", "unexpected EOF"),
        (CHUNKED + b"zz\r\n", "invalid byte in chunk length"),
        (CHUNKED + b"\r\n", "empty hex number for chunk length"),
        (CHUNKED + b"2\r\nabcd\r\n", "malformed chunked encoding"),
        (CHUNKED + b"0" * 17 + b"\r\n", "http chunk length too large"),
        (CHUNKED + b"1;" + b"x" * 5000, "header line too long"),
    ],
)
def test_body_that_breaks_is_told_apart(said: bytes, why: str):
    """The status is known, and yet it does not count."""
    with pytest.raises(BodyError, match=f"^{why}$"):
        heard(said)


def test_body_without_end_is_cut():
    """Nothing more is wanted after 10 KiB."""
    answer = heard(OK + b"\r\n" + b"x" * 50000, ends=False)
    assert answer.done
    assert answer.body == b"x" * BODY_LIMIT
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    assert heard(CHUNKED + chunk * 3, ends=False).body == b"x" * BODY_LIMIT


def test_answer_that_leads_on_is_done_with_its_head():
    """Its body may never come."""
    head = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nLocation: /y\r\n\r\n"
    answer = heard(
        head, ends=False, enough=lambda status, location: (status, location) == (302, "/x")
    )
    assert answer.done


def test_ten_mebibytes_of_head_are_not_held():
    """Neither as many lines nor as one."""
    for line in (b"X: y\r\n" * 2000, b"X: " + b"y" * 12000):
        tracemalloc.start()
        answer = Answer()
        answer.feed(OK)
        for _ in range((HEAD_LIMIT - len(OK)) // len(line)):
            answer.feed(line)
        with pytest.raises(AnswerError, match="headers exceeded"):
            answer.feed(line)
        _now, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 20


PARTS = st.sampled_from(
    [OK, b"HTTP/1.0 302 F\n", b"\r\n", b"\n", b"Content-Length: 3\r\n", b"Location: /\r\n",
     b"0\r\n", b"Transfer-Encoding: chunked\r\n", b"5\r\nab", b"X: y\r\n", b" z\r\n", b"x" * 70000]
)  # fmt: skip


@given(st.lists(st.one_of(PARTS, st.binary(max_size=40)), max_size=12))
def test_nothing_confuses_the_reader(pieces: list[bytes]):
    """Whatever comes is an answer, or is refused with its own error; little of it is held."""
    answer = Answer()
    with contextlib.suppress(AnswerError):
        for piece in pieces:
            answer.feed(piece)
            assert len(answer._rest) <= 65536
            assert len(answer.body) <= BODY_LIMIT
        if not answer.done:
            answer.end()
        assert answer.done


@given(st.binary(max_size=60), st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_cuts_do_not_change_what_is_understood(tail: bytes, sizes: list[int]):
    """The same bytes say the same, however they are cut."""

    def told(pieces):
        try:
            answer = heard(*pieces)
        except AnswerError as err:
            return type(err)
        return answer.status, answer.body, answer.location

    said = CHUNKED + b"2\r\nab\r\n" + tail
    pieces, at = [], 0
    while at < len(said):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(said[at : at + size])
        at += size
    assert told(pieces) == told([said])
