"""From a command line to the effective configuration, in the order of C-1.

Parse the flags; answer --help and --version; read --config; merge --config-dir; fill in
defaults; put the flags on top; validate. Problems are gathered all along and raised together.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubelet import durations
from kubelet.config import documents, gates, layers, pflag, thresholds
from kubelet.config.effective import Effective
from kubelet.config.errors import ConfigError, HelpWanted, Problem, VersionWanted, shown
from kubelet.config.layers import BUILT_IN, Layer, Origin, flag_origin
from kubelet.config.pflag import Parsed
from kubelet.config.rules import RULES, Fault, View
from kubelet.config.table import FIELDS, FLAG_BY_NAME, FLAGS, defaults
from kubelet.config.table.tls import INSECURE_CIPHERS

# C-3: what a kubelet without a configuration file does, as it did before there were any.
LEGACY: Final[dict[str, Any]] = {
    "authentication.anonymous.enabled": True,
    "authentication.webhook.enabled": False,
    "authorization.mode": "AlwaysAllow",
    "readOnlyPort": 10255,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that can be used, and what should be said about it."""

    config: Effective
    warnings: tuple[str, ...]


def load(argv: Sequence[str]) -> Loaded:
    """Read the whole configuration.

    ``argv`` holds the arguments without the program's name. Raises ConfigError with every
    problem, or HelpWanted or VersionWanted when the command line asks for that.
    """
    parsed = pflag.parse(argv)
    if not parsed.problems:
        _answer(parsed)
    flags = defaults() | {n: v for n, v in parsed.values.items() if FLAG_BY_NAME[n].field is None}
    problems = list(parsed.problems)
    layer = _files(flags["config"], flags["config-dir"], problems)
    values = layers.filled(layer)
    origins = _overlay(values, layer, parsed)
    broken = _failed(layer, parsed)
    _adapt(flags, origins, broken)
    problems += _validate(values, flags, origins, broken)
    if problems:
        raise ConfigError(tuple(dict.fromkeys(map(str, problems))))
    _settle(values, flags)
    effective = Effective(values, flags, _labels(origins))
    return Loaded(effective, tuple(_warnings(parsed, effective)))


def _answer(parsed: Parsed) -> None:
    """Leave at once if only the help or the version is wanted."""
    if parsed.values.get("help"):
        raise HelpWanted
    if (kind := parsed.values.get("version", "false")) != "false":
        raise VersionWanted(kind)


# --- files -----------------------------------------------------------------------------------


def _files(main: str, folder: str, problems: list[Problem]) -> Layer:
    """Read the configuration file and the drop-ins over it."""
    layer = Layer()
    if main:
        layer.lay(_file(main, problems))
    else:
        for path, value in LEGACY.items():
            layer.put(path, value, BUILT_IN)
    for path in _drop_ins(folder, problems) if folder else ():
        layer.lay(_file(path, problems))
    return layer


def _file(path: str, problems: list[Problem]) -> Layer:
    """Read one file; when it is unreadable, nothing can be said about any field."""
    try:
        document = documents.read(path)
    except documents.Unreadable as err:
        problems += err.problems
        return Layer(failed={row.path for row in FIELDS})
    layer, found = layers.decode(document)
    problems += found
    return layer


def _drop_ins(folder: str, problems: list[Problem]) -> list[str]:
    """List the *.conf files under a directory, depth first, in the order of names (C-4)."""
    out: list[str] = []
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else str(err)
        problems.append(Problem("--config-dir", "config-dir", shown(folder), reason))
        return out
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            out += _drop_ins(entry.path, problems)
        elif entry.name.endswith(".conf"):
            out.append(entry.path)
    return out


# --- flags over files ------------------------------------------------------------------------


def _overlay(values: dict[str, Any], layer: Layer, parsed: Parsed) -> dict[str, Origin]:
    """Put the flags over the files, and return who set what."""
    origins = {path: origin for path, origin in layer.origins.items() if origin is not BUILT_IN}
    for name, value in parsed.values.items():
        path = FLAG_BY_NAME[name].field
        origins[path or f"--{name}"] = flag_origin(name)
        if path == "featureGates":  # the file's gates stay unless the flag names them too
            values[path] = values[path] | value
        elif path:
            values[path] = value
    return origins


def _failed(layer: Layer, parsed: Parsed) -> set[str]:
    """Return the fields and flags whose value could not be read, so is not the user's."""
    bad = {problem.where[2:] for problem in parsed.problems if problem.where.startswith("--")}
    rows = [FLAG_BY_NAME[name] for name in bad if name in FLAG_BY_NAME]
    by_flag = {FLAG_BY_NAME[name].field for name in parsed.values}
    out = {path for path in layer.failed if path not in by_flag}
    return out | {row.field or f"--{row.name}" for row in rows}


def _adapt(flags: dict[str, Any], origins: dict[str, Origin], broken: set[str]) -> None:
    """Let the heartbeats follow a short time-out, unless they are set themselves."""
    name, whole = "heartbeat-interval", "heartbeat-timeout"
    if f"--{name}" not in origins and broken.isdisjoint({f"--{name}", f"--{whole}"}):
        most = durations.parse(flags[whole]) // 4
        flags[name] = durations.render(min(durations.parse(flags[name]), max(most, 1)))


def _settle(values: dict[str, Any], flags: dict[str, Any]) -> None:
    """Normalise what has more than one spelling."""
    values["seccompDefault"] = values["seccompDefault"] or flags["seccomp-default"]
    values["podPidsLimit"] = max(values["podPidsLimit"], -1)
    if values["cgroupsPerQOS"] and not values["cgroupRoot"]:
        values["cgroupRoot"] = "/"


def _labels(origins: dict[str, Origin]) -> dict[str, str]:
    return {name: origin.label for name, origin in origins.items()}


# --- validation ------------------------------------------------------------------------------


def _validate(
    values: dict[str, Any], flags: dict[str, Any], origins: dict[str, Origin], broken: set[str]
) -> list[Problem]:
    """Check every value by its row, then all of them by the rules."""
    single = [fault for fault in _single_faults(values, flags) if fault[0] not in broken]
    blame = Origin("", flags["config"]) if flags["config"] else BUILT_IN
    problems = [_problem(fault, origins, blame) for fault in single]
    wrong = broken | {name for name, _, _ in single}
    view = View(values, flags)
    for rule in RULES:
        if wrong.isdisjoint(rule.reads):
            # A default can be at fault only because of something that the user did set.
            set_by = next((origins[name] for name in rule.reads if name in origins), blame)
            problems += [_problem(fault, origins, set_by) for fault in rule.find(view)]
    return problems


def _single_faults(values: dict[str, Any], flags: dict[str, Any]) -> Iterator[Fault]:
    """Find the values that their own row does not allow."""
    rows = [(row.path, row.check, values[row.path]) for row in FIELDS]
    rows += [(f"--{f.name}", f.check, flags[f.name]) for f in FLAGS if f.field is None]
    for name, check, value in rows:
        allowed = check(value) if check and value is not None else None
        if allowed:
            yield name, value, allowed


def _problem(fault: Fault, origins: dict[str, Origin], otherwise: Origin) -> Problem:
    name, value, allowed = fault
    origin = origins.get(_row_of(name), otherwise)
    return Problem(origin.where, name.removeprefix("--"), shown(value, name), allowed)


def _row_of(name: str) -> str:
    """Return the field or flag that a path lies in."""
    name = name.partition("[")[0]
    return "featureGates" if name.startswith("featureGates.") else name


# --- warnings --------------------------------------------------------------------------------


def _warnings(parsed: Parsed, config: Effective) -> list[str]:
    """Say what works, but should not be left so."""
    lines = [f"Flag --{flag.name} is deprecated: {flag.deprecated}" for flag in parsed.deprecated]
    lines += gates.warnings(config.get("featureGates"))
    if weak := [name for name in config.get("tlsCipherSuites") if name in INSECURE_CIPHERS]:
        lines.append(f"tlsCipherSuites contains insecure suites: {', '.join(weak)}")
    if config.get("tlsCipherSuites") and config.str("tlsMinVersion") == "VersionTLS13":
        lines.append("tlsCipherSuites has no effect: TLS 1.3 chooses its own suites")
    for name in ("evictionHard", "evictionSoft"):
        if ignored := [key for key in config.get(name) if key in thresholds.DERIVED]:
            lines.append(f"{name} of {', '.join(ignored)} has no effect: it follows the others")
    lines += _address_warnings(config)
    if config.str("--unprivileged-user").partition(":")[0] in {"0", "root"}:
        lines.append("--unprivileged-user is root: no process gives up its privileges")
    return lines


def _address_warnings(config: Effective) -> list[str]:
    bad = []
    for text in config.get("clusterDNS"):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            bad.append(f"clusterDNS {shown(text)} is no IP address and is left out")
    return bad
