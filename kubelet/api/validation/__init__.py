"""Whether a pod is one that the API server would take: all that is wrong with it, in its words.

Validation looks at a pod after defaulting (:func:`kubelet.api.defaults.with_defaults`): what is
still missing then is a problem. Nothing is repaired here and nothing stops at the first problem.
"""

from __future__ import annotations

from kubelet.api.pod import Pod
from kubelet.api.validation.metadata import metadata, profiles_agree
from kubelet.api.validation.spec import pod_spec
from kubelet.api.validation.static import references

__all__ = ["static_problems", "validate_pod"]


def validate_pod(pod: Pod) -> list[str]:
    """Return a line for each problem of a pod, in the API server's form; none if it is valid."""
    found = [*metadata(pod), *pod_spec(pod), *profiles_agree(pod)]
    # A message can always be written, whatever the value in it was.
    return [line.encode(errors="replace").decode() for line in found]


def static_problems(pod: Pod) -> list[str]:
    """Return a line for each API object that a static pod refers to, which it may not (P-8)."""
    return [f"static pods may not reference {reference}" for reference in references(pod)]
