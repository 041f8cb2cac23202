"""The effective configuration: typed reading, origins, masking, and the way through JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelet import config
from kubelet.config import Effective, Unimplemented
from kubelet.config.table import FIELDS, FLAGS


@pytest.fixture(scope="module")
def plain():
    return config.load([]).config


def test_typed_reading(plain):
    """Each getter gives its type."""
    assert plain.duration("syncFrequency") == 60.0
    assert plain.int("port") == 10250
    assert plain.str("cgroupDriver") == "cgroupfs"
    assert plain.bool("failSwapOn") is True
    assert plain.flag("run-dir") == "/run/kubelet"
    assert plain.flag("max-pods") == plain.get("--max-pods") == plain.get("maxPods") == 110
    assert plain.duration("--heartbeat-timeout") == 5.0
    assert plain.get("singleProcessOOMKill") is None


@pytest.mark.parametrize(
    ("getter", "name"),
    [("int", "failSwapOn"), ("bool", "port"), ("str", "port"), ("duration", "port")],
)
def test_the_wrong_getter_is_a_bug(plain, getter, name):
    """A value is never turned into another type silently."""
    with pytest.raises(TypeError, match=name):
        getattr(plain, getter)(name)


@pytest.mark.parametrize("name", ["nope", "--nope", "authentication", ""])
def test_an_unknown_name_is_a_bug(plain, name):
    """A misspelt name does not read as unset."""
    with pytest.raises(KeyError):
        plain.get(name)
    with pytest.raises(KeyError):
        plain.origin(name)


def test_what_is_read_cannot_change_the_configuration(plain):
    """Maps and lists are copies."""
    plain.get("evictionHard").clear()
    plain.kubelet["evictionHard"].clear()
    assert plain.get("evictionHard")["memory.available"] == "100Mi"
    with pytest.raises(AttributeError):
        plain.values = {}


def test_gates():
    """A gate is on by default, by name, or with all of its stage."""
    chosen = config.load(["--feature-gates=AllAlpha=true,QOSReserved=false,AllBeta=false"]).config
    assert chosen.gate("EventedPLEG")
    assert not chosen.gate("QOSReserved")
    assert not chosen.gate("MemoryQoS")
    assert chosen.gate("NodeSwap")
    plain = config.load([]).config
    assert not plain.gate("EventedPLEG")
    assert plain.gate("MemoryQoS")
    with pytest.raises(KeyError):
        plain.gate("Nope")


def test_changed_and_origin(files):
    """What the user set is known, with who set it."""
    loaded = files.load("port: 1\n", "--max-pods=5", "--run-dir=/r").config
    assert loaded.changed == ("--config", "--kubeconfig", "--run-dir", "maxPods", "port")
    assert loaded.origin("--run-dir") == "flag --run-dir"
    assert loaded.origin("--max-pods") == loaded.origin("maxPods") == "flag --max-pods"
    assert loaded.origin("--lock-file") == "default"


def test_document(plain):
    """The document has the nested form of the file, and loads again as it is."""
    document = plain.kubelet
    assert document["kind"] == "KubeletConfiguration"
    assert document["authentication"]["anonymous"] == {"enabled": True}
    assert document["logging"]["options"]["text"]["splitStream"] is False
    assert "tracing" not in document
    assert "singleProcessOOMKill" not in document


def test_document_loads_again(files, plain):
    """What is shown as the configuration is a valid file with the same meaning."""
    path = files.write(json.dumps(plain.kubelet), head=False)
    again = config.load([f"--config={path}"]).config
    assert again.values == plain.values


def test_masking(files):
    """C-6: header values are hidden, their names are not."""
    loaded = files.load("staticPodURLHeader: {Authorization: [hunter2, x]}\n").config
    assert loaded.masked()["staticPodURLHeader"] == {"Authorization": ["<masked>", "<masked>"]}
    assert loaded.get("staticPodURLHeader") == {"Authorization": ["hunter2", "x"]}
    assert "hunter2" not in str(loaded.unimplemented())


def test_unimplemented(files):
    """Nothing is silently ignored: what nobody acts on is listed, with who set it."""
    loaded = files.load("readOnlyPort: 5\nhealthzPort: 1\n", "--runtime-cgroups=/x").config
    path = f"{files.root}/kubelet.yaml"
    assert loaded.unimplemented(only_set=True) == [
        Unimplemented("readOnlyPort", 5, f"file {path}"),
        Unimplemented("--runtime-cgroups", "/x", "flag --runtime-cgroups"),
    ]
    everything = {item.name for item in loaded.unimplemented(only_set=False)}
    fields = {row.path for row in FIELDS if row.acted_on_by is None}
    flags = {f"--{row.name}" for row in FLAGS if not row.acted_on_by and row.field is None}
    assert everything == fields | flags


def test_json_is_lossless(files):
    """A child reads exactly what the supervisor loaded."""
    loaded = files.load("maxPods: 5\nmemoryThrottlingFactor: 0.8\n", "--node-labels=a=b,c=").config
    again = Effective.from_json(loaded.to_json())
    assert again == loaded
    assert again.changed == loaded.changed
    assert again.to_json() == loaded.to_json()


@given(st.binary(max_size=60))
def test_from_json_of_garbage(data):
    """Garbage is a ValueError."""
    with pytest.raises(ValueError):
        Effective.from_json(data)


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"values": {}}, {"values": []}, {"flags": None}, {"origins": 5}, {"flags": {}}],
)
def test_from_json_of_another_version(plain, change):
    """What another version wrote is refused, not half understood."""
    whole = json.loads(plain.to_json()) | change
    with pytest.raises(ValueError):
        Effective.from_json(json.dumps(whole).encode())


@pytest.mark.parametrize("data", [b"[]", b"5", b"null", b'"x"', b"{}", b"[" * 100_000])
def test_from_json_of_other_documents(data):
    """JSON that is no configuration is a ValueError."""
    with pytest.raises(ValueError):
        Effective.from_json(data)


def test_reading_needs_no_yaml_no_threads(plain):
    """A process that only reads the configuration loads neither YAML nor the loader."""
    code = (
        "import sys; from kubelet.config import Effective\n"
        "assert Effective.from_json(sys.stdin.buffer.read()).int('port') == 10250\n"
        "import threading; assert threading.active_count() == 1\n"
        "print([m for m in ('yaml', 'socket', 'kubelet.config.loader') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=plain.to_json(), capture_output=True, check=True
    )
    assert done.stdout.strip() == b"[]"


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--hostname-override= Node-1.Example "], "node-1.example"),
        ([], os.uname().nodename.strip().lower()),
    ],
)
def test_node_name(flags, name):
    """C-19: the override or the host name, trimmed and in lower case."""
    assert config.node_name(config.load(flags).config) == name


def test_empty_node_name(plain):
    """C-19: an empty name is an error."""
    blank = Effective(plain.values, {**plain.flags, "hostname-override": " "}, plain.origins)
    with pytest.raises(config.ConfigError, match="must not be empty"):
        config.node_name(blank)
