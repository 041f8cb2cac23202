"""Where others reach the node (N-19, N-20)."""

from __future__ import annotations

import socket

import pytest

from kubelet.machine import addresses
from kubelet.machine.addresses import Address, find_ips, listed, node_ips, problem_with

V4, V6 = socket.AF_INET, socket.AF_INET6
BOTH = {V4: "192.0.2.6", V6: "2001:db8::6"}
HOSTS = "127.0.0.1 localhost\n127.0.1.1 box # own\n192.0.2.99 other\n::1 six\nodd\n"


@pytest.fixture
def machine(tmp_path):
    """Another machine's files."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hosts").write_text(HOSTS)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "routes", "expected"),
    [
        ("192.0.2.5", {}, ("192.0.2.5",)),
        ("192.0.2.5,2001:db8::5", {}, ("192.0.2.5", "2001:db8::5")),
        ("", BOTH, ("192.0.2.6",)),
        ("", {V6: "2001:db8::6"}, ("2001:db8::6",)),
        ("::", BOTH, ("2001:db8::6",)),
        ("::", {V4: "192.0.2.6"}, ("192.0.2.6",)),
        ("0.0.0.0", BOTH, ("192.0.2.6",)),
        ("", {}, ()),
    ],
)
def test_what_is_configured_or_the_way_out(machine, wanted, routes, expected):
    """N-19: never 127.0.1.1 by name; a family that is asked for comes first."""
    found = find_ips(wanted, "box", machine, lambda family: routes.get(family, ""))
    assert found == expected
    assert node_ips(wanted, "box", machine, lambda family: routes.get(family, "")) == (
        expected or ("127.0.0.1",)
    )


def test_a_node_that_is_named_by_its_address(machine):
    """N-19."""
    assert find_ips("", "192.0.2.77", machine, lambda _family: "") == ("192.0.2.77",)


def test_addresses_of_others_are_not_ours(machine):
    """N-20: what files or name servers say of a name must be an address of this machine."""
    assert find_ips("", "other", machine, lambda _family: "") == ()
    assert find_ips("", "x", machine, lambda _family: "", ("192.0.2.98", "nonsense")) == ()


def test_an_address_of_this_machine_by_its_name(machine, monkeypatch):
    """N-19: the name counts before the way out, in the family that is preferred."""
    monkeypatch.setattr(addresses, "is_local", lambda text: text.endswith(("7", "8")))
    resolved = ("2001:db8::7", "192.0.2.8", "192.0.2.9")
    route = BOTH.get
    assert find_ips("", "x", machine, route, resolved) == ("192.0.2.8",)
    assert find_ips("::", "x", machine, route, resolved) == ("2001:db8::7",)
    assert find_ips("", "x", machine, route, ("2001:db8::7",)) == ("2001:db8::7",)


def test_the_way_out_is_found_without_sending():
    """The kernel is asked; whatever it says is an address of this machine, or nothing."""
    for family in (V4, V6):
        found = addresses.source_address(family)
        assert found == "" or addresses.is_local(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("224.0.0.1", "multicast"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("0.0.0.0", "unspecified"),
        ("192.0.2.5", "none of this machine's interfaces"),
        ("box", "not an IP address"),
    ],
)
def test_what_cannot_be_the_nodes_address(text, words):
    """N-20: each has its reason."""
    assert words in problem_with(text)


def test_what_can_be():
    """N-20."""
    assert problem_with("192.0.2.5", lambda _text: True) is None


def test_the_name_comes_last():
    """N-19."""
    assert listed(("192.0.2.5", "2001:db8::5"), "box") == (
        Address("InternalIP", "192.0.2.5"),
        Address("InternalIP", "2001:db8::5"),
        Address("Hostname", "box"),
    )
