"""Reading a command line as Go's pflag does, but telling every problem and not the first only.

Flags are ``--name=value``, ``--name value``, a boolean's ``--name``, and the shorthands ``-v 2``,
``-v=2``, ``-v2``, ``-h``. Underscores in names are dashes (C-2). ``--`` ends the flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubelet.config.errors import BadValueError, BadValuesError, Problem, Raw, closest, shown
from kubelet.config.table import (
    ELSEWHERE,
    FLAG_BY_NAME,
    FLAG_BY_SHORTHAND,
    FLAGS,
    REMOVED,
    Flag,
)
from kubelet.config.types import Repeat

_NEEDS_VALUE: Final = "needs a value"


@dataclass(slots=True)
class Parsed:
    """What a command line says: the values of the flags that were given, and what is wrong."""

    values: dict[str, Any] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def deprecated(self) -> list[Flag]:
        """The deprecated flags that were given."""
        return [flag for flag in FLAGS if flag.name in self.values and flag.deprecated]


def parse(argv: Sequence[str]) -> Parsed:
    """Read the arguments (without the program's name)."""
    out = Parsed()
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            out.positional += rest
            break
        if word.startswith("--"):
            _long(word[2:], rest, out)
        elif word.startswith("-") and word != "-":
            _short(word[1:], rest, out)
        else:
            out.positional.append(word)
    _refuse_positional(out)
    return out


def _refuse_positional(out: Parsed) -> None:
    """C-1: the kubelet takes flags only."""
    for word in out.positional:
        out.problems.append(
            Problem("command line", "unknown command", shown(word), "only flags are allowed")
        )


def _long(word: str, rest: list[str], out: Parsed) -> None:
    name, equals, value = word.partition("=")
    name = name.replace("_", "-")
    flag = FLAG_BY_NAME.get(name)
    if flag is None:
        _unknown(name, value if equals else None, rest, out)
    elif equals:
        _set(flag, value, out)
    elif flag.bare is not None:
        _set(flag, flag.bare, out)
    elif rest:
        _set(flag, rest.pop(0), out)
    else:
        out.problems.append(Problem(f"--{name}", "", _NEEDS_VALUE, flag.type.name))


def _short(letters: str, rest: list[str], out: Parsed) -> None:
    """Read one word of shorthands; the first that takes a value takes what is left of it."""
    while letters:
        letter, letters = letters[0], letters[1:]
        flag = FLAG_BY_SHORTHAND.get(letter)
        if flag is None:
            out.problems.append(
                Problem(f"-{letter}", "unknown flag", "", _short_hint(letter, letters))
            )
            return
        if letters.startswith("="):
            _set(flag, letters[1:], out)
            return
        if flag.bare is not None:
            _set(flag, flag.bare, out)
            continue
        if not letters and not rest:
            out.problems.append(Problem(f"-{letter}", "", _NEEDS_VALUE, flag.type.name))
            return
        _set(flag, letters or rest.pop(0), out)
        return


def _short_hint(letter: str, letters: str) -> str:
    name = (letter + letters).partition("=")[0].replace("_", "-")
    return f"did you mean --{name}?" if name in FLAG_BY_NAME else "only -v and -h have one dash"


def _unknown(name: str, value: str | None, rest: list[str], out: Parsed) -> None:
    if value is None and rest and not rest[0].startswith("-"):
        value = rest.pop(0)  # it can only be the unknown flag's: one mistake, one line
    seen = "" if value is None else shown(Raw(value))
    out.problems.append(Problem(f"--{name}", "unknown flag", seen, _hint(name)))


def _hint(name: str) -> str:
    if name in ELSEWHERE:
        return f"{ELSEWHERE[name]}, not known here"
    for gone, instead in REMOVED.items():
        if name == gone or (gone.endswith("-") and name.startswith(gone)):
            return f"the flag was removed from the kubelet: {instead}"
    close = closest(name, FLAG_BY_NAME, 0.7)
    return f"did you mean --{close}?" if close else "--help lists the flags"


def _set(flag: Flag, text: str, out: Parsed) -> None:
    """Parse one occurrence of a flag and join it to those before it."""
    try:
        value = flag.type.parse(text)
    except BadValueError as err:
        out.problems.append(_bad(flag, err))
    except BadValuesError as err:
        out.problems += [_bad(flag, one) for one in err.items]
    else:
        out.values[flag.name] = _joined(flag, out.values.get(flag.name), value)


def _bad(flag: Flag, err: BadValueError) -> Problem:
    name = (flag.field or flag.name) + err.below
    return Problem(f"--{flag.name}", name, shown(err.value, name), err.allowed)


def _joined(flag: Flag, before: Any, value: Any) -> Any:
    if before is None or flag.type.repeat is Repeat.REPLACE:
        return value
    if flag.type.repeat is Repeat.EXTEND:
        return before + value
    if flag.field == "staticPodURLHeader":
        return before | {key: before.get(key, []) + one for key, one in value.items()}
    return before | value
