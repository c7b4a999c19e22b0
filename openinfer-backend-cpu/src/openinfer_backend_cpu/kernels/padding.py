"""Margins and triangles: elements that stay where they are, and what surrounds them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.ops.catalog.padding import pad_value
from openinfer.ops.margins import margins
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

    from openinfer.ops.margins import Margin


@kernel("pad")
def pad(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Copy what is kept of x, then fill the margins: with the value, or dim by dim from what is already there."""
    del workspace
    x, out = inputs[0], outputs[0]
    found, mode = margins(x.shape, call.settings), str(call.settings.get("mode"))
    kept = x[(*(slice(m.first, m.first + m.count) for m in found), ...)]
    inside = tuple(slice(m.before, m.before + m.count) for m in found)
    copy = partial(np.copyto, out[(*inside, ...)], kept)
    if mode == "constant":
        dtype = call.outputs[0].dtype
        value = np.array(pad_value(call.settings, dtype)).astype(out.dtype)
        return in_order([partial(np.copyto, out, value), copy])
    return in_order([copy, *_filled(out, found, inside, mode)])


def _filled(out: Array, found: Sequence[Margin], inside: tuple[slice, ...], mode: str) -> list[BoundCall]:
    """Return the copies that fill margins; those of a dim include the margins of the dims before it, filled earlier."""
    calls: list[BoundCall] = []
    for axis, margin in enumerate(found):
        own = (*(slice(None) for _ in range(axis)),)
        rest = inside[axis + 1 :]
        for first, last in ((0, margin.before), (margin.extent - margin.after, margin.extent)):
            if first < last:
                sources = [margin.source(place, mode) or 0 for place in range(first, last)]
                within = np.array(sources) + margin.before - margin.first
                target, source = out[(*own, slice(first, last), *rest)], out[(*own, slice(None), *rest)]
                calls.append(partial(_take, target, source, within, axis))
    return calls


def _take(target: Array, source: Array, places: Array, axis: int) -> None:
    np.copyto(target, np.take(source, places, axis=axis))


@kernel("triu")
def triu(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Copy x and clear what is below the diagonal."""
    del workspace
    rows, columns = _matrix(inputs[0])
    diagonal = _diagonal(call)
    return _cleared(inputs[0], outputs[0], columns - rows < diagonal)


@kernel("tril")
def tril(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Copy x and clear what is above the diagonal."""
    del workspace
    rows, columns = _matrix(inputs[0])
    return _cleared(inputs[0], outputs[0], columns - rows > _diagonal(call))


def _diagonal(call: OpCall) -> int:
    value = call.settings.get("k")
    return value if isinstance(value, int) else 0


def _matrix(x: Array) -> tuple[Array, Array]:
    """Return the numbers of the rows and of the columns of the last two dims."""
    rows = np.arange(x.shape[-2], dtype=np.int64)
    columns = np.arange(x.shape[-1], dtype=np.int64)
    return rows[:, None], columns


def _cleared(x: Array, out: Array, mask: Array) -> BoundCall:
    zero = np.zeros((), out.dtype)
    return in_order([partial(np.copyto, out, x), partial(np.copyto, out, zero, where=mask)])
