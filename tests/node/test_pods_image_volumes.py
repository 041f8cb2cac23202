"""Volumes that are images, which the runtime mounts: what containers find in them (P-165, I-31)."""

from __future__ import annotations

import pytest

from tests.node import images
from tests.node.images import Entry
from tests.node.pod_node import SLEEP, sh, sleeper
from tests.node.shared import pod, run, waiting


def push(registry, repository):
    """Put an image with two files and no program into a registry; its name there."""
    entries = (
        Entry("top", b"on top\n", mode=0o644),
        Entry("dir"),
        Entry("dir/inner", f"inside {repository}\n".encode(), mode=0o644),
    )
    return registry.push(images.build(f"kubelet.test/{repository}:1", entries))


def image(reference, policy="IfNotPresent"):
    """A volume that is an image."""
    return {"name": "v", "image": {"reference": reference, "pullPolicy": policy}}


def mount(path="/v", **more):
    """The volume in a container."""
    return {"name": "v", "mountPath": path, **more}


def messages(node, name, reason):
    """The messages of a pod's events with this reason."""
    return [event["message"] for event in node.events(name) if event["reason"] == reason]


def test_a_container_reads_an_image_that_is_a_volume(node, registry):
    """P-165: the image is pulled, its files are there, and nobody can write them."""
    reference = push(registry, "volume-whole")
    script = "cat /v/top /v/dir/inner; touch /v/new 2>/dev/null || echo refused"
    spec = {"volumes": [image(reference)]}
    text = run(node, "whole", script, spec=spec, volumeMounts=[mount()])
    assert text == "on top\ninside volume-whole\nrefused\n"


def test_the_pull_of_a_volume_is_told_of_the_pod(node, registry):
    """I-31: a volume's image is pulled once, whoever mounts it, and the events are the pod's."""
    reference = push(registry, "volume-told")
    one, two = (sh(f"cat /v/top; {SLEEP}", n, volumeMounts=[mount()]) for n in ("one", "two"))
    name = node.write(pod("told", one, two, volumes=[image(reference)]))
    for container in ("one", "two"):
        node.await_output(name, "on top\n", container)
    assert messages(node, name, "Pulling").count(f'Pulling image "{reference}"') == 1


def test_a_part_of_an_image(node, registry):
    """P-165: a subPath of an image volume is for the runtime to find."""
    reference = push(registry, "volume-part")
    spec = {"volumes": [image(reference)]}
    mounts = [mount(subPath="dir")]
    text = run(node, "imagepart", "ls /v; cat /v/inner", spec=spec, volumeMounts=mounts)
    assert text == "inner\ninside volume-part\n"


def test_an_image_volume_that_cannot_be_pulled(node, registry):
    """I-31, P-102: its containers wait with the reason of the pull, and then back off."""
    reference = f"{registry.host}/volume-none:1"
    name = node.write(
        pod("nopull", sleeper(volumeMounts=[mount()]), volumes=[image(reference, "Always")])
    )
    assert reference in waiting(node, name, "ErrImagePull", "ImagePullBackOff")["message"]
    backing_off = waiting(node, name, "ImagePullBackOff")["message"]
    assert backing_off.startswith(f'Back-off pulling image "{reference}"')
    assert "Error: ErrImagePull" in messages(node, name, "Failed")


def test_an_image_volume_that_must_not_be_pulled(node, registry):
    """I-31, P-102: with policy Never, an image that is not there keeps its container waiting."""
    reference = push(registry, "volume-never")
    name = node.write(
        pod("never", sleeper(volumeMounts=[mount()]), volumes=[image(reference, "Never")])
    )
    found = waiting(node, name, "ErrImageNeverPull")
    assert found["message"].endswith("is not present with pull policy of Never")


@pytest.mark.both_versions
def test_what_the_runtime_says_of_an_image_volume_reaches_the_pod(node, registry):
    """P-102: where a runtime cannot mount it, the container waits with the runtime's words."""
    reference = push(registry, "volume-odd")
    mounts = [mount(subPath="not/there")]
    name = node.write(pod("odd", sleeper(volumeMounts=mounts), volumes=[image(reference)]))
    assert waiting(node, name, "CreateContainerError")["message"]
