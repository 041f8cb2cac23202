"""Claims of pods: volumes that outlive them, on a real cluster with a real runtime.

A test mounts one in a pod, has the pod say what it finds, ends the pod, and sees that nothing of
the pod is left on disk or mounted, and that what was written is still there.
"""

from __future__ import annotations

import pytest

from tests.cluster.cluster_node import OURS, under_test
from tests.cluster.volumes_scene import (
    LONG,
    await_nothing_of,
    claimed,
    end,
    failed_mount,
    give_objects,
    loop_device,
    mount,
    mounts,
    mounts_with,
    read,
    run,
    storage,
    volume,
)
from tests.node.fixtures import need
from tests.node.pod_node import SLEEP, sh, sleeper
from tests.node.shared import pod, state_of
from tests.processes.node import wait_for
from tests.tools.install import ensure_packages

# Ours looks at once; the other one looks once in a while.
CONFIG = {} if under_test() == OURS else {"syncFrequency": "1s"}

ours_alone = pytest.mark.skipif(under_test() != OURS, reason="says what our kubelet alone does")


@pytest.fixture
def store(node):
    """Persistent volumes and claims of the test."""
    with storage(node) as made:
        yield made


@pytest.fixture
def place(store):
    """A directory of this machine."""
    return store.place


@pytest.fixture(scope="module")
def nfs_program():
    """The program that mounts what is on NFS servers."""
    need(ensure_packages("nfs-common"))


# Directories and devices.


def test_claims_of_directories(node, store):
    """P-160, L-33: hostPath and local volumes, whose files get the group that they should have."""
    host = store.directory("host", file="host\n")
    right, wrong, fixed = (store.directory(n, file=f"{n}\n") for n in ("right", "wrong", "fixed"))
    run("chgrp", "4321", str(right))
    right.chmod(0o2770)
    noted = {"annotations": {"pv.beta.kubernetes.io/gid": "5555"}}
    store.volume("host", hostPath={"path": str(host)}, meta=noted)
    for path in (right, wrong, fixed):
        store.local(path.name, path)
    for name in ("host", "right", "wrong", "fixed"):
        store.claim(name)
    volumes = [claimed("host"), claimed("right"), claimed("wrong"), claimed("fixed", readOnly=True)]
    script = """
    id -G; stat -c '%a %g' /right /right/file /wrong /wrong/file /fixed/file
    cat /host/file /right/file /wrong/file /fixed/file
    touch /fixed/new 2>/dev/null || echo read-only
    echo new > /host/new; echo new > /wrong/new; stat -c '%g' /wrong/new
    """
    security = {"fsGroup": 4321, "fsGroupChangePolicy": "OnRootMismatch"}
    container = sh(script, volumeMounts=mounts(volumes))
    lines = read(node, "claims", container, volumes, securityContext=security).splitlines()
    assert {"4321", "5555"} <= set(lines[0].split())
    assert lines[1:6] == ["2770 4321", "644 0", "2775 4321", "664 4321", "644 0"]
    assert lines[6:] == ["host", "right", "wrong", "fixed", "read-only", "4321"]
    assert (host / "new").read_text() == (wrong / "new").read_text() == "new\n"


def test_claims_of_devices(node, store, place):
    """L-34: a device is formatted once and mounted, or given to the container as it is."""
    with (
        loop_device(place / "files") as files,
        loop_device(place / "plain", b"on the device\n") as plain,
    ):
        store.local("files", files, local={"fsType": "ext4"})
        store.local("plain", plain, volumeMode="Block")
        store.claim("files")
        store.claim("plain", volumeMode="Block")
        volumes = [claimed("files"), claimed("plain")]
        given = {
            "volumeMounts": [mount("files")],
            "volumeDevices": [{"name": "plain", "devicePath": "/dev/given"}],
        }
        first = """
        grep ' /files ' /proc/mounts | cut -d' ' -f3; echo kept > /files/file
        test -b /dev/given && head -n 1 /dev/given
        echo from inside | dd of=/dev/given bs=512 seek=1 conv=sync 2>/dev/null
        """
        assert read(node, "first", sh(first, **given), volumes) == "ext4\non the device\n"
        assert mounts_with(f"{files} ") == mounts_with(f"{plain} ") == []
        again = "cat /files/file; dd if=/dev/given bs=512 skip=1 count=1 2>/dev/null | head -n 1"
        assert read(node, "again", sh(again, **given), volumes) == "kept\nfrom inside\n"
        assert run("losetup", "-n", "-O", "NAME", "-j", plain) == ""


def test_two_pods_share_a_device(node, store, place):
    """A device is mounted once for both; the one that stays keeps it when the other goes."""
    with loop_device(place / "files") as device:
        store.local("files", device)
        store.claim("files")
        given = {"volumes": [claimed("files")]}
        stays = sh(
            "until [ -e /files/gone ]; do sleep 0.05; done; cat /files/gone",
            volumeMounts=[mount("files")],
        )
        node.create(pod("stays", stays, restartPolicy="Never", **given))
        goes = sh(f"echo still here > /files/new; {SLEEP}", volumeMounts=[mount("files")])
        node.create(pod("goes", goes, **given))
        for name in ("stays", "goes"):
            node.await_pod_ready(name)
        end(node, "goes")
        path = node.volume_dir("stays", "local-volume", f"{node.namespace}-files")
        assert (path / "new").read_text() == "still here\n"
        (path / "new").rename(path / "gone")
        node.await_phase("stays", "Succeeded")
        assert node.output("stays") == "still here\n"
        end(node, "stays")
        assert mounts_with(f"{device} ") == []


def test_a_claim_for_one_pod_alone(node, store):
    """The second pod waits and says why; it runs when the first one has ended."""
    alone = {"accessModes": ["ReadWriteOncePod"]}
    store.local("data", store.directory("data"), **alone)
    store.claim("data", **alone)
    for name in ("first", "second"):
        node.create(pod(name, sleeper(volumeMounts=[mount("data")]), volumes=[claimed("data")]))
        if name == "first":
            node.await_pod_ready(name)
    words = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
    assert words in failed_mount(node, "second", words)
    end(node, "first")
    node.await_pod_ready("second", LONG)
    end(node, "second")


def test_volumes_of_a_pod_that_ends_while_no_kubelet_runs(node, store, place):
    """L-14: what is mounted is found on disk, and taken down when nobody wants it any more."""
    with (
        loop_device(place / "files") as files,
        loop_device(place / "plain") as plain,
    ):
        give_objects(node)
        store.local("files", files)
        store.local("plain", plain, volumeMode="Block")
        store.local("part", store.directory("part"))
        store.claim("files")
        store.claim("plain", volumeMode="Block")
        store.claim("part")
        volumes = [
            *(claimed(name) for name in ("files", "plain", "part")),
            volume("memory", emptyDir={"medium": "Memory"}),
            volume("secret", secret={"secretName": "keys"}),
        ]
        inside = [
            mount("files"),
            mount("memory"),
            mount("secret"),
            mount("part", subPath="deep"),
            mount("secret", "/user", subPath="user"),
        ]
        devices = [{"name": "plain", "devicePath": "/dev/given"}]
        container = sleeper(volumeMounts=inside, volumeDevices=devices)
        uid = node.create(pod("left", container, volumes=volumes))["metadata"]["uid"]
        node.await_pod_ready("left")
        node.kubelet.stop()
        node.delete("left", gracePeriodSeconds=0)
        node.await_gone("left")
        assert mounts_with(uid)
        node.start()
        await_nothing_of(node, uid, LONG)
        wait_for("the device is free", lambda: not mounts_with(f"{files} "), LONG)
        wait_for("nothing maps it", lambda: not run("losetup", "-n", "-j", plain), LONG)


def test_a_volume_used_as_what_it_is_not(node, store):
    """A file system is no device, and the pod says so; it can be deleted."""
    store.local("data", store.directory("data"))
    store.claim("data")
    devices = [{"name": "data", "devicePath": "/dev/given"}]
    node.create(pod("odd", sleeper(volumeDevices=devices), volumes=[claimed("data")]))
    words = "volume data has volumeMode Filesystem, but is specified in volumeDevices"
    assert words in failed_mount(node, "odd", words)
    end(node, "odd")


def test_a_claim_comes_later_than_its_pod(node, store):
    """The pod waits and says for what: for the claim, then for its volume; then it runs."""
    node.create(pod("early", sleeper(volumeMounts=[mount("late")]), volumes=[claimed("late")]))
    words = f"error processing PVC {node.namespace}/late: failed to fetch PVC from API server: "
    missing = 'persistentvolumeclaims "late" not found'
    assert f"{words}{missing}" in failed_mount(node, "early", "not found")
    store.claim("late")
    words = f"error processing PVC {node.namespace}/late: PVC is not bound"
    assert words in failed_mount(node, "early", "not bound")
    store.local("late", store.directory("late"))
    # Who binds them looks at a claim when it changes, and else once in a long while.
    node.admin.patch(f"{store.claims}/late", {"metadata": {"labels": {"look": "again"}}})
    node.await_pod_ready("early", LONG)
    end(node, "early")


def test_a_local_volume_of_another_node(node, store):
    """A pod that was bound here by force does not get what is elsewhere, and says so."""
    store.local("far", store.directory("far"), on="another-node")
    store.claim("far")
    node.create(pod("far", sleeper(volumeMounts=[mount("far")]), volumes=[claimed("far")]))
    assert "no matching NodeSelectorTerms" in failed_mount(node, "far", "NodeSelectorTerms")
    end(node, "far")


@ours_alone
def test_volumes_that_no_plugin_mounts(node, store):
    """What is not supported is named, with what to use instead; other pods do not mind (L-1)."""
    portal = {"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2001-04.com.example:x", "lun": 0}
    sources = {"iscsi": portal, "fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}}
    for kind, source in sources.items():
        name = store.volume(kind, **{kind: source})
        store.claim(kind)
        node.create(pod(kind, sleeper(volumeMounts=[mount(kind)]), volumes=[claimed(kind)]))
        words = f"PV {name} is of kind {kind}, which is not supported by this kubelet"
        assert f"{words}: use a CSI driver for it" in failed_mount(node, kind, words)
    inline = volume("v", iscsi=portal)
    node.create(pod("inline", sleeper(volumeMounts=[mount("v")]), volumes=[inline]))
    words = "iscsi volumes are not supported: a CSI driver for iSCSI can mount them"
    assert words in failed_mount(node, "inline", words)
    node.create(pod("other"))
    node.await_pod_ready("other")
    end(node, "inline", "other", *sources)


def test_a_claim_is_deleted_while_it_is_used(node, store):
    """Who has it keeps it; when nobody does it is gone, and who comes then says what is missing."""
    store.local("data", store.directory("data", file="content\n"))
    store.claim("data")
    wanted = {"volumes": [claimed("data")]}
    container = sh(f"cat /data/file; {SLEEP}", volumeMounts=[mount("data")])
    node.create(pod("has", container, **wanted))
    node.await_pod_ready("has")
    node.admin.delete(f"{store.claims}/data")
    node.create(pod("shares", container, **wanted))  # a claim that is protected is still one
    node.await_pod_ready("shares")
    end(node, "has", "shares")
    node.admin.wait_gone(f"{store.claims}/data")
    node.create(pod("late", container, **wanted))
    assert 'persistentvolumeclaims "data" not found' in failed_mount(node, "late", "not found")
    end(node, "late")


def test_a_claim_of_the_pod_itself(node, store):
    """An ephemeral volume's claim is made for the pod, and goes with it; its files are ours."""
    directory = store.directory("own")
    full = store.local("own", directory, claim="brief-own")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": full,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    volumes = [volume("own", ephemeral={"volumeClaimTemplate": {"spec": spec}})]
    container = sh("echo written > /own/file; echo done", volumeMounts=[mount("own")])
    assert read(node, "brief", container, volumes) == "done\n"
    assert (directory / "file").read_text() == "written\n"
    node.admin.wait_gone(f"{store.claims}/brief-own")


def test_a_foreign_claim_with_the_name_of_a_pods_own(node, store):
    """A claim that somebody else made is not the pod's, and the pod says so."""
    store.local("own", store.directory("own"), claim="taken-own")
    store.claim("taken-own", f"{node.namespace}-own")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    volumes = [volume("own", ephemeral={"volumeClaimTemplate": {"spec": spec}})]
    node.create(pod("taken", sleeper(volumeMounts=[mount("own")]), volumes=volumes))
    words = f"was not created for pod {node.namespace}/taken (pod is not owner)"
    assert words in failed_mount(node, "taken", "pod is not owner")
    end(node, "taken")


@pytest.mark.usefixtures("nfs_program")
def test_what_the_mount_program_says_of_nfs(node, store):
    """Where the kernel knows no NFS, or no server answers, the pod has the program's own words."""
    source = {"server": "127.0.0.1", "path": "/nothing"}
    options = ["nfsvers=4.2", "retry=0", "soft", "timeo=10"]
    store.volume("claimed", nfs=source, mountOptions=options)
    store.claim("claimed")
    node.create(pod("nfs", sleeper(volumeMounts=[mount("claimed")]), volumes=[claimed("claimed")]))
    said = failed_mount(node, "nfs", "Mounting arguments")
    assert f'"{node.namespace}-claimed"' in said or '"claimed"' in said
    assert f"-t nfs -o {','.join(options)} 127.0.0.1:/nothing" in said
    assert "mount.nfs" in said or "unknown filesystem type" in said
    end(node, "nfs")


def test_a_part_that_leads_out_of_a_claim(node, store):
    """L-32: a link out of the volume is not followed; who shares the volume is not disturbed."""
    directory = store.directory("data", file="content\n")
    (directory / "out").symlink_to("/etc")
    store.local("data", directory)
    store.claim("data")
    out = sleeper(volumeMounts=[mount("data", subPath="out")])
    node.create(pod("escapes", out, volumes=[claimed("data")]))

    def refused(status):
        return state_of(status).get("waiting", {}).get("reason") == "CreateContainerConfigError"

    found = node.await_status("escapes", "is refused", refused)
    message = state_of(found["status"])["waiting"]["message"]
    assert message.startswith("failed to prepare subPath")
    if node.kubelet.kind == OURS:
        assert message.endswith("leads out of the volume")
    inside = sh("cat /data/file", volumeMounts=[mount("data")])
    assert read(node, "stays", inside, [claimed("data")]) == "content\n"
    end(node, "escapes")


# What our own tools say.


def told(node, *command):
    """What kubeletctl says, in one line."""
    done = node.kubelet.ctl(*command)
    assert done.returncode in {0, 1}, done.stderr
    return " ".join(done.stdout.split())


@ours_alone
def test_tools_name_the_volume_that_is_waited_for(node, store):
    """Every view of a pod names the volume and the reason; when it is there, they do not."""
    node.create(pod("early", sleeper(volumeMounts=[mount("data")]), volumes=[claimed("data", "c")]))
    failed_mount(node, "early", "not found")
    missing = 'persistentvolumeclaims "c" not found'
    here = ("-n", node.namespace)
    why = told(node, "why", "early", *here)
    assert "It waits for volume data to be mounted" in why
    assert missing in why
    describe = ("describe", "pod", "early", *here)
    described = told(node, *describe)
    assert missing in described
    assert f"State: failed Claim: {node.namespace}/c" in described
    assert f"volume data (claim {node.namespace}/c) is failed" in told(node, "status")
    store.local("c", store.directory("c"))
    store.claim("c")
    node.await_pod_ready("early", LONG)
    assert missing not in told(node, "why", "early", *here)
    assert f"State: mounted Claim: {node.namespace}/c" in told(node, *describe)
    uid = node.pod("early")["metadata"]["uid"]
    assert uid not in told(node, "orphans", "-o", "json")
    end(node, "early")


@ours_alone
def test_tools_name_the_volume_that_cannot_be_unmounted(node, store, place):
    """A volume that somebody else uses keeps its pod, and is named; the pod goes when it can."""
    with loop_device(place / "files") as device:
        store.local("files", device)
        store.claim("files")
        container = sleeper(volumeMounts=[mount("files")])
        node.create(pod("held", container, volumes=[claimed("files")]))
        node.await_pod_ready("held")
        here, uid = ("-n", node.namespace), node.pod("held")["metadata"]["uid"]
        busy = "Device or resource busy"
        path = node.volume_dir("held", "local-volume", f"{node.namespace}-files")
        with (path / "file").open("w"):
            node.delete("held", gracePeriodSeconds=1)
            wait_for("it is busy", lambda: busy in told(node, "why", "held", *here), LONG)
            for command in (("describe", "pod", "held", *here), ("status",)):
                assert busy in told(node, *command)
            assert node.pod("held")["metadata"]["deletionTimestamp"]
            wait_for("the others are unmounted", lambda: len(mounts_with(uid)) == 1, LONG)
        node.await_gone("held", LONG)
        await_nothing_of(node, uid, LONG)


@ours_alone
def test_tools_name_what_is_left_of_a_pod_that_nobody_knows(node):
    """L-18: the directory, what is mounted below it and why it stays; it goes when it can."""
    uid = "00000000-0000-4000-8000-000000000001"
    path = node.kubelet.root_dir / "pods" / uid / "volumes/kubernetes.io~empty-dir/left"
    path.mkdir(parents=True)
    run("mount", "-t", "tmpfs", "tmpfs", str(path))
    with (path / "file").open("w"):
        wait_for("it is busy", lambda: "busy" in told(node, "orphans"))
        text = told(node, "orphans")
        assert uid in text
        assert "Device or resource busy" in text
    await_nothing_of(node, uid, LONG)
    assert uid not in told(node, "orphans")
