"""Who may use an image that is there (I-30)."""

from __future__ import annotations

import pytest

from procs.syncloop.images.verify import (
    AccountRef,
    Known,
    Proofs,
    PulledRecord,
    Rules,
    SecretRef,
    Verification,
    merged,
    verdict,
)

REPO = "r.io/team/app"
MINE = SecretRef("u1", "ns", "pull", "hash1")


def known(**proofs):
    return Known(by_us=True, record=PulledRecord(credential_mapping={REPO: Proofs(**proofs)}))


@pytest.mark.parametrize(
    ("mode", "by_us", "allowlist", "applies"),
    [
        ("NeverVerify", True, (), False),
        ("NeverVerifyPreloadedImages", False, (), False),
        ("NeverVerifyPreloadedImages", True, (), True),
        ("AlwaysVerify", False, (), True),
        ("NeverVerifyAllowlistedImages", False, (), True),
        ("NeverVerifyAllowlistedImages", False, (REPO,), False),
        ("NeverVerifyAllowlistedImages", False, ("r.io/team/*",), False),
        ("NeverVerifyAllowlistedImages", False, ("r.io/tea/*",), True),
        ("NeverVerifyAllowlistedImages", False, ("r.io/team",), True),
        ("NeverVerifyAllowlistedImages", True, (REPO,), True),
    ],
)
def test_the_policy_says_for_which_images_a_proof_is_needed(mode, by_us, allowlist, applies):
    """Preloaded and listed images are excepted as the policy's name says (I-30)."""
    rules = Rules(Verification(mode), allowlist)
    assert rules.applies(REPO, by_us=by_us) is applies


def test_a_short_name_on_the_list_is_the_full_one():
    """The list may name images as pods do."""
    rules = Rules(Verification.NEVER_ALLOWLISTED, ("busybox",))
    assert not rules.applies("docker.io/library/busybox", by_us=False)


@pytest.mark.parametrize(
    ("memory", "secrets", "accounts", "allowed"),
    [
        (Known(), (), (), True),
        (Known(by_us=True), (MINE,), (), False),
        (Known(by_us=True, record=PulledRecord()), (MINE,), (), False),
        (known(), (MINE,), (), False),
        (known(node_pods_accessible=True), (), (), True),
        (known(kubernetes_secrets=(MINE,)), (MINE,), (), True),
        (known(kubernetes_secrets=(MINE,)), (), (), False),
        (known(kubernetes_secrets=(MINE,)), (SecretRef("u2", "ns", "b", "hash2"),), (), False),
        (known(kubernetes_secrets=(SecretRef("u1", "ns", "p"),)), (SecretRef("u2"),), (), False),
        (known(kubernetes_service_accounts=(AccountRef("a"),)), (), (AccountRef("a"),), True),
        (known(kubernetes_service_accounts=(AccountRef("a"),)), (), (AccountRef("b"),), False),
    ],
)
def test_a_proof_is_one_that_was_shown_before(memory, secrets, accounts, allowed):
    """What the node may have is everyone's; else the same secret or account is needed (I-30)."""
    assert verdict(Rules(), memory, REPO, secrets, accounts).allowed is allowed


@pytest.mark.parametrize(
    "mine", [SecretRef("u9", "other", "copy", "hash1"), SecretRef("u1", "ns", "pull", "rotated")]
)
def test_a_secret_is_known_by_itself_or_by_what_it_holds(mine):
    """A copy of a secret, and a secret with new content, are allowed and remembered (I-30)."""
    found = verdict(Rules(), known(kubernetes_secrets=(MINE,)), REPO, (mine,))
    assert found.allowed
    assert found.learned == Proofs(kubernetes_secrets=(mine,))


def test_proofs_are_added_up():
    """One secret has one entry, the newest content counts, and the node's right ends them all."""
    other = SecretRef("u2", "ns", "b", "hash2")
    both = merged(Proofs((MINE,)), Proofs((other,)))
    assert both.kubernetes_secrets == (MINE, other)
    rotated = SecretRef("u1", "ns", "pull", "hash9")
    assert merged(both, Proofs((rotated,))).kubernetes_secrets == (other, rotated)
    assert merged(both, Proofs(node_pods_accessible=True)) == Proofs(node_pods_accessible=True)
    assert merged(Proofs(node_pods_accessible=True), both) == Proofs(node_pods_accessible=True)
    many = tuple(SecretRef(str(n)) for n in range(150))
    assert len(merged(Proofs(), Proofs(many)).kubernetes_secrets) == 100
