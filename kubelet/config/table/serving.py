"""Fields about serving: addresses, TLS, who may call, handlers, pod sources, tracing."""

from __future__ import annotations

from typing import Final

from kubelet.config import checks
from kubelet.config.table.row import Field
from kubelet.config.table.tls import CIPHERS, CURVES, VERSIONS
from kubelet.config.types import (
    BOOL,
    DURATION,
    HEADERS,
    INTEGER32,
    IP,
    STRING,
    integer,
    list_of,
    one_of,
)

_PORT: Final = checks.between(1, 65535)
_PORT_OR_OFF: Final = checks.between(0, 65535)
_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - the default that nodes are known by
_CURVE: Final = integer("curve id", (0, 65535))


def _known_curves(value: list[int]) -> str | None:
    known = ", ".join(f"{number} ({name})" for number, name in CURVES.items())
    return None if all(number in CURVES for number in value) else f"must be out of {known}"


def _sampling(value: int) -> str | None:
    return None if 0 <= value <= 1_000_000 else "must be between 0 and 1000000"


SERVING: Final = (
    Field("enableServer", BOOL, True, "Serve the kubelet's own API.", "enable-server"),
    Field(
        "staticPodPath",
        STRING,
        "",
        "Directory of static pod manifests, or one manifest file.",
        "pod-manifest-path",
        relative=True,
        acted_on_by="syncloop",
    ),
    Field(
        "staticPodURL",
        STRING,
        "",
        "URL to fetch static pods from.",
        "manifest-url",
        acted_on_by="syncloop",
    ),
    Field(
        "staticPodURLHeader",
        HEADERS,
        {},
        "Headers to send with requests to staticPodURL; the values are never shown.",
        "manifest-url-header",
        acted_on_by="syncloop",
    ),
    Field(
        "syncFrequency",
        DURATION,
        "1m0s",
        "Longest time between two syncs of a running pod.",
        "sync-frequency",
        checks.positive_period,
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field(
        "fileCheckFrequency",
        DURATION,
        "20s",
        "How often staticPodPath is read again.",
        "file-check-frequency",
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field(
        "httpCheckFrequency",
        DURATION,
        "20s",
        "How often staticPodURL is fetched again.",
        "http-check-frequency",
        zero_unset=True,
        acted_on_by="syncloop",
    ),
    Field("address", IP, _EVERYWHERE, "Address to serve on.", "address", zero_unset=True),
    Field(
        "port", INTEGER32, 10250, "Port of the authenticated API.", "port", _PORT, zero_unset=True
    ),
    Field(
        "readOnlyPort",
        INTEGER32,
        0,
        "Port of the read-only API without authentication; 0 turns it off.",
        "read-only-port",
        _PORT_OR_OFF,
    ),
    Field(
        "tlsCertFile",
        STRING,
        "",
        "Serving certificate, with intermediates after it.",
        "tls-cert-file",
        relative=True,
        acted_on_by="node",
    ),
    Field(
        "tlsPrivateKeyFile",
        STRING,
        "",
        "Private key of tlsCertFile.",
        "tls-private-key-file",
        relative=True,
        acted_on_by="node",
    ),
    Field(
        "tlsCipherSuites",
        list_of(one_of(*CIPHERS)),
        [],
        "Cipher suites to offer up to TLS 1.2; empty means the safe ones.",
        "tls-cipher-suites",
    ),
    Field(
        "tlsMinVersion",
        one_of("", *VERSIONS),
        "",
        "Oldest TLS version to accept; empty means TLS 1.2.",
        "tls-min-version",
    ),
    Field(
        "tlsCurvePreferences",
        list_of(_CURVE),
        [],
        "Key exchange groups to offer, by their number; empty means the usual ones.",
        check=_known_curves,
    ),
    Field(
        "rotateCertificates",
        BOOL,
        False,
        "Renew the client certificate before it expires.",
        "rotate-certificates",
        acted_on_by="node",
    ),
    Field(
        "serverTLSBootstrap",
        BOOL,
        False,
        "Ask the API server for the serving certificate.",
        "rotate-server-certificates",
        acted_on_by="node",
    ),
    Field(
        "authentication.x509.clientCAFile",
        STRING,
        "",
        "Certificates that sign the clients to be trusted.",
        "client-ca-file",
        relative=True,
    ),
    Field(
        "authentication.webhook.enabled",
        BOOL,
        True,
        "Ask the API server who the bearer of a token is.",
        "authentication-token-webhook",
    ),
    Field(
        "authentication.webhook.cacheTTL",
        DURATION,
        "2m0s",
        "How long such an answer is kept.",
        "authentication-token-webhook-cache-ttl",
        zero_unset=True,
    ),
    Field(
        "authentication.anonymous.enabled",
        BOOL,
        False,
        "Accept requests that say nothing about who makes them.",
        "anonymous-auth",
    ),
    Field(
        "authorization.mode",
        one_of("AlwaysAllow", "Webhook"),
        "Webhook",
        "Who decides whether a request is allowed.",
        "authorization-mode",
        zero_unset=True,
    ),
    Field(
        "authorization.webhook.cacheAuthorizedTTL",
        DURATION,
        "5m0s",
        "How long a yes of the API server is kept.",
        "authorization-webhook-cache-authorized-ttl",
        zero_unset=True,
    ),
    Field(
        "authorization.webhook.cacheUnauthorizedTTL",
        DURATION,
        "30s",
        "How long a no of the API server is kept.",
        "authorization-webhook-cache-unauthorized-ttl",
        zero_unset=True,
    ),
    Field(
        "enableDebuggingHandlers",
        BOOL,
        True,
        "Serve logs, exec, attach, port-forward and the like.",
        "enable-debugging-handlers",
    ),
    Field(
        "enableContentionProfiling",
        BOOL,
        False,
        "Collect profiles of waiting for locks.",
        "contention-profiling",
    ),
    Field("enableProfilingHandler", BOOL, True, "Serve profiles under /debug/pprof/."),
    Field("enableDebugFlagsHandler", BOOL, True, "Serve /debug/flags/v."),
    Field("enableSystemLogHandler", BOOL, True, "Serve the node's log files under /logs/."),
    Field("enableSystemLogQuery", BOOL, False, "Answer queries of service logs under /logs/."),
    Field(
        "healthzPort",
        INTEGER32,
        10248,
        "Port of /healthz; 0 turns it off.",
        "healthz-port",
        _PORT_OR_OFF,
        acted_on_by="api",
    ),
    Field(
        "healthzBindAddress",
        IP,
        "127.0.0.1",
        "Address to serve /healthz on.",
        "healthz-bind-address",
        zero_unset=True,
        acted_on_by="api",
    ),
    Field(
        "streamingConnectionIdleTimeout",
        DURATION,
        "4h0m0s",
        "How long an idle exec, attach or port-forward stays open.",
        "streaming-connection-idle-timeout",
        zero_unset=True,
    ),
    Field("tracing.endpoint", STRING, None, "OTLP collector to send spans to."),
    Field(
        "tracing.samplingRatePerMillion",
        INTEGER32,
        None,
        "How many of a million traces are kept.",
        check=_sampling,
    ),
    Field(
        "showHiddenMetricsForVersion",
        one_of("", "1.36"),
        "",
        "Show metrics that were hidden in this version; the previous minor version only.",
    ),
)
