"""What the channels of one process count, and the complaints that they log once a minute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubelet import logging as klog

log = klog.get_logger(__name__)

COMPLAIN_SECONDS: Final = 60.0


@dataclass(slots=True)
class Counters:
    """Totals since the process started, one group per socket."""

    # the XPUB that this process binds
    hints_sent: int = 0
    hints_overflowed: int = 0  # sendings that found a subscriber's queue full
    hints_subscriptions: int = 0
    hints_garbage: int = 0  # what came in that is no subscription
    hints_bad_peers: int = 0  # connections that did not speak the protocol
    # the SUBs
    sub_received: int = 0
    sub_missed: int = 0  # hints that never arrived, by their sequence numbers
    sub_garbage: int = 0
    sub_oversized: int = 0
    # the ROUTER that this process binds
    requests_received: int = 0
    requests_denied: int = 0
    requests_garbage: int = 0
    requests_oversized: int = 0
    requests_late: int = 0  # arrived after their deadline
    requests_busy: int = 0
    requests_failed: int = 0
    requests_bad_peers: int = 0
    replies_sent: int = 0
    replies_late: int = 0  # not sent any more: the deadline had passed
    replies_undelivered: int = 0  # the peer was gone, or its queue full
    # the DEALERs
    asks_sent: int = 0
    asks_refused: int = 0  # too many pending to that peer
    asks_timed_out: int = 0
    asks_peer_gone: int = 0
    answers_received: int = 0
    answers_late: int = 0  # nobody waited for them any more
    answers_garbage: int = 0
    answers_oversized: int = 0


class Complaint:
    """One kind of trouble: each occurrence is counted, and one a minute is logged."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._throttle = klog.every(COMPLAIN_SECONDS)
        self.count = 0

    def __call__(self, **fields: Any) -> None:
        """Note one more occurrence."""
        self.count += 1
        if self._throttle.ready():
            log.warning(self._message, count=self.count, **fields)
