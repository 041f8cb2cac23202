"""Fields about the node and this process: API client, registration, start checks, logging."""

from __future__ import annotations

from typing import Final

from kubelet.config import checks
from kubelet.config.structs import TAINTS, VMODULE
from kubelet.config.table.row import Field
from kubelet.config.types import (
    BOOL,
    DURATION,
    FLUSH,
    INTEGER32,
    INTEGER64,
    QUANTITY,
    STRING,
    UNSIGNED32,
    map_of,
    one_of,
)

_NOT_NEGATIVE: Final = checks.at_least(0)

CLIENT: Final = (
    Field(
        "eventRecordQPS",
        INTEGER32,
        50,
        "Events sent a second; 0 sets no limit.",
        "event-qps",
        _NOT_NEGATIVE,
        acted_on_by="node",
    ),
    Field(
        "eventBurst",
        INTEGER32,
        100,
        "Events sent at once while eventRecordQPS is kept on average.",
        "event-burst",
        _NOT_NEGATIVE,
        zero_unset=True,
        acted_on_by="node",
    ),
    Field(
        "contentType",
        STRING,
        "application/vnd.kubernetes.protobuf",
        "Content type of requests to the API server.",
        "kube-api-content-type",
        zero_unset=True,
    ),
    Field(
        "kubeAPIQPS",
        INTEGER32,
        50,
        "Requests to the API server a second.",
        "kube-api-qps",
        _NOT_NEGATIVE,
        acted_on_by="node",
    ),
    Field(
        "kubeAPIBurst",
        INTEGER32,
        100,
        "Requests at once while kubeAPIQPS is kept on average.",
        "kube-api-burst",
        _NOT_NEGATIVE,
        zero_unset=True,
        acted_on_by="node",
    ),
)

REGISTRATION: Final = (
    Field(
        "registerNode",
        BOOL,
        True,
        "Create this node's object.",
        "register-node",
        acted_on_by="node",
    ),
    Field(
        "registerWithTaints",
        TAINTS,
        [],
        "Taints that the node is created with.",
        "register-with-taints",
        acted_on_by="node",
    ),
    Field(
        "providerID",
        STRING,
        "",
        "Name of this machine at its provider.",
        "provider-id",
        acted_on_by="node",
    ),
    Field(
        "nodeStatusUpdateFrequency",
        DURATION,
        "10s",
        "How often the node's status is computed.",
        "node-status-update-frequency",
        zero_unset=True,
        acted_on_by="node",
    ),
    Field(
        "nodeStatusReportFrequency",
        DURATION,
        "5m0s",
        "How often an unchanged status is sent; follows nodeStatusUpdateFrequency if that is set.",
        zero_unset=True,
        acted_on_by="node",
    ),
    Field(
        "nodeLeaseDurationSeconds",
        INTEGER32,
        40,
        "How long the node's lease lasts without renewal.",
        check=checks.at_least(1),
        zero_unset=True,
        acted_on_by="node",
    ),
    Field(
        "nodeStatusMaxImages",
        INTEGER32,
        50,
        "Images listed in the node's status; -1 lists all.",
        "node-status-max-images",
        checks.at_least(-1),
        acted_on_by="node",
    ),
)

PROCESS: Final = (
    Field(
        "featureGates",
        map_of(BOOL),
        {},
        "Features to turn on or off by name.",
        "feature-gates",
        acted_on_by="config",
    ),
    Field(
        "oomScoreAdj",
        INTEGER32,
        -999,
        "How gladly the kernel kills this process when memory runs out.",
        "oom-score-adj",
        checks.between(-1000, 1000),
        acted_on_by="supervisor",
    ),
    Field(
        "maxOpenFiles",
        INTEGER64,
        1_000_000,
        "Files that a process may have open.",
        "max-open-files",
        _NOT_NEGATIVE,
        zero_unset=True,
        acted_on_by="supervisor",
    ),
    Field(
        "failSwapOn",
        BOOL,
        True,
        "Refuse to start while swap is on.",
        "fail-swap-on",
        acted_on_by="startup",
    ),
    Field(
        "failCgroupV1",
        BOOL,
        True,
        "Refuse to start on cgroup v1.",
        "fail-cgroupv1",
        acted_on_by="startup",
    ),
    Field(
        "protectKernelDefaults",
        BOOL,
        False,
        "Refuse to start, instead of changing kernel settings, where they differ.",
        "protect-kernel-defaults",
        acted_on_by="startup",
    ),
)

LOGGING: Final = (
    Field(
        "logging.format",
        one_of("text", "json"),
        "text",
        "Form of log lines.",
        "logging-format",
        zero_unset=True,
        acted_on_by="all",
    ),
    Field(
        "logging.flushFrequency",
        FLUSH,
        "5s",
        "Longest time that a log line waits in memory.",
        "log-flush-frequency",
        checks.positive_period,
        zero_unset=True,
        acted_on_by="all",
    ),
    Field(
        "logging.verbosity",
        UNSIGNED32,
        0,
        "Level up to which detail is logged.",
        "v",
        checks.between(0, (1 << 31) - 1),
        acted_on_by="all",
    ),
    Field(
        "logging.vmodule",
        VMODULE,
        [],
        "Levels for single modules, by file name pattern; text format only.",
        "vmodule",
        acted_on_by="all",
    ),
    Field(
        "logging.options.text.splitStream",
        BOOL,
        False,
        "In text format, info to standard output and errors to standard error.",
        "log-text-split-stream",
        acted_on_by="all",
    ),
    Field(
        "logging.options.text.infoBufferSize",
        QUANTITY,
        "0",
        "In text format with split streams, how much info may wait in memory.",
        "log-text-info-buffer-size",
        acted_on_by="all",
    ),
    Field(
        "logging.options.json.splitStream",
        BOOL,
        False,
        "In JSON format, info to standard output and errors to standard error.",
        "log-json-split-stream",
        acted_on_by="all",
    ),
    Field(
        "logging.options.json.infoBufferSize",
        QUANTITY,
        "0",
        "In JSON format with split streams, how much info may wait in memory.",
        "log-json-info-buffer-size",
        acted_on_by="all",
    ),
)

NODE: Final = CLIENT + REGISTRATION + PROCESS + LOGGING
