"""How true the simulator is, by the published validation suite."""

from __future__ import annotations

import re

import pytest

from . import critest_suite

PASSED = 65  # of the 117 specs that critest v1.36.0 has; CRITEST.md lists the rest


@pytest.mark.timeout(1200)  # the first run builds the suite
def test_the_validation_suite_passes(sim, sim_directory):
    """Every spec that can apply to a simulation passes: life cycle, lists, images, streams."""
    try:
        critest_suite.build()
    except critest_suite.Unavailable as err:
        pytest.skip(str(err))
    outcome = critest_suite.run(sim.endpoint, sim_directory)
    print(f"critest: {outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped")
    assert outcome.failed == 0, "\n".join(outcome.failures)
    assert outcome.passed >= PASSED
    assert sim.control.stats()["sandboxes"] == 0, "the suite removes what it makes"


def test_every_skip_has_a_reason():
    """A spec is skipped by name, with the reason beside it and in CRITEST.md."""
    text = (critest_suite.MODULE.parent / "CRITEST.md").read_text()
    for name, reason in critest_suite.skips().items():
        re.compile(name)
        assert reason
        assert name in text
