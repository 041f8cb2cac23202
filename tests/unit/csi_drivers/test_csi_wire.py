"""Our wire types against the published ones, message by message, field by field."""

from __future__ import annotations

import subprocess
import sys

import pytest
from google.protobuf import descriptor_pb2

from procs.volumes.csi.wire import csi_pb2, registration_pb2
from tests.tools.published import download
from tests.unit.cri.test_cri_wire import enum_facts, message_facts, named, names, service_facts

CSI = ("github.com/container-storage-interface/spec", "v1.12.0", ".", "csi.proto")
REGISTRATION = ("k8s.io/kubelet", "v0.36.4", "pkg/apis/pluginregistration/v1", "api.proto")
OURS = {"csi": csi_pb2, "registration": registration_pb2}
PUBLISHED = {"csi": CSI, "registration": REGISTRATION}
# Services that neither a kubelet nor a driver of ours has, and what only they use.
LEFT_OUT = ("GroupController", "SnapshotMetadata")
SECRET_OPTION = 1059  # csi_secret, an extension of FieldOptions


def ours(which):
    """Our description of an interface."""
    file = descriptor_pb2.FileDescriptorProto()
    OURS[which].DESCRIPTOR.CopyToProto(file)
    return file


MESSAGES = [(which, name) for which in OURS for name in sorted(names(ours(which).message_type))]
SERVICES = [(which, name) for which in OURS for name in sorted(names(ours(which).service))]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The published interfaces as descriptors, by our names for them."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed: no protoc")
    found = {}
    for which, (module, version, directory, file) in PUBLISHED.items():
        source = download(module, version) / directory
        target = tmp_path_factory.mktemp("published") / f"{which}.pb"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{source}"]
        subprocess.run([*command, f"--descriptor_set_out={target}", file], check=True)
        found[which] = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file[-1]
    return found


def facts(message):
    """What is on the wire of a message: options are for people and generators."""
    found = message_facts(message)

    def bare(part):
        part.pop("options")
        for field in part["fields"].values():
            field.pop("options")
        for nested in part["messages"].values():
            bare(nested)

    bare(found)
    return found


@pytest.mark.parametrize(("which", "name"), MESSAGES)
def test_csi_message_is_the_published_one(published, which, name):
    """Every field has the published name, number, type, label and oneof."""
    theirs = named(published[which].message_type, name)
    assert facts(named(ours(which).message_type, name)) == facts(theirs)


@pytest.mark.parametrize(("which", "name"), SERVICES)
def test_csi_service_is_the_published_one(published, which, name):
    """Every call of a service takes and gives the published messages."""
    theirs = named(published[which].service, name)
    assert service_facts(named(ours(which).service, name)) == service_facts(theirs)


def test_only_what_nobody_here_speaks_is_left_out(published):
    """All services but two are there, with every message that they use."""
    theirs = published["csi"]
    assert names(theirs.service) - names(ours("csi").service) == set(LEFT_OUT)
    missing = names(theirs.message_type) - names(ours("csi").message_type)
    used = {
        kind.rpartition(".")[2]
        for service in theirs.service
        if service.name not in LEFT_OUT
        for method in service.method
        for kind in (method.input_type, method.output_type)
    }
    assert not missing & used
    assert enum_facts(named(theirs.enum_type, "BlockMetadataType"))  # of snapshot metadata
    assert names(ours("registration").message_type) == names(published["registration"].message_type)


def test_every_secret_field_is_called_so(published):
    """What the interface marks as secret is what is never shown, which goes by the name."""
    marked = {
        field.name
        for message in published["csi"].message_type
        for field in message.field
        if _marked(field)
    }
    assert marked == {"secrets"}


def _marked(field):
    # The extension is not known here, so it is looked for as bytes: its tag with wire type varint.
    tag, encoded = SECRET_OPTION << 3, b""
    while tag:
        encoded += bytes([(tag & 0x7F) | (0x80 if tag > 0x7F else 0)])
        tag >>= 7
    return encoded in field.options.SerializeToString()
