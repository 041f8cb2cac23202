"""The command line: global flags, then a verb whose module is loaded only when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from kubeletctl import screen
from kubeletctl.commands import VERBS
from kubeletctl.context import Context
from kubeletctl.errors import INTERRUPTED, NOT_THERE, OK, CtlError
from kubeletctl.output import Format
from kubeletctl.rundir import DEFAULT, VARIABLE, RunDir

EPILOG = """exit codes: 0 done, or healthy; 1 not healthy, or it did not work;
2 no kubelet there (or not readable), or a wrong command line"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read on; usage would hide it."""
        raise CtlError(f"{message}; see '{self.prog} --help'", NOT_THERE)


def command() -> int:
    """Run the command line of this process and return its exit code."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except CtlError as problem:
        print(f"kubeletctl: {problem}", file=sys.stderr)
        return problem.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough. Python would complain when it flushes once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except PermissionError as problem:
        print(f"kubeletctl: Not allowed: {problem.filename}: run it as root", file=sys.stderr)
        return NOT_THERE
    return code


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    top = _top_parser()
    found = top.parse_args(arguments)
    if found.verb is None:
        print_help(top)
        return NOT_THERE
    if found.verb not in VERBS:
        raise CtlError(f"There is no verb {found.verb!r}; the verbs are {', '.join(VERBS)}", 2)
    module = importlib.import_module(f"kubeletctl.commands.{found.verb}")
    parser = _verb_parser(found.verb, module)
    options = parser.parse_args(found.rest, namespace=found)
    return int(module.run(options, _context(options)))


def _top_parser() -> Parser:
    parser = Parser(
        prog="kubeletctl",
        description="Look into a running kubelet, and ask it for things.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("-h", "--help", action=_Help, nargs=0, help="show this help and exit")
    _add_globals(parser)
    _add_output(parser)
    parser.add_argument("verb", nargs="?", help="one of the verbs below; each has its own --help")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _verb_parser(verb: str, module: Any) -> Parser:
    parser = Parser(
        prog=f"kubeletctl {verb}",
        description=module.__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_globals(parser)
    if not getattr(module, "OWN_OUTPUT", False):
        _add_output(parser)
    module.configure(parser)
    return parser


def _add_globals(parser: argparse.ArgumentParser) -> None:
    """Add what may stand before the verb and after it; no default, or the latter would win."""
    parser.add_argument(
        "--run-dir",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help=f"the kubelet's run directory (default ${VARIABLE} or {DEFAULT})",
    )
    parser.add_argument(
        "--no-color",
        action="store_true",
        default=argparse.SUPPRESS,
        help="no colours, as when NO_COLOR is set or the output is piped",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=[form.value for form in Format],
        default=argparse.SUPPRESS,
        help="form of the output (default text)",
    )


def _context(options: argparse.Namespace) -> Context:
    root = getattr(options, "run_dir", "") or os.environ.get(VARIABLE) or DEFAULT
    return Context(
        run_dir=RunDir(root),
        output=Format(getattr(options, "output", Format.TEXT)),
        screen=screen.detect(getattr(options, "no_color", False)),
    )


def print_help(parser: argparse.ArgumentParser) -> None:
    """List the verbs too, each with the first line of its own documentation."""
    lines = []
    for verb in VERBS:
        text = importlib.import_module(f"kubeletctl.commands.{verb}").__doc__ or ""
        lines.append(f"  {verb:9} {text.splitlines()[0]}")
    parser.epilog = "verbs:\n" + "\n".join(lines) + f"\n\n{EPILOG}"
    parser.print_help()


class _Help(argparse.Action):
    """Shows the help; that of argparse itself does not know the verbs."""

    def __call__(self, parser: argparse.ArgumentParser, *_rest: Any) -> NoReturn:
        print_help(parser)
        raise SystemExit(OK)


if __name__ == "__main__":
    raise SystemExit(command())
