"""What is wrong with probes, hooks and restarts, in the API server's words."""

from __future__ import annotations

import pytest

from tests.unit.api.documents import problems

C = "spec.containers[0]"
I = "spec.initContainers[0]"  # noqa: E741 - the tables are about C, I and E
E = "spec.ephemeralContainers[0]"
INIT = {I: {"name": "init", "image": "i:1"}}
EPHEMERAL = {E: {"name": "debug", "image": "i:1"}}
NO_INIT = "Forbidden: may not be set for init containers without restartPolicy=Always"
NO_EPHEMERAL = "Forbidden: cannot be set for an Ephemeral Container"
MOUNT = {"name": "data", "mountPath": "/d"}
L, Y, S = f"{C}.livenessProbe", f"{C}.readinessProbe", f"{C}.startupProbe"
EXEC = {"exec": {"command": ["true"]}}
PROBES = [
    ({L: {}}, f"{L}: Required value: must specify a handler type"),
    ({L: {"exec": {}}}, f"{L}.exec.command: Required value"),
    (
        {L: {**EXEC, "tcpSocket": {"port": 1}}},
        f"{L}.tcpSocket: Forbidden: may not specify more than 1 handler type",
    ),
    (
        {L: {"httpGet": {"path": "/"}}},
        f"{L}.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    (
        {L: {"tcpSocket": {"port": "80"}}},
        f'{L}.tcpSocket.port: Invalid value: "80": must contain at least one letter (a-z)',
    ),
    (
        {L: {"grpc": {"port": 65536}}},
        f"{L}.grpc.port: Invalid value: 65536: must be between 1 and 65535, inclusive",
    ),
    (
        {L: {"httpGet": {"port": 1, "scheme": "FTP"}}},
        f'{L}.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
    ),
    (
        {L: {"httpGet": {"port": 1, "httpHeaders": [{"name": "X_A"}]}}},
        (
            f'{L}.httpGet.httpHeaders: Invalid value: "X_A": a valid HTTP header must consist of '
            "alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is "
            "'[-A-Za-z0-9]+')"
        ),
    ),
    *(
        (
            {Y: {**EXEC, key: -1}},
            f"{Y}.{key}: Invalid value: -1: must be greater than or equal to 0",
        )
        for key in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        )
    ),
    ({L: {**EXEC, "successThreshold": 2}}, f"{L}.successThreshold: Invalid value: 2: must be 1"),
    ({S: {**EXEC, "successThreshold": 2}}, f"{S}.successThreshold: Invalid value: 2: must be 1"),
    (
        {S: {**EXEC, "terminationGracePeriodSeconds": 0}},
        f"{S}.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
    ),
    (
        {Y: {**EXEC, "terminationGracePeriodSeconds": 1}},
        f"{Y}.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes",
    ),
    (
        {f"{C}.lifecycle.preStop": {}},
        f"{C}.lifecycle.preStop: Required value: must specify a handler type",
    ),
    (
        {f"{C}.lifecycle.postStart": {**EXEC, "sleep": {"seconds": 1}}},
        f"{C}.lifecycle.postStart.sleep: Forbidden: may not specify more than 1 handler type",
    ),
    (
        {f"{C}.lifecycle.preStop.sleep.seconds": 31},
        (
            f"{C}.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
            "terminationGracePeriodSeconds (30)"
        ),
    ),
    (
        {f"{C}.lifecycle.preStop.sleep.seconds": -1},
        (
            f"{C}.lifecycle.preStop.sleep: Invalid value: -1: must be non-negative and less than "
            "terminationGracePeriodSeconds (30)"
        ),
    ),
    (
        {f"{C}.lifecycle.stopSignal": "SIGTERM"},
        (
            f"{C}.lifecycle.stopSignal: Forbidden: may not be set for containers with empty "
            "`spec.os.name`"
        ),
    ),
]

X = f"{C}.restartPolicyRules"
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}


def _codes(**codes):
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1], **codes}}
    return {f"{C}.restartPolicy": "Never", X: [rule]}


RESTARTS = [
    (
        {f"{C}.restartPolicy": "Sometimes"},
        (
            f'{C}.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
            '"Never", '
            '"OnFailure"'
        ),
    ),
    (
        {X: [RULE]},
        (
            f"{C}.restartPolicy: Required value: must specify restartPolicy when restart rules are "
            "used"
        ),
    ),
    (
        {f"{C}.restartPolicy": "Never", X: [RULE] * 21},
        f"{X}: Too many: 21: must have at most 20 items",
    ),
    (
        {f"{C}.restartPolicy": "Never", X: [{**RULE, "action": "Stop"}]},
        (
            f'{X}[0].action: Unsupported value: "Stop": supported values: "Restart", '
            '"RestartAllContainers"'
        ),
    ),
    (
        {f"{C}.restartPolicy": "Never", X: [{"action": "Restart"}]},
        f"{X}[0].exitCodes: Required value: must be specified",
    ),
    (
        _codes(operator="Is"),
        f'{X}[0].exitCodes.operator: Unsupported value: "Is": supported values: "In", "NotIn"',
    ),
    (_codes(values=[]), f"{X}[0].exitCodes.values: Required value: must have at least one value"),
    (
        _codes(values=[256]),
        f"{X}[0].exitCodes.values[0]: Invalid value: 256: must be between 0 and 255, inclusive",
    ),
    (_codes(values=[3, 3]), f"{X}[0].exitCodes.values[1]: Duplicate value: 3"),
    *(
        ({I: {**INIT[I], key: EXEC}}, f"{I}.{key}: {NO_INIT}")
        for key in ("livenessProbe", "readinessProbe", "startupProbe")
    ),
    ({I: {**INIT[I], "lifecycle": {"preStop": EXEC}}}, f"{I}.lifecycle: {NO_INIT}"),
    (
        {I: {**INIT[I], "restartPolicy": "OnFailure", "startupProbe": EXEC}},
        f"{I}.startupProbe: {NO_INIT}",
    ),
    (
        {I: {**INIT[I], "restartPolicy": "Always", "startupProbe": {}}},
        f"{I}.startupProbe: Required value: must specify a handler type",
    ),
]

EPHEMERALS = [
    *(
        ({E: {**EPHEMERAL[E], key: value}}, f"{E}.{key}: {NO_EPHEMERAL}")
        for key, value in (
            ("ports", [{"containerPort": 1}]),
            ("resources", {"limits": {"cpu": "1"}}),
            ("livenessProbe", EXEC),
            ("readinessProbe", EXEC),
            ("startupProbe", EXEC),
            ("lifecycle", {"preStop": EXEC}),
            ("restartPolicy", "Always"),
            ("resizePolicy", [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
        )
    ),
    (
        {E: {**EPHEMERAL[E], "targetContainerName": "nope"}},
        f'{E}.targetContainerName: Not found: "nope"',
    ),
    (
        {E: {**EPHEMERAL[E], "volumeMounts": [{**MOUNT, "subPath": "a"}]}},
        f"{E}.volumeMounts[0].subPath: {NO_EPHEMERAL}",
    ),
    (
        {E: {**EPHEMERAL[E], "volumeMounts": [{**MOUNT, "subPathExpr": "a"}]}},
        f"{E}.volumeMounts[0].subPathExpr: {NO_EPHEMERAL}",
    ),
]


@pytest.mark.parametrize(("changes", "expected"), [*PROBES, *RESTARTS, *EPHEMERALS])
def test_problem(changes, expected):
    """A probe, a hook or a rule with one thing wrong has one problem (P-7, P-80)."""
    assert problems(changes) == [expected]
