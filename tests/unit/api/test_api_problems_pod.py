"""What is wrong with a pod as a whole, in the API server's words."""

from __future__ import annotations

import pytest

from tests.unit.api.documents import problems
from tests.unit.api.phrases import IDS, IP, LABEL, NAME_PART, SUBDOMAIN, VALUE

A = "metadata.annotations"
X = "spec.securityContext"
C = "spec.containers[0]"
SYSCTL = (
    "must have at most 253 characters and match regex "
    "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)

METADATA = [
    ({"metadata.name": ""}, "metadata.name: Required value: name or generateName is required"),
    ({"metadata.name": "a_b"}, f'metadata.name: Invalid value: "a_b": {SUBDOMAIN}'),
    (
        {"metadata.name": "a" * 254},
        f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 bytes',
    ),
    ({"metadata.namespace": ""}, "metadata.namespace: Required value"),
    ({"metadata.namespace": "a.b"}, f'metadata.namespace: Invalid value: "a.b": {LABEL}'),
    (
        {"metadata.generation": -1},
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
    ),
    ({"metadata.labels": {"-a": "b"}}, f'metadata.labels: Invalid value: "-a": {NAME_PART}'),
    ({"metadata.labels": {"a": "b c"}}, f'metadata.labels: Invalid value: "b c": {VALUE}'),
    (
        {"metadata.labels": {"a": "b" * 64}},
        f'metadata.labels: Invalid value: "{"b" * 64}": must be no more than 63 bytes',
    ),
    (
        {"metadata.labels": {"a/b/c": ""}},
        'metadata.labels: Invalid value: "a/b/c": a qualified name '
        + NAME_PART.removeprefix("name part ")
        + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
    ),
    (
        {"metadata.labels": {"A/b": ""}},
        f'metadata.labels: Invalid value: "A/b": prefix part {SUBDOMAIN}',
    ),
    ({A: {"a b": ""}}, f'{A}: Invalid value: "a b": {NAME_PART}'),
    ({A: {"a": "b" * 262144}}, f"{A}: Too long: may not be more than 262144 bytes"),
    (
        {A: {"kubernetes.io/config.mirror": "abc"}},
        (
            f'{A}[kubernetes.io/config.mirror]: Invalid value: "abc": must set spec.nodeName on a '
            "mirror pod"
        ),
    ),
    (
        {A: {"controller.kubernetes.io/pod-deletion-cost": "+1"}},
        (
            f'{A}[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a '
            "32bit "
            "integer"
        ),
    ),
    (
        {A: {"seccomp.security.alpha.kubernetes.io/pod": "odd"}},
        (
            f'{A}[seccomp.security.alpha.kubernetes.io/pod]: Invalid value: "odd": must be a valid '
            "seccomp profile"
        ),
    ),
    (
        {
            A: {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
            f"{X}.seccompProfile.type": "RuntimeDefault",
        },
        f"{X}.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
    ),
    (
        {A: {"container.apparmor.security.beta.kubernetes.io/nope": "unconfined"}},
        (
            f"{A}[container.apparmor.security.beta.kubernetes.io/nope]: Invalid value: "
            '"nope": container not found'
        ),
    ),
    (
        {A: {"container.apparmor.security.beta.kubernetes.io/app": "odd"}},
        (
            f"{A}[container.apparmor.security.beta.kubernetes.io/app]: Invalid value: "
            '"odd": invalid AppArmor profile name: "odd"'
        ),
    ),
    (
        {
            A: {"container.apparmor.security.beta.kubernetes.io/app": "localhost/a"},
            f"{X}.appArmorProfile": {"type": "Localhost", "localhostProfile": "b"},
        },
        (
            f"{C}.securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in "
            "annotation and field must match"
        ),
    ),
    (
        {"metadata.finalizers": ["mine"]},
        (
            'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard '
            "finalizer name "
            "nor is it fully qualified"
        ),
    ),
    (
        {"metadata.ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a"}]},
        'metadata.ownerReferences[0].uid: Invalid value: "": must not be empty',
    ),
]

SECURITY = [
    ({f"{X}.fsGroup": -1}, f"{X}.fsGroup: Invalid value: -1: {IDS}"),
    ({f"{X}.runAsUser": 2**31}, f"{X}.runAsUser: Invalid value: 2147483648: {IDS}"),
    ({f"{X}.supplementalGroups": [1, -2]}, f"{X}.supplementalGroups[1]: Invalid value: -2: {IDS}"),
    *(
        (
            {f"{X}.{key}": "Odd"},
            f'{X}.{key}: Unsupported value: "Odd": supported values: {values}',
        )
        for key, values in (
            ("fsGroupChangePolicy", '"Always", "OnRootMismatch"'),
            ("supplementalGroupsPolicy", '"Merge", "Strict"'),
            ("seLinuxChangePolicy", '"MountOption", "Recursive"'),
        )
    ),
    ({f"{X}.sysctls": [{"value": "1"}]}, f"{X}.sysctls[0].name: Required value"),
    (
        {f"{X}.sysctls": [{"name": "net..a"}]},
        f'{X}.sysctls[0].name: Invalid value: "net..a": {SYSCTL}'.replace("\\\\", "\\"),
    ),
    (
        {f"{X}.sysctls": [{"name": "net.a.b"}, {"name": "net/a/b"}]},
        f'{X}.sysctls[1].name: Duplicate value: "net/a/b"',
    ),
    (
        {"spec.hostNetwork": True, f"{X}.sysctls": [{"name": "net.a"}]},
        (
            f'{X}.sysctls[0].name: Invalid value: "net.a": may not be specified when '
            "'hostNetwork' "
            "is true"
        ),
    ),
    (
        {"spec.hostIPC": True, f"{X}.sysctls": [{"name": "kernel.shmmax"}]},
        (
            f'{X}.sysctls[0].name: Invalid value: "kernel.shmmax": may not be specified when '
            "'hostIPC' is true"
        ),
    ),
    (
        {"spec.hostPID": True, "spec.shareProcessNamespace": True},
        (
            "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID "
            "cannot both be enabled"
        ),
    ),
    *(
        (
            {"spec.hostUsers": False, f"spec.{key}": True},
            f"spec.{key}: Forbidden: when `hostUsers` is false",
        )
        for key in ("hostNetwork", "hostPID", "hostIPC")
    ),
    (
        {f"{X}.windowsOptions.gmsaCredentialSpec": ""},
        f'{X}.windowsOptions.gmsaCredentialSpec: Invalid value: "": cannot be an empty string',
    ),
    (
        {f"{X}.windowsOptions.hostProcess": True},
        (
            "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any "
            "hostProcess containers"
        ),
    ),
    (
        {"spec.os.name": "linux", f"{C}.securityContext.windowsOptions": {}},
        (
            f"{C}.securityContext.windowsOptions: Forbidden: windows options cannot be set for a "
            "linux pod"
        ),
    ),
    (
        {"spec.os.name": "windows", f"{C}.securityContext.privileged": False},
        f"{C}.securityContext.privileged: Forbidden: cannot be set for a windows pod",
    ),
    (
        {"spec.os.name": "windows", f"{X}.fsGroup": 0},
        f"{X}.fsGroup: Forbidden: cannot be set for a windows pod",
    ),
    (
        {"spec.os.name": "windows", "spec.hostUsers": True},
        "spec.hostUsers: Forbidden: cannot be set for a windows pod",
    ),
    ({"spec.os": {}}, "spec.os.name: Required value: cannot be empty"),
    (
        {"spec.os.name": "plan9"},
        'spec.os: Unsupported value: "plan9": supported values: "linux", "windows"',
    ),
]

DNS = [
    (
        {"spec.dnsPolicy": "Cluster"},
        (
            'spec.dnsPolicy: Unsupported value: "Cluster": supported values: "ClusterFirst", '
            '"ClusterFirstWithHostNet", "Default", "None"'
        ),
    ),
    (
        {"spec.dnsPolicy": "None"},
        "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
    ),
    (
        {"spec.dnsPolicy": "None", "spec.dnsConfig": {}},
        (
            "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver "
            "when `dnsPolicy` is None"
        ),
    ),
    (
        {"spec.dnsConfig.nameservers": ["10.0.0.1"] * 4},
        (
            'spec.dnsConfig.nameservers: Invalid value: ["10.0.0.1","10.0.0.1","10.0.0.1",'
            '"10.0.0.1"]: must not have more than 3 nameservers'
        ),
    ),
    (
        {"spec.dnsConfig.nameservers": ["dns"]},
        f'spec.dnsConfig.nameservers[0]: Invalid value: "dns": {IP}',
    ),
    (
        {"spec.dnsConfig.nameservers": ["fe80::1%eth0"]},
        f'spec.dnsConfig.nameservers[0]: Invalid value: "fe80::1%eth0": {IP}',
    ),
    (
        {"spec.dnsConfig.options": [{"value": "1"}]},
        "spec.dnsConfig.options[0]: Required value: must not be empty",
    ),
    (
        {"spec.hostAliases": [{"ip": "300.0.0.1"}]},
        f'spec.hostAliases[0].ip: Invalid value: "300.0.0.1": {IP}',
    ),
    (
        {"spec.hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "B"]}]},
        f'spec.hostAliases[0].hostnames[1]: Invalid value: "B": {SUBDOMAIN}',
    ),
    ({"spec.hostname": "a.b"}, f'spec.hostname: Invalid value: "a.b": {LABEL}'),
    ({"spec.subdomain": "-"}, f'spec.subdomain: Invalid value: "-": {LABEL}'),
    (
        {"spec.hostnameOverride": "a" * 65},
        "spec.hostnameOverride: Too long: may not be more than 64 bytes",
    ),
    (
        {"spec.hostnameOverride": "a", "spec.setHostnameAsFQDN": True},
        "spec.hostnameOverride: Forbidden: may not be set when `setHostnameAsFQDN` is true",
    ),
    (
        {"spec.hostnameOverride": "a", "spec.hostNetwork": True},
        "spec.hostnameOverride: Forbidden: may not be set when `hostNetwork` is true",
    ),
]

R = "spec.resources"
REST = [
    (
        {"spec.restartPolicy": "Sometimes"},
        (
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
            '"Never", '
            '"OnFailure"'
        ),
    ),
    (
        {"spec.activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
    ),
    (
        {"spec.priority": 2**31},
        (
            "spec.priority: Invalid value: 2147483648: must be between -2147483648 and 2147483647, "
            "inclusive"
        ),
    ),
    *(
        ({f"spec.{key}": "A"}, f'spec.{key}: Invalid value: "A": {SUBDOMAIN}')
        for key in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName")
    ),
    (
        {"spec.preemptionPolicy": "Maybe"},
        (
            'spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "Never", '
            '"PreemptLowerPriority"'
        ),
    ),
    ({"spec.imagePullSecrets": [{}]}, "spec.imagePullSecrets[0].name: Required value"),
    (
        {"spec.overhead": {"cpu": "-1"}},
        'spec.overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        {"spec.resourceClaims": [{"resourceClaimName": "a"}]},
        "spec.resourceClaims[0].name: Required value",
    ),
    (
        {"spec.resourceClaims": [{"name": "a"}]},
        (
            'spec.resourceClaims[0]: Invalid value: {"name":"a"}: must specify one of: '
            "`resourceClaimName`, `resourceClaimTemplateName`"
        ),
    ),
    (
        {"spec.resourceClaims": [{"name": "a", "resourceClaimName": "b"}] * 2},
        'spec.resourceClaims[1].name: Duplicate value: "a"',
    ),
    (
        {R: {"limits": {"ephemeral-storage": "1"}}},
        (
            f'{R}.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported '
            'values: "cpu", "hugepages-", "memory"'
        ),
    ),
    (
        {R: {"requests": {"cpu": "1"}}, f"{C}.resources.requests": {"cpu": "2"}},
        (
            f'{R}.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate '
            "container requests of 2"
        ),
    ),
    (
        {
            R: {"limits": {"cpu": "1"}},
            f"{C}.resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
        },
        (
            f'{C}.resources.limits[cpu]: Invalid value: "2": must be less than or equal to pod '
            "limits "
            "of 1"
        ),
    ),
]


@pytest.mark.parametrize(("changes", "expected"), [*METADATA, *SECURITY, *DNS, *REST])
def test_problem(changes, expected):
    """A pod with one thing wrong has one problem, said as the API server says it (P-7)."""
    assert problems(changes) == [expected]


def test_two_controllers():
    """Of several owners one controls the pod, no more."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u", "controller": True}
    (found,) = problems({"metadata.ownerReferences": [owner, owner]})
    assert found.endswith(
        "only one reference can have controller set to true, Node a has it already"
    )


@pytest.mark.parametrize(
    ("searches", "detail"),
    [
        (["a"] * 33, "must not have more than 32 search paths"),
        (
            [".".join(["a" * 60] * 4)] * 9,
            "must not have more than 2048 characters (including spaces) in the search list",
        ),
    ],
)
def test_searches(searches, detail):
    """The search list has the resolver's limits, in number and in length."""
    (found,) = problems({"spec.dnsConfig.searches": searches})
    assert found.startswith("spec.dnsConfig.searches: Invalid value: [")
    assert found.endswith(detail)


def test_search_domain():
    """A search path is a domain, in which an underscore is allowed and a capital is not."""
    (found,) = problems({"spec.dnsConfig.searches": ["_ok.example.", "Bad"]})
    assert found.startswith('spec.dnsConfig.searches[1]: Invalid value: "Bad": a lowercase RFC')
