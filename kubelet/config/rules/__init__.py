"""Rules that look at more than one value; each finds all that is wrong in its own matter."""

from typing import Final

from kubelet.config.rules import pods, resources, serving
from kubelet.config.rules.base import Fault, Rule, View

RULES: Final[tuple[Rule, ...]] = serving.RULES + pods.RULES + resources.RULES

__all__ = ["RULES", "Fault", "Rule", "View"]
