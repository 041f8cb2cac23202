"""Reads one kubeconfig and prints what it says as JSON; a process of its own.

Prints ``{"endpoint": ..., "lasting": ...}``, or ``{"problem": sentence}``. ``lasting`` is whether
the same file will say the same again: a token that an auth provider gave does not last.
Whoever waits for it has little time: it imports nothing of ours but what is small.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import sys
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from kubernetes.config import ConfigException, kube_config

from procs.node.apiserver.endpoints import to_plain
from procs.node.apiserver.files import read_text
from procs.node.apiserver.pem import PemError, check_certificates, check_pair
from procs.node.apiserver.types import Endpoint, Json

_library: Any = kube_config  # has no types
_EXEC_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_PROVIDERS: Final = ("gcp", "oidc")
_PROXIES: Final = ("http", "https", "socks5", "socks5h")


class BadKubeconfigError(Exception):
    """What is wrong with the file: field, value if it may be shown, and what is allowed."""


class Section:
    """A mapping of the file with the path of its fields, which names them in problems."""

    def __init__(self, value: Any, name: str, base: str) -> None:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise BadKubeconfigError(f"{name or 'it'}: must be a mapping")
        self.value: Json = value
        self.name = name
        self.base = base

    def path(self, field: str) -> str:
        """Return how a field is named in a problem."""
        return f"{self.name}.{field}" if self.name else field

    def bad(self, field: str, problem: str, value: Any = None) -> BadKubeconfigError:
        """Return the problem of a field; without a value, that is a secret or not there."""
        shown = "" if value is None else f"{json.dumps(value, default=str)[:120]}: "
        return BadKubeconfigError(f"{self.path(field)}: {shown}{problem}")

    def text(self, field: str) -> str:
        """Return a text; "" if there is none."""
        found = self.value.get(field)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise self.bad(field, "must be a string")
        return found

    def flag(self, field: str) -> bool:
        """Return a truth; false if there is none."""
        found = self.value.get(field)
        if found not in (None, True, False):
            raise self.bad(field, "must be true or false", found)
        return bool(found)

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of texts."""
        found = self.value.get(field)
        if found is None:
            return ()
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise self.bad(field, "must be a list of strings")
        return tuple(found)

    def below(self, field: str) -> Section:
        """Return a mapping within."""
        return Section(self.value.get(field), self.path(field), self.base)

    def file(self, field: str) -> str:
        """Return the path of a file, which is relative to the kubeconfig; "" if there is none."""
        found = self.text(field)
        return os.path.normpath(os.path.join(self.base, found)) if found else ""

    def content(self, field: str) -> tuple[str, str]:
        """Return what ``field-data`` or the file in ``field`` holds, and the file's path.

        The data wins, as everywhere; the path is "" then.
        """
        data = self.text(f"{field}-data")
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True).decode(), ""
            except (binascii.Error, UnicodeDecodeError):
                raise self.bad(f"{field}-data", "is not PEM text in base64") from None
        path = self.file(field)
        if not path:
            return "", ""
        try:
            return read_text(path), path
        except OSError as err:
            raise self.bad(field, err.strerror or str(err), path) from None
        except ValueError as err:
            raise self.bad(field, str(err), path) from None


# --- the parts -----------------------------------------------------------------------------------


def _document(path: str) -> Json:
    """Return the file's document through the library's own reading."""
    try:
        found = _library.KubeConfigMerger(io.StringIO(read_text(path))).config
    except OSError as err:
        raise BadKubeconfigError(err.strerror or str(err)) from None
    except yaml.MarkedYAMLError as err:  # only where: the lines may hold secrets
        mark = err.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadKubeconfigError(f"is not YAML: {where}{err.problem}") from None
    except (yaml.YAMLError, RecursionError):
        raise BadKubeconfigError("is not YAML") from None
    except ValueError as err:
        raise BadKubeconfigError(str(err)) from None
    except ConfigException:
        raise BadKubeconfigError("is empty") from None
    if not isinstance(found, dict):
        raise BadKubeconfigError("is not a kubeconfig: must be a mapping")
    kind, version = found.get("kind", "Config"), found.get("apiVersion", "v1")
    if (kind, version) != ("Config", "v1"):
        raise BadKubeconfigError(f"is not a kubeconfig: kind {kind}, apiVersion {version}")
    return found


def _named(document: Json, kind: str, name: str, asked_by: str, base: str) -> Section:
    """Return what is listed under a name: one of clusters, contexts, users."""
    entries = document.get(f"{kind}s") or []
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries
    ):
        raise BadKubeconfigError(f"{kind}s: must be a list of mappings with a name")
    names = [entry["name"] for entry in entries]
    if name not in names:
        there = f"; there are: {', '.join(names)}" if names else ""
        raise BadKubeconfigError(f"{asked_by}: {json.dumps(name)}: no such {kind}{there}")
    if names.count(name) > 1:
        raise BadKubeconfigError(f"{kind}s: {json.dumps(name)}: stands there more than once")
    node = _library.ConfigNode(f"{kind}s", entries).get_with_name(name)
    return Section(node.value.get(kind), f"{kind}s[{name}].{kind}", base)


def _context(document: Json, base: str) -> Section:
    name = Section(document, "", base).text("current-context")
    if not name:
        raise BadKubeconfigError("current-context: is not set")
    return _named(document, "context", name, "current-context", base)


def _server(cluster: Section, secure: bool) -> str:
    text = cluster.text("server")
    if not text:
        raise cluster.bad("server", "is not set")
    url = text if "://" in text else f"{'https' if secure else 'http'}://{text}"
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or url != "".join(url.split()) or parts.query or parts.fragment or "@" in url:
        raise cluster.bad("server", "must be a URL such as https://host:6443", text)
    return url.rstrip("/")


def _cluster(section: Section) -> Json:
    ca_pem, ca_file = section.content("certificate-authority")
    insecure = section.flag("insecure-skip-tls-verify")
    if ca_pem and insecure:
        problem = "cannot go with a certificate authority"
        raise section.bad("insecure-skip-tls-verify", problem, insecure)
    if ca_pem or ca_file:
        field = "certificate-authority" + ("" if ca_file else "-data")
        _checked(section, field, ca_file, lambda: check_certificates(ca_pem))
    return {
        "server": _server(section, secure=bool(ca_pem) or insecure),
        "server_name": section.text("tls-server-name"),
        "ca_pem": ca_pem,
        "ca_file": ca_file,
        "insecure": insecure,
        "proxy": _proxy(section),
        "disable_compression": section.flag("disable-compression"),
    }


def _checked(section: Section, field: str, path: str, check: Any) -> None:
    try:
        check()
    except PemError as err:
        raise section.bad(field, str(err), path or None) from None


def _proxy(section: Section) -> str:
    text = section.text("proxy-url")
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        good = parts.scheme in _PROXIES and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:  # it may hold a password
        raise section.bad("proxy-url", f"must be a URL with one of {', '.join(_PROXIES)}")
    return text


def _certificate(section: Section) -> Json:
    cert, cert_file = section.content("client-certificate")
    key, key_file = section.content("client-key")
    if cert and not key:
        raise section.bad("client-key", "is not set, but client-certificate is")
    if key and not cert:
        raise section.bad("client-certificate", "is not set, but client-key is")
    if cert:
        name = "client-certificate" + ("" if cert_file else "-data")
        _checked(section, name, cert_file, lambda: check_certificates(cert))
        name = "client-key" + ("" if key_file else "-data")
        _checked(section, name, key_file, lambda: check_pair(cert, key))
    return {
        "client_cert_pem": cert,
        "client_key_pem": key,
        "client_cert_file": cert_file,
        "client_key_file": key_file,
    }


def _user(section: Section) -> Json:
    token, token_file = section.text("token").strip(), section.file("tokenFile")
    if token_file:
        try:
            read_text(token_file)
        except (OSError, ValueError) as err:
            raise section.bad("tokenFile", _reason(err), token_file) from None
    username, password = section.text("username"), section.text("password")
    if username and (token or token_file):
        raise section.bad("username", "cannot go with a token: one way to log in is allowed")
    for field, value in (("token", token), ("username", username), ("password", password)):
        if not value.isprintable():
            raise section.bad(field, "holds characters that cannot be sent")
    return {
        "token": token,
        "token_file": token_file,
        "username": username,
        "password": password,
        "impersonate": section.text("as"),
        "impersonate_uid": section.text("as-uid"),
        "impersonate_groups": section.texts("as-groups"),
        "impersonate_extra": {
            name: section.below("as-user-extra").texts(name)
            for name in section.below("as-user-extra").value
        },
        **_certificate(section),
        **_exec(section.below("exec")),
    }


def _reason(err: Exception) -> str:
    return (err.strerror if isinstance(err, OSError) else None) or str(err)


def _exec(section: Section) -> Json:
    if not section.value:
        return {}
    command, version = section.text("command"), section.text("apiVersion")
    if not command:
        raise section.bad("command", "is not set")
    if version not in _EXEC_VERSIONS:
        raise section.bad("apiVersion", f"must be {' or '.join(_EXEC_VERSIONS)}", version)
    if section.text("interactiveMode") == "Always":
        raise section.bad("interactiveMode", "a kubelet has no terminal", "Always")
    if "/" in command:  # else it is looked for on PATH
        command = os.path.normpath(os.path.join(section.base, command))
    return {
        "exec_command": (command, *section.texts("args")),
        "exec_env": _variables(section),
        "exec_api_version": version,
        "exec_cluster_info": section.flag("provideClusterInfo"),
        "exec_install_hint": section.text("installHint"),
    }


def _variables(section: Section) -> dict[str, str]:
    entries = section.value.get("env") or []
    if not isinstance(entries, list):
        raise section.bad("env", "must be a list")
    pairs = [Section(item, section.path(f"env[{i}]"), "") for i, item in enumerate(entries)]
    return {pair.text("name"): pair.text("value") for pair in pairs if pair.text("name")}


def _extension(cluster: Section) -> str:
    """Return what the cluster has for a plugin."""
    for entry in cluster.value.get("extensions") or []:
        if isinstance(entry, dict) and entry.get("name") == _EXEC_EXTENSION:
            return json.dumps(entry.get("extension"), default=str)
    return ""


def _provided(user: Section, cluster: Json) -> str:
    """Return the token that an auth provider of the library gives."""
    provider = user.below("auth-provider")
    if provider.text("name") not in _PROVIDERS:
        allowed = f"must be {' or '.join(_PROVIDERS)}, or use exec"
        raise provider.bad("name", allowed, provider.text("name"))
    # Nothing but the provider: the library would write keys that are inline to temporary files.
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": cluster["server"]}}],
        "users": [{"name": "it", "user": {"auth-provider": provider.value}}],
    }
    from kubernetes.client import Configuration  # only here: half of the library

    configuration = Configuration()
    try:
        loader = _library.KubeConfigLoader(document, config_base_path=user.base)
        loader.load_and_set(configuration)
    except Exception as err:  # noqa: BLE001 - whatever the provider's library came upon
        raise provider.bad("config", f"no token: {type(err).__name__}") from None
    token = configuration.api_key.get("BearerToken", "").removeprefix("Bearer ")
    if not token:
        raise provider.bad("config", "no token")
    return str(token)


# --- all of it -----------------------------------------------------------------------------------


def resolve(path: str) -> tuple[Endpoint, bool]:
    """Return what a kubeconfig says, and whether that lasts; BadKubeconfigError."""
    base = os.path.dirname(path)
    document = _document(path)
    context = _context(document, base)
    section = _named(document, "cluster", context.text("cluster"), context.path("cluster"), base)
    cluster = _cluster(section)
    name = context.text("user")
    if not name:
        return Endpoint(**cluster), True
    user = _named(document, "user", name, context.path("user"), base)
    found = cluster | _user(user)
    if found.get("exec_cluster_info"):
        found["exec_cluster_config"] = _extension(section)
    if "auth-provider" not in user.value:
        return Endpoint(**found), True
    found["token"] = _provided(user, cluster)
    return Endpoint(**found), False


def main(path: str) -> None:
    """Print what the file says, or what is wrong with it."""
    try:
        endpoint, lasting = resolve(path)
        answer: Json = {"endpoint": to_plain(endpoint), "lasting": lasting}
    except BadKubeconfigError as err:
        answer = {"problem": f"{path}: {err}"}
    except Exception as err:  # noqa: BLE001 - its text, which may hold a secret, is not shown
        answer = {"problem": f"{path}: cannot be read: {type(err).__name__}"}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
