"""Scans along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.dims import surely
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import FLOATS, INTEGERS
from openinfer.ops.elementwise import work_type
from openinfer.ops.schema import (
    Compute,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
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


def flag(name: str, doc: str, *, default: bool = False) -> SettingSpec:
    """Return a setting that is true or false."""
    return SettingSpec(name=name, type=SettingType.BOOL, default=default, doc=doc)


def scanned_axis(x: TensorType, settings: Settings) -> int:
    """Return the setting ``axis``, counted from the front."""
    return axis_of(integer(settings.get("axis"), "axis"), len(x.shape))


def _cumsum_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    scanned_axis(x, settings)
    return (x,)


def _cumsum(k: Builder, call: OpCall) -> None:
    (x,), (y,), settings = k.given, k.outputs, call.settings
    shape, axis = call.outputs[0].shape, scanned_axis(needed(call.inputs), settings)
    extent, wide = shape[axis], work_type(x.dtype)
    others = k.axes(*shape[:axis], *shape[axis + 1 :])

    def at(place: Place) -> tuple[Place, ...]:
        """Return the element that is number ``place`` in the order of the sum."""
        return (*others[:axis], extent - 1 - place if settings.get("reverse") else place, *others[axis:])

    if surely(lambda: extent == 0) or not settings.get("exclusive"):
        place = k.axis(extent)
        y[at(place)] = k.fold(x[at(place)].cast(wide), (place,), tree.add, start=0, running=True)
        return
    y[at(0 if surely(lambda: extent >= 1) else k.axis(dims.min(extent, 1)))] = k.constant(0, wide)
    place = k.axis(dims.max(extent - 1, 0))
    y[at(place + 1)] = k.fold(x[at(place)].cast(wide), (place,), tree.add, start=0, running=True)


def example(*shape: int, **settings: SettingValue) -> OpExample:
    """Return an example with one input."""
    return OpExample(inputs=(Operand(shape=shape),), settings=settings)


CUMSUM = OpSchema(
    name="cumsum",
    summary="running sum along an axis; integers wrap",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=FLOATS | INTEGERS,
    settings=(
        SettingSpec(name="axis", type=SettingType.INT, aliases=("axes",), doc="the dim, negative from the end"),
        flag("exclusive", "whether sums start at 0 and leave their own element out"),
        flag("reverse", "whether sums run from the end"),
    ),
    infer=_cumsum_types,
    definition=Compute(_cumsum),
    in_place=True,
    onnx="CumSum",
    examples=(
        example(3, 7, axis=1),
        example(4, 3, 5, axis=0, exclusive=True),
        example(2, 5, axis=-1, reverse=True),
        example(5, axis=0, exclusive=True, reverse=True),
        example(2, 0, axis=1),
        example(0, 3, axis=1),
    ),
)
