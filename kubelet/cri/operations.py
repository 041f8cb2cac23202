"""What the metrics call each call: ``operation_type`` of kubelet_runtime_operations_total."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_IRREGULAR: Final = {"UpdateContainerResources": "update_container"}


@cache
def operation(call: str) -> str:
    """Spell a call as its metric does: ListPodSandbox is ``list_podsandbox``."""
    return _IRREGULAR.get(call) or _WORD.sub("_", call).lower().replace("pod_sandbox", "podsandbox")
