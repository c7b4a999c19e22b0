"""Float inputs of several types: computed in the widest, rounded once (``specification: operators.types.3``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, FLOAT, DType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.ops.schema import Decomposer


def widest(dtypes: Iterable[DType]) -> DType:
    """Return the type in which floats of several types are computed: the widest, at least f32."""
    return max((F32, *dtypes), key=FLOAT.index)


def widened(steps: Decomposer, inputs: Sequence[int | None]) -> list[int | None]:
    """Return the inputs cast to the widest of their float types; None where an input is left out."""
    wide = widest(steps.type_of(value).dtype for value in inputs if value is not None)
    return [None if value is None else cast_to(steps, value, wide) for value in inputs]


def cast_to(steps: Decomposer, value: int, dtype: DType) -> int:
    """Return a value in another type; the value itself where it has it."""
    return value if steps.type_of(value).dtype is dtype else steps.op("cast", value, to=dtype)


def rounded_like(steps: Decomposer, value: int, model: int) -> int:
    """Return a value in the type of another one."""
    return cast_to(steps, value, steps.type_of(model).dtype)
