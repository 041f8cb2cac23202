"""How long the node took to be there: from the machine's boot to Ready (N-66)."""

from __future__ import annotations

from typing import Final

from procs.node.kit import Kit
from supervisor.statereader import State

_KEY: Final = "nodeobject/startup"
PRE_KUBELET: Final = "kubelet_node_startup_pre_kubelet_duration_seconds"
PRE_REGISTRATION: Final = "kubelet_node_startup_pre_registration_duration_seconds"
REGISTRATION: Final = "kubelet_node_startup_registration_duration_seconds"
POST_REGISTRATION: Final = "kubelet_node_startup_post_registration_duration_seconds"
WHOLE: Final = "kubelet_node_startup_duration_seconds"


class Startup:
    """Measures once for each start of the whole kubelet; a successor of this process goes on."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._moments: dict[str, int] = {}  # monotonic, which begins at the machine's boot

    def begin(self, state: State | None) -> None:
        """Take when the kubelet started."""
        if state is None:
            return
        known = self._kit.ledger.get(_KEY)
        same = isinstance(known, dict) and known.get("started") == state.started_ns
        self._moments = known if same else {"started": state.started_ns}

    def registering(self) -> None:
        """Take that the node is about to be registered."""
        self._note("registering")

    def heard(self, *, ready: bool) -> None:
        """Take that the node is registered, and whether it is ready."""
        if "registering" not in self._moments:
            return
        self._note("registered")
        if ready:
            self._note("ready")

    def _note(self, what: str) -> None:
        if self._moments and what not in self._moments:
            self._moments = {**self._moments, what: self._kit.clock()}
            self._kit.ledger.put(_KEY, self._moments)

    @property
    def durations(self) -> dict[str, float]:
        """What is known so far."""
        moments = {"boot": 0, **self._moments}
        spans = {
            PRE_KUBELET: ("boot", "started"),
            PRE_REGISTRATION: ("started", "registering"),
            REGISTRATION: ("registering", "registered"),
            POST_REGISTRATION: ("registered", "ready"),
            WHOLE: ("boot", "ready"),
        }
        return {
            name: (moments[end] - moments[begin]) / 1e9
            for name, (begin, end) in spans.items()
            if begin in moments and end in moments
        }
