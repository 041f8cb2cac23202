"""The commands that programs and exec know."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable

from .script import of_argv
from .shell import Exit, Listen, OnTerm, Shell, Steps, Wait, Write, execute, interactive

Command = Callable[[Shell, tuple[str, ...]], Steps]
COMMANDS: dict[str, Command] = {}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def command(*names: str) -> Callable[[Command], Command]:
    """Enter a function in the table of commands under these names."""

    def enter(function: Command) -> Command:
        COMMANDS.update(dict.fromkeys(names, function))
        return function

    return enter


def _say(text: str, stream: str = "stdout") -> Write:
    return Write(stream, text.encode())


def _done(code: int = 0) -> Steps:
    return code
    yield


def seconds(text: str) -> float | None:
    """The length of a sleep; None is for ever."""
    if text.startswith("inf"):
        return None
    unit = _UNITS.get(text[-1:], 0)
    return float(text[:-1]) * unit if unit else float(text)


# The simulator's own.


@command("run", "top", "pause", "tail")
def _run(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    yield Wait(None)
    return 0


@command("crash")
def _crash(_shell: Shell, args: tuple[str, ...]) -> Steps:
    yield Wait(float(args[0]) if args else 0.1)
    raise Exit(1)


@command("oom")
def _oom(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    raise Exit(137, "OOMKilled")
    yield


@command("dd")
def _dd(shell: Shell, args: tuple[str, ...]) -> Steps:
    """It takes a block of memory: more than the limit is its end."""
    size = next((a[3:] for a in args if a.startswith("bs=")), "512")
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(size[-1:].lower(), 0)
    wanted = int(size[:-1]) * factor if factor else int(size)
    if 0 < shell.memory_limit < wanted:
        raise Exit(137, "OOMKilled")
    yield Wait(None)
    return 0


@command("ignore-term")
def _ignore_term(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    yield OnTerm(None)
    return 0


@command("on-term")
def _on_term(_shell: Shell, args: tuple[str, ...]) -> Steps:
    yield OnTerm(int(args[0]) if args else 0, float(args[1]) if len(args) > 1 else 0.0)
    return 0


@command("flood")
def _flood(_shell: Shell, args: tuple[str, ...]) -> Steps:
    rate = float(args[0]) if args else 100.0
    text = " ".join(args[1:]) or "the quick brown fox jumps over the lazy dog"
    number, owed = 0, 0.0
    while True:
        owed += rate * 0.05
        while owed >= 1:
            owed -= 1
            number += 1
            yield _say(f"{number} {text}\n")
        yield Wait(0.05)


@command("listen", "httpd", "nginx")
def _listen(_shell: Shell, args: tuple[str, ...]) -> Steps:
    yield Listen(int(args[0]) if args and args[0].isdigit() else 80)
    return 0


@command("fail-create", "fail-start", "slow-start")
def _before(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    return _done()  # looked at before the program runs: see programs.py


# The shell's.


@command("true", ":", "set", "ulimit", "sync", "mount", "umount", "chmod", "chown", "wait")
def _true(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    return _done()


@command("false")
def _false(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    return _done(1)


@command("exit")
def _exit(_shell: Shell, args: tuple[str, ...]) -> Steps:
    raise Exit(int(args[0]) & 255 if args else 0)
    yield


@command("sleep")
def _sleep(_shell: Shell, args: tuple[str, ...]) -> Steps:
    yield Wait(seconds(args[0]) if args else 0)
    return 0


@command("echo")
def _echo(_shell: Shell, args: tuple[str, ...]) -> Steps:
    end = "\n"
    while args and args[0] in ("-n", "-e", "-ne", "-en"):
        end = "" if "n" in args[0] else end
        args = args[1:]
    yield _say(" ".join(args) + end)
    return 0


@command("printf")
def _printf(_shell: Shell, args: tuple[str, ...]) -> Steps:
    form = (args[0] if args else "").replace("\\n", "\n").replace("\\t", "\t")
    values = args[1 : 1 + form.count("%s") + form.count("%d")]
    yield _say(form.replace("%d", "%s") % values)
    return 0


@command("cat", "head")
def _cat(shell: Shell, args: tuple[str, ...]) -> Steps:
    code = 0
    for path in args:
        if path.startswith("-"):
            continue
        try:
            yield _say(shell.read(path))
        except OSError as err:
            text = err.strerror or "No such file or directory"
            yield _say(f"cat: can't open '{path}': {text}\n", "stderr")
            code = 1
    return code


@command("ls")
def _ls(shell: Shell, args: tuple[str, ...]) -> Steps:
    code = 0
    for path in [a for a in args if not a.startswith("-")] or ["/"]:
        host = shell.on_host(path)
        if host is not None and os.path.isdir(host):
            names = sorted(os.listdir(host))
        elif path in shell.files or (host is not None and os.path.exists(host)):
            names = [path]
        else:
            under = path.rstrip("/") + "/"
            names = sorted(
                {p[len(under) :].split("/")[0] for p in shell.files if p.startswith(under)}
            )
            if not names and path != "/":
                yield _say(f"ls: {path}: No such file or directory\n", "stderr")
                code = 1
        yield _say("".join(f"{name}\n" for name in names))
    return code


@command("touch")
def _touch(shell: Shell, args: tuple[str, ...]) -> Steps:
    for path in args:
        shell.write(path, "", append=True)
    return _done()


@command("rm")
def _rm(shell: Shell, args: tuple[str, ...]) -> Steps:
    code = 0
    for path in [a for a in args if not a.startswith("-")]:
        if shell.files.pop(path, None) is None and not {"-f", "-rf"} & set(args):
            yield _say(f"rm: can't remove '{path}': No such file or directory\n", "stderr")
            code = 1
    return code


@command("mkdir")
def _mkdir(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    return _done()


@command("test", "[")
def _test(shell: Shell, args: tuple[str, ...]) -> Steps:
    args = tuple(a for a in args if a != "]")
    if len(args) == 2 and args[0] in ("-f", "-e", "-d", "-s"):
        host = shell.on_host(args[1])
        there = os.path.exists(host) if host is not None else args[1] in shell.files
        return _done(0 if there else 1)
    if len(args) == 3 and args[1] in ("=", "==", "!="):
        return _done(0 if (args[0] == args[2]) != (args[1] == "!=") else 1)
    return _done(0 if args and args[0] not in ("", "-n") else 1)


@command("env", "printenv")
def _env(shell: Shell, args: tuple[str, ...]) -> Steps:
    if args:
        if args[0] not in shell.env:
            return 1
        yield _say(shell.env[args[0]] + "\n")
        return 0
    yield _say("".join(f"{k}={v}\n" for k, v in shell.env.items()))
    return 0


@command("hostname")
def _hostname(shell: Shell, _args: tuple[str, ...]) -> Steps:
    yield _say(shell.hostname + "\n")
    return 0


@command("date")
def _date(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    now = dt.datetime.now(tz=dt.UTC)
    yield _say(now.strftime("%a %b %e %H:%M:%S UTC %Y\n"))
    return 0


@command("id")
def _id(shell: Shell, args: tuple[str, ...]) -> Steps:
    if "-u" in args or "-g" in args:
        yield _say(f"{shell.uid if '-u' in args else shell.gid}\n")
    else:
        yield _say(f"uid={shell.uid} gid={shell.gid}\n")
    return 0


@command("whoami")
def _whoami(shell: Shell, _args: tuple[str, ...]) -> Steps:
    yield _say("root\n" if shell.uid == 0 else f"{shell.uid}\n")
    return 0


@command("pwd")
def _pwd(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    yield _say("/\n")
    return 0


@command("uname")
def _uname(_shell: Shell, _args: tuple[str, ...]) -> Steps:
    yield _say("Linux\n")
    return 0


@command("ps", "pgrep")
def _ps(shell: Shell, args: tuple[str, ...]) -> Steps:
    wanted = args[-1] if args and not args[-1].startswith("-") else ""
    found = {pid: t for pid, t in shell.pids.items() if wanted in t.split()[0]}
    yield _say(
        "".join(f"{pid}\n" if wanted else f"{pid} root {text}\n" for pid, text in found.items())
    )
    return 0 if found else 1


@command("kill")
def _kill(_shell: Shell, args: tuple[str, ...]) -> Steps:
    yield _say("kill: processes of a simulated container cannot be signalled\n", "stderr")
    return 1 if args else 2


@command("trap")
def _trap(_shell: Shell, args: tuple[str, ...]) -> Steps:
    if not {"TERM", "SIGTERM", "15"} & set(args[1:]):
        return 0
    words = args[0].split()
    if not words or words == [":"]:
        yield OnTerm(None)
    else:
        last = words[-1] if words[-2:-1] == ["exit"] else "0"
        yield OnTerm(int(last) if last.isdigit() else 0)
    return 0


@command("sh", "bash", "ash", "dash")
def _sh(shell: Shell, args: tuple[str, ...]) -> Steps:
    if "-c" in args:
        return execute(of_argv(("sh", *args)), shell)
    return interactive(shell)
