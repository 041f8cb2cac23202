"""The files that remember pulls (I-29)."""

from __future__ import annotations

import hashlib
import json
import os
import stat

import pytest

from procs.syncloop.images.records import RecordError, Records
from procs.syncloop.images.verify import Known, Proofs, SecretRef

NOW = 1_767_323_045 * 10**9  # 2026-01-02T03:04:05Z
NODE = Proofs(node_pods_accessible=True)


@pytest.fixture
def records(tmp_path):
    return Records(str(tmp_path), lambda: NOW)


def file(tmp_path, where, name):
    return (
        tmp_path / "image_manager" / where / f"sha256-{hashlib.sha256(name.encode()).hexdigest()}"
    )


def test_a_pull_leaves_an_intent_and_then_a_record(tmp_path, records):
    """Their names, kinds and modes are those that a Go kubelet reads (I-29)."""
    records.begin("r.io/a:1")
    intent = file(tmp_path, "pulling", "r.io/a:1")
    assert json.loads(intent.read_bytes()) == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "ImagePullIntent",
        "image": "r.io/a:1",
    }
    secret = SecretRef("u", "ns", "pull", "hash")
    records.done("r.io/a:1", "sha256:id", "r.io/a", Proofs((secret,)))
    assert not intent.exists()
    pulled = file(tmp_path, "pulled", "sha256:id")
    assert json.loads(pulled.read_bytes()) == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "ImagePulledRecord",
        "lastUpdatedTime": "2026-01-02T03:04:05Z",
        "imageRef": "sha256:id",
        "credentialMapping": {
            "r.io/a": {
                "kubernetesSecrets": [
                    {"uid": "u", "namespace": "ns", "name": "pull", "credentialHash": "hash"}
                ]
            }
        },
    }
    for directory in (tmp_path / "image_manager", intent.parent, pulled.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(pulled.stat().st_mode) == 0o600
    assert os.listdir(pulled.parent) == [pulled.name]


def test_what_is_remembered_outlives_the_process(tmp_path, records):
    """A successor knows an image that was pulled, and one whose pull was cut off (I-30)."""
    records.begin("a:1")
    records.done("a:1", "id", "docker.io/library/a", NODE)
    records.begin("b:1")
    again = Records(str(tmp_path), lambda: NOW)
    found = again.known("a:1", "id")
    assert found.by_us
    assert found.record.credential_mapping == {"docker.io/library/a": NODE}
    assert again.known("b:1", "other") == Known(by_us=True)
    assert again.known("c:1", "third") == Known(by_us=False)


def test_records_grow_by_repository(records):
    """One image under two names keeps the proofs of each."""
    for name in ("r.io/a", "r.io/b"):
        records.begin(name)
        records.done(name, "id", name, NODE)
    records.learn("id", "r.io/c", Proofs((SecretRef("u"),)))
    assert set(records.known("r.io/a", "id").record.credential_mapping) == {
        "r.io/a",
        "r.io/b",
        "r.io/c",
    }


def test_an_intent_stays_while_somebody_pulls(tmp_path, records):
    """Of two pulls of one image the last to fail takes the intent away."""
    records.begin("a:1")
    records.begin("a:1")
    records.failed("a:1", unsure=False)
    assert file(tmp_path, "pulling", "a:1").exists()
    records.failed("a:1", unsure=False)
    assert not file(tmp_path, "pulling", "a:1").exists()


def test_an_intent_stays_when_nobody_knows_the_end(tmp_path, records):
    """An image that the runtime may yet finish is not to pass for a preloaded one."""
    records.begin("a:1")
    records.failed("a:1", unsure=True)
    assert file(tmp_path, "pulling", "a:1").exists()
    assert records.known("a:1", "id").by_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"kind": "ImagePullIntent", "apiVersion": "kubelet.config.k8s.io/v1beta1"}',
        '{"kind": "ImagePulledRecord", "apiVersion": "kubelet.config.k8s.io/v9"}',
        '{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":3}',
    ],
)
def test_a_broken_record_proves_nothing(tmp_path, records, text):
    """The image still counts as pulled by a kubelet, and the next pull writes a good record."""
    records.learn("id", "r.io/a", NODE)
    file(tmp_path, "pulled", "id").write_text(text)
    assert records.known("a:1", "id") == Known(by_us=True)
    records.learn("id", "r.io/a", NODE)
    assert records.known("a:1", "id").record.credential_mapping == {"r.io/a": NODE}


def test_an_older_version_is_read(tmp_path, records):
    """Records of v1alpha1 have the same fields."""
    records.learn("id", "r.io/a", NODE)
    path = file(tmp_path, "pulled", "id")
    path.write_text(path.read_text().replace("v1beta1", "v1alpha1"))
    assert records.known("a:1", "id").record is not None


def test_a_disk_that_takes_nothing_is_said(tmp_path, records):
    """The sentence has the file and the system's reason."""
    (tmp_path / "image_manager").write_text("in the way")
    with pytest.raises(RecordError, match=r"ImagePullIntent .* cannot be written: "):
        records.begin("a:1")
    with pytest.raises(RecordError, match="ImagePulledRecord"):
        records.done("a:1", "id", "r.io/a", NODE)


def test_records_of_images_that_are_gone_go(tmp_path, records):
    """What is still there, and what was written since the list was made, stays."""
    assert records.prune([], 1 << 63) == 0
    for ref in ("gone", "there", "new"):
        records.learn(ref, "r.io/a", NODE)
    os.utime(file(tmp_path, "pulled", "gone"), ns=(1, 1))
    os.utime(file(tmp_path, "pulled", "there"), ns=(1, 1))
    assert records.prune(["there"], 1000) == 1
    assert not records.known("a", "gone").by_us
    assert records.known("a", "there").by_us
    assert records.known("a", "new").by_us
