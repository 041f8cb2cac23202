"""What is wrong with where a pod may run, in the API server's words."""

from __future__ import annotations

import pytest

from tests.unit.api.documents import problems
from tests.unit.api.phrases import LABEL, NAME_PART, VALUE

N = "spec.affinity.nodeAffinity"
REQUIRED = f"{N}.requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = f"{N}.preferredDuringSchedulingIgnoredDuringExecution"
TERM = f"{REQUIRED}.nodeSelectorTerms[0]"
POD_TERM = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
S = "spec.topologySpreadConstraints[0]"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


def _term(**requirement):
    return {TERM: {"matchExpressions": [{"key": "a", **requirement}]}}


def _taint(**toleration):
    return {"spec.tolerations": [{"key": "a", **toleration}]}


SCHEDULING = [
    (
        {"spec.tolerations": [{"effect": "NoExecute"}]},
        (
            'spec.tolerations[0].operator: Invalid value: "": operator must be Exists when '
            "`key` is "
            'empty, which means "match all values and all keys"'
        ),
    ),
    (
        _taint(operator="Lt", value="1"),
        (
            'spec.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", '
            '"Exists"'
        ),
    ),
    (
        _taint(operator="Exists", value="1"),
        (
            'spec.tolerations[0].operator: Invalid value: "1": value must be empty when '
            "`operator` is "
            "'Exists'"
        ),
    ),
    (
        _taint(effect="NoSchedule", tolerationSeconds=1),
        (
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' "
            "when `tolerationSeconds` is set"
        ),
    ),
    (
        _taint(effect="Never"),
        (
            'spec.tolerations[0].effect: Unsupported value: "Never": supported values: '
            '"NoExecute", '
            '"NoSchedule", "PreferNoSchedule"'
        ),
    ),
    (_taint(key="a b"), f'spec.tolerations[0].key: Invalid value: "a b": {NAME_PART}'),
    (
        {f"{REQUIRED}.nodeSelectorTerms": []},
        f"{REQUIRED}.nodeSelectorTerms: Required value: must have at least one node selector term",
    ),
    (
        _term(operator="In"),
        (
            f"{TERM}.matchExpressions[0].values: Required value: must be specified when "
            "`operator` is "
            "'In' or 'NotIn'"
        ),
    ),
    (
        _term(operator="Exists", values=["a"]),
        (
            f"{TERM}.matchExpressions[0].values: Forbidden: may not be specified when "
            "`operator` is "
            "'Exists' or 'DoesNotExist'"
        ),
    ),
    (
        _term(operator="Gt"),
        (
            f"{TERM}.matchExpressions[0].values: Required value: must be specified single value "
            "when "
            "`operator` is 'Lt' or 'Gt'"
        ),
    ),
    (
        _term(operator="Is"),
        f'{TERM}.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
    ),
    (
        _term(operator="In", values=["a b"]),
        f'{TERM}.matchExpressions[0].values[0]: Invalid value: "a b": {VALUE}',
    ),
    (
        {TERM: {"matchFields": [{"key": "spec.a", "operator": "In", "values": ["a"]}]}},
        f'{TERM}.matchFields[0].key: Invalid value: "spec.a": not a valid field selector key',
    ),
    (
        {PREFERRED: [{"weight": 101, "preference": {}}]},
        f"{PREFERRED}[0].weight: Invalid value: 101: must be in the range 1-100",
    ),
    (
        {POD_TERM: {"labelSelector": {}}},
        f"{POD_TERM}.topologyKey: Required value: can not be empty",
    ),
    (
        {POD_TERM: {"topologyKey": "zone", "matchLabelKeys": ["a"]}},
        (
            f"{POD_TERM}.matchLabelKeys: Forbidden: must not be specified when labelSelector is "
            "not "
            "set"
        ),
    ),
    (
        {
            POD_TERM: {
                "topologyKey": "zone",
                "labelSelector": {},
                "matchLabelKeys": ["a"],
                "mismatchLabelKeys": ["a"],
            }
        },
        (
            f'{POD_TERM}.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and '
            "mismatchLabelKeys"
        ),
    ),
    (
        {POD_TERM: {"topologyKey": "zone", "namespaces": ["A"]}},
        f'{POD_TERM}.namespaces[0]: Invalid value: "A": {LABEL}',
    ),
    (
        {S: {**SPREAD, "maxSkew": 0}},
        f"{S}.maxSkew: Invalid value: 0: must be greater than zero",
    ),
    ({S: {**SPREAD, "topologyKey": ""}}, f"{S}.topologyKey: Required value: can not be empty"),
    (
        {S: {**SPREAD, "whenUnsatisfiable": "Wait"}},
        (
            f'{S}.whenUnsatisfiable: Unsupported value: "Wait": supported values: "DoNotSchedule", '
            '"ScheduleAnyway"'
        ),
    ),
    (
        {"spec.topologySpreadConstraints": [SPREAD, SPREAD]},
        (
            "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: "
            '"{zone, ScheduleAnyway}"'
        ),
    ),
    (
        {S: {**SPREAD, "minDomains": 1}},
        (
            f"{S}.minDomains: Invalid value: 1: can only use minDomains if "
            "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        ),
    ),
    (
        {S: {**SPREAD, "nodeTaintsPolicy": "Obey"}},
        f'{S}.nodeTaintsPolicy: Unsupported value: "Obey": supported values: "Honor", "Ignore"',
    ),
    (
        {S: {**SPREAD, "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["a"]}},
        (
            f'{S}.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and '
            "labelSelector"
        ),
    ),
    (
        {"spec.schedulingGates": [{"name": "a"}, {"name": "a"}]},
        'spec.schedulingGates[1]: Duplicate value: "a"',
    ),
    (
        {"spec.schedulingGates": [{"name": "a"}], "spec.nodeName": "n"},
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ),
    (
        {"spec.readinessGates": [{"conditionType": "a b"}]},
        f'spec.readinessGates[0].conditionType: Invalid value: "a b": {NAME_PART}',
    ),
    ({"spec.nodeSelector": {"a": "b c"}}, f'spec.nodeSelector: Invalid value: "b c": {VALUE}'),
]


@pytest.mark.parametrize(("changes", "expected"), [*SCHEDULING])
def test_problem(changes, expected):
    """A wish with one thing wrong has one problem, said as the API server says it (P-7)."""
    assert problems(changes) == [expected]
