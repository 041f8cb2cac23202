"""The kubeconfig that a bootstrap leaves behind: the same cluster, and the certificate it got."""

from __future__ import annotations

import base64
import json
from typing import Final

from procs.node.apiserver.types import Endpoint

# The names that the Go kubelet uses there.
_CLUSTER: Final = "default-cluster"
_USER: Final = "default-auth"
_CONTEXT: Final = "default-context"


def text_for(endpoint: Endpoint, pair: str) -> str:
    """Return a kubeconfig for the server of ``endpoint`` with certificate and key in one file."""
    lines = [
        "apiVersion: v1",
        "kind: Config",
        "clusters:",
        f"- name: {_CLUSTER}",
        "  cluster:",
        *(f"    {key}: {value}" for key, value in _cluster(endpoint).items()),
        "users:",
        f"- name: {_USER}",
        "  user:",
        f"    client-certificate: {json.dumps(pair)}",
        f"    client-key: {json.dumps(pair)}",
        "contexts:",
        f"- name: {_CONTEXT}",
        "  context:",
        f"    cluster: {_CLUSTER}",
        "    namespace: default",
        f"    user: {_USER}",
        f"current-context: {_CONTEXT}",
        "preferences: {}",
    ]
    return "\n".join(lines) + "\n"


def _cluster(endpoint: Endpoint) -> dict[str, str]:
    """Return the cluster's fields as YAML; a JSON string is one."""
    fields: dict[str, str] = {}
    # A file is named rather than copied: it may be replaced by a new authority's one day.
    if endpoint.ca_file:
        fields["certificate-authority"] = json.dumps(endpoint.ca_file)
    elif endpoint.ca_pem:
        data = base64.b64encode(endpoint.ca_pem.encode()).decode()
        fields["certificate-authority-data"] = data
    if endpoint.insecure:
        fields["insecure-skip-tls-verify"] = "true"
    fields["server"] = json.dumps(endpoint.server)
    if endpoint.server_name:
        fields["tls-server-name"] = json.dumps(endpoint.server_name)
    if endpoint.proxy:
        fields["proxy-url"] = json.dumps(endpoint.proxy)
    if endpoint.disable_compression:
        fields["disable-compression"] = "true"
    return fields
