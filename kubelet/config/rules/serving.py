"""Rules about serving, start-up modes, logging and our own flags."""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Iterator
from typing import Final

from kubelet import durations, quantities
from kubelet.config import gates, names
from kubelet.config.rules.base import Fault, Rule, View, rule


@rule("featureGates")
def feature_gates(view: View) -> Iterator[Fault]:
    """Every gate is known, and a locked one keeps its value."""
    for name, value, allowed in gates.problems(view["featureGates"]):
        yield f"featureGates.{name}", value, allowed


@rule("authentication.webhook.enabled", "authorization.mode", "--kubeconfig")
def standalone(view: View) -> Iterator[Fault]:
    """C-8: without an API server nobody answers webhooks."""
    if view["--kubeconfig"]:
        return
    if view["authentication.webhook.enabled"]:
        yield (
            "authentication.webhook.enabled",
            True,
            "must be false without --kubeconfig: there is no API server to ask",
        )
    if view["authorization.mode"] == "Webhook":
        yield (
            "authorization.mode",
            "Webhook",
            'must be "AlwaysAllow" without --kubeconfig: there is no API server to ask',
        )


@rule("serverTLSBootstrap", "featureGates")
def server_bootstrap(view: View) -> Iterator[Fault]:
    """A serving certificate from the API server needs its gate."""
    if view["serverTLSBootstrap"] and not view.gate("RotateKubeletServerCertificate"):
        yield "serverTLSBootstrap", True, "needs feature gate RotateKubeletServerCertificate"


@rule("enableSystemLogQuery", "enableSystemLogHandler")
def log_query(view: View) -> Iterator[Fault]:
    """Log queries are a part of the log handler."""
    if view["enableSystemLogQuery"] and not view["enableSystemLogHandler"]:
        yield "enableSystemLogQuery", True, "needs enableSystemLogHandler: true"


@rule("tracing.endpoint")
def tracing(view: View) -> Iterator[Fault]:
    """The collector's address is a URL, or host:port."""
    endpoint = view["tracing.endpoint"]
    if endpoint is None:
        return
    try:
        parsed = urllib.parse.urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        good = bool(parsed.hostname) and (parsed.port is None or parsed.port > 0)
    except ValueError:
        good = False
    if not good:
        yield "tracing.endpoint", endpoint, 'must be a URL or host:port, such as "localhost:4317"'


@rule(
    "logging.format",
    "logging.vmodule",
    "logging.options.text.splitStream",
    "logging.options.text.infoBufferSize",
    "logging.options.json.splitStream",
    "logging.options.json.infoBufferSize",
    "featureGates",
)
def logging(view: View) -> Iterator[Fault]:
    """Per-module levels are for text, and the stream options are alpha."""
    if view["logging.vmodule"] and view["logging.format"] != "text":
        yield "logging.vmodule", view["logging.vmodule"], 'needs logging.format "text"'
    for form in ("text", "json"):
        size = f"logging.options.{form}.infoBufferSize"
        split = f"logging.options.{form}.splitStream"
        if quantities.parse(view[size]).nano < 0:
            yield size, view[size], "must not be negative"
        for name, set_ in ((split, view[split]), (size, view[size] != "0")):
            if set_ and not view.gate("LoggingAlphaOptions"):
                yield name, view[name], "needs feature gate LoggingAlphaOptions"


@rule("--lock-file", "--exit-on-lock-contention")
def lock(view: View) -> Iterator[Fault]:
    """C-11: contention for a lock needs a lock."""
    if view["--exit-on-lock-contention"] and not view["--lock-file"]:
        yield "--exit-on-lock-contention", True, "needs --lock-file"


@rule("--cloud-provider")
def cloud(view: View) -> Iterator[Fault]:
    """C-20: no cloud provider is built in."""
    if view["--cloud-provider"] not in {"", "external"}:
        yield "--cloud-provider", view["--cloud-provider"], 'must be "external" or empty'


@rule("--hostname-override")
def hostname(view: View) -> Iterator[Fault]:
    """C-19: a name of blanks is no name."""
    name = view["--hostname-override"]
    if name and not name.strip():
        yield "--hostname-override", name, "must not be blank"


@rule("--node-labels")
def labels(view: View) -> Iterator[Fault]:
    """N-7: label syntax, and the labels of Kubernetes' own domains."""
    for key, value in view["--node-labels"].items():
        if allowed := names.label_key(key) or names.node_label(key):
            yield "--node-labels", key, allowed
        if allowed := names.label_value(value):
            yield f"--node-labels[{key}]", value, allowed


@rule("--node-ip")
def node_ip(view: View) -> Iterator[Fault]:
    """One address, or one of each family."""
    text = view["--node-ip"]
    if not text:
        return
    allowed = "must be an IP address, or an IPv4 and an IPv6 address with a comma between"
    try:
        found = [ipaddress.ip_address(part.strip()) for part in text.split(",")]
    except ValueError:
        yield "--node-ip", text, allowed
        return
    if len(found) > 2 or (len(found) == 2 and found[0].version == found[1].version):
        yield "--node-ip", text, allowed


@rule("--heartbeat-timeout", "--heartbeat-interval")
def heartbeats(view: View) -> Iterator[Fault]:
    """Several beats must fit into the time-out, or a single late one would kill."""
    most = view.time("--heartbeat-timeout") // 4
    if view.time("--heartbeat-interval") > most:
        allowed = f"must be at most a quarter of --heartbeat-timeout: {durations.render(most)}"
        yield "--heartbeat-interval", view["--heartbeat-interval"], allowed


@rule("--image-credential-provider-config", "--image-credential-provider-bin-dir")
def credential_providers(view: View) -> Iterator[Fault]:
    """The configuration names programs, and the programs need a configuration."""
    pair = ("--image-credential-provider-config", "--image-credential-provider-bin-dir")
    for one, other in (pair, pair[::-1]):
        if view[one] and not view[other]:
            yield one, view[one], f"needs {other}"


RULES: Final[tuple[Rule, ...]] = (
    feature_gates,
    standalone,
    server_bootstrap,
    log_query,
    tracing,
    logging,
    lock,
    cloud,
    hostname,
    labels,
    node_ip,
    heartbeats,
    credential_providers,
)
