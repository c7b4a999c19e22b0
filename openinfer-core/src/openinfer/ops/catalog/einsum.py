"""Sums of products written as equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dims import place_of
from openinfer.ir.types import TensorType
from openinfer.ops.contractions import product_of, rounded, summed
from openinfer.ops.dtype_sets import NUMBERS
from openinfer.ops.elementwise import work_type
from openinfer.ops.equations import Equation, equation_of
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
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall

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


def _einsum(k: Builder, call: OpCall) -> None:
    """Products of one element of each input, summed over labels that are not in the result; a dim of 1 broadcasts."""
    equation, (y,) = equation_for(call.inputs, call.settings), k.outputs
    axes = {label: k.axis(equation.extents[label]) for label in (*equation.output, *equation.summed)}
    factors = [
        x[tuple(place_of(axes[label], n) for label, n in zip(labels, x.shape, strict=True))]
        for x, labels in zip(k.given, equation.inputs, strict=True)
    ]
    value = product_of(factors, work_type(y.dtype))
    if equation.summed:
        value = summed(k, value, [axes[label] for label in equation.summed])
    y[tuple(axes[label] for label in equation.output)] = rounded(value, call.settings, y.dtype)


def _example(equation: str, *shapes: tuple[int, ...]) -> OpExample:
    return OpExample(inputs=tuple(Operand(shape=shape) for shape in shapes), settings={"equation": equation})


EINSUM = OpSchema(
    name="einsum",
    summary="sum of products over the letters that are not in the result; integers wrap",
    category="linear algebra",
    inputs=(InputSpec(name="x", variadic=True),),
    dtypes=NUMBERS,
    settings=(
        SettingSpec(
            name="equation",
            type=SettingType.STR,
            doc='a letter per dim of each input and of the result, such as "bij,bjk->bik"; "..." means any dims',
        ),
    ),
    infer=_einsum_types,
    definition=Compute(_einsum),
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
