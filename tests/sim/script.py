"""The program language: text to statements. The package's docstring describes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\\\n)|(?P<comment>(?<!\S)\#[^\n]*)
    |(?P<op>&&|\|\||;|\n|&(?!\d))
    |(?P<redirect>[12]?>>?&?)
    |(?P<word>(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s;&|>'"\\])+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_SHELLS = ("sh", "bash", "ash", "dash")


class BadProgram(ValueError):  # noqa: N818 - the text is bad, not the program that reads it
    """Text that is not a program, and why."""


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command, with where its output goes."""

    words: tuple[str, ...]  # still quoted: a command's words are expanded when it runs
    stderr: bool = False
    path: str = ""
    append: bool = False
    raw: bool = False  # the words are an argv: nothing to unquote


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeat the body while the condition ends with 0."""

    condition: Block
    body: Block
    until: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Statements in a row, each with the operator before it."""

    statements: tuple[tuple[str, Command | Loop], ...]


def parse(text: str) -> Block:
    """The statements of a program."""
    return _Parser(_tokens(text)).whole()


def of_argv(argv: tuple[str, ...]) -> Block:
    """The program that a command line is."""
    if not argv:
        return parse("run")
    name = argv[0].rsplit("/", 1)[-1]
    if name in _SHELLS:
        for position, word in enumerate(argv[1:], 1):
            if word.startswith("-") and "c" in word and position + 1 < len(argv):
                return parse(argv[position + 1])
    return Block((("", Command((name, *argv[1:]), raw=True)),))


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "other":
            raise BadProgram(
                f"{match.group()!r} at {match.start()} is not in the language: {text!r}"
            )
        if kind not in ("space", "comment"):
            found.append((kind, match.group()))
    return found


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def whole(self) -> Block:
        block = self._block(())
        if self._at < len(self._tokens):
            raise BadProgram(f"{self._tokens[self._at][1]!r} does not belong here")
        return block

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _block(self, ends: tuple[str, ...]) -> Block:
        statements: list[tuple[str, Command | Loop]] = []
        operator = ""
        while True:
            kind, text = self._peek()
            if kind == "op":
                operator = text
                self._at += 1
            elif kind == "end" or (kind == "word" and text in ends):
                return Block(tuple(statements))
            elif kind == "word" and text in ("do", "done"):
                raise BadProgram(f"{text!r} does not belong here")
            elif kind == "word" and text in ("while", "until"):
                statements.append((operator, self._loop()))
            elif kind in ("word", "redirect"):
                statements.append((operator, self._command()))
            else:
                raise BadProgram(f"{text!r} does not belong here")

    def _loop(self) -> Loop:
        until = self._peek()[1] == "until"
        self._at += 1
        condition = self._block(("do",))
        self._expect("do")
        body = self._block(("done",))
        self._expect("done")
        return Loop(condition, body, until)

    def _expect(self, word: str) -> None:
        if self._peek() != ("word", word):
            raise BadProgram(f"{word!r} is missing")
        self._at += 1

    def _command(self) -> Command:
        words: list[str] = []
        stderr, path, append = False, "", False
        while self._peek()[0] in ("word", "redirect"):
            kind, text = self._peek()
            self._at += 1
            if kind == "word":
                words.append(text)
                continue
            target_kind, target = self._peek()
            if target_kind != "word":
                raise BadProgram(f"{text!r} leads nowhere")
            self._at += 1
            if text.endswith("&"):
                stderr = stderr or (target == "2" and not text.startswith("2"))
            elif not text.startswith("2"):
                path, append = target, ">>" in text
        return Command(tuple(words), stderr, path, append)
