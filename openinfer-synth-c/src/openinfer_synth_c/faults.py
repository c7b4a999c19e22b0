"""Which statement of a program failed, in what a step returns where it runs in this process.

Bundles that are shipped return the plain status.
"""

from __future__ import annotations

STATUSES = 256
"""More than there are statuses. A step returns the status plus this many times the statement's number and 1."""


def fault_offset(node: int) -> int:
    """Return what a status is raised by where the statement of a node fails."""
    return STATUSES * (node + 1)


def parted(returned: int) -> tuple[int, int | None]:
    """Split the return value of a step into the status and the number of the statement."""
    return returned % STATUSES, None if returned < STATUSES else returned // STATUSES - 1
