"""Steps row by row: what softmax, norms and attention compute of a row is read again before the next row begins.

Steps of which one reads what the other makes are joined as long as every stage computes whole rows: a row of one stage
needs that row of the others only, so that nothing is computed twice. All stages then run inside of the loops over rows,
and the arena has room for the rows of one iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.layout import row_major
from openinfer.lower.fused import needed, windows
from openinfer.plan.accesses import members, reads, use_counts
from openinfer.plan.fusion import apart, may_join, one_after_the_other
from openinfer.plan.rewriting import with_bodies
from openinfer.plan.steps import Arrangement, ComputeStep, ValueRef
from openinfer.plan.values import NoMemory, WeightMemory
from openinfer.schedule import Loop, ScheduleError, estimate
from openinfer.schedule.cost import FULL, moving
from openinfer.schedule.folds import is_tileable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Computation, Stage
    from openinfer.layout import Layout
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue

AT_ONCE = (1, 2, 4, 8, 16, 32, 64)
"""Rows of one iteration whose cost is estimated."""

MOST_STAGES = 8
"""Most stages under common loops."""

ABOUT = 1.05
"""Times that differ by less than this factor are equal within the precision of the cost model: less memory decides."""


def row_wise(procedures: Sequence[Procedure], values: Sequence[PlanValue], target: TargetInfo) -> tuple[Procedure, ...]:
    """Return the program with steps row by row where these take less time by the cost model.

    Args:
        values: those of the plan, with their layouts.
    """
    rows = _Rows(values, use_counts(procedures), target)
    return with_bodies(procedures, rows.joined)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Joins steps that follow one another, the last ones first.

    Attributes:
        uses: how many steps read or write each value.
        known: the loops that were chosen for computations in their layouts; () for none.
    """

    values: Sequence[PlanValue]
    uses: dict[int, int]
    target: TargetInfo
    known: dict[tuple[object, ...], tuple[Loop, ...]] = field(
        default_factory=dict["tuple[object, ...]", "tuple[Loop, ...]"]
    )

    def joined(self, steps: Sequence[Step]) -> list[Step]:
        """Return steps with those joined that follow one another."""
        made: list[Step] = []
        for step in steps:
            joint = step
            if isinstance(step, ComputeStep) and not step.arrangement.fusion:
                joint = self._in_rows(step) or step
            while made and (joined := self._joined(made[-1], joint)) is not None:
                made.pop()
                joint = joined
            made.append(joint)
        return made

    def _joined(self, producer: Step, consumer: Step) -> ComputeStep | None:
        """Return both steps as one, row by row; None: they stay apart."""
        if not isinstance(producer, ComputeStep) or not isinstance(consumer, ComputeStep):
            return None
        if len(producer.outputs) != 1 or not may_join(producer, consumer):
            return None
        (result,) = producer.outputs
        is_private = isinstance(self.values[result].memory, NoMemory) and self.uses[result] == 2
        stages = (*producer.computation.stages, *consumer.computation.stages)
        if not is_private or ValueRef(result) not in consumer.inputs or len(stages) > MOST_STAGES:
            return None
        if (
            all(stage.fold is None for stage in stages)
            or self._folds_weights(producer)
            or self._folds_weights(consumer)
        ):
            return None
        joined = one_after_the_other(apart(producer, "made"), apart(consumer, "read"))
        joint = None if joined is None else self._in_rows(apart(joined, "row"))
        if joint is not None:
            for value in members(reads(producer) & reads(consumer)):
                self.uses[value] -= 1
        return joint

    def _folds_weights(self, step: ComputeStep) -> bool:
        """Whether a step is a product with weights, whose tiles share what they read of them among many rows."""
        constants = {
            tensor.name
            for tensor, operand in zip(step.computation.inputs, step.inputs, strict=True)
            if not isinstance(operand, ValueRef) or isinstance(self.values[operand.value].memory, WeightMemory)
        }
        return any(
            stage.fold is not None
            and any(isinstance(element, Read) and element.tensor in constants for element in stage.elements)
            for stage in step.computation.stages
        )

    def _in_rows(self, step: ComputeStep) -> ComputeStep | None:
        """Return a step of several stages under loops over rows; None: it has no rows, or gains nothing by them."""
        if len(step.computation.stages) < 2:
            return None
        pricing = _Pricing(step, self.values, self.target)
        if pricing.key not in self.known:
            self.known[pricing.key] = pricing.best()
        loops = self.known[pricing.key]
        return replace(step, arrangement=Arrangement(fusion=loops)) if loops else None


def row_axes(computation: Computation) -> dict[Var, tuple[Var, ...]]:
    """Return the axes of the last stage along which every stage computes what the others need of it, place by place.

    They come with the axis of each stage that goes along with them.
    """
    companions: dict[Var, tuple[Var, ...]] = {}
    for axis in computation.stages[-1].axes:
        try:
            parts = needed(computation, (Loop(axis, 1),)) if isinstance(axis.extent, int) and axis.extent > 1 else []
        except ScheduleError:
            continue
        if parts and all(list(part.left.values()) == [1] for part in parts):
            companions[axis] = tuple(next(iter(part.left)) for part in parts)
    return companions


class _Pricing:
    """What stages cost one after the other, and under common loops."""

    def __init__(self, step: ComputeStep, values: Sequence[PlanValue], target: TargetInfo) -> None:
        self._computation = step.computation
        self._target = target
        self._temporaries = {tensor.name for tensor in step.computation.temporaries}
        self._itemsize: dict[str, int] = {}
        self._layouts: dict[str, Layout] = {}
        tensors = (*step.computation.inputs, *step.computation.outputs, *step.computation.temporaries)
        operands = (*step.inputs, *map(ValueRef, (*step.outputs, *step.temporaries)))
        for tensor, operand in zip(tensors, operands, strict=True):
            layout = values[operand.value].layout if isinstance(operand, ValueRef) else None
            self._layouts[tensor.name] = layout or row_major(tensor.shape)
            self._itemsize[tensor.name] = max(tensor.dtype.bits // 8, 1)

    @cached_property
    def _axes(self) -> Mapping[Var, tuple[Var, ...]]:
        return row_axes(self._computation)

    @property
    def key(self) -> tuple[object, ...]:
        """What is equal where the same is chosen."""
        return (self._computation, *self._layouts.values())

    def best(self) -> tuple[Loop, ...]:
        """Return the loops that the stages take least time under; () where they take less without."""
        if any(layout.size.constant is None for layout in self._layouts.values()):
            # What is known at run time only has no price.
            return ()
        fits = FULL * self._target.l1_nbytes
        if all(layout.length * self._itemsize[name] <= fits for name, layout in self._layouts.items()):
            # What the first cache holds is not read again in a shorter time.
            return ()
        apart = self.apart()
        costs = {loops: cost for loops in self.candidates() if (cost := self.under(loops)) is not None}
        least = min(costs.values(), default=None)
        if least is None or (apart is not None and least > ABOUT * apart):
            return ()
        return min((loops for loops, cost in costs.items() if cost <= ABOUT * least), key=self.nbytes)

    def apart(self) -> float | None:
        """Return the cycles of the stages one after the other; None: one of them has no tiles."""
        total = 0.0
        for stage in self._computation.stages:
            busy = estimate(stage, self._layouts, self._target)
            if busy is None:
                return None
            total += max(busy, sum(map(self._whole, _touched(stage))))
        return total

    def candidates(self) -> Iterator[tuple[Loop, ...]]:
        """Yield loops over rows, the outermost axes in memory first."""
        folds = (stage.fold for stage in self._computation.stages)
        if not all(fold is None or is_tileable(fold) for fold in folds):
            return
        last = self._computation.stages[-1]
        store = self._layouts[last.tensor].address(last.at)
        axes = sorted(self._axes, key=lambda axis: -abs(store.coefficient(axis) or 0))
        for count in range(1, len(axes) + 1):
            *outer, inner = axes[:count]
            for step in AT_ONCE:
                if isinstance(inner.extent, int) and step < inner.extent and inner.extent % step == 0:
                    yield (*(Loop(axis) for axis in outer), Loop(inner, step))

    def under(self, loops: tuple[Loop, ...]) -> float | None:
        """Return the cycles of the stages under loops; None: they cannot be computed there."""
        try:
            parts = needed(self._computation, loops)
            layouts = {**self._layouts, **windows(self._computation, loops, self._layouts)}
        except ScheduleError:
            return None
        times = {loop.axis: _extent(loop.axis) // loop.step for loop in loops}
        iterations, busy = prod(times.values()), 0.0
        touched: dict[str, float] = {}
        for number, (stage, part) in enumerate(zip(self._computation.stages, parts, strict=True)):
            cycles = estimate(stage, layouts, self._target, part.left)
            if cycles is None:
                return None
            busy += iterations * cycles
            along = {self._axes[axis][number]: count for axis, count in times.items()}
            for name, varying in _touched(stage).items():
                # A stage walks the part of one iteration, which may still lie in a cache.
                parted = prod(count for axis, count in along.items() if axis in varying)
                nbytes = layouts[name].length * self._itemsize[name] // (1 if name in self._temporaries else parted)
                touched[name] = touched.get(name, 0.0) + moving(nbytes * iterations, nbytes, self._target)
        # Operands come once from where they lie as a whole.
        moved = sum(max(again, self._whole(name)) for name, again in touched.items() if name not in self._temporaries)
        return max(busy, moved + sum(again for name, again in touched.items() if name in self._temporaries))

    def nbytes(self, loops: tuple[Loop, ...]) -> int:
        """Return the bytes of the temporaries of one iteration."""
        parts = windows(self._computation, loops, self._layouts)
        return sum(layout.length * self._itemsize[name] for name, layout in parts.items())

    def _whole(self, name: str) -> float:
        """Return the cycles to read or write all of a tensor."""
        nbytes = self._layouts[name].length * self._itemsize[name]
        return moving(nbytes, nbytes, self._target)


def _extent(axis: Var) -> int:
    if not isinstance(axis.extent, int):
        raise TypeError(f"{axis.name} is walked in rows, but its extent {axis.extent} is not a constant")
    return axis.extent


def _touched(stage: Stage) -> dict[str, set[Var]]:
    """Return the tensors that a stage reads or writes, with the variables of their places."""
    found = {stage.tensor: {var for index in stage.at for var in index.variables()}}
    for element in stage.elements:
        if isinstance(element, Read):
            found.setdefault(element.tensor, set()).update(var for index in element.at for var in index.variables())
    return found
