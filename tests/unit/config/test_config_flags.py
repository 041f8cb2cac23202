"""The command line is read as Go's pflag reads it, and every mistake is told at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet import config
from kubelet.config import pflag
from kubelet.config.table import FLAGS


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["--max-pods=7"], "maxPods", 7),
        (["--max-pods", "7"], "maxPods", 7),
        (["--max_pods=7"], "maxPods", 7),
        (["--max-pods=0x10"], "maxPods", 16),
        (["--max-pods=010"], "maxPods", 8),
        (["--max-pods=0o10"], "maxPods", 8),
        (["--max-pods=1_000"], "maxPods", 1000),
        (["--max-pods=+7"], "maxPods", 7),
        (["--oom-score-adj", "-5"], "oomScoreAdj", -5),
        (["--oom-score-adj=-010"], "oomScoreAdj", -8),
        (["--max-pods=1", "--max-pods=2"], "maxPods", 2),
        (["--max-pods=0"], "maxPods", 0),
        (["-v=2"], "logging.verbosity", 2),
        (["-v", "2"], "logging.verbosity", 2),
        (["-v2"], "logging.verbosity", 2),
        (["--v=2"], "logging.verbosity", 2),
        (["--fail-swap-on=false"], "failSwapOn", False),
        (["--fail-swap-on=F"], "failSwapOn", False),
        (["--protect-kernel-defaults"], "protectKernelDefaults", True),
        (["--protect-kernel-defaults", "--max-pods=3"], "maxPods", 3),
        (["--cluster-dns=10.0.0.1,10.0.0.2"], "clusterDNS", ["10.0.0.1", "10.0.0.2"]),
        (
            ["--cluster-dns=10.0.0.1", "--cluster-dns", "10.0.0.2"],
            "clusterDNS",
            ["10.0.0.1", "10.0.0.2"],
        ),
        (["--cluster-dns="], "clusterDNS", []),
        (["--enforce-node-allocatable="], "enforceNodeAllocatable", []),
        (
            ["--system-reserved=cpu=100m, memory=1024Mi"],
            "systemReserved",
            {"cpu": "100m", "memory": "1Gi"},
        ),
        (
            ["--system-reserved=cpu=1", "--system-reserved=pid=5"],
            "systemReserved",
            {"cpu": "1", "pid": "5"},
        ),
        (
            ["--eviction-hard=memory.available<5%,nodefs.available<1Gi"],
            "evictionHard",
            {"memory.available": "5%", "nodefs.available": "1Gi"},
        ),
        (["--eviction-hard="], "evictionHard", {}),
        (
            [
                "--eviction-soft=memory.available<5%",
                "--eviction-soft-grace-period=memory.available=1m",
            ],
            "evictionSoftGracePeriod",
            {"memory.available": "1m"},
        ),
        (
            ["--register-with-taints=a=b:NoSchedule,example.com/c:NoExecute"],
            "registerWithTaints",
            [
                {"key": "a", "value": "b", "effect": "NoSchedule"},
                {"key": "example.com/c", "effect": "NoExecute"},
            ],
        ),
        (
            ["--reserved-memory=0:memory=1Gi,hugepages-2Mi=2Mi;1:memory=1024Mi"],
            "reservedMemory",
            [
                {"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "2Mi"}},
                {"numaNode": 1, "limits": {"memory": "1Gi"}},
            ],
        ),
        (
            ["--manifest-url-header=a:b,a:c", "--manifest-url-header=a:d"],
            "staticPodURLHeader",
            {"a": ["b", "c", "d"]},
        ),
        (
            ["--vmodule=a=1,b*=2"],
            "logging.vmodule",
            [{"filePattern": "a", "verbosity": 1}, {"filePattern": "b*", "verbosity": 2}],
        ),
        (["--sync-frequency=90s"], "syncFrequency", "1m30s"),
        (["--container-log-max-size=2048Ki"], "containerLogMaxSize", "2Mi"),
        (
            ["--node-labels=a=b,c", "--node-labels=d="],
            "--node-labels",
            {"a": "b", "c": "", "d": ""},
        ),
        (
            ["--allowed-unsafe-sysctls", "net.*,kernel.msgmax"],
            "allowedUnsafeSysctls",
            ["net.*", "kernel.msgmax"],
        ),
        (["--run-dir=/x"], "--run-dir", "/x"),
        (["--pod-max-pids=-7"], "podPidsLimit", -1),
        (["--provider-id", "--x"], "providerID", "--x"),
        (["--image-service-endpoint="], "imageServiceEndpoint", ""),
    ],
)
def test_values(argv, name, value):
    """C-1, C-2: every spelling of a flag gives the value that Go would see."""
    assert config.load(argv).config.get(name) == value


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--no-such"], "--no-such: unknown flag: --help lists the flags"),
        (["--max-podz=1"], "--max-podz: unknown flag: 1: did you mean --max-pods?"),
        (["--max-podz", "1"], "--max-podz: unknown flag: 1: did you mean --max-pods?"),
        (["-x"], "-x: unknown flag: only -v and -h have one dash"),
        (["-max-pods=5"], "-m: unknown flag: did you mean --max-pods?"),
        (["--max-pods"], "--max-pods: needs a value: int32"),
        (["-v"], "-v: needs a value: uint32"),
        (["-v=x"], '--v: logging.verbosity: "x": must be an integer from 0 to 4294967295'),
        (
            ["--max-pods=x"],
            '--max-pods: maxPods: "x": must be an integer from -2147483648 to 2147483647',
        ),
        (
            ["--max-pods=2147483648"],
            "--max-pods: maxPods: 2147483648: must be an integer from -2147483648 to 2147483647",
        ),
        (["--fail-swap-on=maybe"], '--fail-swap-on: failSwapOn: "maybe": must be true or false'),
        (
            ["--sync-frequency=5"],
            (
                '--sync-frequency: syncFrequency: "5": must be a duration such as '
                '"300ms", "1m30s" or "2h"'
            ),
        ),
        (["--address=here"], '--address: address: "here": must be an IPv4 or IPv6 address'),
        (
            ["--system-reserved=cpu"],
            (
                '--system-reserved: systemReserved: "cpu": must be key=value '
                "pairs with commas between them"
            ),
        ),
        (
            ["--system-reserved=cpu=1x"],
            (
                '--system-reserved: systemReserved[cpu]: "1x": must be a '
                'quantity such as "500m", "1.5Gi" or "2e3"'
            ),
        ),
        (
            ["--cgroup-driver=x"],
            '--cgroup-driver: cgroupDriver: "x": must be one of "cgroupfs", "systemd"',
        ),
        (
            ["--register-with-taints=a"],
            (
                '--register-with-taints: registerWithTaints: "a": must be '
                "key=value:Effect, with commas between several"
            ),
        ),
        (
            ["--reserved-memory=x"],
            (
                '--reserved-memory: reservedMemory: "x": must be '
                "node:resource=quantity,...;node:... as in 0:memory=1Gi;1:memory=2Gi"
            ),
        ),
        (
            ["--vmodule=a"],
            '--vmodule: logging.vmodule: "a": must be pattern=N, with commas between several',
        ),
        (["run"], 'command line: unknown command: "run": only flags are allowed'),
        (
            ["--", "--max-pods=3"],
            'command line: unknown command: "--max-pods=3": only flags are allowed',
        ),
        (["-"], 'command line: unknown command: "-": only flags are allowed'),
        (
            ["--container-runtime=docker"],
            (
                "--container-runtime: unknown flag: docker: the flag was "
                "removed from the kubelet: every runtime is reached through "
                "containerRuntimeEndpoint"
            ),
        ),
        (
            ["--cni-bin-dir=/x"],
            (
                "--cni-bin-dir: unknown flag: /x: the flag was removed from the "
                "kubelet: the container runtime is configured for networking"
            ),
        ),
        (
            ["--windows-service"],
            ("--windows-service: unknown flag: a flag of the kubelet for Windows, not known here"),
        ),
        (["--version=maybe"], '--version: version: "maybe": must be true or false'),
        (
            ["--max-pods=\x1b[31m"],
            (
                '--max-pods: maxPods: "\\u001b[31m": must be an integer from '
                "-2147483648 to 2147483647"
            ),
        ),
        (["--a\nb"], "--a\\nb: unknown flag: --help lists the flags"),
    ],
)
def test_mistakes(flag_problems, argv, line):
    """Each mistake is one line that names the flag, the value and what is allowed."""
    assert line in flag_problems(*argv)


def test_every_mistake_at_once(flag_problems):
    """One run tells everything that is wrong."""
    found = flag_problems(
        "--max-pods=x", "--nope", "stray", "--port=0", "--heartbeat-timeout=1ms", "--node-ip=?"
    )
    assert [line.split(":")[0] for line in found] == [
        "--max-pods",
        "--nope",  # and "stray", which can only be its value
        "--port",
        "--heartbeat-timeout",
        "--node-ip",
    ]


def test_a_secret_header_is_not_shown(flag_problems):
    """A mistake in a header does not print the header."""
    (line,) = flag_problems("--manifest-url-header=Bearer hunter2")
    assert "hunter2" not in line


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["--help=true"], ["--max-pods=1", "-h"]])
def test_help_is_asked_for(argv):
    """C-1: --help ends the start before any file is read."""
    with pytest.raises(config.HelpWanted):
        config.load([*argv, "--config=/nonexistent"])


@pytest.mark.parametrize(
    ("flag", "kind"), [("--version", "true"), ("--version=raw", "raw"), ("--version=1", "true")]
)
def test_version_is_asked_for(flag, kind):
    """C-1: --version ends the start before any file is read."""
    with pytest.raises(config.VersionWanted) as caught:
        config.load([flag, "--config=/nonexistent"])
    assert caught.value.kind == kind


def test_help_comes_before_version_and_after_parsing(flag_problems):
    """C-1: the order is parse, help, version."""
    with pytest.raises(config.HelpWanted):
        config.load(["--version", "--help"])
    assert flag_problems("--help", "--nope")
    assert config.load(["--help=false", "--version=false"]).config.int("port") == 10250


def test_version_text():
    """V-2: the version is that of the behaviour; raw adds the details and our own version."""
    assert config.version_text() == "Kubernetes v1.37.0"
    raw = config.version_text("raw")
    assert raw.startswith('version.Info{Major:"1", Minor:"37", GitVersion:"v1.37.0"')
    assert 'Distribution:"kubelet ' in raw


def test_deprecated_flags_warn_once_each():
    """A deprecated flag works, and says where the setting belongs."""
    loaded = config.load(["--max-pods=1", "--max-pods=2", "--maximum-dead-containers=3", "-v=1"])
    assert loaded.warnings == (
        "Flag --max-pods is deprecated: set maxPods in the file given by --config",
        "Flag --maximum-dead-containers is deprecated: kept for old command lines; it will go",
    )


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_is_settable(flag):
    """Every flag takes its own default, so none is dead in the table."""
    if flag.default in (None, {}, []) or isinstance(flag.default, dict | list):
        return
    text = str(flag.default).lower() if isinstance(flag.default, bool) else str(flag.default)
    parsed = pflag.parse([f"--{flag.name}={text}"])
    assert not parsed.problems
    assert parsed.values == {flag.name: flag.default}


@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_arguments_give_an_answer(argv):
    """Arbitrary words end in a configuration, a wish or a ConfigError, never a crash."""
    _load(argv)


@given(
    st.lists(
        st.builds(
            lambda flag, text: f"--{flag.name}={text}",
            st.sampled_from([f for f in FLAGS if f.name not in {"config", "config-dir"}]),
            st.one_of(
                st.text(max_size=20),
                st.text(alphabet="0123456789abcKMi=,:;<%-+.*/_\"'", max_size=15),
            ),
        ),
        max_size=4,
    )
)
def test_any_values_give_an_answer(argv):
    """Arbitrary values of real flags never crash, and every problem is one line."""
    _load(argv)


def _load(argv):
    try:
        loaded = config.load(argv)
    except (config.HelpWanted, config.VersionWanted):
        return
    except config.ConfigError as err:
        problems = err.problems
    else:
        problems = None
    if problems is not None:
        assert problems
        assert all(len(line.splitlines()) == 1 for line in problems)
        return
    assert config.Effective.from_json(loaded.config.to_json()) == loaded.config
