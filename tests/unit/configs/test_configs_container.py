"""Container configurations and security contexts (P-151..P-163)."""

from __future__ import annotations

import json

import pytest

from kubelet.cri import api_pb2 as pb
from kubelet.pods.rows import VolumeRow
from procs.syncloop.configs.container import container_config, image_info
from procs.syncloop.configs.context import ImageInfo
from procs.syncloop.configs.errors import ConfigError
from procs.syncloop.configs.lookup import Nothing, Secret
from procs.syncloop.configs.policy import MASKED_PATHS, READ_ONLY_PATHS, Policy
from procs.syncloop.runtime.hashing import container_hash
from tests.unit.configs.config_pods import IMAGE, context, pod, site


def config_of(found, name="main", image=IMAGE, node=None, **changes):
    """Return the configuration of a container, as the runtime would receive it."""
    spec = found.spec
    among = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    (container,) = [c for c in among if c.name == name]
    made = container_config(found, container, 2, image, context(**changes), node or site("/r"))
    return pb.ContainerConfig.FromString(made.SerializeToString())


def security_of(container=None, whole=None, image=IMAGE, meta=None, node=None, **changes):
    """Return the security context of a container."""
    spec = {"securityContext": whole} if whole else {}
    own = {"securityContext": container} if container is not None else {}
    made = config_of(pod(spec, own, meta), image=image, node=node, **changes)
    return made.linux.security_context


def test_identity():
    """P-151, P-153, P-155: labels without the pod's, attempt, image and log."""
    made = config_of(pod(meta={"labels": {"app": "web"}}))
    assert made.metadata == pb.ContainerMetadata(name="main", attempt=2)
    assert dict(made.labels) == {
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u-1",
        "io.kubernetes.container.name": "main",
    }
    assert made.image == pb.ImageSpec(image="sha256:1", user_specified_image="busybox:1")
    assert made.log_path == "main/2.log"


def test_annotations():
    """P-152: what is carried for whoever has lost the pod's spec."""
    container = {
        "ports": [{"containerPort": 80, "name": "http"}],
        "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}},
        "terminationMessagePath": "/dev/words",
    }
    found = pod({"terminationGracePeriodSeconds": 9}, container, {"deletionGracePeriodSeconds": 4})
    carried = dict(config_of(found).annotations)
    assert json.loads(carried.pop("io.kubernetes.container.preStopHandler")) == {
        "exec": {"command": ["bye"]}
    }
    (port,) = json.loads(carried.pop("io.kubernetes.container.ports"))
    assert (port["containerPort"], port["name"]) == (80, "http")
    assert carried == {
        "io.kubernetes.container.hash": container_hash(found.spec.containers[0]),
        "io.kubernetes.container.restartCount": "2",
        "io.kubernetes.container.terminationMessagePath": "/dev/words",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.deletionGracePeriod": "4",
        "io.kubernetes.pod.terminationGracePeriod": "9",
    }


def test_command_line():
    """P-163: references in command and arguments, directory, terminal and input."""
    container = {
        "command": ["run", "$(A)"],
        "args": ["$$(A)", "$(B)"],
        "workingDir": "/w",
        "stdin": True,
        "stdinOnce": True,
        "tty": True,
        "env": [{"name": "A", "value": "1"}],
    }
    made = config_of(pod(container=container))
    assert (list(made.command), list(made.args)) == (["run", "1"], ["$(A)", "$(B)"])
    assert (made.working_dir, made.stdin, made.stdin_once, made.tty) == ("/w", True, True, True)
    assert [(e.key, e.value) for e in made.envs] == [("A", b"1")]


def test_command_line_of_bytes():
    """A command line cannot carry bytes that are no text, and says so."""

    class Known(Nothing):
        def secret(self, _namespace, _name):
            return Secret({"k": b"\xff"})

    ref = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}
    found = pod(container={"command": ["$(A)"], "env": [ref]})
    with pytest.raises(ConfigError, match="not UTF-8"):
        config_of(found, lookup=Known())
    plain = pod(container={"env": [ref]})
    assert config_of(plain, lookup=Known()).envs[0].value == b"\xff"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (pb.Image(uid=pb.Int64Value(value=7)), ImageInfo("r", "s", uid=7)),
        (pb.Image(uid=pb.Int64Value(value=0)), ImageInfo("r", "s", uid=0)),
        (pb.Image(username="app"), ImageInfo("r", "s", user="app")),
        (pb.Image(), ImageInfo("r", "s", uid=0)),
    ],
)
def test_image_user(image, expected):
    """P-159: an image's user is a number, a name, or else root."""
    assert image_info(image, "r", "s") == expected


NAMED = ImageInfo("r", "s", user="app")


@pytest.mark.parametrize(
    ("own", "whole", "image", "expected"),
    [
        ({}, {}, IMAGE, (0, "", None)),
        ({}, {}, ImageInfo("r", "s", uid=5), (5, "", None)),
        ({}, {}, NAMED, (None, "app", None)),
        ({}, {"runAsUser": 3, "runAsGroup": 4}, NAMED, (3, "", 4)),
        ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 3, "runAsGroup": 4}, NAMED, (1, "", 2)),
        ({"runAsUser": 0}, {"runAsUser": 3}, IMAGE, (0, "", None)),
    ],
)
def test_user(own, whole, image, expected):
    """P-159: the container's user, the pod's, the image's."""
    made = security_of(own, whole, image)
    uid = made.run_as_user.value if made.HasField("run_as_user") else None
    gid = made.run_as_group.value if made.HasField("run_as_group") else None
    assert (uid, made.run_as_username, gid) == expected


@pytest.mark.parametrize(
    ("own", "whole", "image", "message"),
    [
        ({"runAsNonRoot": True}, {}, IMAGE, "image will run as root"),
        ({"runAsNonRoot": True}, {}, NAMED, r"non-numeric user \(app\), cannot verify"),
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, NAMED, "runAsUser breaks non-root policy"),
        ({}, {"runAsNonRoot": True}, IMAGE, "image will run as root"),
        ({}, {"runAsNonRoot": True, "runAsUser": 0}, IMAGE, "breaks non-root policy"),
    ],
)
def test_non_root_refused(own, whole, image, message):
    """P-159: what would run as root, or might, is refused with pod and container."""
    with pytest.raises(ConfigError, match=message) as caught:
        security_of(own, whole, image)
    assert '(pod: "web_shop(u-1)", container: main)' in str(caught.value)


@pytest.mark.parametrize(
    ("own", "whole", "image"),
    [
        ({"runAsNonRoot": True}, {}, ImageInfo("r", "s", uid=5)),
        ({"runAsNonRoot": True, "runAsUser": 1}, {}, NAMED),
        ({"runAsNonRoot": False}, {"runAsNonRoot": True}, IMAGE),
        ({"runAsUser": 9}, {"runAsNonRoot": True, "runAsUser": 0}, IMAGE),
    ],
)
def test_non_root_accepted(own, whole, image):
    """P-159: the container's own settings go before the pod's."""
    assert security_of(own, whole, image)


PROFILE = pb.SecurityProfile
RUNTIME = PROFILE(profile_type=PROFILE.RuntimeDefault)
UNCONFINED = PROFILE(profile_type=PROFILE.Unconfined)


def local(name):
    """Return a profile of the node."""
    return PROFILE(profile_type=PROFILE.Localhost, localhost_ref=name)


@pytest.mark.parametrize(
    ("own", "whole", "default", "kind", "ref"),
    [
        ({}, {}, False, PROFILE.Unconfined, ""),
        ({}, {}, True, PROFILE.RuntimeDefault, ""),
        ({}, {"type": "RuntimeDefault"}, False, PROFILE.RuntimeDefault, ""),
        ({"type": "Unconfined"}, {"type": "RuntimeDefault"}, True, PROFILE.Unconfined, ""),
        (
            {"type": "Localhost", "localhostProfile": "a/b.json"},
            {},
            False,
            PROFILE.Localhost,
            "/r/kubelet/seccomp/a/b.json",
        ),
    ],
)
def test_seccomp(own, whole, default, kind, ref):
    """P-157: none but where it is asked for, or made the default; files below the root."""
    made = security_of(
        {"seccompProfile": own} if own else {},
        {"seccompProfile": whole} if whole else {},
        node=site("/r", seccomp_default=default),
    )
    assert made.seccomp == PROFILE(profile_type=kind, localhost_ref=ref)


@pytest.mark.parametrize(
    ("own", "whole", "note", "profile", "old"),
    [
        ({"type": "RuntimeDefault"}, {}, "", RUNTIME, "runtime/default"),
        ({}, {"type": "Unconfined"}, "", UNCONFINED, "unconfined"),
        ({}, {"type": "Unconfined"}, "localhost/x", local("x"), "localhost/x"),
        ({}, {}, "runtime/default", RUNTIME, "runtime/default"),
        (
            {"type": "Localhost", "localhostProfile": "p"},
            {"type": "Unconfined"},
            "unconfined",
            local("p"),
            "localhost/p",
        ),
    ],
)
def test_apparmor(own, whole, note, profile, old):
    """P-158: container, annotation, pod, in this order, and in both forms."""
    key = "container.apparmor.security.beta.kubernetes.io/main"
    made = security_of(
        {"appArmorProfile": own} if own else {},
        {"appArmorProfile": whole} if whole else {},
        meta={"annotations": {key: note} if note else {}},
    )
    assert made.apparmor == profile
    assert made.apparmor_profile == old


def test_no_apparmor():
    """P-158: a pod that says nothing sends nothing."""
    made = security_of({})
    assert not made.HasField("apparmor")
    assert made.apparmor_profile == ""


@pytest.mark.parametrize(
    ("own", "annotation", "message"),
    [
        ({"seccompProfile": {"type": "Localhost"}}, "", "localhostProfile must be set"),
        ({"seccompProfile": {"type": "Odd"}}, "", "seccompProfile.type: 'Odd'"),
        ({"appArmorProfile": {"type": "Localhost"}}, "", "localhostProfile must be set"),
        ({"appArmorProfile": {"type": "Odd"}}, "", "appArmorProfile.type: 'Odd'"),
        ({}, "nonsense", "invalid AppArmor profile name: 'nonsense'"),
        ({}, "localhost/", "invalid AppArmor profile name"),
    ],
)
def test_bad_profiles(own, annotation, message):
    """A profile that cannot be is named with its value."""
    key = "container.apparmor.security.beta.kubernetes.io/main"
    meta = {"annotations": {key: annotation}} if annotation else {}
    with pytest.raises(ConfigError, match=message):
        security_of(own, meta=meta)


def test_paths():
    """P-158: parts of /proc and /sys are hidden, unless the pod wants to see them."""
    made = security_of({})
    assert tuple(made.masked_paths) == MASKED_PATHS
    assert tuple(made.readonly_paths) == READ_ONLY_PATHS
    made = security_of({"procMount": "Unmasked"})
    assert not made.masked_paths
    assert not made.readonly_paths


def test_powers():
    """P-158: capabilities, privilege, root file system and new privileges, as asked for."""
    made = security_of(
        {
            "privileged": True,
            "readOnlyRootFilesystem": True,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        }
    )
    assert (made.privileged, made.readonly_rootfs, made.no_new_privs) == (True, True, False)
    assert list(made.capabilities.add_capabilities) == ["NET_ADMIN"]
    assert list(made.capabilities.drop_capabilities) == ["ALL"]
    assert security_of({"allowPrivilegeEscalation": False}).no_new_privs
    assert not security_of({"allowPrivilegeEscalation": True}).no_new_privs


def test_groups_and_selinux():
    """P-160: groups of pod and volumes; a container's SELinux options replace the pod's."""
    made = security_of(
        {"seLinuxOptions": {"type": "t"}},
        {
            "fsGroup": 10,
            "supplementalGroups": [20],
            "supplementalGroupsPolicy": "Strict",
            "seLinuxOptions": {"level": "s0"},
        },
        volumes={"v": VolumeRow("v", gid=30)},
    )
    assert list(made.supplemental_groups) == [10, 20, 30]
    assert made.supplemental_groups_policy == pb.Strict
    assert made.selinux_options == pb.SELinuxOption(type="t")


def ephemeral(target):
    """Return a pod with an ephemeral container."""
    return pod({"ephemeralContainers": [{"name": "dbg", "image": "x", **target}]})


def test_target():
    """P-156: an ephemeral container sees the processes of its target, if it has one."""
    found = ephemeral({"targetContainerName": "main"})
    options = config_of(found, "dbg", target_id="abc").linux.security_context.namespace_options
    assert (options.pid, options.target_id) == (pb.TARGET, "abc")
    with pytest.raises(ConfigError, match="unable to find target container main"):
        config_of(found, "dbg")
    options = config_of(ephemeral({}), "dbg").linux.security_context.namespace_options
    assert options.pid == pb.CONTAINER


def own_users():
    """Return a sandbox with users of its own."""
    ids = [pb.IDMapping(host_id=65536, container_id=0, length=65536)]
    sandbox = pb.PodSandboxConfig()
    users = pb.UserNamespace(mode=pb.POD, uids=ids, gids=ids)
    sandbox.linux.security_context.namespace_options.userns_options.CopyFrom(users)
    return sandbox


def test_user_namespace():
    """P-156, P-165: users of the sandbox are the container's and its mounts' too."""
    sandbox = own_users()
    made = config_of(pod({"hostUsers": False}), sandbox=sandbox)
    wanted = sandbox.linux.security_context.namespace_options.userns_options
    assert made.linux.security_context.namespace_options.userns_options == wanted
    assert [list(mount.uidMappings) for mount in made.mounts] == [list(wanted.uids)] * 2
    assert [list(mount.gidMappings) for mount in made.mounts] == [list(wanted.gids)] * 2


def test_stop_signal():
    """P-147: a signal is sent along behind its gate only."""
    found = pod(container={"lifecycle": {"stopSignal": "SIGUSR1"}})
    assert config_of(found).stop_signal == pb.SIGNAL_RUNTIME_DEFAULT
    assert config_of(found, policy=Policy(stop_signals=True)).stop_signal == pb.SIGNAL_SIGUSR1
    odd = pod(container={"lifecycle": {"stopSignal": "SIGNONE"}})
    with pytest.raises(ConfigError, match="'SIGNONE' is not a signal"):
        config_of(odd, policy=Policy(stop_signals=True))
