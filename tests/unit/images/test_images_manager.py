"""The image manager against a runtime over gRPC (7.3, P-57, P-93, P-102, T-9)."""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest

from procs.syncloop.images.credentials import PullSecret, PullSecrets
from procs.syncloop.images.errors import ImageError
from procs.syncloop.images.manager import Wanted
from tests.unit.images.parts import SECOND, node, pod, until

NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "no such image")
PULLING = ("Normal", "Pulling", 'Pulling image "a:1"')
PULLED = (
    "Normal",
    "Pulled",
    'Successfully pulled image "a:1" in 0s (0s including waiting). Image size: 7 bytes.',
)
PRESENT = (
    "Normal",
    "Pulled",
    'Container image "a:1" already present on machine and can be accessed by the pod',
)


@pytest.fixture
def on_node(tmp_path, sockets):
    """Run a coroutine function with a node."""

    def run(story, *flags, **more):
        async def main():
            async with node(tmp_path / "root", sockets, *flags, **more) as made:
                await story(made)

        asyncio.run(main())

    return run


async def refused(made, *arguments, **more):
    with pytest.raises(ImageError) as caught:
        await made.ensure(*arguments, **more)
    return caught.value


def test_an_absent_image_is_pulled(on_node):
    """The runtime gets name, annotations and sandbox; the pod is told of it (I-24, I-25)."""

    async def story(made):
        asked = pod(annotations={"x": "y"})
        got = await made.ensure("a:1", of=asked, handler="kata")
        assert (got.ref, got.image.size, got.pulled) == ("sha256:a:1", 7, True)
        (request,) = made.runtime.pulls
        assert request.image.image == "a:1"
        assert request.image.runtime_handler == "kata"
        assert dict(request.image.annotations) == {"x": "y"}
        assert request.sandbox_config.hostname == "box"
        assert not request.HasField("auth")
        assert made.events[0][-1] == "c"
        assert made.told() == [PULLING, PULLED]
        assert made.reached == [("pull:before", "u1"), ("pull:after", "u1")]

    on_node(story)


@pytest.mark.parametrize(
    ("image", "policy", "pulls"),
    [("a:1", "", 0), ("a:1", "IfNotPresent", 0), ("a:1", "Never", 0), ("a:1", "Always", 1)],
)
def test_a_present_image_is_used(on_node, image, policy, pulls):
    """What is there is not pulled unless the policy is Always (I-20)."""

    async def story(made):
        made.runtime.have("a:1")
        got = await made.ensure(image, policy)
        assert (got.ref, got.pulled) == ("sha256:a:1", bool(pulls))
        assert len(made.runtime.pulls) == pulls
        assert made.told() == ([PULLING, PULLED] if pulls else [PRESENT])

    on_node(story)


def test_a_name_without_a_tag_is_the_latest(on_node):
    """It is looked for and pulled as :latest, and always pulled (I-20)."""

    async def story(made):
        made.runtime.have("a:latest")
        await made.ensure("a")
        assert [request.image.image for request in made.runtime.pulls] == ["a:latest"]
        assert made.told()[0][2] == 'Pulling image "a"'

    on_node(story)


def test_each_ask_looks_again(on_node):
    """An image that was removed meanwhile is pulled anew: nothing is assumed."""

    async def story(made):
        await made.ensure("a:1")
        made.runtime.images.clear()
        assert (await made.ensure("a:1")).pulled
        assert not (await made.ensure("a:1")).pulled

    on_node(story)


def test_never_is_never(on_node):
    """An absent image with policy Never ends in its own reason and event (I-24)."""

    async def story(made):
        error = await refused(made, "a:1", "Never")
        text = 'Container image "a:1" is not present with pull policy of Never'
        assert (error.reason, error.message) == ("ErrImageNeverPull", text)
        assert made.told() == [
            ("Warning", "ErrImageNeverPull", text),
            ("Warning", "Failed", "Error: ErrImageNeverPull"),
        ]
        assert made.runtime.pulls == []

    on_node(story)


def test_a_bad_name_is_said(on_node):
    """The runtime is not asked for what can be no image (P-102)."""

    async def story(made):
        error = await refused(made, "Bad Name")
        assert error.reason == "InvalidImageName"
        assert error.message == (
            'Failed to apply default image tag "Bad Name": couldn\'t parse image name "Bad Name": '
            "invalid reference format: repository name (library/Bad Name) must be lowercase"
        )
        assert [reason for _, reason, _ in made.told()] == ["InspectFailed", "Failed"]
        assert made.runtime.looks == []

    on_node(story)


def test_a_look_that_fails_is_said(on_node):
    """A runtime that cannot tell ends in ImageInspectError, without a back-off (P-102)."""

    async def story(made):
        made.runtime.errors["ImageStatus"] = (grpc.StatusCode.INTERNAL, "disk")
        error = await refused(made, "a:1")
        text = 'Failed to inspect image "a:1": rpc error: code = Internal desc = disk'
        assert (error.reason, error.message, error.until_ns) == ("ImageInspectError", text, 0)
        assert made.told() == [
            ("Warning", "InspectFailed", text),
            ("Warning", "Failed", "Error: ImageInspectError"),
        ]
        error = await refused(made, "a:1", "Always")
        assert error.reason == "ImageInspectError"
        assert len(made.runtime.pulls) == 1
        assert made.backoffs == {}

    on_node(story)


def test_failures_back_off(on_node):
    """10 s doubling to 300 s; meanwhile the last error stays in view; success ends it (P-93)."""

    async def story(made):
        made.runtime.errors["PullImage"] = NOT_FOUND
        words = "rpc error: code = NotFound desc = no such image"
        waits = []
        for _ in range(7):
            error = await refused(made, "a:1")
            assert (error.reason, error.message) == ("ErrImagePull", words)
            waits.append((error.until_ns - made.clock()) // SECOND)
            assert made.told() == [
                PULLING,
                ("Warning", "Failed", f'Failed to pull image "a:1": {words}'),
                ("Warning", "Failed", "Error: ErrImagePull"),
            ]
            made.clock.now = error.until_ns - 1
            waiting = await refused(made, "a:1")
            assert (waiting.reason, waiting.until_ns) == ("ImagePullBackOff", error.until_ns)
            assert waiting.message == f'Back-off pulling image "a:1": ErrImagePull: {words}'
            assert made.told() == [
                ("Normal", "BackOff", 'Back-off pulling image "a:1"'),
                ("Warning", "Failed", "Error: ImagePullBackOff"),
            ]
            made.clock.now = error.until_ns
        assert waits == [10, 20, 40, 80, 160, 300, 300]
        assert set(made.backoffs) == {"image:a:1"}
        del made.runtime.errors["PullImage"]
        await made.ensure("a:1")
        assert made.backoffs == {}

    on_node(story)


def test_a_back_off_is_one_pods_and_one_images(on_node):
    """Neither another pod nor another image waits (P-93)."""

    async def story(made):
        made.runtime.errors["PullImage"] = NOT_FOUND
        await refused(made, "a:1")
        assert (await refused(made, "b:1")).reason == "ErrImagePull"
        assert (await refused(made, "a:1", of=pod("u2"), backoffs={})).reason == "ErrImagePull"

    on_node(story)


def test_a_back_off_outlives_the_process_and_a_clock_set_back(on_node):
    """A successor waits on; a clock that jumped back makes nobody wait for the jump."""

    async def story(made):
        made.runtime.errors["PullImage"] = NOT_FOUND
        await refused(made, "a:1")
        made.manager = made.make()
        assert (await refused(made, "a:1")).reason == "ImagePullBackOff"
        made.clock.now -= 3600 * SECOND
        assert (await refused(made, "a:1")).reason == "ErrImagePull"

    on_node(story)


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ],
)
def test_the_runtime_names_the_kind_of_failure(on_node, prefix, words):
    """Its prefix becomes the waiting reason, and backs off as any failure (P-102)."""

    async def story(made):
        made.runtime.errors["PullImage"] = (grpc.StatusCode.UNKNOWN, f"{prefix}: because")
        error = await refused(made, "a:1")
        text = f"image pull failed for a:1 because {words}: because"
        assert (error.reason, error.message) == (prefix, text)
        assert made.told()[-1] == ("Warning", "Failed", f"Error: {prefix}")
        error = await refused(made, "a:1")
        assert error.message == f'Back-off pulling image "a:1": {prefix}: {text}'

    on_node(story)


def test_two_pods_share_one_pull(on_node):
    """The same image is pulled once; each pod is told for itself."""

    async def story(made):
        door = made.runtime.doors["a:1"] = asyncio.Event()
        asked = [
            asyncio.create_task(made.ensure("a:1", "Always", of=pod(uid), backoffs={}))
            for uid in ("u1", "u2")
        ]
        await until(lambda: made.runtime.running and len(made.events) == 2)
        door.set()
        got = await asyncio.gather(*asked)
        assert [one.ref for one in got] == ["sha256:a:1"] * 2
        assert len(made.runtime.pulls) == 1
        assert sorted(uid for uid, *_ in made.events) == ["u1", "u1", "u2", "u2"]
        assert made.reached == [("pull:before", "u1"), ("pull:after", "u1")]

    on_node(story)


def test_a_cancelled_pod_leaves_the_pull_to_the_others(on_node):
    """The one that stays gets its image; when the last goes, the runtime hears of it."""

    async def story(made):
        door = made.runtime.doors["a:1"] = asyncio.Event()
        first, second = (
            asyncio.create_task(made.ensure("a:1", of=pod(uid), backoffs={}))
            for uid in ("u1", "u2")
        )
        await until(lambda: made.runtime.running and len(made.events) == 2)
        first.cancel()
        await asyncio.wait([first])
        assert made.runtime.given_up == 0
        door.set()
        assert (await second).pulled
        made.runtime.doors["b:1"] = asyncio.Event()
        last = asyncio.create_task(made.ensure("b:1"))
        await until(lambda: made.runtime.running)
        last.cancel()
        await asyncio.wait([last])
        await until(lambda: made.runtime.given_up == 1)

    on_node(story)


def test_a_cancelled_pull_costs_no_back_off(on_node):
    """Who gives up did not fail; the image may have come all the same, and has to be proved."""

    async def story(made):
        made.runtime.doors["a:1"] = asyncio.Event()
        task = asyncio.create_task(made.ensure("a:1"))
        await until(lambda: made.runtime.running)
        task.cancel()
        await asyncio.wait([task])
        assert made.backoffs == {}
        assert [reason for _, reason, _ in made.told()] == ["Pulling"]
        await until(lambda: made.runtime.given_up)
        made.runtime.have("a:1")
        made.runtime.doors.clear()
        assert (await made.ensure("a:1")).pulled

    on_node(story)


@pytest.mark.parametrize(("flags", "most"), [((), 3), (("--serialize-image-pulls=true",), 1)])
def test_pulls_run_beside_each_other(on_node, flags, most):
    """Images are pulled in parallel unless one at a time was asked for (I-21)."""

    async def story(made):
        names = ("a:1", "b:1", "c:1")
        doors = [made.runtime.doors.setdefault(name, asyncio.Event()) for name in names]
        tasks = [asyncio.create_task(made.ensure(name)) for name in names]
        await until(lambda: made.runtime.running == most)
        for door in doors:
            door.set()
        await asyncio.gather(*tasks)
        assert made.runtime.most == most

    on_node(story, *flags)


def test_too_many_pulls_are_refused(on_node):
    """Above burst and rate a pull fails with the known words; what is there is not counted."""

    async def story(made):
        made.runtime.have("z:1")
        for name in ("a:1", "b:1"):
            await made.ensure(name)
        error = await refused(made, "c:1")
        assert (error.reason, error.message) == ("ErrImagePull", "pull QPS exceeded")
        await made.ensure("z:1")
        made.clock.now = error.until_ns
        await made.ensure("c:1")

    on_node(story, "--registry-qps=1", "--registry-burst=2")


def test_what_a_predecessor_pulled_is_taken(on_node):
    """A pull for this very start is not repeated, whatever the policy, unless it is gone."""

    async def story(made):
        ref = made.runtime.have("a:1")
        got = await made.ensure("a:1", "Always", already=ref)
        assert (got.ref, got.pulled, made.runtime.pulls) == (ref, False, [])
        assert made.told() == []
        made.runtime.images.clear()
        assert (await made.ensure("a:1", already=ref)).pulled

    on_node(story)


def logins(**passwords):
    entries = {w.replace("_", "."): {"username": "u", "password": p} for w, p in passwords.items()}
    return json.dumps({"auths": entries})


def test_credentials_are_tried_in_order(on_node, tmp_path):
    """Secrets of the pod, then those of the node; all failures are told (I-22)."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "config.json").write_text(logins(r_io="node"))

    def secrets(_pod):
        found = (
            PullSecret("ns", "one", "s1", logins(r_io="first")),
            PullSecret(
                "ns", "two", "s2", json.dumps({"r.io/a": {"password": "deep"}}), legacy=True
            ),
            PullSecret("ns", "bad", "s3", "{"),
        )
        return PullSecrets(found, ("gone",))

    async def story(made):
        made.runtime.passwords = {"right"}
        error = await refused(made, "r.io/a:1")
        tried = [request.auth.password for request in made.runtime.pulls]
        assert tried == ["deep", "first", "node"]
        assert error.message.startswith("[rpc error: code = Unknown desc = 401 for ''")
        assert 'pull secret "bad" cannot be used: it is not JSON' in error.message
        missing = (
            "Unable to retrieve some image pull secrets (gone); "
            "attempting to pull the image may not succeed."
        )
        assert ("Warning", "FailedToRetrieveImagePullSecret", missing) in made.told()
        made.runtime.passwords = {"first"}
        made.clock.now = error.until_ns
        assert (await made.ensure("r.io/a:1")).pulled
        assert [request.auth.password for request in made.runtime.pulls[3:]] == ["deep", "first"]
        assert not any("Retrieve" in reason for _, reason, _ in made.told())

    on_node(story, secrets=secrets)


def test_pull_secrets_are_unknown_without_an_api_server(on_node):
    """They are named only when the pull then fails, on the pod and not the container (P-57)."""

    async def story(made):
        asked = pod(secrets=("b", "a"))
        await made.ensure("a:1", of=asked)
        assert made.told() == [PULLING, PULLED]
        made.runtime.errors["PullImage"] = NOT_FOUND
        await refused(made, "b:1", of=asked)
        (event,) = [e for e in made.events if e[2] == "FailedToRetrieveImagePullSecret"]
        assert "(a, b)" in event[3]
        assert event[4] == ""

    on_node(story)


def test_different_credentials_are_different_pulls(on_node):
    """What one pod may have is not given to another that shows something else."""

    def secrets(of):
        return PullSecrets((PullSecret("ns", "s", of.uid, logins(r_io=f"pw-{of.uid}")),))

    async def story(made):
        made.runtime.passwords = {"pw-u1"}
        found = await asyncio.gather(
            *(made.ensure("r.io/a:1", of=pod(uid), backoffs={}) for uid in ("u1", "u2")),
            return_exceptions=True,
        )
        assert found[0].pulled
        assert found[1].reason == "ErrImagePull"

    on_node(story, secrets=secrets)


def test_a_private_image_has_to_be_proved(on_node):
    """A pod without the secret that pulled it asks the registry itself, over a restart (I-30)."""

    def secrets(of):
        return PullSecrets(
            (PullSecret("ns", "s", "s1", logins(r_io="pw")),) if of.uid != "poor" else ()
        )

    async def story(made):
        made.runtime.passwords = {"pw"}
        await made.ensure("r.io/a:1", of=pod("rich"))
        made.manager = made.make()
        assert not (await made.ensure("r.io/a:1", of=pod("rich2"))).pulled
        made.events.clear()
        poor = pod("poor")
        error = await refused(made, "r.io/a:1", of=poor, backoffs={})
        assert error.reason == "ErrImagePull"
        error = await refused(made, "r.io/a:1", "Never", of=poor, backoffs={})
        assert error.reason == "ErrImageNeverPull"
        assert "does not have the proper credentials" in error.message

    on_node(story, secrets=secrets)


def test_a_public_image_is_everyones(on_node):
    """What came without a secret is used by every pod without asking anyone (I-30)."""

    async def story(made):
        await made.ensure("a:1")
        made.manager = made.make()
        assert not (await made.ensure("a:1", of=pod("u2"))).pulled

    on_node(story)


def test_an_answer_that_was_lost_keeps_the_intent(on_node, tmp_path):
    """The runtime may finish what nobody heard the end of: then the image has to be proved."""

    async def story(made):
        intents = tmp_path / "root" / "image_manager" / "pulling"
        made.runtime.errors["PullImage"] = NOT_FOUND
        await refused(made, "a:1")
        assert list(intents.iterdir()) == []
        made.runtime.errors["PullImage"] = (grpc.StatusCode.UNAVAILABLE, "closing")
        error = await refused(made, "b:1")
        assert len(list(intents.iterdir())) == 1
        made.runtime.errors.clear()
        made.runtime.have("b:1")
        made.clock.now = error.until_ns
        assert (await made.ensure("b:1")).pulled
        assert list(intents.iterdir()) == []

    on_node(story)


def test_a_pull_that_cannot_be_noted_is_not_begun(on_node, tmp_path):
    """Without its intent an image would pass for a preloaded one; the sentence says why (I-29)."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "image_manager").write_text("in the way")

    async def story(made):
        error = await refused(made, "a:1")
        assert error.reason == "ErrImagePull"
        assert "cannot be written" in error.message
        assert made.runtime.pulls == []

    on_node(story)


def test_a_provider_gives_credentials(on_node, tmp_path):
    """Its program is run for the images that it is for, and its failure is told (I-26)."""
    config = tmp_path / "providers.json"
    program = tmp_path / "helper"
    api = "credentialprovider.kubelet.k8s.io/v1"
    answer = {
        "apiVersion": api,
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Registry",
        "cacheDuration": "0s",
        "auth": {"r.io": {"username": "u", "password": "pw"}},
    }
    program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    provider = {
        "name": "helper",
        "matchImages": ["r.io"],
        "defaultCacheDuration": "1m",
        "apiVersion": api,
    }
    head = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"}
    config.write_text(json.dumps(head | {"providers": [provider]}))

    async def story(made):
        assert made.manager.problems == ()
        made.runtime.passwords = {"pw"}
        await made.ensure("r.io/a:1")
        assert [request.auth.username for request in made.runtime.pulls] == ["u"]
        program.write_text("#!/bin/sh\nexit 5\n")
        error = await refused(made, "r.io/b:1")
        assert f'credential provider "helper" gave no credentials: {program}: exit status 5' in (
            error.message
        )

    flags = (
        f"--image-credential-provider-config={config}",
        f"--image-credential-provider-bin-dir={tmp_path}",
    )
    on_node(story, *flags)


def test_bad_providers_do_not_stop_other_pulls(on_node):
    """What is wrong is said, and images without credentials are pulled all the same."""

    async def story(made):
        assert "cannot be read" in made.manager.problems[0]
        assert (await made.ensure("a:1")).pulled

    flags = (
        "--image-credential-provider-config=/absent.yaml",
        "--image-credential-provider-bin-dir=/absent",
    )
    on_node(story, *flags)


def test_an_image_volume_is_pulled_the_same_way(on_node):
    """Its events are the pod's own (I-31)."""

    async def story(made):
        got = await made.manager.ensure_image(pod(), Wanted("a:1"), None, made.backoffs)
        assert got.pulled
        assert made.events[0][-1] == ""

    on_node(story)


def test_without_its_gate_nothing_is_recorded(on_node, tmp_path):
    """KubeletEnsureSecretPulledImages off leaves no file and asks for no proof (I-29)."""

    async def story(made):
        await made.ensure("a:1")
        assert not (await made.ensure("a:1", of=pod("u2"))).pulled
        assert not (tmp_path / "root").exists()

    on_node(story, "--feature-gates=KubeletEnsureSecretPulledImages=false")
