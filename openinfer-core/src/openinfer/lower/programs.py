"""Computations as loop programs: each stage in its buffers, under its schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.loops import Buffer, Kernel
from openinfer.lower.failures import failure
from openinfer.lower.fused import fused, windows
from openinfer.lower.halos import filled_halo
from openinfer.lower.names import Names
from openinfer.lower.nests import scheduled
from openinfer.lower.placed import placed
from openinfer.lower.sequential import SequentialLowering
from openinfer.lower.tensors import buffers_of, layouts_of
from openinfer.lower.walks import walked
from openinfer.schedule import choose, verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.compute import Computation, Tensor
    from openinfer.layout import Layout
    from openinfer.loops import Statement
    from openinfer.schedule import Loop, Schedule


def lowered(
    computation: Computation,
    layouts: Mapping[str, Layout] | None = None,
    target: TargetInfo | None = None,
    schedules: Mapping[int, Schedule] | None = None,
    origin: str = "",
    fusion: Sequence[Loop] = (),
    *,
    sliding: bool = False,
) -> Kernel:
    """Return a computation as one loop program over its inputs, outputs and temporaries.

    Results have the bits of `openinfer.compute.evaluate`, but for folds of floats in any order under a target: their
    terms may be added in another order, and by fused multiply-adds.

    Args:
        layouts: where tensors lie, by name; row-major for others. Halos of tensors that a stage reads are
            filled first, those of other results last, when their places are free of what is read.
        target: what schedules are chosen for; None for one that has no vector registers.
        schedules: by number of the stage, those that are not to be chosen.
        fusion: loops over axes of the last stage inside of which all stages are computed. Temporaries then hold
            what the later stages read in one step of these loops (`openinfer.lower.fused.windows`).
        sliding: whether the innermost of them computes only what the step before it has not.

    Raises:
        ScheduleError: a given schedule does not fit its stage, or the stages cannot be fused under these loops.
    """
    all_layouts = layouts_of(computation, layouts)
    if fusion:
        all_layouts |= windows(computation, fusion, all_layouts, sliding=sliding)
    buffers = buffers_of(computation, all_layouts)
    names = Names({*buffers, *(var.name for var in computation.parameters), *_variables(computation)})
    for number, own_schedule in (schedules or {}).items():
        verify(own_schedule, computation.stages[number], target)
    written = (*computation.outputs, *computation.temporaries)
    body, last = _filled(computation, written, buffers, all_layouts, names)
    if fusion:
        body += fused(computation, fusion, all_layouts, buffers, names, target, schedules or {}, sliding=sliding)
        return Kernel(computation.name, tuple(buffers.values()), body + last, computation.parameters, origin)
    for number, stage in enumerate(computation.stages):
        failed = failure(stage)
        if failed is not None:
            body += (failed,)
            continue
        schedule = (schedules or {}).get(number) or choose(stage, all_layouts, target)
        if any(loop.is_copied or (stage.fold is not None and loop.axis in stage.fold.axes) for loop in schedule.loops):
            body += walked(placed(stage, schedule, buffers, all_layouts, target), names)
        else:
            body += scheduled(schedule, SequentialLowering(stage, buffers, all_layouts, names).levels())
    return Kernel(computation.name, tuple(buffers.values()), body + last, computation.parameters, origin)


def _filled(
    computation: Computation,
    tensors: Sequence[Tensor],
    buffers: Mapping[str, Buffer],
    layouts: Mapping[str, Layout],
    names: Names,
) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """Return what fills the halos of tensors before all stages, and what does so after them."""
    elements = (element for stage in computation.stages for element in stage.elements)
    inside = {element.tensor for element in elements if isinstance(element, Read)}
    first: tuple[Statement, ...] = ()
    last: tuple[Statement, ...] = ()
    for tensor in tensors:
        loops = tuple(filled_halo(buffers[tensor.name], layouts[tensor.name], names))
        if tensor.name in inside:
            first += loops
        else:
            last += loops
    return first, last


def _variables(computation: Computation) -> Iterator[str]:
    for stage in computation.stages:
        folded = () if stage.fold is None else stage.fold.axes
        yield from (var.name for var in (*stage.axes, *folded, *(lookup.var for lookup in stage.lookups)))
