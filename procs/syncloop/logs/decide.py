"""What becomes of the files of a log: which go, which are compressed, what the next is called.

Pure. The files are those of one container's instance: ``0.log``, which the runtime writes to, and
the parts that were moved away (I-40). What a death in the middle can leave behind is only garbage
(an unfinished ``.tmp``, a part that is there compressed as well), or a step that is yet to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubelet import quantities
from kubelet.config.effective import Effective
from kubelet.logs.names import STAMP_FORM, Form, Rotated, all_rotated

_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class RotationPolicy:
    """How much may be logged, and how often that is looked at."""

    max_size: int  # bytes
    max_files: int  # of one container, the current one included
    workers: int
    interval: float  # seconds

    @staticmethod
    def of(config: Effective) -> RotationPolicy | None:
        """Return what is configured; None: logs are not rotated."""
        size = quantities.parse(config.str("containerLogMaxSize")).value
        if size < 0:
            return None
        return RotationPolicy(
            max_size=int(size),
            max_files=config.int("containerLogMaxFiles"),
            workers=config.int("containerLogMaxWorkers"),
            interval=config.duration("containerLogMonitorInterval"),
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with the parts that were moved away: names, oldest first."""

    remove: tuple[str, ...] = ()
    compress: tuple[str, ...] = ()


def decide(names: Iterable[str], current: str, max_files: int, *, rotating: bool) -> Decision:
    """Return what becomes of the older parts of a log.

    ``rotating``: one more part is about to be added, so that there is room for one less, and none
    of those that are there is the newest. The newest stays as it is, for those who read it now.
    """
    found = all_rotated(names, current)
    useless = [one for one in found if _is_useless(one, found)]
    kept = [one for one in found if one not in useless]
    room = max(0, max_files - (2 if rotating else 1))
    excess = kept[: max(0, len(kept) - room)]
    kept = kept[len(excess) :]
    older = kept if rotating else kept[:-1]
    return Decision(
        remove=tuple(one.name for one in (*useless, *excess)),
        compress=tuple(one.name for one in older if one.form is Form.PLAIN),
    )


def _is_useless(one: Rotated, found: list[Rotated]) -> bool:
    """Tell whether a file is left over from compressing: unfinished, or done and not removed."""
    if one.form is Form.UNFINISHED:
        return True
    return one.form is Form.PLAIN and any(
        other.stamp == one.stamp and other.form is Form.COMPRESSED for other in found
    )


def next_stamp(names: Iterable[str], current: str, now: datetime) -> str:
    """Return the stamp of a part that is moved away now: it comes after all that are there.

    A clock that was set back must neither overwrite a part nor put it before an older one.
    """
    stamp = now.strftime(STAMP_FORM)
    newest = max((one.stamp for one in all_rotated(names, current)), default="")
    if stamp > newest:
        return stamp
    try:
        return (_moment(newest) + _SECOND).strftime(STAMP_FORM)
    except (ValueError, OverflowError):  # digits that are no time, by somebody else
        return f"{newest[:-6]}{min(int(newest[-6:]) + 1, 999_999):06d}"


def _moment(stamp: str) -> datetime:
    return datetime.strptime(stamp, STAMP_FORM)  # noqa: DTZ007 - only to count on
