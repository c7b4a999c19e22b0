"""Copies of a tensor with elements replaced at places that another tensor names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dims import surely
from openinfer.dtypes import BOOL, DType, Kind
from openinfer.expr import tree
from openinfer.ops.catalog.indexing import AXIS, check_alongside, looked_up_tuple, tuple_dims
from openinfer.ops.dtype_sets import EVERY, INTEGERS
from openinfer.ops.elementwise import work_type
from openinfer.ops.places import looked_up
from openinfer.ops.schema import (
    Compute,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import axis_of, integer, needed, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as Tensor
    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall

    Combine = Callable[[Expr, Expr], Expr]
    Settings = Mapping[str, SettingValue]

CATEGORY = "indexing"
REDUCTIONS = ("none", "add", "mul", "max", "min")
_REDUCTION = SettingSpec(
    name="reduction",
    type=SettingType.STR,
    default="none",
    choices=REDUCTIONS,
    doc="how an update meets the element that is there; none: the last update in row-major order stays",
)


def _check_updates(x: TensorType, updates: TensorType, shape: tuple[int, ...], settings: Settings) -> None:
    if updates.shape != shape:
        raise OpTypeError(f"updates are {updates}, expected the shape {shown(shape)}")
    if x.dtype.kind is Kind.TERNARY and settings.get("reduction") != "none":
        raise OpTypeError(
            f"{x.dtype} has no arithmetic: reduction must be none", code="dtype-unsupported", settings=("reduction",)
        )


def _scatter_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, indices, updates = needed(inputs), needed(inputs, 1), needed(inputs, 2)
    check_alongside(x, indices, axis_of(integer(settings.get("axis"), "axis"), len(x.shape)))
    _check_updates(x, updates, indices.shape, settings)
    return (x,)


def _scatter_nd_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, indices, updates = needed(inputs), needed(inputs, 1), needed(inputs, 2)
    named = tuple_dims(x, indices)
    _check_updates(x, updates, (*indices.shape[:-1], *x.shape[named.stop :]), settings)
    return (x,)


_COMBINED = {"add": tree.add, "mul": tree.mul, "max": tree.maximum, "min": tree.minimum}
_OF_TRUTHS = {"add": tree.logical_or, "mul": tree.logical_and, "max": tree.logical_or, "min": tree.logical_and}


def _scatter(k: Builder, call: OpCall) -> None:
    x, indices, updates = k.given
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(x.shape))

    def update(target: Tensor, combine: Combine | None) -> None:
        at = k.axes(*indices.shape)
        place = looked_up(k, indices[at], needed(call.inputs).shape[axis])
        _store(k, target, (*at[:axis], place, *at[axis + 1 :]), updates[at], combine)

    _updated(k, call, update)


def _scatter_nd(k: Builder, call: OpCall) -> None:
    x, indices, updates = k.given
    source, tuples = needed(call.inputs), needed(call.inputs, 1)
    named = tuple_dims(source, tuples)

    def update(target: Tensor, combine: Combine | None) -> None:
        at, inner = k.axes(*tuples.shape[:-1]), k.axes(*x.shape[named.stop :])
        places = looked_up_tuple(k, indices, at, source.shape[named])
        _store(k, target, (*places, *inner), updates[(*at, *inner)], combine)

    _updated(k, call, update)


def _updated(k: Builder, call: OpCall, update: Callable[[Tensor, Combine | None], None]) -> None:
    """Copy x, and let ``update`` append the stage that puts updates on top.

    Sums and products of low floats are rounded once, not at every update, so they are formed in a wider temporary.
    """
    x, (y,), reduction = k.given[0], k.outputs, str(call.settings.get("reduction"))
    at = k.axes(*y.shape)
    if any(surely(lambda extent=extent: extent == 0) for extent in call.outputs[0].shape):
        y[at] = x[at]
        return
    combine = _combination(x.dtype, reduction)
    if not (x.dtype.is_low_float and reduction in ("add", "mul")):
        y[at] = x[at]
        update(y, combine)
        return
    wide = k.temporary(work_type(x.dtype), *y.shape)
    wide[at] = x[at]
    update(wide, combine)
    y[at] = wide[at]


def _combination(dtype: DType, reduction: str) -> Combine | None:
    return (_OF_TRUTHS if dtype is BOOL else _COMBINED).get(reduction)


def _store(k: Builder, y: Tensor, at: tuple[Var, ...], update: Value, combine: Combine | None) -> None:
    """Append that an update takes the place of an element, or is combined with it."""
    wide = work_type(y.dtype)
    y[at] = update if combine is None else k.apply(combine, y[at].cast(wide), update.cast(wide))


Shape = tuple[int, ...]


def _example(x: Shape, indices: Shape, updates: Shape, low: int, high: int, **settings: SettingValue) -> OpExample:
    index = Operand(shape=indices, dtype="i64", low=low, high=high)
    computes = settings.get("reduction", "none") != "none"
    return OpExample(
        inputs=(Operand(shape=x), index, Operand(shape=updates)),
        settings=settings,
        dtypes=EVERY - {"t1", "t2"} if computes else None,
    )


_INPUTS = (
    InputSpec(name="x"),
    InputSpec(name="indices", dtypes=INTEGERS, doc="negative ones count from the end"),
    InputSpec(name="updates"),
)

SCATTER = OpSchema(
    name="scatter",
    summary="x with an update at each position of indices, with the place along a dim that the index names",
    category=CATEGORY,
    inputs=_INPUTS,
    dtypes=EVERY,
    settings=(AXIS, _REDUCTION),
    infer=_scatter_types,
    definition=Compute(_scatter),
    in_place=True,
    onnx="ScatterElements",
    examples=(
        _example((5, 3), (7, 3), (7, 3), -5, 4),
        _example((3, 5), (2, 9), (2, 9), -5, 4, axis=1, reduction="add"),
        _example((5,), (3,), (3,), 0, 4, reduction="mul"),
        _example((5, 2), (4, 2), (4, 2), 0, 4, reduction="max"),
        _example((5, 2), (4, 1), (4, 1), 0, 4, reduction="min"),
        _example((5,), (0,), (0,), 0, 4),
    ),
)
SCATTER_ND = OpSchema(
    name="scatter_nd",
    summary="x with slices replaced at the places that tuples in the last dim of indices, or a scalar, name",
    category=CATEGORY,
    inputs=_INPUTS,
    dtypes=EVERY,
    settings=(_REDUCTION,),
    infer=_scatter_nd_types,
    definition=Compute(_scatter_nd),
    in_place=True,
    onnx="ScatterND",
    examples=(
        _example((5, 7), (6, 2), (6,), -5, 4),
        _example((5, 3), (2, 4, 1), (2, 4, 3), -5, 4, reduction="add"),
        _example((5, 3), (4, 1), (4, 3), 0, 4, reduction="mul"),
        _example((5, 3), (4, 1), (4, 3), 0, 4, reduction="max"),
        _example((5, 3), (4, 1), (4, 3), 0, 4, reduction="min"),
        _example((5,), (0, 1), (0,), 0, 4),
        _example((5, 3), (), (3,), -5, 4),
    ),
)
