"""Images that are walked from their last row to their first, so that results and operands stay close to one another.

A result begins a little before the operand that it overwrites while that is read (`openinfer.plan.overlap`), or, where
rows are visited from the last one on, a little after it. A chain of convolutions therefore needs the least memory
where its steps take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.plan.accesses import mask, members, reads, walk
from openinfer.plan.arena import LARGE
from openinfer.plan.in_place import overwritten
from openinfer.plan.overlap import reach
from openinfer.plan.places import ALIGNMENT, aligned
from openinfer.plan.steps import ComputeStep, Procedure
from openinfer.plan.values import NoMemory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Step
    from openinfer.plan.values import PlanValue


@dataclass(frozen=True, slots=True)
class Turns:
    """A program whose steps take turns.

    Attributes:
        offsets: where the results of chains lie, which begin at 0.
    """

    procedures: tuple[Procedure, ...]
    offsets: dict[int, int]


def taking_turns(
    procedures: Sequence[Procedure], liveness: Liveness, values: Sequence[PlanValue], arena_nbytes: int
) -> Turns | None:
    """Return the program with steps backwards where results would otherwise move on in the arena; None: there are none.

    A step of a chain goes the way on which the results so far stay within the smaller range.

    Args:
        arena_nbytes: size of the arena where all steps go forwards.
    """
    free = mask(value.number for value in values if isinstance(value.memory, NoMemory))
    directing = _Directing(liveness, values, free, arena_nbytes, _unit(procedures, values))
    made = tuple(Procedure(p.name, directing.steps(p.steps)) for p in procedures)
    return Turns(made, directing.offsets) if directing.backwards else None


@dataclass(frozen=True, slots=True)
class _Move:
    """How many bytes a result begins before its operand, or after it where the step runs backwards."""

    operand: int
    result: int
    before: int
    after: int


@dataclass(slots=True)
class _Directing:
    """Chooses the direction of one step after the other.

    Attributes:
        unit: bytes at whose multiples results lie.
        offsets: of the results of finished chains.
        backwards: how many steps go backwards.
    """

    liveness: Liveness
    values: Sequence[PlanValue]
    free: int
    arena_nbytes: int
    unit: int
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    backwards: int = 0

    def steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        made: list[Step] = []
        chain: dict[int, int] = {}
        for step in steps:
            move = self._move(step)
            if move is None or not isinstance(step, ComputeStep):
                made.append(step)
                continue
            if next(reversed(chain), None) != move.operand:
                self._finish(chain)
                chain = {move.operand: 0}
            at, low, high = chain[move.operand], min(chain.values()), max(chain.values())
            is_backwards = max(high, at + move.after) - low < high - min(low, at - move.before)
            chain[move.result] = at + move.after if is_backwards else at - move.before
            self.backwards += is_backwards
            made.append(_backwards(step) if is_backwards else step)
        self._finish(chain)
        return tuple(made)

    def _finish(self, chain: Mapping[int, int]) -> None:
        low = min(chain.values(), default=0)
        self.offsets |= {value: at - low for value, at in chain.items()}

    def _move(self, step: Step) -> _Move | None:
        """Return how results move in the arena by a step.

        None: it has no one result that takes the place of its operand, both are small, or it cannot be walked
        backwards.
        """
        if not isinstance(step, ComputeStep):
            return None
        last, written = reads(step) & self.free & ~self.liveness.after(step), mask(step.outputs) & self.free
        if last.bit_count() != 1 or written.bit_count() != 1:
            return None
        ((operand,), (result,)) = (tuple(members(bits)) for bits in (last, written))
        read, made = self.values[operand].stored, self.values[result].stored
        if read.dtype is not made.dtype or read.nbytes + made.nbytes < self.arena_nbytes // LARGE:
            return None
        if step.arrangement.sliding and overwritten(step, result) >> operand & 1:
            return _Move(operand, result, 0, 0)
        if not _may_turn(step):
            return None
        forward, _ = reach(step, result, operand)
        if forward is None or forward >= made.nbytes:
            return None
        _, after = reach(_backwards(step), result, operand)
        if after is None or after >= made.nbytes:
            return None
        return _Move(operand, result, aligned(forward, self.unit), aligned(after, self.unit))


def _unit(procedures: Sequence[Procedure], values: Sequence[PlanValue]) -> int:
    """Return the bytes of the largest ring of a program, which then fits before or after every result."""
    sliding = (
        step
        for procedure in procedures
        for step in walk(procedure.steps)
        if isinstance(step, ComputeStep) and step.arrangement.sliding
    )
    rings = (sum(aligned(values[ring].stored.nbytes) for ring in step.temporaries) for step in sliding)
    return max(rings, default=ALIGNMENT)


def _may_turn(step: ComputeStep) -> bool:
    """Whether the places of a step are independent, and each is stored once."""
    arrangement, stages = step.arrangement, step.computation.stages
    if arrangement.fusion or step.temporaries or step.arguments or len(stages) != 1 or len(step.outputs) != 1:
        return False
    (stage,) = stages
    if stage.is_sequential or stage.lookups or stage.checks or (stage.fold is not None and stage.fold.running):
        return False
    # What is stored in a halo may lie after what is computed for it.
    return not any(layout.halo for name, layout in arrangement.layouts if name == stage.tensor)


def _backwards(step: ComputeStep) -> ComputeStep:
    return replace(step, arrangement=replace(step.arrangement, backwards=True))
