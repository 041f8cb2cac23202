"""Pairs on disk are whole, belong together, and are replaced at one instant (N-43)."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from procs.node.certificates import files
from procs.node.certificates.store import CLIENT, BadPairError, Store, load
from tests.unit.node.certificates_scene import DAY, Authority, until

NOW = time.time_ns()
CURRENT = "kubelet-client-current.pem"


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "pki"), CLIENT)


def names(store):
    return sorted(os.listdir(store.directory))


def test_a_pair_is_kept_where_the_go_kubelet_keeps_it(store, authority) -> None:
    """N-43: a dated file for root alone, chain first, and a link with the current one's name."""
    chain, key = authority.pair()

    pair = store.save(chain + authority.pem, key, NOW)

    dated, link = names(store)
    assert re.fullmatch(r"kubelet-client-\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d\.pem", dated)
    assert link == CURRENT
    assert os.readlink(store.current) == os.path.join(store.directory, dated) == pair.path
    assert os.stat(pair.path).st_mode & 0o777 == 0o600
    assert files.read(store.current) == chain + authority.pem + key
    found = store.load(NOW)
    assert (found.pair.chain, found.pair.key) == (chain + authority.pem, key)
    assert found.problems == ()


def test_the_next_takes_its_place_and_the_one_before_stays(store, authority) -> None:
    """Each pair has a file of its own, also two of the same second; the link shows the last."""
    pairs = [store.save(*authority.pair(), NOW) for _ in range(3)]
    assert len({pair.path for pair in pairs}) == 3
    assert store.load(NOW).pair.certificate == pairs[2].certificate
    assert len(names(store)) == 4


def test_the_same_pair_is_not_kept_twice(store, authority) -> None:
    """A successor that saves what its predecessor had saved changes nothing."""
    chain, key = authority.pair()
    first = store.save(chain, key, NOW)
    os.unlink(store.current)  # killed before the link was made
    assert store.save(chain, key, NOW + 5 * 10**9).path == first.path
    assert len(names(store)) == 2


def test_a_key_of_another_certificate_is_refused(store, authority) -> None:
    """What does not fit is never linked, and nothing is left of it."""
    before = store.save(*authority.pair(), NOW)
    chain, _ = authority.pair()
    _, key = authority.pair()
    with pytest.raises(BadPairError, match="key values mismatch"):
        store.save(chain, key, NOW)
    assert store.load(NOW).pair.path == store.current
    assert store.load(NOW).pair.certificate == before.certificate
    assert len(names(store)) == 2


def test_nothing_there_is_no_problem(store) -> None:
    """A node that has not joined has no pair, and nothing is wrong."""
    found = store.load(NOW)
    assert (found.pair, found.problems) == (None, ())


def break_empty(path):
    path.write_text("")


def break_cut(path):
    path.write_text(path.read_text()[:300])


def break_key(path):
    other = Authority().pair()[1]
    path.write_text(re.sub("-----BEGIN EC.*", other, path.read_text(), flags=re.DOTALL))


def break_no_key(path):
    path.write_text(path.read_text().partition("-----BEGIN EC")[0])


def break_gone(path):
    path.unlink()


def break_binary(path):
    path.write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (break_empty, "there is no certificate in it"),
        (break_cut, "there is no certificate in it"),
        (break_key, "key values mismatch"),
        (break_no_key, "has no private key"),
        (break_gone, "is not there"),
        (break_binary, "is of no use"),
    ],
)
def test_a_pair_that_is_broken_falls_back_to_the_one_before(store, authority, harm, words) -> None:
    """A start finds the newest pair that works, links it, and says what was wrong."""
    old = store.save(*authority.pair(), NOW)
    new = store.save(*authority.pair(), NOW)
    harm(Path(new.path))

    found = store.load(NOW)

    assert found.pair.certificate == old.certificate
    assert len(found.problems) == 1
    assert words in found.problems[0]
    assert f"{old.path} is used instead" in found.problems[0]
    assert os.path.realpath(store.current) == old.path
    assert store.load(NOW).problems == ()


def test_without_another_that_is_good_there_is_none(store, authority) -> None:
    """An expired pair is not fallen back to; an expired one in use is still the one in use."""
    expired = authority.pair(before=NOW - 2 * DAY, after=NOW - DAY)
    store.save(*expired, NOW)
    assert store.load(NOW).pair.certificate.expired(NOW)
    new = store.save(*authority.pair(), NOW)
    os.unlink(new.path)
    found = store.load(NOW)
    assert found.pair is None
    assert "there is no other that could be used" in found.problems[0]


def test_what_was_not_finished_is_removed(store, authority) -> None:
    """A predecessor's half file and half link go; what others put there stays."""
    pair = store.save(*authority.pair(), NOW)
    for name in ("kubelet-client-2026-01-01-00-00-00.pem.new", "kubelet-client-notes.txt"):
        with open(os.path.join(store.directory, name), "w", encoding="ascii") as file:
            file.write("half")
    os.symlink("nowhere", os.path.join(store.directory, "kubelet-client-updated.pem"))
    assert store.load(NOW).pair.certificate == pair.certificate
    assert len(names(store)) == 3
    assert "kubelet-client-notes.txt" in names(store)


def test_certificate_and_key_in_two_files(tmp_path, authority) -> None:
    """A serving pair that is given in two files is read and proved like any other."""
    chain, key = authority.pair()
    (tmp_path / "c").write_text(chain)
    (tmp_path / "k").write_text(key)
    assert load(str(tmp_path / "c"), str(tmp_path / "k")).key == key
    with pytest.raises(BadPairError, match=r"/none is not there"):
        load(str(tmp_path / "c"), str(tmp_path / "none"))
    with pytest.raises(BadPairError, match="cannot be read: Is a directory"):
        load(str(tmp_path), str(tmp_path / "k"))


def test_a_file_is_whole_and_closed_to_others(tmp_path) -> None:
    """An old half file is in nobody's way, and modes do not depend on the umask of before."""
    path = str(tmp_path / "f")
    (tmp_path / "f.new").write_text("half")
    (tmp_path / "f.new").chmod(0o666)
    files.write(path, "whole")
    assert files.read(path) == "whole"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["f"]
    files.remove(path)
    files.remove(path)
    assert files.read(path) is None


def test_files_that_appear_are_heard_of_even_with_their_directories(tmp_path) -> None:
    """The nearest directory above is watched until the right one is there; others wake nobody."""
    path = tmp_path / "a" / "b" / "file"

    async def story():
        changes = files.Changes((str(path), ""))
        try:
            (tmp_path / "other").write_text("x")
            assert not await changes.wait(0.05)
            for step in (path.parent.parent, path.parent):
                step.mkdir()
                assert await changes.wait(5)
            (path.parent / "other").write_text("x")
            assert not await changes.wait(0.05)
            path.write_text("1")
            assert await changes.wait(5)
            await asyncio.sleep(0)
            path.with_suffix(".new").write_text("2")
            path.with_suffix(".new").rename(path)
            assert await changes.wait(5)
        finally:
            changes.close()

    asyncio.run(story())


def test_a_change_before_the_wait_is_not_missed(tmp_path) -> None:
    """What happens between a look and the wait after it ends the wait at once."""
    path = tmp_path / "file"

    async def story():
        changes = files.Changes((str(path),))
        path.write_text("1")
        await until(changes._event.is_set)
        assert await changes.wait(0)
        changes.close()

    asyncio.run(story())
