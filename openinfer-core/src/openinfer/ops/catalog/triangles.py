"""Triangles of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.dtype_sets import EVERY
from openinfer.ops.schema import (
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    Primitive,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType


def _triangle_types(
    inputs: Sequence[TensorType | None], settings: Mapping[str, SettingValue], declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x = needed(inputs)
    if len(x.shape) < 2:
        raise OpTypeError(f"a triangle is cut from x [..., R, C], found {x}")
    return (x,)


def _triangle(name: str, summary: str) -> OpSchema:
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
        definition=Primitive(),
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


TRIU = _triangle("triu", "x on and above a diagonal of its last two dims, 0 elsewhere")
TRIL = _triangle("tril", "x on and below a diagonal of its last two dims, 0 elsewhere")
