"""Scans along an axis, and elements in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import FLOATS, INTEGERS, NUMBERS
from openinfer.ops.elementwise import work_type
from openinfer.ops.schema import (
    Compute,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    Primitive,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import axis_of, integer, needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall

    Place = Index | Var | int
    Settings = Mapping[str, SettingValue]

CATEGORY = "scan"
_LAST = SettingSpec(
    name="axis", type=SettingType.INT, default=-1, aliases=("axes",), doc="the dim, negative from the end"
)


def _flag(name: str, doc: str, *, default: bool = False) -> SettingSpec:
    return SettingSpec(name=name, type=SettingType.BOOL, default=default, doc=doc)


def _axis(x: TensorType, settings: Settings) -> int:
    return axis_of(integer(settings.get("axis"), "axis"), len(x.shape))


def _cumsum_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    _axis(x, settings)
    return (x,)


def _cumsum(k: Builder, call: OpCall) -> None:
    (x,), (y,), settings = k.given, k.outputs, call.settings
    shape, axis = call.outputs[0].shape, _axis(needed(call.inputs), settings)
    extent, wide = shape[axis], work_type(x.dtype)
    others = k.axes(*shape[:axis], *shape[axis + 1 :])

    def at(place: Place) -> tuple[Place, ...]:
        """Return the element that is number ``place`` in the order of the sum."""
        return (*others[:axis], extent - 1 - place if settings.get("reverse") else place, *others[axis:])

    if not extent or not settings.get("exclusive"):
        place = k.axis(extent)
        y[at(place)] = k.fold(x[at(place)].cast(wide), (place,), tree.add, start=0, running=True)
        return
    y[at(0)] = k.constant(0, wide)
    place = k.axis(extent - 1)
    y[at(place + 1)] = k.fold(x[at(place)].cast(wide), (place,), tree.add, start=0, running=True)


def _topk_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    axis, k = _axis(x, settings), integer(settings.get("k"), "k")
    if not 0 <= k <= x.shape[axis]:
        raise OpTypeError(f"k is {k}, expected 0..{x.shape[axis]}: dim {axis} of {x}", settings=("k",))
    shape = tuple(k if dim == axis else extent for dim, extent in enumerate(x.shape))
    return TensorType(x.dtype, shape), TensorType(I64, shape)


def _argsort_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    _axis(x, settings)
    return (TensorType(I64, x.shape),)


def _example(*shape: int, **settings: SettingValue) -> OpExample:
    return OpExample(inputs=(Operand(shape=shape),), settings=settings)


CUMSUM = OpSchema(
    name="cumsum",
    summary="running sum along an axis; integers wrap",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=FLOATS | INTEGERS,
    settings=(
        SettingSpec(name="axis", type=SettingType.INT, aliases=("axes",), doc="the dim, negative from the end"),
        _flag("exclusive", "whether sums start at 0 and leave their own element out"),
        _flag("reverse", "whether sums run from the end"),
    ),
    infer=_cumsum_types,
    definition=Compute(_cumsum),
    in_place=True,
    onnx="CumSum",
    examples=(
        _example(3, 7, axis=1),
        _example(4, 3, 5, axis=0, exclusive=True),
        _example(2, 5, axis=-1, reverse=True),
        _example(5, axis=0, exclusive=True, reverse=True),
        _example(2, 0, axis=1),
        _example(0, 3, axis=1),
    ),
)
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
        _flag("largest", "whether the greatest come first", default=True),
        _flag("sorted", "results are in order either way", default=True),
    ),
    infer=_topk_types,
    definition=Primitive(),
    in_place=True,
    onnx="TopK",
    examples=(
        _example(3, 9, k=4),
        _example(7, 2, 3, k=3, axis=0, largest=False),
        _example(5, k=5),
        _example(2, 40, k=3),
        _example(2, 6, k=1, sorted=False),
        _example(2, 3, k=0),
        _example(0, 3, k=2),
    ),
)
ARGSORT = OpSchema(
    name="argsort",
    summary="indices of the elements in order along an axis; stable, NaN is greatest",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=NUMBERS,
    settings=(_LAST, _flag("descending", "whether the greatest come first")),
    infer=_argsort_types,
    definition=Primitive(),
    in_place=True,
    onnx="TopK",
    examples=(
        _example(3, 9),
        _example(7, 2, axis=0, descending=True),
        _example(5, descending=True),
        _example(1, 1),
        _example(2, 0),
    ),
)
