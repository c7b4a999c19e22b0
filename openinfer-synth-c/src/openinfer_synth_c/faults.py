"""Which statement of a program failed, in what a step returns where it runs in this process.

Bundles that are shipped return the plain status.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STATUSES = 256
"""More than there are statuses. A step returns the status plus this many times the statement's number and 1."""

_PLAIN = re.compile(r"return (MODEL_(?:INDEX|LIMIT|SHAPE));")
_PASSED = "if (status != MODEL_OK) { return status; }"
_KERNEL = re.compile(r"const enum model_status status = k_\w+\(")


def mark_faults(lines: list[str], start: int, node: int) -> None:
    """Let the lines from ``start`` on return the number of a statement with what they return."""
    lines[start:] = list(_marked(lines[start:], STATUSES * (node + 1)))


def _marked(lines: list[str], mark: int) -> Iterator[str]:
    is_kernel = False
    for line in lines:
        is_kernel = is_kernel or bool(_KERNEL.search(line))
        made = _PLAIN.sub(rf"return (enum model_status)(\1 + {mark});", line)
        if is_kernel and _PASSED in made:
            passed = f"(status == MODEL_INDEX ? (enum model_status)(MODEL_INDEX + {mark}) : status)"
            made = made.replace(_PASSED, f"if (status != MODEL_OK) {{ return {passed}; }}")
        yield made


def parted(returned: int) -> tuple[int, int | None]:
    """Return the status and the number of the statement in what a step returned."""
    return returned % STATUSES, None if returned < STATUSES else returned // STATUSES - 1
