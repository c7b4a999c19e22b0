"""Elements in order along an axis: loop programs, as no expression says which element comes where."""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING

from openinfer.compute import Order
from openinfer.dtypes import F32, I32, I64, U32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops.reading import parse_kernel
from openinfer.ops.catalog.scans import CATEGORY, example, flag, scanned_axis
from openinfer.ops.dtype_sets import NUMBERS
from openinfer.ops.elementwise import work_type
from openinfer.ops.schema import InputSpec, Loops, OpSchema, OpTypeError, SettingSpec, SettingType
from openinfer.ops.shapes import integer, needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as Tensor
    from openinfer.ir.resolved import SettingValue
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

_LAST = SettingSpec(
    name="axis", type=SettingType.INT, default=-1, aliases=("axes",), doc="the dim, negative from the end"
)
FEW = 64
"""Most elements that are selected by insertion; more are taken from a sorted row."""


def _topk_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    axis, k = scanned_axis(x, settings), integer(settings.get("k"), "k")
    if not 0 <= k <= x.shape[axis]:
        raise OpTypeError(f"k is {k}, expected 0..{x.shape[axis]}: dim {axis} of {x}", settings=("k",))
    shape = tuple(k if dim == axis else extent for dim, extent in enumerate(x.shape))
    return TensorType(x.dtype, shape), TensorType(I64, shape)


def _argsort_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    scanned_axis(x, settings)
    return (TensorType(I64, x.shape),)


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The rows of x along an axis: element ``place`` of row (before, after) lies at ``at(place)``.

    Attributes:
        extent: elements of a row.
        kept: elements that a row of the result has.
    """

    x: TensorType
    axis: int
    kept: int
    descending: bool

    @property
    def extent(self) -> int:
        return self.x.shape[self.axis]

    @property
    def after(self) -> int:
        return math.prod(self.x.shape[self.axis + 1 :])

    def at(self, place: str) -> str:
        return f"{self.extent * self.after}*before + {self.after}*{place} + after"

    def result_at(self, place: str) -> str:
        return f"{self.kept * self.after}*before + {self.after}*{place} + after"

    def element(self, name: str, place: str) -> str:
        """Return the line that names the element at a place, in the type that elements are compared in."""
        wide = work_type(self.x.dtype)
        return f"{name}: {wide} = cast(x[{self.at(place)}], {wide})"

    def precedes(self, first: str, second: str) -> str:
        """Return whether an element comes before another one, by name; of equal ones neither does. NaN is greatest."""
        least, greatest = (second, first) if self.descending else (first, second)
        if not self.x.dtype.is_float:
            return f"lt({least}, {greatest})"
        return f"logical_not(logical_or(is_nan({least}), le({greatest}, {least})))"


def _program(name: str, rows: SortedRows, outputs: Sequence[TensorType], order: str, results: str) -> Kernel:
    """Return the program that finds the order of each row and stores results for each place ``j`` of it."""
    buffers = [("x", rows.x), *((f"y{number}", type_) for number, type_ in enumerate(outputs))]
    head = ", ".join(f"{buffer}: GLOBAL[{type_.dtype}, {type_.count}]" for buffer, type_ in buffers)
    if not outputs[0].count:
        return parse_kernel(f"def {name}({head}):\n    pass\n")
    body = f"""{order}
for j in SERIAL({rows.kept}):
    place: index[{rows.extent}] = order[j]
{indent(results, "    ")}
"""
    return parse_kernel(f"""
def {name}({head}):
    for before in SERIAL({math.prod(rows.x.shape[: rows.axis])}):
        for after in SERIAL({rows.after}):
{indent(body, "            ")}
""")


def _argsort(call: OpCall) -> Kernel:
    x = needed(call.inputs)
    axis = scanned_axis(x, call.settings)
    rows = SortedRows(x, axis, x.shape[axis], bool(call.settings.get("descending")))
    return _program(
        "argsort", rows, call.outputs, sorted_order(rows), f"y0[{rows.result_at('j')}] = number(place, i64)"
    )


def _topk(call: OpCall) -> Kernel:
    x = needed(call.inputs)
    kept = integer(call.settings.get("k"), "k")
    rows = SortedRows(x, scanned_axis(x, call.settings), kept, bool(call.settings.get("largest")))
    order = _selected(rows) if 0 < kept <= min(FEW, rows.extent // 4) else sorted_order(rows)
    at = rows.result_at("j")
    results = f"y0[{at}] = x[{rows.at('place')}]\ny1[{at}] = number(place, i64)"
    return _program("topk", rows, call.outputs, order, results)


def sorted_order(rows: SortedRows) -> str:
    """Return the statements of a merge sort of the places of a row, from runs of one upwards: stable, and without
    recursion. Of two runs side by side the next element is that of the right one where it precedes, or the left one
    is used up. The minima never change a place: they are bounds that analysers of generated source can see."""
    count = rows.extent
    return f"""order: PRIVATE[i64, {count}]
merged: PRIVATE[i64, {count}]
for j in SERIAL({count}):
    order[j] = number(j, i64)
width: i64 = i64(1)
for passes in SERIAL({max(count - 1, 0).bit_length()}):
    pairs: index[{count + 1}] = div(i64({count - 1}) + (width + width), width + width)
    for pair in SERIAL(pairs):
        start: i64 = number(pair, i64) * (width + width)
        middle: i64 = minimum(start + width, i64({count}))
        end: i64 = minimum(middle + width, i64({count}))
        length: index[{count + 1}] = minimum(end - start, i64({count}))
        left: i64 = start
        right: i64 = middle
        for j in SERIAL(length):
            left_at: index[{count}] = minimum(left, i64({count - 1}))
            right_at: index[{count}] = minimum(right, i64({count - 1}))
            p: index[{count}] = order[left_at]
            q: index[{count}] = order[right_at]
            {rows.element("a", "p")}
            {rows.element("b", "q")}
            is_right: bool = logical_or(ge(left, middle), logical_and(lt(right, end), {rows.precedes("b", "a")}))
            here: index[{count}] = minimum(start + number(j, i64), i64({count - 1}))
            merged[here] = select(is_right, number(q, i64), number(p, i64))
            left = select(is_right, left, number(left_at + 1, i64))
            right = select(is_right, number(right_at + 1, i64), right)
    for j in SERIAL({count}):
        order[j] = merged[j]
    width = minimum(width + width, i64({count}))"""


def _selected(rows: SortedRows) -> str:
    """Return the statements that select the first places of a row: an element that precedes the last one so far is
    inserted, and those after it move on by one. Elements come by rising place, so equal ones stay in order."""
    count, kept = rows.extent, rows.kept
    return f"""order: PRIVATE[i64, {kept}]
for j in SERIAL({kept}):
    following: i64 = number(j, i64)
{indent(_inserted(rows, "j", "following"), "    ")}
    order[j] = following
for j in SERIAL({count - kept}):
    last: index[{count}] = order[{kept - 1}]
    {rows.element("value", f"(j + {kept})")}
    {rows.element("worst", "last")}
    enters: index[2] = cast({rows.precedes("value", "worst")}, i64)
    if 0 <= enters - 1 < 1:
        carried: i64 = number(j + {kept}, i64)
{indent(_inserted(rows, str(kept), "carried"), "        ")}"""


def _inserted(rows: SortedRows, length: str, place: str) -> str:
    """Return the loop that inserts the place in ``place`` among the first ones; what falls out is in it at the end."""
    first = rows.precedes("a", "b")
    return f"""for s in SERIAL({length}):
    p: index[{rows.extent}] = {place}
    q: index[{rows.extent}] = order[s]
    {rows.element("a", "p")}
    {rows.element("b", "q")}
    is_lower: bool = logical_and(lt(number(p, i64), number(q, i64)), logical_not({rows.precedes("b", "a")}))
    is_first: bool = logical_or({first}, is_lower)
    order[s] = select(is_first, number(p, i64), number(q, i64))
    {place} = select(is_first, number(q, i64), number(p, i64))"""


def _argsort_by_ranks(k: Builder, call: OpCall) -> None:
    axis = scanned_axis(needed(call.inputs), call.settings)
    places_in_order(k, k.outputs[0], axis, descending=bool(call.settings.get("descending")))


def _topk_by_ranks(k: Builder, call: OpCall) -> None:
    (x,), (values, places) = k.given, k.outputs
    axis = scanned_axis(needed(call.inputs), call.settings)
    places_in_order(k, places, axis, descending=bool(call.settings.get("largest")))
    at = k.axes(*places.shape)
    place = k.lookup(places[at], x.shape[axis], "a place of the row")
    values[at] = x[(*at[:axis], place, *at[axis + 1 :])]


def places_in_order(k: Builder, result: Tensor, axis: int, *, descending: bool) -> None:
    """Append the stages that store the places of a row in order.

    The rank of an element is the number of those that come before it; of equal ones those of a lower place do. A result
    is then the one place of its rank, which it finds among all: no two places write the same element.
    """
    (x,), keys = k.given, sort_keys(k)
    extent = keys.shape[axis]
    ranks = k.temporary(U32, *keys.shape)
    at, other = k.axes(*keys.shape), k.axis(extent)
    own, met = keys[at], keys[(*at[:axis], other, *at[axis + 1 :])]
    is_lower = k.position(other, I32) < k.position(at[axis], I32)
    follows, precedes = (key_precedes(k, *pair, descending=descending) for pair in ((own, met), (met, own)))
    comes_before = k.apply(tree.select, is_lower, k.apply(tree.logical_not, follows), precedes)
    # As many sums as elements keep a device busy with a thread each; few results are better off with many threads each.
    ranks[at] = k.sum(comes_before.cast(U32), (other,), Order.SEQUENTIAL)
    at, place = k.axes(*result.shape), k.axis(extent)
    has_rank = k.apply(tree.eq, ranks[(*at[:axis], place, *at[axis + 1 :])], k.position(at[axis], U32))
    of_rank = k.apply(tree.select, has_rank, k.position(place, U32), k.constant(0, U32))
    order = Order.SEQUENTIAL if result.shape == x.shape else Order.ANY
    result[at] = k.sum(of_rank, (place,), order).cast(I64)


def sort_keys(k: Builder) -> Tensor:
    """Return a tensor whose elements are in the order of those of x, appending the stage that computes it if needed.

    Keys of floats of up to 32 bits are integers, which are compared in one step: the bits of the magnitude with the
    sign of the number, and for NaN the greatest.
    """
    (x,) = k.given
    if not x.dtype.is_float or work_type(x.dtype) is not F32:
        return x
    keys = k.temporary(I32, *x.shape)
    at = k.axes(*x.shape)
    bits = k.apply(tree.to_bits, x[at].cast(F32))
    size = k.apply(tree.bit_and, bits, k.constant(0x7FFFFFFF, U32))
    whole = size.cast(I32)
    signed = k.apply(tree.select, k.apply(tree.eq, bits, size), whole, -whole)
    is_nan = size > 0x7F800000
    keys[at] = k.apply(tree.select, is_nan, k.constant(0x7FFFFFFF, I32), signed)
    return keys


def key_precedes(k: Builder, first: Value, second: Value, *, descending: bool) -> Value:
    """Return whether an element comes before another one; of equal ones neither does. NaN is greatest."""
    wide = work_type(first.dtype)
    least, greatest = (each.cast(wide) for each in ((second, first) if descending else (first, second)))
    if not first.dtype.is_float:
        return least < greatest
    is_no_less = k.apply(tree.logical_or, k.apply(tree.is_nan, least), greatest <= least)
    return k.apply(tree.logical_not, is_no_less)


TOPK = OpSchema(
    name="topk",
    summary="the k first elements along an axis, best first, and their indices; ties by lower index, NaN is greatest",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=NUMBERS,
    outputs=("values", "indices"),
    settings=(
        SettingSpec(name="k", type=SettingType.INT, doc="how many"),
        _LAST,
        flag("largest", "whether the greatest come first", default=True),
        flag("sorted", "results are in order either way", default=True),
    ),
    infer=_topk_types,
    definition=Loops(_topk, stages=_topk_by_ranks),
    in_place=True,
    onnx="TopK",
    examples=(
        example(3, 9, k=4),
        example(7, 2, 3, k=3, axis=0, largest=False),
        example(5, k=5),
        example(2, 40, k=3),
        example(2, 6, k=1, sorted=False),
        example(2, 3, k=0),
        example(0, 3, k=2),
    ),
)
ARGSORT = OpSchema(
    name="argsort",
    summary="indices of the elements in order along an axis; stable, NaN is greatest",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=NUMBERS,
    settings=(_LAST, flag("descending", "whether the greatest come first")),
    infer=_argsort_types,
    definition=Loops(_argsort, stages=_argsort_by_ranks),
    in_place=True,
    onnx="TopK",
    examples=(
        example(3, 9),
        example(7, 2, axis=0, descending=True),
        example(5, descending=True),
        example(1, 1),
        example(2, 0),
    ),
)
