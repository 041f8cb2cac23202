"""What users give to a cluster."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.cluster.admin import Json
from tests.node.registry import Registry


def template(app: str, *containers: Json, job: bool = False, **spec: Any) -> Json:
    """The selector and the pods of a workload."""
    pods = {"containers": list(containers), "terminationGracePeriodSeconds": 2, **spec}
    labelled = {"metadata": {"labels": {"app": app}}}
    if job:
        return {"template": {**labelled, "spec": {"restartPolicy": "Never", **pods}}}
    selector = {"matchLabels": {"app": app}}
    return {"selector": selector, "template": {**labelled, "spec": pods}}


def secret(name: str, **data: str) -> Json:
    """A secret."""
    return _object("Secret", name, stringData=data)


def config_map(name: str, **data: str) -> Json:
    """A configmap."""
    return _object("ConfigMap", name, data=data)


def pull_secret(name: str, registry: Registry, password: str | None = None) -> Json:
    """The secret with which images of a private registry are pulled."""
    login = registry.login
    assert login is not None
    words = f"{login.user}:{password or login.password}".encode()
    auths = {registry.host: {"auth": base64.b64encode(words).decode()}}
    data = {".dockerconfigjson": json.dumps({"auths": auths})}
    return _object("Secret", name, type="kubernetes.io/dockerconfigjson", stringData=data)


def _object(kind: str, name: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}
