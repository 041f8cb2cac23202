"""Who is let in: what a node refuses to run, and why (section 13 of the facts)."""

from procs.syncloop.admission.admission import Admission
from procs.syncloop.admission.base import Facts, Preempt, Pressure, Refusal, Taint

__all__ = ["Admission", "Facts", "Preempt", "Pressure", "Refusal", "Taint"]
