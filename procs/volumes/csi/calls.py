"""One volume of one pod, with all that the calls to its driver are made of."""

from __future__ import annotations

from dataclasses import dataclass

from procs.volumes.csi.driver import Driver
from procs.volumes.csi.paths import Place
from procs.volumes.csi.requests import Terms
from procs.volumes.plugin import Say


@dataclass(frozen=True, slots=True)
class Call:
    """Who is asked, for what, and where."""

    driver: Driver
    terms: Terms
    place: Place
    say: Say
    staged: str = ""  # where the volume is staged; "": it is not
