"""What pods need of the API server besides themselves: secrets, configmaps, tokens, services."""

from __future__ import annotations

import base64
import json

import pytest

from tests.cluster.documents import config_map, pull_secret, secret
from tests.node import images
from tests.node.pod_node import SECONDS, sh, sleeper
from tests.node.shared import condition, pod, state_of
from tests.processes.node import wait_for

CONFIG = {"syncFrequency": "1s"}  # how often a volume is compared with what it is made of
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def given(node):
    """A secret and a configmap."""
    node.kubectl.apply(
        secret("keys", user="eve", password="s3cret"),
        config_map("settings", colour="green", size="7"),
        namespace=node.namespace,
    )


def reference(kind, name, key, **more):
    """An environment variable's source."""
    return {"valueFrom": {f"{kind}KeyRef": {"name": name, "key": key, **more}}}


@pytest.mark.usefixtures("given")
def test_environment_from_secrets_and_configmaps(node):
    """Single keys, whole objects, and optional ones that are not there."""
    env = [
        {"name": "USER", **reference("secret", "keys", "user")},
        {"name": "COLOUR", **reference("configMap", "settings", "colour")},
        {"name": "NONE", **reference("configMap", "missing", "x", optional=True)},
    ]
    sources = [
        {"prefix": "S_", "secretRef": {"name": "keys"}},
        {"configMapRef": {"name": "settings"}},
        {"configMapRef": {"name": "missing", "optional": True}},
    ]
    script = 'echo "$USER $COLOUR ${NONE-unset} $S_password $size"'
    written = node.run(pod("env", sh(script, env=env, envFrom=sources)))
    assert written == "eve green unset s3cret 7\n"


@pytest.mark.usefixtures("given")
def test_volumes_of_secrets_and_configmaps(node):
    """Every key is a file with the wanted mode; items choose and rename."""
    volumes = [
        {"name": "s", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {
            "name": "c",
            "configMap": {"name": "settings", "items": [{"key": "colour", "path": "a/b"}]},
        },
        {
            "name": "p",
            "projected": {
                "sources": [
                    {"secret": {"name": "keys", "items": [{"key": "user", "path": "who"}]}},
                    {"configMap": {"name": "settings"}},
                    {
                        "downwardAPI": {
                            "items": [
                                {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                            ]
                        }
                    },
                ]
            },
        },
    ]
    mounts = [{"name": v["name"], "mountPath": f"/{v['name']}"} for v in volumes]
    script = "cat /s/user /c/a/b /p/who /p/size /p/name; stat -L -c ' %a' /s/user; ls /c /p"
    written = node.run(pod("volumes", sh(script, volumeMounts=mounts), volumes=volumes))
    assert written == "evegreeneve7volumes 400\n/c:\na\n\n/p:\ncolour\nname\nsize\nwho\n"


def test_a_change_reaches_the_volume(node):
    """A configmap and a secret that change are changed in the running container."""
    node.kubectl.apply(
        config_map("moving", value="one"), secret("key", value="one"), namespace=node.namespace
    )
    volumes = [
        {"name": "c", "configMap": {"name": "moving"}},
        {"name": "s", "secret": {"secretName": "key"}},
    ]
    mounts = [{"name": "c", "mountPath": "/c"}, {"name": "s", "mountPath": "/s"}]
    script = "while ! grep -q two /c/value || ! grep -q two /s/value; do sleep 0.1; done; echo seen"
    node.create(
        pod("watches", sh(script, volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
    )
    node.await_pod_ready("watches")
    node.kubectl.apply(
        config_map("moving", value="two"), secret("key", value="two"), namespace=node.namespace
    )
    node.await_phase("watches", "Succeeded", seconds=100)


def test_a_pod_waits_for_what_is_missing(node):
    """Without its objects a pod says what it lacks, and runs when they come."""
    env = [{"name": "A", **reference("configMap", "late", "a")}]
    node.create(pod("env", sleeper(env=env)))
    volumes = [{"name": "v", "secret": {"secretName": "later"}}]
    mounts = [{"name": "v", "mountPath": "/v"}]
    node.create(pod("volume", sleeper(volumeMounts=mounts), volumes=volumes))

    def lacking(status):
        return state_of(status).get("waiting", {}).get("reason") == "CreateContainerConfigError"

    found = node.await_status("env", "says what it lacks", lacking)
    message = state_of(found["status"])["waiting"]["message"]
    assert message == 'configmap "late" not found'
    event = node.await_event("volume", "FailedMount")
    assert event["message"] == 'MountVolume.SetUp failed for volume "v" : secret "later" not found'
    node.kubectl.apply(config_map("late", a="1"), secret("later", b="2"), namespace=node.namespace)
    node.await_pod_ready("env")
    node.await_pod_ready("volume", seconds=100)


def test_the_token_of_a_pod_is_valid(node):
    """The projected volume has a token that the API server knows to be this pod's (L-26)."""
    script = f"cat {ACCOUNT}/token; echo; cat {ACCOUNT}/namespace; echo; cat {ACCOUNT}/ca.crt"
    written = node.run(pod("who", sh(script)))
    token, namespace, ca = written.split("\n", 2)
    assert namespace == node.namespace
    assert ca.strip() == node.plane.ca.read_text().strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    answer = node.admin.create(
        "/apis/authentication.k8s.io/v1/tokenreviews", {**review, "spec": {"token": token}}
    )
    status = answer["status"]
    assert status["authenticated"]
    assert status["user"]["username"] == f"system:serviceaccount:{node.namespace}:default"
    extra = status["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["who"]
    assert extra["authentication.kubernetes.io/node-name"] == [node.name]
    uid = node.pod("who")["metadata"]["uid"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [uid]


def test_a_token_for_others(node):
    """A projected token has the wanted audience and life."""
    source = {"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 601}}
    volumes = [{"name": "t", "projected": {"sources": [source]}}]
    mounts = [{"name": "t", "mountPath": "/t"}]
    token = node.run(pod("t", sh("cat /t/t; echo", volumeMounts=mounts), volumes=volumes)).strip()
    middle = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    assert claims["aud"] == ["vault"]
    assert claims["exp"] - claims["iat"] == 601
    assert claims["kubernetes.io"]["pod"]["name"] == "t"


def test_services_are_in_the_environment(node):
    """The API server's own service always, those of the namespace when links are wanted."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "data-base"},
        "spec": {"ports": [{"name": "sql", "port": 5432}], "selector": {"app": "db"}},
    }
    node.kubectl.apply(service, namespace=node.namespace)
    path = f"/api/v1/namespaces/{node.namespace}/services/data-base"
    address = node.admin.get(path)["spec"]["clusterIP"]
    script = "env | grep -E 'KUBERNETES_SERVICE|DATA_BASE' | sort"
    # Nothing tells from outside when a new service has come to the node.
    wait_for(
        "the service is known",
        lambda: "DATA_BASE" in node.run(pod("probe", sh(script))) or gone(node, "probe"),
        SECONDS,
    )
    written = node.run(pod("links", sh(script)))
    lines = dict(line.split("=", 1) for line in written.splitlines())
    assert lines["KUBERNETES_SERVICE_HOST"] == "10.232.0.1"
    assert lines["KUBERNETES_SERVICE_PORT"] == "443"
    assert lines["DATA_BASE_SERVICE_HOST"] == address
    assert lines["DATA_BASE_SERVICE_PORT_SQL"] == "5432"
    assert lines["DATA_BASE_PORT_5432_TCP"] == f"tcp://{address}:5432"
    without = node.run(pod("nolinks", sh(script), enableServiceLinks=False))
    assert "KUBERNETES_SERVICE_HOST=10.232.0.1" in without
    assert "DATA_BASE" not in without


def gone(node, name):
    """Remove a pod; never true."""
    node.delete(name, gracePeriodSeconds=0)
    node.await_gone(name)
    return False


def test_a_pull_secret_opens_a_private_registry(node, private_registry):
    """Without it the pull is refused; with it, on the pod or on its account, it works."""
    image = images.busybox("kubelet.test/locked:1", Labels={"for": node.namespace})
    name = private_registry.push(image)
    container = sleeper(image=name, imagePullPolicy="Always")
    node.create(pod("barred", container))

    def refused(status):
        reason = state_of(status).get("waiting", {}).get("reason")
        return reason in {"ErrImagePull", "ImagePullBackOff"}

    node.await_status("barred", "is refused", refused)
    node.kubectl.apply(pull_secret("login", private_registry), namespace=node.namespace)
    secrets = [{"name": "login"}]
    node.create(pod("opened", container, imagePullSecrets=secrets))
    found = node.await_pod_ready("opened")
    assert found["status"]["containerStatuses"][0]["image"] == name
    account = f"/api/v1/namespaces/{node.namespace}/serviceaccounts/default"
    node.admin.patch(account, {"imagePullSecrets": secrets})
    # The account's secrets are put into pods by the API server, which hears of them by and by.
    wait_for(
        "new pods have the account's secret",
        lambda: (
            node.create(pod("inherits", container))["spec"].get("imagePullSecrets")
            or gone(node, "inherits")
        ),
        SECONDS,
    )
    node.await_pod_ready("inherits")


def test_the_environment_of_a_restarted_container_is_new(node):
    """A container that is started again gets what its configmap says then."""
    node.kubectl.apply(config_map("turns", turn="first"), namespace=node.namespace)
    env = [{"name": "TURN", **reference("configMap", "turns", "turn")}]
    ends = "[ $TURN = second ] && exit 0"
    script = f"echo $TURN; {ends}; until [ -e /go/now ]; do sleep 0.1; done; exit 1"
    volumes = [{"name": "go", "configMap": {"name": "go", "optional": True}}]
    mounts = [{"name": "go", "mountPath": "/go"}]
    container = sh(script, env=env, volumeMounts=mounts)
    node.create(pod("turns", container, volumes=volumes, restartPolicy="OnFailure"))
    node.await_pod_ready("turns")
    node.kubectl.apply(
        config_map("turns", turn="second"), config_map("go", now="1"), namespace=node.namespace
    )
    node.await_phase("turns", "Succeeded", seconds=100)
    assert condition(node.pod("turns")["status"], "Ready") == ("False", "PodCompleted")
    assert node.output("turns", attempt=1) == "second\n"
