"""Triangles of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.affine import Index, Within
from openinfer.ops.dtype_sets import EVERY
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
from openinfer.ops.shapes import integer, needed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import DefineStages


def _triangle_types(
    inputs: Sequence[TensorType | None], settings: Mapping[str, SettingValue], declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x = needed(inputs)
    if len(x.shape) < 2:
        raise OpTypeError(f"a triangle is cut from x [..., R, C], found {x}")
    return (x,)


def _upper(k: Builder, call: OpCall) -> None:
    _cut(k, call, lambda row, column, diagonal: column - row - diagonal)


def _lower(k: Builder, call: OpCall) -> None:
    _cut(k, call, lambda row, column, diagonal: row - column + diagonal)


def _cut(k: Builder, call: OpCall, distance: Callable[[Var, Var, int], Index]) -> None:
    """Keep the elements whose distance from the diagonal is not negative."""
    (x,), (y,) = k.given, k.outputs
    at, furthest = k.axes(*y.shape), sum(call.outputs[0].shape[-2:])
    diagonal = dims.min(dims.max(integer(call.settings.get("k"), "k"), -furthest), furthest)
    inside = Within(distance(at[-2], at[-1], diagonal), Index.of(2 * furthest))
    y[at] = x.within(*at, fill=0, where=[inside])


def _triangle(name: str, summary: str, define: DefineStages) -> OpSchema:
    return OpSchema(
        name=name,
        summary=summary,
        category="movement",
        inputs=(InputSpec(name="x", doc="[..., R, C]"),),
        dtypes=EVERY - {"t1"},
        settings=(
            SettingSpec(name="k", type=SettingType.INT, default=0, doc="the last diagonal kept; positive: upper ones"),
        ),
        infer=_triangle_types,
        definition=Compute(define),
        in_place=True,
        onnx="Trilu",
        examples=(
            OpExample(inputs=(Operand(shape=(3, 5)),)),
            OpExample(inputs=(Operand(shape=(2, 5, 3)),), settings={"k": -1}),
            OpExample(inputs=(Operand(shape=(4, 4)),), settings={"k": 2}),
            OpExample(inputs=(Operand(shape=(3, 3)),), settings={"k": -9}),
            OpExample(inputs=(Operand(shape=(0, 3)),)),
        ),
    )


TRIU = _triangle("triu", "x on and above a diagonal of its last two dims, 0 elsewhere", _upper)
TRIL = _triangle("tril", "x on and below a diagonal of its last two dims, 0 elsewhere", _lower)
