"""Which pod a word on the command line means."""

from __future__ import annotations

import pytest

from kubelet.pods.rows import Ending, WorkerState
from kubeletctl.errors import CtlError
from kubeletctl.pods import UnknownPodError, resolve, views
from tests.unit.kubeletctl.podfiles import pod

PODS = views(
    {
        "pods": {
            row.uid: row.to_wire()
            for row in (
                pod("web-node-1", uid="aaaa-1"),
                pod("web-two-node-1", uid="aaab-2"),
                pod("dns", "kube-system", uid="cccc-3"),
                pod("dns", "other", uid="dddd-4"),
                pod(
                    "db",
                    uid="old-5",
                    seen_ns=1,
                    state=WorkerState.TERMINATING,
                    ending=Ending(removed=True),
                ),
                pod("db", uid="new-6", seen_ns=2),
            )
        }
    }
)


@pytest.mark.parametrize(
    ("word", "namespace", "uid"),
    [
        ("web-node-1", "", "aaaa-1"),
        ("pod/web-node-1", "", "aaaa-1"),
        ("web", "", "aaaa-1"),  # a static pod has the node's name behind its own
        ("web-t", "", "aaab-2"),
        ("default/web-tw", "", "aaab-2"),
        ("aaab-2", "", "aaab-2"),
        ("aaab", "", "aaab-2"),
        ("other/dns", "", "dddd-4"),
        ("dns", "kube-system", "cccc-3"),
        ("cccc", "", "cccc-3"),
        ("db", "", "new-6"),  # the one that has the name now
        ("old-5", "", "old-5"),
    ],
)
def test_word_means_a_pod(word: str, namespace: str, uid: str):
    """A name, namespace/name, a uid or the beginning of one; exact ones win."""
    assert resolve(PODS, word, namespace).uid == uid


@pytest.mark.parametrize(
    ("word", "listed"),
    [("dns", ["kube-system/dns", "other/dns"]), ("aaa", ["default/web-node-1", "uid aaab-2"])],
)
def test_ambiguous_word_lists_what_it_may_mean(word: str, listed: list[str]):
    """Nothing is guessed."""
    with pytest.raises(CtlError) as found:
        resolve(PODS, word)
    assert found.value.code == 1
    assert all(name in str(found.value) for name in listed)


def test_unknown_word_lists_the_pods():
    """The pods that there are stand in the error; a beginning does not do for deleting."""
    with pytest.raises(UnknownPodError, match="There is no pod 'x'; the pods are default/db, "):
        resolve(PODS, "x")
    with pytest.raises(UnknownPodError, match="in namespace 'other'"):
        resolve(PODS, "web-node-1", "other")
    with pytest.raises(UnknownPodError):
        resolve(PODS, "web-t", whole_name=True)
    with pytest.raises(UnknownPodError, match="there are none"):
        resolve([], "x")
    with pytest.raises(UnknownPodError):
        resolve(PODS, "")
