"""The checked-in stubs, and what importing them costs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.cri import generate
from kubelet.cri.client import ImageClient, RuntimeClient
from kubelet.cri.operations import operation


def test_the_stubs_are_what_the_generator_makes():
    """Generating again gives the same bytes, so nobody edits them by hand."""
    try:
        assert generate.differing() == []
    except generate.GenerateError as error:
        pytest.skip(str(error))


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize(
    ("client", "service"), [(RuntimeClient, "RuntimeService"), (ImageClient, "ImageService")]
)
def test_every_call_has_a_method_of_its_name(client, service):
    """The client covers the interface, under names that can be guessed."""
    calls = pb.DESCRIPTOR.services_by_name[service].methods_by_name
    assert [name for name in calls if not callable(getattr(client, snake(name), None))] == []


def loaded(module):
    """Which modules are there once this one is imported, in a new process."""
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_client_does_without_the_service_stubs():
    """They cost memory in each process, and a client has no use for them."""
    modules = loaded("kubelet.cri.client")
    assert "kubelet.cri.api_pb2" in modules
    assert "kubelet.cri.api_pb2_grpc" not in modules


@pytest.mark.parametrize("module", ["errors", "endpoint", "timeouts", "operations"])
def test_what_only_names_things_is_free_of_grpc(module):
    """A process that only catches the errors does not load gRPC or protobuf."""
    assert not {"grpc", "google.protobuf"} & loaded(f"kubelet.cri.{module}")


def test_operations_are_spelled_as_the_metrics_spell_them():
    """Dashboards of a Go kubelet find the same values of operation_type."""
    assert {call: operation(call) for call in SPELLED} == SPELLED


SPELLED = {
    "Version": "version",
    "ListPodSandbox": "list_podsandbox",
    "RunPodSandbox": "run_podsandbox",
    "PodSandboxStatus": "podsandbox_status",
    "ListPodSandboxStats": "list_podsandbox_stats",
    "UpdatePodSandboxResources": "update_podsandbox_resources",
    "UpdateContainerResources": "update_container",
    "ReopenContainerLog": "reopen_container_log",
    "ExecSync": "exec_sync",
    "ImageFsInfo": "image_fs_info",
    "GetContainerEvents": "get_container_events",
}
