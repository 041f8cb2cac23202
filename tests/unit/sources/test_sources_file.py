"""The file source, over real files and the kernel's own events (P-5)."""

from __future__ import annotations

import os

import pytest

from procs.syncloop.sources import settled
from tests.unit.sources.sources_scene import place, pod, scene, story, text, writing

QUIET = "1h"  # no re-scan: what is seen is seen by events


@pytest.fixture
def manifests(tmp_path):
    """A directory of manifests."""
    made = tmp_path / "manifests"
    made.mkdir()
    return made


def watching(root, path, every=QUIET):
    return scene(root, pod_manifest_path=path, file_check_frequency=every)


def test_files_come_change_and_go(tmp_path, manifests):
    """Added by a rename, edited, removed: each is seen by its event alone (P-5, P-7)."""
    place(manifests / "b.yaml", pod("b"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.sources.ready)
            assert s.wanted == {"b-node-1": "app:1"}
            place(manifests / "a.json", pod("a"))
            await s.until(lambda: "a-node-1" in s.wanted)
            place(manifests / "b.yaml", pod("b", image="app:2"))
            await s.until(lambda: s.wanted["b-node-1"] == "app:2")
            os.unlink(manifests / "a.json")
            await s.until(lambda: "a-node-1" not in s.wanted)
            os.rename(manifests / "b.yaml", tmp_path / "b.yaml")
            await s.until(lambda: not s.wanted)
            assert s.ops == [
                ("add", "b-node-1"),
                ("add", "a-node-1"),
                ("remove", "b-node-1"),
                ("add", "b-node-1"),
                ("remove", "a-node-1"),
                ("remove", "b-node-1"),
            ]

    story(work)


def test_an_edited_file_with_a_uid_is_an_update(tmp_path, manifests):
    """The pod is the same one: it is told what changed (P-1)."""
    place(manifests / "a", pod(metadata={"uid": "fixed"}))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            place(manifests / "a", pod(image="app:2", metadata={"uid": "fixed"}))
            await s.until(lambda: len(s.changes) == 2)
            assert s.ops[1] == ("update", "web-node-1")

    story(work)


def test_a_half_written_file_is_not_read(tmp_path, manifests):
    """While a writer has it open nothing is read, though it would parse; then at once."""
    begun = b"apiVersion: v1\nkind: Pod\nmetadata: {name: slow}\nspec:\n  containers:\n"
    begun += b"  - {name: one, image: x}\n"

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.sources.ready)
            with writing(manifests / "slow.yaml") as writer:
                writer.write(begun)
                place(manifests / "other.yaml", pod("other"))
                await s.until(lambda: s.wanted)
                assert list(s.wanted) == ["other-node-1"]
                assert s.problems == ""
                writer.write(b"  - {name: two, image: x}\n")
            await s.until(lambda: "slow-node-1" in s.wanted)
            (found,) = [c.pod for c in s.changes if c.pod.name == "slow-node-1"]
            assert [c.name for c in found.spec.containers] == ["one", "two"]

    story(work)


def test_a_file_that_is_written_over_in_place_keeps_its_pod_meanwhile(tmp_path, manifests):
    """An editor that truncates and writes slowly costs nobody a pod."""
    place(manifests / "a.yaml", pod("a"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            with writing(manifests / "a.yaml") as writer:
                writer.write(text(pod("a", image="app:2"))[:40])
                place(manifests / "b.yaml", pod("b"))
                await s.until(lambda: "b-node-1" in s.wanted)
                assert s.wanted["a-node-1"] == "app:1"
                writer.write(text(pod("a", image="app:2"))[40:])
            await s.until(lambda: s.wanted["a-node-1"] == "app:2")
            assert s.problems == ""

    story(work)


def test_a_file_that_stays_open_is_said_at_the_rescan(tmp_path, manifests):
    """Somebody who forgets to close a file is told why its pod does not come."""

    async def work():
        async with watching(tmp_path, manifests, "100ms") as s:
            with writing(manifests / "a.yaml") as writer:
                writer.write(text(pod("a")))
                await s.until(lambda: "a.yaml: is open for writing" in s.problems)
                assert not s.wanted
            await s.until(lambda: s.wanted)
            await s.until(lambda: not s.problems)

    story(work)


def test_a_broken_file_keeps_its_pod_until_it_is_mended(tmp_path, manifests):
    """A typo ends nothing, is said with file and field, and a mended file counts again."""
    place(manifests / "a.yaml", pod("a"))
    place(manifests / "b.yaml", pod("b"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: len(s.wanted) == 2)
            place(manifests / "a.yaml", pod("a", hostNetwork="maybe"))
            await s.until(lambda: s.problems)
            assert f"{manifests}/a.yaml: spec.hostNetwork: must be true or false" in s.problems
            assert "pod default/a-node-1 keeps running as it was" in s.problems
            assert s.wanted == {"a-node-1": "app:1", "b-node-1": "app:1"}
            assert len(s.changes) == 2
            place(manifests / "a.yaml", pod("a", image="app:2"))
            await s.until(lambda: s.wanted["a-node-1"] == "app:2")
            assert s.problems == ""
            place(manifests / "a.yaml", b"{")
            await s.until(lambda: s.problems)
            os.unlink(manifests / "a.yaml")
            await s.until(lambda: "a-node-1" not in s.wanted)
            assert s.problems == ""

    story(work)


def test_a_broken_file_keeps_its_pod_over_our_own_restart(tmp_path, manifests):
    """Who starts while a file is broken knows from the tables what ran from it."""
    place(manifests / "a.yaml", pod("a"))
    place(manifests / "gone.yaml", pod("gone"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: len(s.wanted) == 2)
            seen = s.changes[0].pod.metadata.annotations
            s.remember()
            place(manifests / "a.yaml", b"kind: [")
            await s.until(lambda: s.problems)
        os.unlink(manifests / "gone.yaml")
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.sources.ready)
            assert s.wanted == {"a-node-1": "app:1"}
            assert "keeps running as it was" in s.problems
            assert s.ops == [("add", "a-node-1")]
            assert s.changes[0].pod.metadata.annotations == seen

    story(work)


def test_first_seen_outlives_us(tmp_path, manifests):
    """config.seen is that of the first time, not of our last start (P-1)."""
    place(manifests / "a.yaml", pod("a"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            first = s.changes[0].pod
            s.remember()
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            assert s.changes[0].pod == first

    story(work)


def test_dot_files_and_directories_are_left_alone(tmp_path, manifests):
    """Names that begin with a dot are no manifests, and nothing below is looked at (P-5)."""
    place(manifests / ".hidden.yaml", pod("hidden"))
    (manifests / "below").mkdir()
    place(manifests / "below" / "deep.yaml", pod("deep"))
    place(manifests / "a.yaml", pod("a"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            assert list(s.wanted) == ["a-node-1"]
            assert s.problems == ""

    story(work)


def test_one_bad_file_among_good_ones(tmp_path, manifests):
    """Every problem has its file; the good ones run (P-5)."""
    for name in ("a", "c"):
        place(manifests / name, pod(name))
    place(manifests / "b", b"nonsense")
    os.mkfifo(manifests / "fifo")
    os.symlink("nowhere", manifests / "link")
    with open(manifests / "large", "wb") as file:
        file.truncate(settled.MAX_BYTES + 1)
    os.mkdir(manifests / os.fsdecode(b"not-\xff-utf8-dir"))
    place(manifests / os.fsdecode(b"not-\xff-utf8"), pod("odd"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.sources.ready)
            assert list(s.wanted) == ["a-node-1", "c-node-1", "odd-node-1"]
            assert f"{manifests}/b: document: must be an object" in s.problems
            assert f"{manifests}/fifo: is not a regular file" in s.problems
            assert f"{manifests}/link: is a link to a file that is not there" in s.problems
            assert f"{manifests}/large: has 10485761 bytes" in s.problems

    story(work)


def test_a_single_file(tmp_path, manifests):
    """The path may be one file; its neighbours are not looked at (P-5)."""
    path = manifests / ".only.yaml"
    place(path, pod("only"))
    place(manifests / "other.yaml", pod("other"))

    async def work():
        async with watching(tmp_path, path) as s:
            await s.until(lambda: s.wanted)
            assert s.wanted == {"only-node-1": "app:1"}
            path.write_bytes(text(pod("only", image="app:2")))
            await s.until(lambda: s.wanted == {"only-node-1": "app:2"})
            os.unlink(path)
            await s.until(lambda: not s.wanted)
            place(path, pod("only", image="app:3"))
            await s.until(lambda: s.wanted == {"only-node-1": "app:3"})

    story(work)


def test_a_path_that_comes_later_and_goes(tmp_path):
    """A missing path is no pods; whatever of it appears is seen at once (P-5)."""
    path = tmp_path / "etc" / "kubernetes" / "manifests"

    async def work():
        async with watching(tmp_path, path) as s:
            await s.until(lambda: s.sources.ready)
            assert s.row.delivered == {"file": True, "local": True}
            path.mkdir(parents=True)
            place(path / "a.yaml", pod("a"))
            await s.until(lambda: s.wanted)
            os.rename(tmp_path / "etc" / "kubernetes", tmp_path / "away")
            await s.until(lambda: not s.wanted)
            os.rename(tmp_path / "away", tmp_path / "etc" / "kubernetes")
            await s.until(lambda: s.wanted)
            place(path / "b.yaml", pod("b"))
            await s.until(lambda: len(s.wanted) == 2)

    story(work)


def test_links_are_followed(tmp_path, manifests):
    """A volume of a ConfigMap swaps all its files by one link (P-5)."""
    for version in ("1", "2"):
        (manifests / f"..{version}").mkdir()
        place(manifests / f"..{version}" / "a.yaml", pod("a", image=f"app:{version}"))
    os.symlink("..1", manifests / "..data")
    os.symlink("..data/a.yaml", manifests / "a.yaml")

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            os.symlink("..2", manifests / "..new")
            os.rename(manifests / "..new", manifests / "..data")
            await s.until(lambda: s.wanted == {"a-node-1": "app:2"})
            (manifests / "..2" / "a.yaml").write_bytes(text(pod("a", image="app:3")))
            await s.until(lambda: s.wanted == {"a-node-1": "app:3"})

    story(work)


def test_the_rescan_sees_what_no_event_tells(tmp_path, manifests):
    """A link in the middle of a way elsewhere is no event here (P-5)."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        place(tmp_path / version / "a.yaml", pod("a", image=f"app:{version}"))
    os.symlink("1", tmp_path / "current")
    os.symlink(tmp_path / "current" / "a.yaml", manifests / "a.yaml")

    async def work():
        async with watching(tmp_path, manifests, "100ms") as s:
            await s.until(lambda: s.wanted)
            os.symlink("2", tmp_path / "next")
            os.rename(tmp_path / "next", tmp_path / "current")
            await s.until(lambda: s.wanted == {"a-node-1": "app:2"})

    story(work)


def test_two_files_of_one_name(tmp_path, manifests):
    """Who runs stays, both files are named, and the second one takes over when it may."""
    place(manifests / "b.yaml", pod(image="app:b"))

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            place(manifests / "a.yaml", pod(image="app:a"))
            await s.until(lambda: s.problems)
            assert s.wanted == {"web-node-1": "app:b"}
            assert len(s.row.problems) == 1
            assert s.problems == (
                f"{manifests}/a.yaml: metadata.name: pod default/web-node-1 is already given by "
                f"{manifests}/b.yaml, which stays in force"
            )
            s.remember()
        async with watching(tmp_path, manifests) as s:  # our own restart changes nothing
            await s.until(lambda: s.wanted)
            assert s.wanted == {"web-node-1": "app:b"}
            os.unlink(manifests / "b.yaml")
            await s.until(lambda: s.wanted == {"web-node-1": "app:a"})
            assert s.problems == ""

    story(work)


def test_a_directory_that_cannot_be_looked_at_ends_nothing(tmp_path, manifests, monkeypatch):
    """An error of the disk is not an empty directory."""
    place(manifests / "a.yaml", pod("a"))
    listed = os.listdir

    def failing(path):
        if str(path) == str(manifests):
            raise OSError(5, "Input/output error")
        return listed(path)

    async def work():
        async with watching(tmp_path, manifests) as s:
            await s.until(lambda: s.wanted)
            monkeypatch.setattr(os, "listdir", failing)
            place(manifests / "b.yaml", pod("b"))
            await s.until(lambda: "cannot be read: Input/output error" in s.problems)
            assert list(s.wanted) == ["a-node-1"]
        async with watching(tmp_path, manifests, "100ms") as s:
            await s.until(lambda: s.problems)
            assert not s.sources.ready
            monkeypatch.setattr(os, "listdir", listed)
            await s.until(lambda: s.sources.ready)
            assert len(s.wanted) == 2

    story(work)


def test_a_large_manifest_is_read_beside_the_loop(tmp_path, manifests):
    """Hundreds of kilobytes of YAML are no reason for the heart to stop."""
    notes = {f"note-{n}": "x" * 100 for n in range(1500)}
    lines = ["apiVersion: v1", "kind: Pod", "metadata:", "  name: big", "  annotations:"]
    lines += [f"    {key}: {value}" for key, value in notes.items()]
    lines += ["spec:", "  containers:", "  - {name: c, image: x}"]

    async def work():
        async with watching(tmp_path, manifests) as s:
            place(manifests / "big.yaml", "\n".join(lines).encode())
            await s.until(lambda: s.wanted)
            assert notes.items() <= s.changes[0].pod.metadata.annotations.items()

    story(work)


def test_without_inotify_the_rescan_does(tmp_path, manifests, monkeypatch):
    """A node that is out of inotify instances is slower, and nothing else."""

    def none(_heard):
        raise OSError(24, "no instances left")

    monkeypatch.setattr("procs.syncloop.sources.watching.DirectoryWatch", none)

    async def work():
        async with watching(tmp_path, manifests, "100ms") as s:
            await s.until(lambda: s.sources.ready)
            place(manifests / "a.yaml", pod("a"))
            await s.until(lambda: s.wanted)

    story(work)
