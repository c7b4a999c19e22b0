"""How a program is planned: what its target can do, and what the caller chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.arch import TargetInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.arch import MemoryBank
    from openinfer.plan.schedules import ScheduleFile


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options of `make_plan`.

    Attributes:
        epilogues: whether the target's kernels carry out elementwise operators on their results.
        machine: what layouts and schedules are chosen for; by default one of which nothing is known.
        overlaps: whether results may begin to overwrite operands that are still read: the target carries computations
            out in the order of `openinfer.codegen.loop_program`.
        schedules: those that are not chosen but given.
        most_ops: most operators that one step carries out; None: any number.
        memories: those of the device, which values are spread over; () is one of any size.
        states_first: whether the nearest memories are for persistent variables before they are for other values.
        limits: how far caches may grow, by the names of their indices (`openinfer.plan.bounds.CacheBounds`).
        given: sizes that the caller gives in every step, with their largest values, at which the program is resolved
            (`openinfer.plan.limits.limits_of`).
        inspected: whether memory is looked into between steps: every volatile that the program writes is also a
            result, and the sizes of all caches are kept.
        strict_order: whether every sum is sequential and without fused multiply-add, where no hint decides.
        threads: whether blocks that wait for what ``entry`` yields run on threads, up to the await.
        scheduled: whether computations get layouts and schedules; else the target chooses them, and all values but
            views are in row-major order.
        folded: whether operators on constants are computed here; by default where ``scheduled``.
    """

    epilogues: bool = True
    machine: TargetInfo = field(default_factory=TargetInfo)
    overlaps: bool = False
    schedules: ScheduleFile | None = None
    most_ops: int | None = None
    memories: tuple[MemoryBank, ...] = ()
    states_first: bool = False
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    given: Mapping[str, int] = field(default_factory=dict[str, int])
    inspected: bool = False
    strict_order: bool = False
    threads: bool = False
    scheduled: bool = True
    folded: bool | None = None

    @property
    def folds(self) -> bool:
        """Whether operators on constants are computed."""
        return self.scheduled if self.folded is None else self.folded


DEFAULT = PlanOptions()
"""Those of a plan for which nothing is chosen."""
