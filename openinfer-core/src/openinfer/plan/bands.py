"""Steps in bands: a step and the reader of its result take turns, so that only a part of the result exists at a time.

So a depthwise convolution and the products after it run in bands of rows, and an image is copied into its border one
channel at a time. What the first step makes is then read from the first cache, and the arena has room for a band only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.layout import row_major
from openinfer.lower.fused import needed, windows
from openinfer.plan.accesses import use_counts
from openinfer.plan.fusion import may_join, one_after_the_other
from openinfer.plan.rewriting import with_bodies
from openinfer.plan.steps import Arrangement, ComputeStep, ValueRef
from openinfer.plan.values import NoMemory, WeightMemory
from openinfer.schedule import Loop, ScheduleError, estimate
from openinfer.schedule.cost import FULL, moving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.layout import Layout
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue

GAIN = 0.1
"""Share of the time of two steps that their bands have to save: less is not worth its source."""


def banded(procedures: Sequence[Procedure], values: Sequence[PlanValue], target: TargetInfo) -> tuple[Procedure, ...]:
    """Return the program with steps in bands where these take less time by the cost model.

    Args:
        values: those of the plan, with their layouts.
    """
    banding = _Banding(values, use_counts(procedures), target)
    return with_bodies(procedures, banding.paired)


def window_layouts(step: ComputeStep, layouts: Mapping[str, Layout]) -> dict[int, Layout]:
    """Return the layouts of the temporaries of a step in bands, by their number: those of one band."""
    layouts_needed = windows(step.computation, step.arrangement.fusion, layouts, sliding=step.arrangement.sliding)
    names = (tensor.name for tensor in step.computation.temporaries)
    return {number: layouts_needed[name] for number, name in zip(step.temporaries, names, strict=True)}


@dataclass(frozen=True, slots=True)
class _Banding:
    """Puts neighbouring steps under common loops.

    Attributes:
        uses: how many steps read or write each value.
        known: what was decided about computations in their layouts.
    """

    values: Sequence[PlanValue]
    uses: Mapping[int, int]
    target: TargetInfo
    known: dict[tuple[object, ...], Loop | str] = field(default_factory=dict["tuple[object, ...]", "Loop | str"])

    def paired(self, steps: Sequence[Step]) -> list[Step]:
        """Return steps with neighbours under common loops."""
        made: list[Step] = []
        for step in steps:
            last = made[-1] if made else None
            if not (isinstance(last, ComputeStep) and isinstance(step, ComputeStep) and self._are_pair(last, step)):
                made.append(step)
                continue
            joined = self._joined(last, step)
            made[-1:] = [replace(last, stored=joined), step] if isinstance(joined, str) else [joined]
        return made

    def _are_pair(self, producer: ComputeStep, consumer: ComputeStep) -> bool:
        """Whether the second step alone reads what the first one makes, and that does not fit the first cache."""
        if producer.temporaries or consumer.temporaries or len(producer.outputs) != 1:
            return False
        (result,) = producer.outputs
        value = self.values[result]
        return (
            isinstance(value.memory, NoMemory)
            and ValueRef(result) in consumer.inputs
            and self.uses[result] == 2
            and len(producer.computation.stages) == len(consumer.computation.stages) == 1
            and value.stored.nbytes > FULL * self.target.l1_nbytes
            and may_join(producer, consumer)
        )

    def _joined(self, producer: ComputeStep, consumer: ComputeStep) -> ComputeStep | str:
        """Return both steps in bands, or why the result of the first is stored as a whole."""
        joined = one_after_the_other(producer, consumer)
        if joined is None:
            return f"{consumer.op} would overwrite what it reads"
        pricing = _Pricing(joined, self.values, self.target)
        if pricing.key not in self.known:
            self.known[pricing.key] = pricing.best(GAIN)
        loop = self.known[pricing.key]
        if isinstance(loop, str):
            return loop or producer.stored
        return replace(joined, arrangement=Arrangement(fusion=(loop,)))


class _Pricing:
    """What two stages cost one after the other, and under common loops."""

    def __init__(self, step: ComputeStep, values: Sequence[PlanValue], target: TargetInfo) -> None:
        self._computation = step.computation
        self._target = target
        self._nbytes: dict[str, int] = {}
        self._layouts: dict[str, Layout] = {}
        self._weights: set[str] = set()
        tensors = (*step.computation.inputs, *step.computation.outputs, *step.computation.temporaries)
        operands = (*step.inputs, *map(ValueRef, (*step.outputs, *step.temporaries)))
        for tensor, operand in zip(tensors, operands, strict=True):
            value = values[operand.value] if isinstance(operand, ValueRef) else None
            layout = (None if value is None else value.layout) or row_major(tensor.shape)
            if layout.size.constant is not None:
                self._nbytes[tensor.name] = layout.length * max(tensor.dtype.bits // 8, 1)
            if value is None or isinstance(value.memory, WeightMemory):
                self._weights.add(tensor.name)
            else:
                self._layouts[tensor.name] = layout

    @property
    def key(self) -> tuple[object, ...]:
        """What the costs depend on."""
        return (self._computation, tuple(self._layouts.items()), tuple(sorted(self._weights)))

    def best(self, share: float) -> Loop | str:
        """Return the common loop that saves a share of the time, or why there is none; "" where none is possible."""
        first, last = self._computation.stages
        if self._layouts.keys() | self._weights != self._nbytes.keys():
            return "its size is known at run time only"
        terms = _terms(first) + _terms(last)
        least = terms / self._target.lanes(self._itemsize()) / self._target.multiply_adds
        if 2 * self._moving(first.tensor, self._nbytes[first.tensor]) < share * least:
            return "takes its time in arithmetic, not in memory"
        loop, apart = self.loop(), self.apart()
        under = None if loop is None else self.under(loop)
        if loop is None or apart is None or under is None:
            return ""
        return loop if under < (1 - share) * apart else f"bands save no {share:.0%} of the time"

    def _itemsize(self) -> int:
        """Return the bytes of an element of the temporary."""
        return max(self._computation.tensor(self._computation.stages[0].tensor).dtype.bits // 8, 1)

    def apart(self) -> float | None:
        """Return the cycles of the stages one after the other."""
        total = 0.0
        for stage in self._computation.stages:
            busy = self._busy(stage, self._layouts, {})
            if busy is None:
                return None
            total += max(busy, sum(self._moving(name, self._nbytes[name]) for name in _touched(stage)))
        return total

    def loop(self) -> Loop | None:
        """Return the outermost loop under which only a part of the temporary is there at a time.

        Its step leaves no rest. It is the largest for which that part fits the first cache, or else the smallest.
        """
        result = self._computation.stages[0].tensor
        for axis in self._computation.stages[-1].axes:
            extent = axis.extent if isinstance(axis.extent, int) else 1
            steps = sorted((step for step in range(1, extent) if extent % step == 0), reverse=True)
            choices = [(loop, self._windows(loop)) for loop in (Loop(axis, step) for step in steps)]
            sizes = {loop: self._band(layouts[result]) for loop, layouts in choices if layouts}
            for cache in (self._target.l1_nbytes, self._target.l2_nbytes):
                fits = [loop for loop, nbytes in sizes.items() if nbytes <= FULL * cache]
                if fits:
                    return fits[0] if cache == self._target.l1_nbytes else fits[-1]
        return None

    def _windows(self, loop: Loop) -> dict[str, Layout]:
        """Return the layout of the part that a step needs of the temporary; {}: stages cannot share the loop."""
        try:
            (part, _), layouts = needed(self._computation, (loop,)), windows(self._computation, (loop,), self._layouts)
        except ScheduleError:
            return {}
        return layouts if part.left else {}

    def under(self, loop: Loop) -> float | None:
        """Return the cycles of the stages under a loop; None: they are not known."""
        parts = needed(self._computation, (loop,))
        layouts = {**self._layouts, **self._windows(loop)}
        first, last = self._computation.stages
        if not isinstance(loop.axis.extent, int):
            return None
        bands = loop.axis.extent // loop.step
        band = self._band(layouts[first.tensor])
        total = 0.0
        for stage, part in zip((first, last), parts, strict=True):
            busy = self._busy(stage, layouts, part.left)
            if busy is None:
                return None
            moved = 0.0
            for name in _touched(stage):
                if name == first.tensor:
                    moved += bands * moving(band, band, self._target)
                else:
                    # Weights are read again for each band.
                    again = bands if name in self._weights else 1
                    moved += again * self._moving(name, self._nbytes[name])
            total += max(bands * busy, moved)
        return total

    def _band(self, window: Layout) -> int:
        """Return the bytes of a part of the temporary."""
        return window.length * self._itemsize()

    def _busy(self, stage: Stage, layouts: Mapping[str, Layout], within: Mapping[Var, int]) -> float | None:
        of_data = {name: layout for name, layout in layouts.items() if name not in self._weights}
        return estimate(stage, of_data, self._target, within)

    def _moving(self, name: str, nbytes: int) -> float:
        return moving(nbytes, self._nbytes[name], self._target)


def _terms(stage: Stage) -> int:
    """Return how many terms a stage adds up; of one without a fold, how many elements it stores."""
    return prod(axis.extent for axis in stage.all_axes if isinstance(axis.extent, int))


def _touched(stage: Stage) -> set[str]:
    return {stage.tensor, *stage.tensors_read}
