"""Reductions: one loop nest over the positions that are kept, one inside it over those that are folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.expr.linear import linearise
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.steps import FoldStep
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import Store


def fold(code: Code, step: FoldStep, source: Bound, store: Store) -> None:
    """Append the loops of a fold; positions are visited in row-major order."""
    shape = source.type.shape
    counters = [f"j{axis}" if axis in step.axes else f"i{axis}" for axis in range(len(shape))]
    kept = [axis for axis in range(len(shape)) if axis not in step.axes]
    with code.loops(for_head(counters[axis], shape[axis]) for axis in kept):
        result = _accumulated(code, step, source, counters)
        store.write(code, _position(step, store, counters, kept), result)


def _position(step: FoldStep, store: Store, counters: Sequence[str], kept: Sequence[int]) -> list[str]:
    """Return a counter for each axis of the output, where folded axes are left out or have extent 1."""
    if len(store.output.type.shape) == len(kept):
        return [counters[axis] for axis in kept]
    return ["0" if axis in step.axes else counter for axis, counter in enumerate(counters)]


def _accumulated(code: Code, step: FoldStep, source: Bound, counters: Sequence[str]) -> str:
    """Append the accumulation at one kept position; return the text of its result."""
    parts, shape = step.fold, source.type.shape
    element = source.at(flat(counters, contiguous(shape)))
    kind = c_type(parts.combine.dtype)
    count = 1
    for axis in step.axes:
        count *= shape[axis]
    first = parts.start is None
    if parts.start is None:
        code.line(f"{kind} acc = {literal_text(parts.combine.dtype, 0)};", "bool first = true;")
    else:
        code.line(f"{kind} acc = {code.compute(linearise(parts.start), {}, 's')};")
    with code.loops(for_head(counters[axis], shape[axis]) for axis in step.axes):
        mapped = code.compute(linearise(parts.element), {0: element}, "t")
        combined = code.compute(linearise(parts.combine), {0: "acc", 1: mapped}, "c")
        code.line(f"acc = first ? {mapped} : {combined};" if first else f"acc = {combined};")
        if first:
            code.line("first = false;")
    return code.compute(linearise(parts.finish), {0: "acc", 1: literal_text(I64, count)}, "f")
