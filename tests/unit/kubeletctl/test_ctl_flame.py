"""Flame graphs: sound XML whatever the names, right widths, and a fixed script."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeletctl import flame
from kubeletctl.flame_script import SCRIPT

SVG = "{http://www.w3.org/2000/svg}"
STACKS = {
    "MainThread;run (procs/pleg/main.py:10);relist (procs/pleg/relist.py:5)": 60,
    "MainThread;run (procs/pleg/main.py:10);dumps (json/__init__.py:231)": 30,
    "MainThread;run (procs/pleg/main.py:10)": 5,
    "worker;poll (zmq/sugar/poll.py:106)": 5,
}


def frames(svg: str) -> dict[str, ET.Element]:
    """The drawn frames by the function that they show."""
    root = ET.fromstring(svg)
    groups = root.iter(f"{SVG}g")
    return {one.get("data-name", ""): one for one in groups if one.get("data-name")}


def test_widths_are_shares_of_the_weight():
    """A frame is as wide as its share, and stands above its caller."""
    found = frames(flame.render(STACKS, title="pleg", unit="samples"))
    assert set(found) == {"all", "MainThread", "run", "relist", "dumps", "worker", "poll"}
    assert {name: int(one.get("data-weight", 0)) for name, one in found.items()} == {
        "all": 100, "MainThread": 95, "run": 95, "relist": 60, "dumps": 30, "worker": 5, "poll": 5,
    }  # fmt: skip
    whole, relist = (float(found[n].find(f"{SVG}rect").get("width")) for n in ("all", "relist"))
    assert relist / whole == pytest.approx(0.6, abs=0.01)
    rows = [float(found[n].find(f"{SVG}rect").get("y")) for n in ("all", "MainThread", "run")]
    assert rows == sorted(rows, reverse=True)


def test_hover_title_says_function_place_weight_and_share():
    """The tooltip has everything that the box has no room for."""
    found = frames(flame.render(STACKS, title="pleg", unit="samples"))
    title = found["relist"].findtext(f"{SVG}title")
    assert title == "relist (procs/pleg/relist.py:5): 60 samples, 60.00%"


def test_colours_tell_whose_code_it_is():
    """Ours, Python's own, a library's, and threads are told apart."""
    found = frames(flame.render(STACKS, title="pleg"))
    groups = {name: (one.get("class") or "").split()[1] for name, one in found.items()}
    assert groups["relist"] == "ours"
    assert groups["dumps"] == "python"
    assert groups["poll"] == "library"
    assert groups["MainThread"] == "thread"


def test_nothing_sampled_is_said():
    """An idle process gives a picture with a sentence, not an empty one."""
    svg = flame.render({}, title="idle")
    ET.fromstring(svg)
    assert "no samples" in svg


def test_markup_in_names_stays_text():
    """Names full of markup, quotes and the end of a CDATA section are shown, not obeyed."""
    nasty = """</text><script>alert(1)</script>"'&]]><!--"""
    svg = flame.render({f"{nasty};{nasty} (a.py:1)": 1}, title=nasty, subtitle=nasty, unit=nasty)
    root = ET.fromstring(svg)
    assert len(list(root.iter(f"{SVG}script"))) == 1
    assert root.findtext(f"{SVG}title") == nasty
    assert nasty in frames(svg)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=40), st.integers(-3, 10**9), max_size=20), st.text())
def test_any_text_gives_sound_xml(stacks: dict[str, int], title: str):
    """Control characters, surrogates, anything: the file parses and the script is untouched."""
    root = ET.fromstring(flame.render(stacks, title=title).encode("utf-8"))
    assert root.findtext(f"{SVG}script") == SCRIPT


def test_tiny_frames_are_left_out():
    """What is narrower than can be seen is not drawn, so that the file stays small."""
    stacks = {f"t;f{number} (a.py:{number})": 1 for number in range(20_000)}
    stacks["t;big (a.py:1)"] = 10**6
    assert set(frames(flame.render(stacks, title="x"))) == {"all", "t", "big"}


def test_self_weights_join_the_lines_of_a_function():
    """A function counts once; its place is its heaviest line."""
    stacks = {"t;f (a.py:1)": 3, "t;f (a.py:2)": 4, "t;g (a.py:9)": 5, "t;f (a.py:1);g (b.py:9)": 1}
    found = [(one.function, one.place, weight) for one, weight in flame.self_weights(stacks)]
    assert found == [("f", "a.py:2", 7), ("g", "a.py:9", 5), ("g", "b.py:9", 1)]


def test_script_is_sound_javascript():
    """A JavaScript engine, where there is one, finds no error in the script."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no JavaScript engine on this machine")
    done = subprocess.run([node, "--check", "-"], input=SCRIPT, text=True, check=False)
    assert done.returncode == 0
