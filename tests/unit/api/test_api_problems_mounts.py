"""What is wrong with variables and mounts of containers, in the API server's words."""

from __future__ import annotations

import pytest

from tests.unit.api.documents import problems

C = "spec.containers[0]"
ENV = "a valid environment variable name must consist only of printable ASCII characters"


def _value(source, **more):
    return {f"{C}.env": [{"name": "A", "valueFrom": source, **more}]}


V = f"{C}.env[0].valueFrom"
FIELDS = (
    '"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", '
    '"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"'
)
ENVIRONMENT = [
    ({f"{C}.env": [{"value": "a"}]}, f"{C}.env[0].name: Required value"),
    (
        {f"{C}.env": [{"name": "A=B"}]},
        f"{C}.env[0].name: Invalid value: \"A=B\": {ENV} other than '='",
    ),
    (
        {f"{C}.env": [{"name": "Ä"}]},
        f"{C}.env[0].name: Invalid value: \"Ä\": {ENV} other than '='",
    ),
    (
        _value({}),
        (
            f'{V}: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
            "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        ),
    ),
    (
        _value({"fieldRef": {"fieldPath": "status.podIP"}}, value="x"),
        f'{V}: Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        _value(
            {
                "fieldRef": {"fieldPath": "status.podIP"},
                "secretKeyRef": {"name": "a", "key": "b"},
            }
        ),
        f'{V}: Invalid value: "": may not have more than one field specified at a time',
    ),
    (_value({"fieldRef": {"fieldPath": ""}}), f"{V}.fieldRef.fieldPath: Required value"),
    (
        _value({"fieldRef": {"fieldPath": "metadata.labels"}}),
        f'{V}.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: {FIELDS}',
    ),
    (
        _value({"fieldRef": {"fieldPath": "spec.nodeName", "apiVersion": "v2"}}),
        f'{V}.fieldRef.apiVersion: Unsupported value: "v2": supported values: "v1"',
    ),
    (
        _value({"fieldRef": {"fieldPath": "metadata.name['a']"}}),
        f'{V}.fieldRef.fieldPath: Invalid value: "metadata.name": does not support subscript',
    ),
    (
        _value({"fieldRef": {"fieldPath": "metadata.labels['/a']"}}),
        f'{V}.fieldRef.fieldPath: Invalid value: "/a": prefix part must be non-empty',
    ),
    (_value({"resourceFieldRef": {}}), f"{V}.resourceFieldRef.resource: Required value"),
    (
        _value({"resourceFieldRef": {"resource": "limits.gpu"}}),
        (
            f'{V}.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: '
            '"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
            '"requests.ephemeral-storage", "requests.memory"'
        ),
    ),
    (
        _value({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
        (
            f'{V}.resourceFieldRef.divisor: Invalid value: "2": only divisor\'s values 1m and 1 '
            "are "
            "supported with the cpu resource"
        ),
    ),
    (
        _value({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1m"}}),
        (
            f'{V}.resourceFieldRef.divisor: Invalid value: "1m": only divisor\'s values 1, 1k, 1M, '
            "1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"
        ),
    ),
    (
        _value({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "one"}}),
        (
            f'{V}.resourceFieldRef.divisor: Invalid value: "one": must be a quantity such as '
            '"500m", '
            '"1.5Gi" or "2e3"'
        ),
    ),
    (_value({"secretKeyRef": {"name": "a"}}), f"{V}.secretKeyRef.key: Required value"),
    (
        _value({"configMapKeyRef": {"name": "a", "key": ".."}}),
        f"{V}.configMapKeyRef.key: Invalid value: \"..\": must not be '..'",
    ),
    (
        _value({"configMapKeyRef": {"name": "a", "key": "..b"}}),
        f"{V}.configMapKeyRef.key: Invalid value: \"..b\": must not start with '..'",
    ),
    (
        _value({"fileKeyRef": {"path": "e", "key": "A"}}),
        f"{V}.fileKeyRef.volumeName: Required value",
    ),
    (
        _value({"fileKeyRef": {"volumeName": "nope", "path": "e", "key": "A"}}),
        f'{V}.fileKeyRef.volumeName: Not found: "nope"',
    ),
    (
        _value({"fileKeyRef": {"volumeName": "data", "path": "/e", "key": "A"}}),
        f'{V}.fileKeyRef.path: Invalid value: "/e": must be a relative path',
    ),
    (
        _value({"fileKeyRef": {"volumeName": "data", "path": "e"}}),
        f"{V}.fileKeyRef.key: Required value",
    ),
    (
        {f"{C}.envFrom": [{}]},
        f'{C}.envFrom[0]: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
    ),
    (
        {f"{C}.envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]},
        f'{C}.envFrom[0]: Invalid value: "": may not have more than one field specified at a time',
    ),
    ({f"{C}.envFrom": [{"secretRef": {}}]}, f"{C}.envFrom[0].secretRef.name: Required value"),
    (
        {f"{C}.envFrom": [{"prefix": "=", "secretRef": {"name": "a"}}]},
        f"{C}.envFrom[0].prefix: Invalid value: \"=\": {ENV} other than '='",
    ),
]

M = f"{C}.volumeMounts[0]"
D = f"{C}.volumeDevices[0]"
MOUNT = {"name": "data", "mountPath": "/d"}
CLAIM = {"name": "disk", "persistentVolumeClaim": {"claimName": "c"}}
MOUNTS = [
    ({M: {"mountPath": "/d"}}, f"{M}.name: Required value"),
    ({M: {"name": "nope", "mountPath": "/d"}}, f'{M}.name: Not found: "nope"'),
    ({M: {"name": "data"}}, f"{M}.mountPath: Required value"),
    (
        {f"{C}.volumeMounts": [MOUNT, MOUNT]},
        f'{C}.volumeMounts[1].mountPath: Invalid value: "/d": must be unique',
    ),
    (
        {M: {**MOUNT, "subPath": "/a"}},
        f'{M}.subPath: Invalid value: "/a": must be a relative path',
    ),
    (
        {M: {**MOUNT, "subPath": "a/../b"}},
        f"{M}.subPath: Invalid value: \"a/../b\": must not contain '..'",
    ),
    (
        {M: {**MOUNT, "subPathExpr": "../$(A)"}},
        f"{M}.subPathExpr: Invalid value: \"../$(A)\": must not contain '..'",
    ),
    (
        {M: {**MOUNT, "subPath": "a", "subPathExpr": "b"}},
        f'{M}.subPathExpr: Invalid value: "b": subPathExpr and subPath are mutually exclusive',
    ),
    (
        {M: {**MOUNT, "mountPropagation": "Both"}},
        (
            f'{M}.mountPropagation: Unsupported value: "Both": supported values: "Bidirectional", '
            '"HostToContainer", "None"'
        ),
    ),
    (
        {M: {**MOUNT, "mountPropagation": "Bidirectional"}},
        (
            f"{M}.mountPropagation: Forbidden: Bidirectional mount propagation is available "
            "only to "
            "privileged containers"
        ),
    ),
    (
        {M: {**MOUNT, "recursiveReadOnly": "Yes"}},
        (
            f'{M}.recursiveReadOnly: Unsupported value: "Yes": supported values: "Disabled", '
            '"Enabled", "IfPossible"'
        ),
    ),
    (
        {M: {**MOUNT, "recursiveReadOnly": "Enabled"}},
        f"{M}.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
    ),
    (
        {
            M: {
                **MOUNT,
                "readOnly": True,
                "recursiveReadOnly": "Enabled",
                "mountPropagation": "HostToContainer",
            }
        },
        (
            f"{M}.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is "
            "None "
            "or not specified"
        ),
    ),
    ({D: {"devicePath": "/dev/a"}}, f"{D}.name: Required value"),
    ({D: {"name": "nope", "devicePath": "/dev/a"}}, f'{D}.name: Not found: "nope"'),
    (
        {D: {"name": "data", "devicePath": "/dev/a"}},
        (
            f'{D}.name: Invalid value: "data": can only use volume source type of '
            "PersistentVolumeClaim or Ephemeral for block mode"
        ),
    ),
    ({"spec.volumes[1]": CLAIM, D: {"name": "disk"}}, f"{D}.devicePath: Required value"),
    (
        {"spec.volumes[1]": CLAIM, D: {"name": "disk", "devicePath": "/dev/../a"}},
        f"{D}.devicePath: Invalid value: \"/dev/../a\": can not contain backsteps ('..')",
    ),
    (
        {
            "spec.volumes": [CLAIM, {**CLAIM, "name": "two"}],
            f"{C}.volumeDevices": [
                {"name": "disk", "devicePath": "/dev/a"},
                {"name": "two", "devicePath": "/dev/a"},
            ],
        },
        f'{C}.volumeDevices[1].devicePath: Invalid value: "/dev/a": must be unique',
    ),
]


@pytest.mark.parametrize(("changes", "expected"), [*ENVIRONMENT, *MOUNTS])
def test_problem(changes, expected):
    """A variable or a mount with one thing wrong has one problem (P-7)."""
    assert problems(changes) == [expected]


def test_mount_beside_device():
    """A volume is a file system or a device in a container, and a place holds one of them."""
    both = {
        "spec.volumes[1]": CLAIM,
        D: {"name": "disk", "devicePath": "/d"},
        M: {"name": "disk", "mountPath": "/d"},
    }
    assert problems(both) == [
        f'{M}.name: Invalid value: "disk": must not already exist in volumeDevices',
        f'{M}.mountPath: Invalid value: "/d": must not already exist as a path in volumeDevices',
        f'{D}.name: Invalid value: "disk": must not already exist in volumeMounts',
        f'{D}.devicePath: Invalid value: "/d": must not already exist as a path in volumeMounts',
    ]
