"""What is wrong with containers, in the API server's words."""

from __future__ import annotations

import pytest

from tests.unit.api.documents import problems
from tests.unit.api.phrases import IDS, IP, LABEL

C = "spec.containers[0]"
I = "spec.initContainers[0]"  # noqa: E741 - the tables are about C, I and E
E = "spec.ephemeralContainers[0]"

NAMES = [
    ({"spec.containers": []}, "spec.containers: Required value"),
    ({f"{C}.name": ""}, f"{C}.name: Required value"),
    ({f"{C}.name": "App"}, f'{C}.name: Invalid value: "App": {LABEL}'),
    (
        {f"{C}.name": "a" * 64},
        f'{C}.name: Invalid value: "{"a" * 64}": must be no more than 63 bytes',
    ),
    (
        {"spec.containers[1]": {"name": "app", "image": "i:1"}},
        'spec.containers[1].name: Duplicate value: "app"',
    ),
    ({I: {"name": "app", "image": "i:1"}}, f'{I}.name: Duplicate value: "app"'),
    ({E: {"name": "app", "image": "i:1"}}, f'{E}.name: Duplicate value: "app"'),
    ({f"{C}.image": ""}, f"{C}.image: Required value"),
    (
        {f"{C}.image": " app:1"},
        f'{C}.image: Invalid value: " app:1": must not have leading or trailing whitespace',
    ),
    (
        {f"{C}.imagePullPolicy": "Sometimes"},
        (
            f'{C}.imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", '
            '"IfNotPresent", "Never"'
        ),
    ),
    (
        {f"{C}.terminationMessagePolicy": "Log"},
        (
            f'{C}.terminationMessagePolicy: Unsupported value: "Log": supported values: '
            '"FallbackToLogsOnError", "File"'
        ),
    ),
]

PORTS = [
    ({f"{C}.ports": [{"name": "a"}]}, f"{C}.ports[0].containerPort: Required value"),
    (
        {f"{C}.ports": [{"containerPort": 70000}]},
        f"{C}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "hostPort": -1}]},
        f"{C}.ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "protocol": "ICMP"}]},
        f'{C}.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "hostIP": "host"}]},
        f'{C}.ports[0].hostIP: Invalid value: "host": {IP}',
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        f'{C}.ports[1].name: Duplicate value: "a"',
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "name": "a--b"}]},
        f'{C}.ports[0].name: Invalid value: "a--b": must not contain consecutive hyphens',
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "name": "a-"}]},
        f'{C}.ports[0].name: Invalid value: "a-": must not begin or end with a hyphen',
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "name": "80"}]},
        f'{C}.ports[0].name: Invalid value: "80": must contain at least one letter (a-z)',
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "name": "a" * 16}]},
        f'{C}.ports[0].name: Invalid value: "{"a" * 16}": must be no more than 15 bytes',
    ),
    (
        {f"{C}.ports": [{"containerPort": 1, "name": "a_b"}]},
        (
            f'{C}.ports[0].name: Invalid value: "a_b": must contain only alpha-numeric characters '
            "(a-z, 0-9), and hyphens (-)"
        ),
    ),
    (
        {
            f"{C}.ports": [{"containerPort": 1, "hostPort": 5}],
            "spec.containers[1]": {
                "name": "b",
                "image": "i:1",
                "ports": [{"containerPort": 2, "hostPort": 5}],
            },
        },
        'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//5"',
    ),
    (
        {
            I: {
                "name": "init",
                "image": "i:1",
                "ports": [
                    {"containerPort": 1, "hostPort": 5, "hostIP": "10.0.0.1"},
                    {"containerPort": 2, "hostPort": 5, "hostIP": "10.0.0.1"},
                ],
            }
        },
        f'{I}.ports[1].hostPort: Duplicate value: "TCP/10.0.0.1/5"',
    ),
    (
        {"spec.hostNetwork": True, f"{C}.ports": [{"containerPort": 1, "hostPort": 2}]},
        (
            f"{C}.ports[0].hostPort: Invalid value: 2: must match `containerPort` when "
            "`hostNetwork` "
            "is true"
        ),
    ),
]

R = f"{C}.resources"
RESOURCES = [
    (
        {R: {"limits": {"cpu": "much"}, "requests": {"cpu": "1"}}},
        (
            f'{R}.limits[cpu]: Invalid value: "much": must be a quantity such as "500m", '
            '"1.5Gi" or '
            '"2e3"'
        ),
    ),
    (
        {R: {"requests": {"cpu": "-1"}}},
        f'{R}.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        {R: {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
        f'{R}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        {R: {"limits": {"a.b/c": "2"}, "requests": {"a.b/c": "1"}}},
        f'{R}.requests: Invalid value: "1": must be equal to a.b/c limit of 2',
    ),
    (
        {R: {"requests": {"a.b/c": "1"}}},
        (
            f"{R}.limits: Required value: Limit must be set for non overcommitable resources "
            "such as "
            "a.b/c"
        ),
    ),
    (
        {R: {"requests": {"storage": "1"}}},
        (
            f'{R}.requests[storage]: Invalid value: "storage": must be a standard resource for '
            "containers"
        ),
    ),
    (
        {R: {"limits": {"hugepages-2Mi": "2Mi"}}},
        f"{R}: Forbidden: HugePages require cpu or memory",
    ),
    (
        {R: {"claims": [{"name": "gpu"}]}},
        (
            f'{R}.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims '
            "which is empty"
        ),
    ),
    (
        {
            "spec.resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
            R: {"claims": [{"name": "gpu", "request": "a"}, {"name": "gpu"}]},
        },
        f'{R}.claims[1]: Duplicate value: "gpu"',
    ),
    (
        {
            "spec.resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
            R: {"claims": [{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "a"}]},
        },
        f'{R}.claims[1]: Duplicate value: "gpu/a"',
    ),
    (
        {
            "spec.resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
            R: {"claims": [{"name": "tpu"}]},
        },
        (
            f'{R}.claims[0]: Not found: "tpu": must be one of the names in '
            "pod.spec.resourceClaims: "
            "gpu"
        ),
    ),
    (
        {f"{C}.resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]},
        (
            f'{C}.resizePolicy[0].resourceName: Unsupported value: "disk": supported values: '
            '"cpu", '
            '"memory"'
        ),
    ),
    (
        {
            "spec.restartPolicy": "Never",
            f"{C}.resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
        },
        (
            f'{C}.resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must be '
            "'NotRequired' when `restartPolicy` is 'Never'"
        ),
    ),
]

K = f"{C}.securityContext"
SECURITY = [
    ({f"{K}.runAsUser": -1}, f"{K}.runAsUser: Invalid value: -1: {IDS}"),
    ({f"{K}.runAsGroup": 2**31}, f"{K}.runAsGroup: Invalid value: 2147483648: {IDS}"),
    (
        {f"{K}.procMount": "Unmasked"},
        f'{K}.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`',
    ),
    (
        {f"{K}.procMount": "Masked"},
        f'{K}.procMount: Unsupported value: "Masked": supported values: "Default", "Unmasked"',
    ),
    (
        {K: {"privileged": True, "allowPrivilegeEscalation": False}},
        (
            f'{K}: Invalid value: {{"allowPrivilegeEscalation":false,"privileged":true}}: '
            "cannot set "
            "`allowPrivilegeEscalation` to false and `privileged` to true"
        ),
    ),
    (
        {K: {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}},
        (
            f'{K}: Invalid value: {{"allowPrivilegeEscalation":false,"capabilities":{{"add":'
            '["CAP_SYS_ADMIN"]}}: cannot set `allowPrivilegeEscalation` to false and '
            "`capabilities.Add` CAP_SYS_ADMIN"
        ),
    ),
    (
        {f"{K}.seccompProfile": {}},
        f"{K}.seccompProfile.type: Required value: type is required when seccompProfile is set",
    ),
    (
        {f"{K}.seccompProfile.type": "Strict"},
        (
            f'{K}.seccompProfile.type: Unsupported value: "Strict": supported values: "Localhost", '
            '"RuntimeDefault", "Unconfined"'
        ),
    ),
    (
        {f"{K}.seccompProfile.type": "Localhost"},
        (
            f"{K}.seccompProfile.localhostProfile: Required value: must be set when seccomp "
            "type is "
            "Localhost"
        ),
    ),
    (
        {f"{K}.seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}},
        f'{K}.seccompProfile.localhostProfile: Invalid value: "/a": must be a relative path',
    ),
    (
        {f"{K}.seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
        (
            f'{K}.seccompProfile.localhostProfile: Invalid value: "a": can only be set when '
            "seccomp "
            "type is Localhost"
        ),
    ),
    (
        {f"{K}.appArmorProfile": {}},
        f"{K}.appArmorProfile.type: Required value: type is required when appArmorProfile is set",
    ),
    (
        {f"{K}.appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}},
        (
            f'{K}.appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with '
            "whitespace"
        ),
    ),
    (
        {f"{K}.appArmorProfile": {"type": "Localhost"}},
        (
            f"{K}.appArmorProfile.localhostProfile: Required value: must be set when AppArmor "
            "type is "
            "Localhost"
        ),
    ),
    (
        {f"{K}.appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * 4096}},
        f"{K}.appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes",
    ),
]


@pytest.mark.parametrize(("changes", "expected"), [*NAMES, *PORTS, *RESOURCES, *SECURITY])
def test_problem(changes, expected):
    """A container with one thing wrong has one problem, said as the API server says it (P-7)."""
    assert problems(changes) == [expected]


def test_unknown_resource():
    """A resource without a prefix that is none is neither standard nor a container's."""
    path = f'{R}.limits[gpu]: Invalid value: "gpu": must be a standard resource'
    assert problems({R: {"limits": {"gpu": "1"}}})[:2] == [
        f"{path} type or fully qualified",
        f"{path} for containers",
    ]


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"a.b/c": "500m"}, '[a.b/c]: Invalid value: "500m": must be an integer'),
        (
            {"hugepages-2Mi": "3Mi", "cpu": "1"},
            (
                '[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
                "hugepages-2Mi"
            ),
        ),
    ],
)
def test_fractions(limits, problem):
    """What is counted in whole things is refused in parts, also where a request follows a limit."""
    found = problems({R: {"limits": limits}})
    assert found == [f"{R}.limits{problem}", f"{R}.requests{problem}"]
