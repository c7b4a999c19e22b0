"""Elements that are counted: results with as many rows as there are."""

from __future__ import annotations

import math
from textwrap import indent
from typing import TYPE_CHECKING

from openinfer.dims import surely
from openinfer.dtypes import BOOL, I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops.reading import parse_kernel
from openinfer.ops.catalog.sorting import SortedRows, key_precedes, places_in_order, sort_keys, sorted_order
from openinfer.ops.counting import COUNT_TYPE
from openinfer.ops.dtype_sets import BOOLS, EVERY, FLOATS, INTEGERS, NUMBERS, PACKED_SIGNED, PACKED_UNSIGNED, TERNARY
from openinfer.ops.rows import Rows, is_not_zero, store_zeros
from openinfer.ops.schema import Compute, InputSpec, Loops, Operand, OpExample, OpSchema, OpTypeError
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

CATEGORY = "counting"
_NUMBERS = NUMBERS | BOOLS
_MOVED = EVERY - TERNARY - PACKED_SIGNED - PACKED_UNSIGNED
"""A result of packed elements has a shape that is known beforehand."""


def _nonzero_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x = needed(inputs)
    if not x.shape:
        raise OpTypeError(f"takes {x}: a scalar has no places, make it [1] with `reshape`", of="nonzero")
    return TensorType(I64, (math.prod(x.shape), len(x.shape))), COUNT_TYPE


def _nonzero(k: Builder, call: OpCall) -> None:
    (x,), (places, n) = k.given, k.outputs
    rows = Rows.of(k, needed(call.inputs).shape, lambda at: is_not_zero(k, x[at]))
    store_zeros(k, places)
    if not _is_empty(rows.shape):
        for dim in range(len(x.shape)):
            at = k.axes(*x.shape)
            places[rows.row(at, call.outputs[0].shape[0]), dim] = k.position(at[dim])
    rows.count(n)


def _is_empty(shape: tuple[int, ...]) -> bool:
    """Return whether a shape has no elements for certain."""
    return any(surely(lambda extent=extent: extent == 0) for extent in shape)


def _selected_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x, mask = needed(inputs), needed(inputs, 1)
    rank = len(mask.shape)
    if not rank or mask.shape != x.shape[:rank]:
        raise OpTypeError(f"mask is {mask}, expected the shape of x, {x}, or its first dims", of="masked_select")
    return TensorType(x.dtype, (math.prod(mask.shape), *x.shape[rank:])), COUNT_TYPE


def _selected(k: Builder, call: OpCall) -> None:
    (x, mask), (values, n) = k.given, k.outputs
    rows = Rows.of(k, needed(call.inputs, 1).shape, lambda at: mask[at])
    store_zeros(k, values)
    if not _is_empty(needed(call.inputs).shape):
        at, inner = k.axes(*mask.shape), k.axes(*values.shape[1:])
        values[(rows.row(at, call.outputs[0].shape[0]), *inner)] = x[(*at, *inner)]
    rows.count(n)


def _mask(*shape: int) -> Operand:
    return Operand(shape=shape, dtype="bool")


NONZERO = OpSchema(
    name="nonzero",
    summary="places of the elements that are not zero, in row-major order, and how many there are; NaN is not zero",
    category=CATEGORY,
    inputs=(InputSpec(name="x", doc="of any shape but a scalar"),),
    dtypes=_NUMBERS,
    outputs=("places", "n"),
    counted=("places",),
    infer=_nonzero_types,
    definition=Compute(_nonzero),
    onnx="NonZero",
    examples=(
        *(
            OpExample(inputs=(Operand(shape=shape, low=0, high=1),), dtypes=_NUMBERS - {"i1"})
            for shape in ((9,), (3, 5), (2, 3, 4), (1, 1), (2, 0))
        ),
        OpExample(inputs=(Operand(shape=(3, 5)),), dtypes=frozenset({"i1"})),
    ),
)
MASKED_SELECT = OpSchema(
    name="masked_select",
    summary="elements, or slices, of x where the mask is true, in row-major order, and how many there are",
    category=CATEGORY,
    inputs=(InputSpec(name="x"), InputSpec(name="mask", dtypes=BOOLS, doc="the shape of x, or its first dims")),
    dtypes=_MOVED,
    outputs=("values", "n"),
    counted=("values",),
    infer=_selected_types,
    definition=Compute(_selected),
    onnx="Compress",
    examples=tuple(
        OpExample(inputs=(Operand(shape=x), _mask(*mask)))
        for x, mask in (
            ((9,), (9,)),
            ((3, 5), (3, 5)),
            ((4, 3), (4,)),
            ((2, 3, 4), (2, 3)),
            ((0, 3), (0,)),
            ((3, 0), (3,)),
        )
    ),
)


def _unique_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x = needed(inputs)
    if len(x.shape) != 1:
        raise OpTypeError(f"takes {x}, expected one dim: `reshape` makes one", of="unique")
    places = TensorType(I64, x.shape)
    return x, COUNT_TYPE, places, places, places


def _unique(call: OpCall) -> Kernel:
    """Sort places, and go through the groups of equal elements.

    The minima and maxima never change a place: they are bounds that analysers of generated source can see.
    """
    x = needed(call.inputs)
    rows, (count,) = SortedRows(x, 0, x.shape[0], descending=False), x.shape
    names = ("x", "values", "n", "counts", "indices", "inverse")
    parts = zip(names, (x, *call.outputs), strict=True)
    head = ", ".join(f"{name}: GLOBAL[{type_.dtype}, {type_.count}]" for name, type_ in parts)
    if not count:
        return parse_kernel(f"def unique({head}):\n    n[0] = i64(0)\n")
    return parse_kernel(f"""
def unique({head}):
    groups: i64 = i64(0)
    for before in SERIAL(1):
        for after in SERIAL(1):
{indent(sorted_order(rows), " " * 12)}
            for j in SERIAL({count}):
                place: index[{count}] = order[j]
                earlier: index[{count}] = minimum(maximum(number(j, i64) - i64(1), i64(0)), i64({count - 1}))
                last: index[{count}] = order[earlier]
                {rows.element("own", "place")}
                {rows.element("previous", "last")}
                starts: bool = logical_or(eq(number(j, i64), i64(0)), {rows.precedes("previous", "own")})
                groups = select(starts, groups + i64(1), groups)
                row: index[{count}] = minimum(maximum(groups - i64(1), i64(0)), i64({count - 1}))
                is_first: index[2] = cast(starts, i64)
                if 0 <= is_first - 1 < 1:
                    values[row] = x[place]
                    indices[row] = number(place, i64)
                    counts[row] = i64(0)
                counts[row] = counts[row] + i64(1)
                inverse[place] = number(row, i64)
    n[0] = groups
""")


def _unique_in_stages(k: Builder, call: OpCall) -> None:
    """Sort by ranks, mark the first of equal elements, and number groups by a running sum of the marks."""
    (x,), (values, n, counts, indices, inverse) = k.given, k.outputs
    (count,) = needed(call.inputs).shape
    for result in (values, counts, indices, inverse):
        store_zeros(k, result)
    if _is_empty((count,)):
        n[()] = k.constant(0, I64)
        return
    order, keys = k.temporary(I64, count), sort_keys(k)
    places_in_order(k, order, 0, descending=False)
    i = k.axis(count)
    starts = k.temporary(BOOL, count)
    own, previous = (k.lookup(place, count, "a place") for place in (order[i], order.within(i - 1, fill=0)))
    differs = key_precedes(k, keys[previous], keys[own], descending=False)
    starts[i] = k.apply(tree.logical_or, differs, k.apply(tree.eq, k.position(i), k.constant(0, I64)))
    rows = Rows.of(k, (count,), lambda at: starts[at])
    for result, source in ((values, x), (indices, None)):
        (i,) = at = k.axes(count)
        place = k.lookup(order[i], count, "a place")
        result[rows.row(at, count)] = k.position(place) if source is None else source[place]
    i = k.axis(count)
    group = k.lookup(rows.counted[i] - 1, count, "a group")
    counts[group] = counts[group] + 1
    i = k.axis(count)
    inverse[k.lookup(order[i], count, "a place")] = (rows.counted[i] - 1).cast(I64)
    rows.count(n)


UNIQUE = OpSchema(
    name="unique",
    summary="different elements of x in order, and how many there are; -0 equals 0, and all NaN are one, the last",
    category=CATEGORY,
    inputs=(InputSpec(name="x", doc="[N]"),),
    dtypes=FLOATS | INTEGERS,
    outputs=("values", "n", "counts", "indices", "inverse"),
    counted=("values", "counts", "indices"),
    infer=_unique_types,
    definition=Loops(_unique, stages=_unique_in_stages),
    onnx="Unique",
    examples=tuple(OpExample(inputs=(Operand(shape=shape, low=0, high=3),)) for shape in ((9,), (1,), (0,))),
)
