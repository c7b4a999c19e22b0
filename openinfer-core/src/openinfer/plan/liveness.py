"""Which values are needed later, at every step: backward data flow over blocks, loops and calls.

Every write replaces a whole value, so what is live before a piece of program is ``gen | (live after & keep)``: ``gen``
is read before it is written, ``keep`` is not surely written. Loops and calls have closed forms, so one pass is enough.
Sets of values are bit masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.plan.accesses import called, reads, writes
from openinfer.plan.failing import may_fail
from openinfer.plan.steps import CallStep, LoopStep, ReturnStep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.steps import Procedure, Step

EVERYTHING = -1
"""All values: the mask with every bit set."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Live before = ``gen | (live after & keep)``."""

    gen: int
    keep: int

    def before(self, after: int) -> int:
        return self.gen | (after & self.keep)


class Liveness:
    """Values that are live after each step of a program.

    Args:
        procedures: callees first, so that the last one is where the program starts.
        results: values that are needed when the program ends.
        kept: values that live on between steps of the program, which are needed where one of its steps fails too.
    """

    def __init__(self, procedures: Sequence[Procedure], results: int, kept: int = 0) -> None:
        self._kept = kept
        self._procedures: dict[str, Transfer] = {}
        self._after: dict[int, int] = {}
        self._transfers: dict[int, Transfer] = {}
        # Nobody calls the last one.
        for procedure in procedures[:-1]:
            self._procedures[procedure.name] = self._summary(procedure.steps)
        needed = {procedure.name: 0 for procedure in procedures}
        needed[procedures[-1].name] = results
        before = [self._visit(p.steps, needed[p.name], needed[p.name], needed) for p in reversed(procedures)]
        self.at_start = before[0]

    def after(self, step: Step) -> int:
        """Return the values that are live after a step (of the given program; identity counts)."""
        return self._after[id(step)]

    def _summary(self, steps: Sequence[Step]) -> Transfer:
        """Return the transfer of a whole procedure, where a return is its end."""
        gen = self._transfer(steps, 0).gen
        through = self._transfer(steps, EVERYTHING).before(EVERYTHING)
        return Transfer(gen, through)

    def _transfer(self, steps: Sequence[Step], end: int) -> Transfer:
        """Return the transfer of a list of steps; ``end`` is live where the procedure ends."""
        gen, keep = 0, EVERYTHING
        for step in reversed(steps):
            one = self._step_transfer(step, end)
            gen, keep = one.before(gen), keep & one.keep
        return Transfer(gen, keep)

    def _step_transfer(self, step: Step, end: int) -> Transfer:
        if isinstance(step, ReturnStep):
            return Transfer(end, 0)
        if isinstance(step, LoopStep):
            body = self._transfer(step.body, end)
            return Transfer(body.gen | self._read(step), body.keep if step.runs else EVERYTHING)
        if isinstance(step, CallStep):
            gen, keep = self._read(step), EVERYTHING if step.condition is not None and step.otherwise is None else 0
            for name in called(step):
                gen |= self._procedures[name].gen
                keep |= self._procedures[name].keep
            return Transfer(gen, keep)
        # Steps that may be called are passed three times.
        transfer = self._transfers.get(id(step))
        if transfer is None:
            transfer = self._transfers[id(step)] = Transfer(self._read(step), ~writes(step))
        return transfer

    def _read(self, step: Step) -> int:
        """Return what is needed by a step itself, or by whoever comes after it has failed."""
        return reads(step) | (self._kept if self._kept and may_fail(step) else 0)

    def _visit(self, steps: Sequence[Step], live: int, end: int, needed: dict[str, int]) -> int:
        """Record what is live after each step of a list; return what is live before it."""
        for step in reversed(steps):
            self._after[id(step)] = live
            for name in called(step):
                needed[name] |= live
            transfer = self._step_transfer(step, end)
            if isinstance(step, LoopStep):
                # The end of the body is followed by the end of the loop or by the body again.
                self._visit(step.body, live | transfer.gen, end, needed)
            live = transfer.before(live)
        return live
