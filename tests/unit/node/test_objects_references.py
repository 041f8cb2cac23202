"""Which objects a pod refers to (L-24, L-26)."""

from __future__ import annotations

import pytest
from objects_scene import pod

from kubelet.cluster.rows import token_key
from procs.node.objects.references import ObjectReference, TokenReference, references


def keys(**spec):
    return {reference.key for reference in references(pod(**spec))}


def volume(**source):
    return {"volumes": [{"name": "v", **source}]}


def env(**source):
    return [{"name": "c", "env": [{"name": "E", "valueFrom": source}]}]


SECRETS = [
    volume(secret={"secretName": "s"}),
    volume(projected={"sources": [{"secret": {"name": "s"}}]}),
    volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "s"}}),
    volume(flexVolume={"driver": "d", "secretRef": {"name": "s"}}),
    volume(cephfs={"secretRef": {"name": "s"}}),
    volume(cinder={"secretRef": {"name": "s"}}),
    volume(iscsi={"secretRef": {"name": "s"}}),
    volume(rbd={"secretRef": {"name": "s"}}),
    volume(scaleIO={"secretRef": {"name": "s"}}),
    volume(storageos={"secretRef": {"name": "s"}}),
    volume(azureFile={"secretName": "s"}),
    {"imagePullSecrets": [{"name": "s"}, {}]},
    {"containers": env(secretKeyRef={"name": "s", "key": "k"})},
    {"initContainers": env(secretKeyRef={"name": "s", "key": "k"})},
    {"ephemeralContainers": env(secretKeyRef={"name": "s", "key": "k"})},
    {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]},
    {"initContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]},
    {"ephemeralContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]},
]

CONFIG_MAPS = [
    volume(configMap={"name": "s"}),
    volume(projected={"sources": [{"configMap": {"name": "s", "optional": True}}]}),
    {"containers": env(configMapKeyRef={"name": "s", "key": "k"})},
    {"initContainers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "s"}}]}]},
]


@pytest.mark.parametrize("spec", SECRETS, ids=str)
def test_secrets_are_found_wherever_a_pod_names_them(spec):
    """L-24: volumes, projected sources, drivers, variables of every kind of container, pulls."""
    assert keys(**spec) == {"secret/ns/s"}


@pytest.mark.parametrize("spec", CONFIG_MAPS, ids=str)
def test_config_maps_are_found_wherever_a_pod_names_them(spec):
    """L-24: volumes, projected sources and variables."""
    assert keys(**spec) == {"configmap/ns/s"}


def test_claims_are_those_named_and_those_made_for_the_pod():
    """An ephemeral volume has a claim of the pod's and the volume's name."""
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "big"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
    ]
    assert keys(volumes=volumes) == {"claim/ns/big", "claim/ns/web-scratch"}


def test_tokens_are_one_for_each_audience_and_life_time():
    """L-26: the default is an hour for the API server, of the account named or of ``default``."""
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"serviceAccountToken": {"path": "again", "expirationSeconds": 3600}},
        {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}},
    ]
    spec = {"volumes": [{"name": "t", "projected": {"sources": sources}}]}
    assert references(pod(**spec, serviceAccountName="robot")) == {
        TokenReference("u1", "web", "ns", "robot", "", 3600),
        TokenReference("u1", "web", "ns", "robot", "vault", 600),
    }
    (first, _) = sorted(references(pod(**spec)), key=lambda one: one.key, reverse=True)
    assert first.account == "default"


def test_a_long_audience_still_has_a_key_of_its_own():
    """A table's keys are short; an audience may be any text."""
    one, other = (token_key("u" * 36, "x" * 5000 + end, 3600) for end in "ab")
    assert one != other
    assert len(one) < 200


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_needs_nothing(phase):
    """What no container will read any more is not kept on the node."""
    spec = SECRETS[0]
    assert references(pod(**spec, status={"phase": "Running"}))
    assert references(pod(**spec, status={"phase": phase})) == frozenset()


ODD = [
    {},
    {"metadata": None, "spec": None},
    {"metadata": [], "spec": []},
    {"metadata": {"namespace": 5}, "spec": {}},
    pod(volumes=None, containers=None, imagePullSecrets="s"),
    pod(volumes=["v", None, {"secret": "s"}, {"secret": {"secretName": 5}}, {"ephemeral": {}}]),
    pod(volumes=[{"projected": {"sources": [None, {"secret": []}, {"configMap": {"name": {}}}]}}]),
    pod(containers=[{"env": [{"valueFrom": "x"}, 7], "envFrom": {"secretRef": {"name": "s"}}}]),
    pod(imagePullSecrets=[{"name": "x" * 300}, {"name": ""}, {"name": "\ud800" * 100}]),
    pod(status="odd"),
]


@pytest.mark.parametrize("document", ODD, ids=repr)
def test_odd_pods_refer_to_nothing_odd(document):
    """What is not of the right shape is passed over, and never a crash."""
    for reference in references(document):
        assert isinstance(reference, ObjectReference)
        assert len(reference.key.encode()) <= 384


def test_an_odd_life_time_is_the_default():
    """L-26: 3600 seconds, where the pod gives no number."""
    for odd in (None, "600", 0, -5, {}):
        source = {"serviceAccountToken": {"expirationSeconds": odd}}
        (found,) = references(pod(volumes=[{"name": "t", "projected": {"sources": [source]}}]))
        assert found.seconds == 3600
