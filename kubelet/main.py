"""The ``kubelet`` command: configuration, checks, and then the supervisor."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from kubelet import __version__, config, quantities, sharing, startup
from kubelet import logging as klog
from kubelet.config import Effective
from supervisor import boot, kinds, privileges, reload
from supervisor.exits import ExitCode
from supervisor.limits import own_limits
from supervisor.listeners import ListenAddress
from supervisor.notify import Notifier, watchdog_period
from supervisor.rundir import RunDirError
from supervisor.settings import Settings
from supervisor.supervisor import Supervisor

log = klog.get_logger(__name__)

DEFAULT_USER = "kubelet"
# What every process needs: imported once, shared by all.
PRELOAD = (
    "asyncio",
    "encodings.idna",
    "linecache",
    "msgpack",
    "zmq",
    "kubelet.process.frame",
    "kubelet.process.sampler",
    # Each a page of story over light imports; what only one process needs, it imports when it runs.
    *(kind.entry.partition(":")[0] for kind in kinds.KINDS),
)


def command() -> None:
    """Entry point of the ``kubelet`` script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run the kubelet; its exit code (K-8)."""
    try:
        loaded = config.load(argv)
    except config.HelpWanted:
        print(config.help_text())
        return ExitCode.ASKED
    except config.VersionWanted as wanted:
        print(config.version_text(wanted.kind))
        return ExitCode.ASKED
    except config.ConfigError as err:
        return _refuse(err.problems)
    try:
        return _start(loaded)
    except (ValueError, RunDirError) as err:
        return _refuse([str(err)])


def _refuse(problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"kubelet: {problem}", file=sys.stderr)
    return ExitCode.FAILED


def _start(loaded: config.Loaded) -> int:
    effective = loaded.config
    legacy = reload.take_legacy(os.environ, os.getpid())
    settings = _settings(effective)
    klog.configure(_logging(effective))
    klog.set_process(kinds.SUPERVISOR)
    if os.environ.get(reload.TRIAL):
        return _trial(effective)
    watchdog = watchdog_period(os.environ, os.getpid())
    _say(loaded)
    problems = _check_node(effective)
    if problems:
        return _refuse(problems)
    notes = (*own_limits(settings), settings.identity.note or "")
    settings = replace(settings, notes=tuple(filter(None, notes)))
    for note in settings.notes:
        log.info("Noted", note=note)
    held = boot.claim(settings, legacy)
    _share_root(effective)
    notifier = Notifier(os.environ)
    if not notifier.connected:
        log.v(1, "No NOTIFY_SOCKET: nobody is told when this is ready")
    return Supervisor(settings, notifier, watchdog, legacy, held).run()


def _settings(effective: Effective) -> Settings:
    listeners = []
    port = effective.int("healthzPort")
    if port > 0:
        address = effective.str("healthzBindAddress")
        listeners.append(ListenAddress("healthz", address, port, "api"))
    identity = privileges.resolve(effective.flag("unprivileged-user"), DEFAULT_USER)
    return Settings(
        run_dir=os.path.abspath(effective.flag("run-dir")),
        node=config.node_name(effective),
        version=__version__,
        identity=identity,
        config=effective,
        config_json=effective.to_json(),
        command=_own_command(),
        heartbeat_timeout=effective.duration("--heartbeat-timeout"),
        heartbeat_interval=effective.duration("--heartbeat-interval"),
        listeners=tuple(listeners),
        oom_score_adj=effective.int("oomScoreAdj"),
        max_open_files=effective.int("maxOpenFiles"),
        lock_file=effective.flag("lock-file"),
        exit_on_lock_contention=effective.flag("exit-on-lock-contention"),
        preload=PRELOAD,
    )


def _own_command() -> tuple[str, ...]:
    """What to execute for a reload: the installed script, which may be of a newer version then."""
    script = os.path.abspath(sys.argv[0])
    if os.access(script, os.X_OK) and not script.endswith(".py"):
        return (script, *sys.argv[1:])
    return (sys.executable, "-m", "kubelet.main", *sys.argv[1:])


def _logging(effective: Effective) -> klog.Settings:
    kind = effective.str("logging.format")
    options = f"logging.options.{kind}"
    return klog.Settings(
        format=kind,
        verbosity=effective.int("logging.verbosity"),
        vmodule=tuple((m["filePattern"], m["verbosity"]) for m in effective.get("logging.vmodule")),
        split_stream=effective.bool(f"{options}.splitStream"),
        info_buffer=int(quantities.parse(effective.str(f"{options}.infoBufferSize")).value),
        flush_seconds=effective.duration("logging.flushFrequency"),
    )


def _say(loaded: config.Loaded) -> None:
    log.info("Kubelet starting", version=__version__, kubernetes=config.VERSION)
    for warning in loaded.warnings:
        log.warning("Configuration", warning=warning)
    ignored = [item.name for item in loaded.config.unimplemented(only_set=True)]
    if ignored:
        log.warning("Set, but not acted on by this version yet", fields=ignored)
    if log.enabled(5):
        log.v(5, "KubeletConfiguration", configuration=loaded.config.masked())


def _check_node(effective: Effective) -> list[str]:
    """Look at the node and set its kernel up; what speaks against a start."""
    problems = []
    for finding in (*startup.check(effective), *startup.apply(effective)):
        if finding.severity is startup.Severity.ERROR:
            problems.append(finding.text)
        else:
            _log(finding)
    return problems


def _share_root(effective: Effective) -> None:
    """Make the root directory a shared mount, now that nothing speaks against a start (L-2)."""
    finding = sharing.share(os.path.abspath(effective.str("--root-dir")))
    if finding is not None:
        _log(finding)


def _log(finding: startup.Finding) -> None:
    if finding.severity is startup.Severity.WARNING:
        log.warning("Node", finding=finding.text)
    else:
        log.info("Node", finding=finding.text)


def _trial(effective: Effective) -> int:
    """Prove that this code and this configuration can start, and start nothing."""
    for module in PRELOAD:
        importlib.import_module(module)
    found = startup.check(effective)
    problems = [f.text for f in found if f.severity is startup.Severity.ERROR]
    return _refuse(problems) if problems else ExitCode.ASKED


if __name__ == "__main__":
    command()
