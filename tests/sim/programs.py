"""Which program a container runs, and what it sees."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kubelet.cri import api_pb2 as pb

from .commands import COMMANDS
from .images import Picture, split_reference
from .model import Container, Sandbox
from .script import BadProgram, Block, Command, of_argv, parse
from .shell import Shell

ANNOTATION = "sim/program"


@dataclass(frozen=True, slots=True)
class Program:
    """A container's program, with what happens before it runs."""

    block: Block
    fail_create: str = ""
    fail_start: str = ""
    slow_start: float = 0.0


def choose(config: pb.ContainerConfig, pod: pb.PodSandboxConfig, image: Picture | None) -> Program:
    """The program of a container. ``BadProgram`` when the text of an annotation is none."""
    text = (
        config.annotations.get(ANNOTATION)
        or pod.annotations.get(f"{ANNOTATION}.{config.metadata.name}")
        or pod.annotations.get(ANNOTATION)
    )
    if text:
        return _program(parse(text))
    argv = (*config.command, *config.args)
    if config.command or (argv and not (image and image.program)):
        try:
            return _program(of_argv(argv))
        except BadProgram as err:
            # A real script may say more than the language knows: then it is a server that runs.
            print(f"sim: {config.metadata.name} just runs: {err}", file=sys.stderr, flush=True)
            return _program(parse("run"))
    asked = config.image.user_specified_image or config.image.image
    own = _of_name(asked) or (image.program if image else "")
    return _program(parse(own or "run"))


def _of_name(reference: str) -> str:
    """The program in an image's name: sim/exit:3 is "exit 3"."""
    path, tag, _digest = split_reference(reference)
    owner, _, word = path.rpartition("/")
    if owner.rsplit("/", 1)[-1] != "sim" or word not in COMMANDS:
        return ""
    return word if tag in ("", "latest") else f"{word} {tag.replace('_', ' ')}; run"


def _program(block: Block) -> Program:
    values = {"fail-create": "", "fail-start": "", "slow-start": "0"}
    shell = Shell()
    for _operator, statement in block.statements:
        if isinstance(statement, Command) and statement.words and statement.words[0] in values:
            words = [w if statement.raw else shell.expand(w) for w in statement.words[1:]]
            values[statement.words[0]] = " ".join(words) or f"simulated {statement.words[0]}"
    slow = float(values["slow-start"])
    return Program(block, values["fail-create"], values["fail-start"], slow)


def shell_of(container: Container, sandbox: Sandbox | None, files: dict[str, str]) -> Shell:
    """What a program of this container sees."""
    pod = sandbox.config if sandbox else pb.PodSandboxConfig()
    config = container.config
    hostname = pod.hostname or pod.metadata.name or container.id[:12]
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    env["HOSTNAME"] = hostname
    env.update((e.key, _text(e.value)) for e in config.envs)
    for path, text in _system_files(pod, hostname, sandbox.ip if sandbox else "").items():
        files.setdefault(path, text)
    context = config.linux.security_context
    return Shell(
        env=env,
        hostname=hostname,
        files=files,
        mounts=tuple((m.container_path, m.host_path, m.readonly) for m in config.mounts),
        commands=COMMANDS,
        memory_limit=config.linux.resources.memory_limit_in_bytes,
        uid=context.run_as_user.value,
        gid=context.run_as_group.value,
    )


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _system_files(pod: pb.PodSandboxConfig, hostname: str, ip: str) -> dict[str, str]:
    dns = pod.dns_config
    lines = [f"nameserver {server}" for server in dns.servers]
    lines += [f"search {' '.join(dns.searches)}"] if dns.searches else []
    lines += [f"options {' '.join(dns.options)}"] if dns.options else []
    files = {
        "/etc/resolv.conf": "".join(f"{line}\n" for line in lines),
        "/etc/hostname": f"{hostname}\n",
        "/etc/hosts": f"127.0.0.1\tlocalhost\n{ip}\t{hostname}\n",
    }
    for key, value in pod.linux.sysctls.items():
        files["/proc/sys/" + key.replace(".", "/")] = f"{value}\n"
    return files
