"""What is immortal is not counted any more, lives on, and everything works as before."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, ctypes, gc, json, os, sys
from supervisor.immortal import immortalise

class Thing:
    pass

def count(known):
    return ctypes.c_uint32.from_address(id(known)).value

thing, text, bag = Thing(), "some text of ours " * 3, {}
assert immortalise() is True
assert not [known for known in gc.get_objects() if type(known) is memoryview]  # nothing is left
before = [count(known) for known in (thing, Thing, text, bag, json.dumps, json.dumps.__code__)]
held = [(thing, Thing, text, bag, json.dumps, json.dumps.__code__) for _ in range(100)]
made = [Thing() for _ in range(1000)]  # each counts a reference to its class, if that is counted
after = [count(known) for known in (thing, Thing, text, bag, json.dumps, json.dumps.__code__)]
assert before == after, (before, after)

bag["new"] = [fresh] = [Thing()]
one = count(fresh)
other = [fresh] * 10
assert count(fresh) == one + 10  # what came later is counted as ever
del bag["new"]

pid = os.fork()
if pid == 0:
    assert json.loads(json.dumps({"a": [1, 2.5, None]})) == {"a": [1, 2.5, None]}
    asyncio.run(asyncio.sleep(0))
    gc.collect()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print("done")
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python before 3.12 counts everything")
def test_immortal_objects_are_not_counted_and_work() -> None:
    """A child of an immortal parent works, ends in good order, and so does the parent."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python from 3.12 on has immortals")
def test_nothing_is_done_where_everything_is_counted() -> None:
    """An older interpreter is left as it is."""
    program = (
        "import sys; from supervisor.immortal import immortalise\n"
        "thing = object(); before = sys.getrefcount(thing)\n"
        "print(immortalise(), sys.getrefcount(thing) == before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "False True\n")
