"""Images of pods: who pulls when, with which credentials, and what a pod says of failures."""

from __future__ import annotations

import base64
import json
import re

import pytest

from tests.node import images
from tests.node.images import BUSYBOX
from tests.node.pod_node import SECONDS, sleeper
from tests.node.shared import pod, waiting
from tests.processes.node import free_port, wait_for

PROVIDER = """#!/bin/sh
cat > {asked}
cat <<END
{{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
 "cacheKeyType": "Image", "cacheDuration": "0s",
 "auth": {{"{host}": {{"username": "{user}", "password": "{password}"}}}}}}
END
"""


def arguments(request, directory):
    """Flags of a kubelet that has credentials from a program, for one repository alone."""
    registry = request.getfixturevalue("private_registry")
    programs = directory / "programs"
    programs.mkdir()
    program = programs / "keys"
    login = {"user": registry.login.user, "password": registry.login.password}
    text = PROVIDER.format(asked=directory / "asked", host=registry.host, **login)
    program.write_text(text)
    program.chmod(0o755)
    provider = {
        "name": "keys",
        "matchImages": [f"{registry.host}/provided"],
        "defaultCacheDuration": "0s",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    }
    config = directory / "providers.yaml"
    kind = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"}
    config.write_text(json.dumps({**kind, "providers": [provider]}))
    return (
        f"--image-credential-provider-config={config}",
        f"--image-credential-provider-bin-dir={programs}",
    )


def push(registry, repository, tag="1", **settings):
    """Put an image that is like no other into a registry; its name there, and the image."""
    image = images.busybox(
        f"kubelet.test/{repository}:{tag}",
        Labels={"for": f"{registry.host}/{repository}"},
        **settings,
    )
    return registry.push(image), image


@pytest.fixture
def login(node):
    """A maker of the node's docker configuration; it is gone after the test."""
    path = node.root_dir / "config.json"

    def write(registry, password):
        auth = base64.b64encode(f"{registry.login.user}:{password}".encode()).decode()
        path.write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))

    yield write
    path.unlink(missing_ok=True)


def add(node, name, image, policy="IfNotPresent", **more):
    """A pod with this image."""
    return node.write(pod(name, sleeper(image=image, imagePullPolicy=policy), **more))


def messages(node, name, reason):
    """The messages of a pod's events with this reason."""
    return [event["message"] for event in node.events(name) if event["reason"] == reason]


@pytest.mark.both_versions
def test_an_image_that_is_missing_is_pulled(node, registry):
    """IfNotPresent pulls what is not there, and says how long that took (I-24)."""
    reference, image = push(registry, "missing")
    name = add(node, "missing", reference)
    node.await_ready(name)
    assert messages(node, name, "Pulling") == [f'Pulling image "{reference}"']
    (pulled,) = messages(node, name, "Pulled")
    took = r"in [0-9.ms]+ \([0-9.ms]+ including waiting\)"
    wanted = rf'Successfully pulled image "{reference}" {took}\. Image size: \d+ bytes\.'
    assert re.fullmatch(wanted, pulled), pulled
    status = node.container(name)
    assert status["image"] == reference
    assert status["imageID"] == f"{reference.removesuffix(':1')}@{image.digest}"


def test_an_image_that_is_there_is_not_asked_for(node, registry):
    """IfNotPresent takes what is there, without a word to the registry (I-20, I-24)."""
    reference, _ = push(registry, "there")
    node.await_ready(add(node, "there-0", reference))
    asked = registry.log.count("/v2/there/")
    name = add(node, "there-1", reference)
    node.await_ready(name)
    assert messages(node, name, "Pulled") == [
        f'Container image "{reference}" already present on machine and can be accessed by the pod'
    ]
    assert messages(node, name, "Pulling") == []
    assert registry.log.count("/v2/there/") == asked > 0


def test_always_takes_what_the_registry_has_now(node, registry):
    """Always asks although an image of that name is there, and gets a newer one (I-20)."""
    reference, old = push(registry, "moving")
    first = add(node, "always-0", reference, "Always")
    node.await_ready(first)
    _, new = push(registry, "moving", StopSignal="SIGTERM")
    assert new.digest != old.digest
    second = add(node, "always-1", reference, "Always")
    node.await_ready(second)
    assert node.container(first)["imageID"].endswith(old.digest)
    assert node.container(second)["imageID"].endswith(new.digest)
    assert len(messages(node, second, "Pulling")) == 1


def test_a_name_without_a_tag_means_latest_and_always(node, registry):
    """No tag is :latest, which is always asked for, whatever is there (I-20)."""
    reference, _ = push(registry, "untagged", "latest")
    document = pod("untagged", sleeper(image=reference.removesuffix(":latest")))
    for name in (
        node.write(document),
        node.write(pod("untagged-1", *document["spec"]["containers"])),
    ):
        node.await_ready(name)
        assert len(messages(node, name, "Pulling")) == 1


def test_an_image_by_its_digest(node, registry):
    """A digest names an image as well as a tag does, and is not always asked for."""
    reference, image = push(registry, "pinned")
    pinned = f"{reference.removesuffix(':1')}@{image.digest}"
    for number in range(2):
        name = node.write(pod(f"pinned-{number}", sleeper(image=pinned)))
        node.await_ready(name)
        assert node.container(name)["imageID"] == pinned
    assert messages(node, name, "Pulling") == []


def test_never_takes_only_what_is_there(node):
    """Never uses an image of the machine and says that it did."""
    name = add(node, "never", BUSYBOX, "Never")
    node.await_ready(name)
    assert "Pulling" not in node.reasons(name)


def test_never_does_not_pull(node, registry):
    """Never with an image that is not there is ErrImageNeverPull (P-102)."""
    reference, _ = push(registry, "forbidden")
    name = add(node, "forbidden", reference, "Never")
    found = waiting(node, name, "ErrImageNeverPull")
    text = f'Container image "{reference}" is not present with pull policy of Never'
    assert found["message"] == text
    assert node.await_event(name, "ErrImageNeverPull")["message"] == text
    assert node.await_event(name, "Failed")["message"] == "Error: ErrImageNeverPull"
    pulls = [line for line in registry.log.splitlines() if "/v2/forbidden/manifests/" in line]
    assert not any("method=GET" in line or "method=HEAD" in line for line in pulls), pulls
    assert node.status(name)["phase"] == "Pending"


def test_the_docker_configuration_of_the_node(node, private_registry, login):
    """A private image comes with the credentials in the root directory's config.json (I-22)."""
    reference, image = push(private_registry, "with-config")
    login(private_registry, private_registry.login.password)
    name = add(node, "with-config", reference)
    node.await_ready(name)
    assert node.container(name)["imageID"].endswith(image.digest)


def test_a_pull_leaves_a_record(node, private_registry, login):
    """What the node's credentials have pulled is recorded, and the intent is gone (I-29, I-30)."""
    reference, _ = push(private_registry, "recorded")
    login(private_registry, private_registry.login.password)
    node.await_ready(add(node, "recorded-0", reference))
    records = node.root_dir / "image_manager"
    mine = [p for p in (records / "pulled").iterdir() if "/recorded" in p.read_text()]
    assert len(mine) == 1
    assert [p for p in (records / "pulling").iterdir() if "/recorded" in p.read_text()] == []
    again = add(node, "recorded-1", reference)  # any pod of the node may use it
    node.await_ready(again)
    assert "Pulling" not in node.reasons(again)


def test_credentials_from_a_program(node, private_registry):
    """A credential provider is asked for images that match, and what it says is used (I-26)."""
    reference, image = push(private_registry, "provided/by-program")
    name = add(node, "provided", reference)
    node.await_ready(name)
    assert node.container(name)["imageID"].endswith(image.digest)
    asked = json.loads((node.run_dir.parent / "asked").read_text())
    assert asked["kind"] == "CredentialProviderRequest"
    assert asked["image"] == reference.removesuffix(":1")


def test_no_credentials_until_there_are(node, private_registry, login):
    """A pull that is refused backs off with the last error in view, and succeeds later (P-93)."""
    reference, _ = push(private_registry, "refused")
    name = add(node, "refused", reference)
    found = waiting(node, name, "ImagePullBackOff")
    texts = messages(node, name, "Failed")
    intro = f'Failed to pull image "{reference}": '
    (why,) = (text.removeprefix(intro) for text in texts if text.startswith(intro))
    assert "authorization failed" in why
    assert found["message"] == f'Back-off pulling image "{reference}": ErrImagePull: {why}'
    assert "Error: ErrImagePull" in texts
    assert "Error: ImagePullBackOff" in texts
    assert f'Back-off pulling image "{reference}"' in messages(node, name, "BackOff")
    login(private_registry, private_registry.login.password)
    node.await_ready(name)


def test_wrong_credentials(node, private_registry, login):
    """Credentials that the registry does not take are an error of the pull, not of the kubelet."""
    reference, _ = push(private_registry, "wrong")
    login(private_registry, "not-the-password")
    name = add(node, "wrong", reference)
    found = waiting(node, name, "ErrImagePull", "ImagePullBackOff")
    assert "401" in found["message"] or "authorization failed" in found["message"], found


def test_an_image_that_does_not_exist(node, registry):
    """The registry's word that there is no such image reaches the pod's status."""
    reference = f"{registry.host}/nothing:1"
    name = add(node, "nothing", reference)
    found = waiting(node, name, "ErrImagePull", "ImagePullBackOff")
    assert "not found" in found["message"]
    assert node.status(name)["phase"] == "Pending"


@pytest.mark.both_versions
def test_a_registry_that_is_down(node):
    """A registry that nobody answers for costs the pod its start, and is named in its status."""
    reference = f"127.0.0.1:{free_port()}/down:1"
    name = add(node, "down", reference)
    found = waiting(node, name, "ErrImagePull", "ImagePullBackOff")
    assert "connection refused" in found["message"]
    assert "Failed" in node.reasons(name)


def test_a_name_that_names_nothing(node):
    """A name that cannot be one is InvalidImageName; nobody is asked (P-102)."""
    name = add(node, "invalid", "Not A Name")
    found = waiting(node, name, "InvalidImageName")
    text = 'Failed to apply default image tag "Not A Name": couldn\'t parse image name'
    assert found["message"].startswith(text)
    assert node.await_event(name, "InspectFailed")["message"].startswith(text)
    assert node.await_event(name, "Failed")["message"] == "Error: InvalidImageName"
    assert "Pulling" not in node.reasons(name)


def test_a_corrected_manifest_does_not_wait(node, registry):
    """Who corrects the image of a static pod need not wait for a back-off."""
    good, _ = push(registry, "corrected")
    name = add(node, "corrected", f"{registry.host}/mistyped:1")
    waiting(node, name, "ErrImagePull", "ImagePullBackOff")
    before = node.uid(name)
    add(node, "corrected", good)
    wait_for("the pod is another", lambda: name in node.pods() and node.uid(name) != before)
    node.await_ready(name)
    assert "BackOff" not in node.reasons(name)


def test_one_image_does_not_hold_up_the_others(node, registry):
    """A container whose image cannot be had waits alone: the other one runs."""
    bad = sleeper("bad", image=f"{registry.host}/nothing:2")
    name = node.write(pod("half", bad, sleeper("good")))
    found = waiting(node, name, "ErrImagePull", "ImagePullBackOff", container="bad")
    assert "not found" in found["message"]
    node.await_status(
        name,
        "the good one runs",
        lambda s: "running" in {c["name"]: c["state"] for c in s["containerStatuses"]}["good"],
        SECONDS,
    )


def test_the_image_of_an_init_container(node, registry):
    """An init container without its image keeps the others waiting as PodInitializing (P-100)."""
    init = sleeper("first", image=f"{registry.host}/nothing:3")
    name = node.write(pod("init", initContainers=[init]))
    waiting(node, name, "ErrImagePull", "ImagePullBackOff", container="first")
    assert node.container(name)["state"] == {"waiting": {"reason": "PodInitializing"}}
