"""Find out what a process spends its time on: a flame graph, and the ten heaviest functions.

The process samples itself for some seconds and goes on working meanwhile. In mode cpu (default) a
stack weighs the processor time that was spent in it, in microseconds; in mode wall it weighs the
time that passed, waiting included, in samples.

-o FILE says where the flame graph goes ("-" is standard output; default flame-<process>.svg), and
-o json or -o yaml what form the printed report takes; both may be given. --collapsed FILE writes
the stacks as text, "frame;frame;frame weight", which other tools read as well.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubeletctl import flame
from kubeletctl.context import Context, process_name
from kubeletctl.errors import NOT_THERE, OK, CtlError
from kubeletctl.output import Format, emit
from kubeletctl.rundir import load_state
from kubeletctl.words import plain
from supervisor.kinds import SUPERVISOR

OWN_OUTPUT = True
TOP = 10
GRACE = 10.0  # seconds beyond those of the profile itself
MAX_SECONDS, MAX_HERTZ = 300.0, 1000
UNITS = {"cpu": "microseconds", "wall": "samples"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what to profile, how, and where to."""
    parser.add_argument("process", help="which process to profile")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--hertz", type=int, default=200, help="samples a second (default 200)")
    parser.add_argument("--mode", choices=sorted(UNITS), default="cpu", help="(default cpu)")
    parser.add_argument(
        "-o", dest="to", action="append", default=[], metavar="FILE", help="see above"
    )
    parser.add_argument("--collapsed", metavar="FILE", help="write the stacks as text")


def run(options: argparse.Namespace, context: Context) -> int:
    """Profile, write the files, print the report."""
    name = process_name(options.process)
    if name == SUPERVISOR:
        raise CtlError(
            "The supervisor has no channel to be asked over, so it cannot be profiled; "
            "'kubeletctl dump supervisor' shows where it stands"
        )
    _check(options)
    files = [word for word in options.to if word not in list(Format)]
    form = next((Format(word) for word in options.to if word in list(Format)), context.output)
    if not files and not options.collapsed:
        files = [f"flame-{name}.svg"]
    load_state(context.run_dir)
    stacks = _ask(context, name, options)
    _write(files, options.collapsed, stacks, _title(name, options))
    report = document(name, options.mode, stacks, [*files, *filter(None, [options.collapsed])])
    if "-" in report["files"]:
        print("\n".join(render(report)), file=sys.stderr)
    elif form is Format.TEXT:
        print("\n".join(render(report)))
    else:
        emit(report, form)
    return OK


def _check(options: argparse.Namespace) -> None:
    wrong = []
    if not 0 < options.seconds <= MAX_SECONDS:
        wrong.append(f"--seconds is {options.seconds:g}, allowed is above 0 up to {MAX_SECONDS:g}")
    if not 1 <= options.hertz <= MAX_HERTZ:
        wrong.append(f"--hertz is {options.hertz}, allowed is 1 to {MAX_HERTZ}")
    if wrong:
        raise CtlError("; ".join(wrong), NOT_THERE)


def _ask(context: Context, name: str, options: argparse.Namespace) -> dict[str, int]:
    from kubelet.channels import client, messages  # ZeroMQ is slow to import
    from kubelet.channels.errors import ChannelError

    if sys.stderr.isatty():
        print(f"profiling {name} for {options.seconds:g} s ...", file=sys.stderr)
    request = messages.Profile(options.seconds, options.hertz, options.mode)
    try:
        answer = client.call(Path(context.run_dir.root), name, request, options.seconds + GRACE)
    except ChannelError as problem:
        raise CtlError(f"No profile: {problem}") from None
    return answer.stacks


def _title(name: str, options: argparse.Namespace) -> tuple[str, str]:
    what = "processor time" if options.mode == "cpu" else "time, waiting included"
    moment = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return f"{name}: {what}", f"{options.seconds:g} s at {options.hertz} Hz, {moment}"


def _write(
    files: list[str], collapsed: str | None, stacks: Mapping[str, int], title: tuple[str, str]
) -> None:
    unit = "µs" if title[0].endswith("processor time") else "samples"
    for file in files:
        _save(file, flame.render(stacks, title=title[0], subtitle=title[1], unit=unit))
    if collapsed:
        _save(collapsed, "".join(f"{stack} {stacks[stack]}\n" for stack in sorted(stacks)))


def _save(file: str, text: str) -> None:
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CtlError(f"Could not write {file}: {problem.strerror}") from None


def document(name: str, mode: str, stacks: Mapping[str, int], files: list[str]) -> dict[str, Any]:
    """Return the report for programs."""
    total = sum(stacks.values())
    heaviest = [
        {
            "function": frame.function,
            "place": frame.place,
            "weight": weight,
            "percent": round(100 * weight / total, 2),
        }
        for frame, weight in flame.self_weights(stacks)[:TOP]
        if total
    ]
    return {
        "process": name,
        "mode": mode,
        "unit": UNITS[mode],
        "total": total,
        "stacks": len(stacks),
        "self": heaviest,
        "files": files,
    }


def render(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    total = report["total"]
    whole = f"{total / 1000:.1f} ms of CPU" if report["mode"] == "cpu" else f"{total} samples"
    lines = [f"{report['process']}: {whole} in {report['stacks']} different stacks"]
    if report["self"]:
        lines += ["", "self time of the heaviest functions:"]
    lines += [
        f"{one['percent']:6.2f}%  {plain(one['function'])}"
        + (f"  ({plain(one['place'])})" if one["place"] else "")
        for one in report["self"]
    ]
    if report["mode"] == "cpu" and not _was_sampled(report):
        lines += ["", "It used too little CPU to be sampled: profile longer, or with --mode wall."]
    written = [file for file in report["files"] if file != "-"]
    return [*lines, "", f"written: {', '.join(written)}"] if written else lines


def _was_sampled(report: dict[str, Any]) -> bool:
    """Whether any of the heaviest is a function, not one of the sampler's own words."""
    return any(one["place"] for one in report["self"])
