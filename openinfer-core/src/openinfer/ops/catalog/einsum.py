"""Sums of products written as equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import NUMBERS
from openinfer.ops.equations import Equation, equation_of
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

    Settings = Mapping[str, SettingValue]


def equation_for(inputs: Sequence[TensorType | None], settings: Settings) -> Equation:
    """Return the equation of a call, read for its inputs.

    Raises:
        OpTypeError: it cannot be read, or does not fit them.
    """
    text = settings.get("equation")
    if not isinstance(text, str):
        raise OpTypeError(
            f"setting 'equation' takes a string, found {text!r}", code="setting-type", settings=("equation",)
        )
    return equation_of(text, [needed(inputs, place).shape for place in range(len(inputs))])


def _einsum_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    return (TensorType(needed(inputs).dtype, equation_for(inputs, settings).shape),)


def _example(equation: str, *shapes: tuple[int, ...]) -> OpExample:
    return OpExample(inputs=tuple(Operand(shape=shape) for shape in shapes), settings={"equation": equation})


EINSUM = OpSchema(
    name="einsum",
    summary="sum of products over the letters that the result lacks; integers wrap",
    category="linear algebra",
    inputs=(InputSpec(name="x", variadic=True),),
    dtypes=NUMBERS,
    settings=(
        SettingSpec(
            name="equation",
            type=SettingType.STR,
            doc='a letter per dim of each input and of the result, such as "bij,bjk->bik"; "..." stands for any dims',
        ),
    ),
    infer=_einsum_types,
    definition=Primitive(),
    in_place=True,
    onnx="Einsum",
    examples=(
        _example("ij,jk->ik", (3, 5), (5, 2)),
        _example("b...i,ij->b...j", (2, 3, 5), (5, 4)),
        _example("ij->ji", (3, 5)),
        _example("ii->", (4, 4)),
        _example("i,j,ij", (3,), (5,), (3, 5)),
        _example("...i,...i->...", (2, 1, 5), (3, 5)),
        _example("ij,jk", (2, 0), (0, 3)),
    ),
)
