"""Our wire types against the published ones, message by message, field by field."""

from __future__ import annotations

import subprocess
import sys

import pytest
from google.protobuf import descriptor_pb2

from kubelet.cri import api_pb2 as pb
from tests.tools.published import download

MODULE = "k8s.io/cri-api"
VERSION = "v0.37.2"
Field = descriptor_pb2.FieldDescriptorProto

OURS = descriptor_pb2.FileDescriptorProto()
pb.DESCRIPTOR.CopyToProto(OURS)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The published interface as a descriptor."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed: no protoc")
    source = download(MODULE, VERSION) / "pkg/apis/runtime/v1"
    target = tmp_path_factory.mktemp("published") / "api.pb"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{source}"]
    subprocess.run([*command, f"--descriptor_set_out={target}", "api.proto"], check=True)
    files = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    assert [file.package for file in files] == ["runtime.v1"]
    return files[0]


def field_facts(message):
    """Everything about a message's fields that is on the wire, or in its meaning."""
    return {
        field.name: {
            "number": field.number,
            "type": Field.Type.Name(field.type),
            "label": Field.Label.Name(field.label),
            "of": field.type_name,
            "oneof": message.oneof_decl[field.oneof_index].name
            if field.HasField("oneof_index")
            else None,
            "optional": field.proto3_optional,
            "default": field.default_value,
            "options": str(field.options),
        }
        for field in message.field
    }


def message_facts(message):
    """A message with all that is declared inside it."""
    return {
        "fields": field_facts(message),
        "oneofs": sorted(oneof.name for oneof in message.oneof_decl),
        "enums": {enum.name: enum_facts(enum) for enum in message.enum_type},
        "messages": {nested.name: message_facts(nested) for nested in message.nested_type},
        "reserved": sorted((span.start, span.end) for span in message.reserved_range),
        "reserved names": sorted(message.reserved_name),
        "options": str(message.options),
    }


def enum_facts(enum):
    """Names and numbers, aliases included."""
    return sorted((value.name, value.number) for value in enum.value)


def service_facts(service):
    """Each call: what goes in, what comes out, and which way streams."""
    return {
        method.name: (
            method.input_type,
            method.output_type,
            method.client_streaming,
            method.server_streaming,
        )
        for method in service.method
    }


def named(items, name):
    return next((item for item in items if item.name == name), None)


def names(items):
    return {item.name for item in items}


def test_nothing_is_missing_and_nothing_is_added(published):
    """The same messages, enums and services exist in both; the counts are those of the facts."""
    assert names(OURS.message_type) == names(published.message_type)
    assert names(OURS.enum_type) == names(published.enum_type)
    assert names(OURS.service) == names(published.service)
    assert {service.name: len(service.method) for service in OURS.service} == {
        "RuntimeService": 37,
        "ImageService": 6,
    }
    assert (OURS.package, OURS.syntax) == (published.package, published.syntax)


@pytest.mark.parametrize("name", sorted(names(OURS.message_type)))
def test_message(published, name):
    """Every field has the published name, number, type, label, oneof and options."""
    ours, theirs = named(OURS.message_type, name), named(published.message_type, name)
    assert message_facts(ours) == message_facts(theirs)


@pytest.mark.parametrize("name", sorted(names(OURS.enum_type)))
def test_enum(published, name):
    """Every value has the published name and number."""
    assert enum_facts(named(OURS.enum_type, name)) == enum_facts(named(published.enum_type, name))


@pytest.mark.parametrize("name", sorted(names(OURS.service)))
def test_service(published, name):
    """Every call takes and gives the published messages, and streams the same way."""
    assert service_facts(named(OURS.service, name)) == service_facts(named(published.service, name))


def test_the_comparison_sees_a_difference():
    """A number, a type, a label or a name that is off would be noticed."""
    base = message_facts(named(OURS.message_type, "ContainerStatus"))
    for change in (
        {"number": 4711},
        {"type": Field.TYPE_BYTES},
        {"label": Field.LABEL_REPEATED},
        {"name": "ident"},
        {"proto3_optional": True},
    ):
        altered = descriptor_pb2.DescriptorProto()
        altered.CopyFrom(named(OURS.message_type, "ContainerStatus"))
        for attribute, value in change.items():
            setattr(altered.field[0], attribute, value)
        assert message_facts(altered) != base, change
