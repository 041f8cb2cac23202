"""The program language, without a server."""

from __future__ import annotations

import pytest

from kubelet.cri import api_pb2 as pb

from .commands import COMMANDS
from .images import Images, Picture, canonical
from .programs import choose
from .script import BadProgram, of_argv, parse
from .shell import Exit, Listen, OnTerm, Shell, Wait, Write, execute


def steps(text: str, limit: int = 20, **shell):
    """What a program does, with its code at the end; a wait without end is its end."""
    running = execute(parse(text), Shell(commands=COMMANDS, **shell))
    done = []
    for _ in range(limit):
        try:
            operation = next(running)
        except StopIteration as end:
            return [*done, end.value]
        except Exit as end:
            return [*done, (end.code, end.reason)]
        done.append(operation.data.decode() if isinstance(operation, Write) else operation)
        if operation == Wait(None):
            return done
    return done


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exit 3", [3]),
        ("sleep 2; exit 1", [Wait(2.0), 1]),
        ("true && echo yes || echo no", ["yes\n", 0]),
        ("false && echo yes || echo no", ["no\n", 0]),
        ("echo 'a  b' \"$NAME\" ${NAME}x '$NAME'", ["a  b sim simx $NAME\n", 0]),
        ("echo -n hello", ["hello", 0]),
        ("crash 0.5", [Wait(0.5), 1]),
        ("oom", [(137, "OOMKilled")]),
        ("trap '' TERM; run", [OnTerm(None), Wait(None)]),
        ("trap 'exit 7' TERM; sleep infinity", [OnTerm(7), Wait(None)]),
        ("on-term 4 1.5; run", [OnTerm(4, 1.5), Wait(None)]),
        ("listen 8080; run", [Listen(8080), Wait(None)]),
        ("some-server --flag", [Wait(None)]),
        ("touch /tmp/x; test -f /tmp/x && rm /tmp/x; cat /tmp/x", None),
    ],
)
def test_programs_mean_what_a_shell_would_do(text, expected):
    """Each statement gives its operations and its code."""
    done = steps(text, env={"NAME": "sim"})
    if expected is None:
        assert done == ["cat: can't open '/tmp/x': No such file or directory\n", 1]
    else:
        assert done == expected


def test_a_loop_goes_on_without_end():
    """A while loop repeats its body, with its waits."""
    done = steps("while true; do echo tick; sleep 1; done", limit=6)
    assert done == ["tick\n", Wait(1.0)] * 3


def test_output_goes_where_it_is_sent():
    """A redirection writes a file of the container; >&2 writes to the other stream."""
    shell = Shell(commands=COMMANDS)
    running = execute(parse("echo one > /f; echo two >> /f; cat /f; echo bad >&2"), shell)
    assert list(running) == [Write("stdout", b"one\ntwo\n"), Write("stderr", b"bad\n")]


def test_a_command_nobody_knows_is_not_found_by_exec():
    """In exec, unlike in a container's own program, an unknown command ends with 127."""
    shell = Shell(commands=COMMANDS, unknown="fail")
    running = execute(of_argv(("frobnicate",)), shell)
    assert next(running) == Write("stderr", b"sh: frobnicate: not found\n")


@pytest.mark.parametrize("text", ["while true; do echo x", "echo >", "done", "a | b"])
def test_text_that_is_no_program_says_why(text):
    """A program that cannot be read is an error with words."""
    with pytest.raises(BadProgram):
        parse(text)


def test_the_program_comes_from_annotation_command_or_image():
    """The annotation is stronger than the command, the command than the image."""
    config = pb.ContainerConfig()
    config.metadata.name = "c"
    config.image.image = "sim/exit:3"
    pod = pb.PodSandboxConfig()
    assert choose(config, pod, Picture()).block == parse("exit 3; run")
    config.command.append("top")
    assert choose(config, pod, Picture()).block == of_argv(("top",))
    pod.annotations["sim/program.c"] = "fail-start no such file; run"
    assert choose(config, pod, Picture()).fail_start == "no such file"


def test_images_have_one_identity_by_content():
    """The same path from another registry is the same image; its names add up."""
    images = Images()
    first = images.pull("registry.k8s.io/pause:3.9")
    assert images.pull("k8s.gcr.io/pause:3.9") is first
    assert first.tags == ["registry.k8s.io/pause:3.9", "k8s.gcr.io/pause:3.9"]
    assert canonical("busybox") == "docker.io/library/busybox:latest"
    images.remove("k8s.gcr.io/pause:3.9")
    assert images.find("registry.k8s.io/pause:3.9") is None
