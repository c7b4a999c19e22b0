"""Comparisons, and choice between elements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, DType, Kind
from openinfer.expr import tree
from openinfer.ops.dtype_sets import (
    BITSETS,
    BOOLS,
    EVERY,
    FLOATS,
    INTEGERS,
    NUMBERS,
    PACKED_SIGNED,
    PACKED_UNSIGNED,
    TERNARY,
)
from openinfer.ops.elementwise import elementwise, of_elements
from openinfer.ops.schema import InputSpec, OpTypeError
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import OpSchema

    Settings = Mapping[str, SettingValue]

CATEGORY = "comparison"


def _comparison(
    name: str, dtypes: frozenset[str], function: Callable[[Expr, Expr], Expr], summary: str, onnx: str | None
) -> OpSchema:
    return elementwise(
        name, "a b", dtypes, of_elements(function), summary=summary, category=CATEGORY, result=BOOL, onnx=onnx
    )


def _is_negative(x: Expr) -> Expr:
    if x.dtype.is_float:
        return tree.sign_bit(x)
    if x.dtype.kind is Kind.UNSIGNED:
        return tree.literal(False, BOOL)
    return tree.lt(x, tree.literal(0, x.dtype))


def _filter(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    del settings, out
    a, b, condition = inputs
    return tree.select(tree.cast(condition, BOOL), a, b)


def _with_checked_condition(schema: OpSchema) -> OpSchema:
    """Return the operator with a condition, its last input, of bool or of the type of the first input only."""

    def infer(
        inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
    ) -> tuple[TensorType, ...]:
        a, condition = needed(inputs), needed(inputs, 2)
        if condition.dtype not in (BOOL, a.dtype):
            message = f"cond is {condition}, expected bool or the type of a, {a.dtype}: cast it"
            raise OpTypeError(message, code="dtype-unsupported", position=2)
        return schema.infer(inputs, settings, declared)

    return replace(schema, infer=infer)


def _where(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    del settings, out
    return tree.select(*inputs)


EQ = _comparison("eq", NUMBERS | BOOLS | BITSETS | TERNARY, tree.eq, "a = b; false for NaN", "Equal")
NE = _comparison("ne", NUMBERS | BOOLS | BITSETS | TERNARY, tree.ne, "a != b; true for NaN", "Equal, Not")
LT = _comparison("lt", NUMBERS, tree.lt, "a < b", "Less")
LE = _comparison("le", NUMBERS, tree.le, "a <= b", "LessOrEqual")
GT = _comparison("gt", NUMBERS, tree.gt, "a > b", "Greater")
GE = _comparison("ge", NUMBERS, tree.ge, "a >= b", "GreaterOrEqual")

IS_NEG = elementwise(
    "is_neg",
    "x",
    FLOATS | INTEGERS | PACKED_SIGNED | PACKED_UNSIGNED,
    of_elements(_is_negative),
    summary="the sign bit of a float (also of -0 and NaN); x < 0 for integers",
    category=CATEGORY,
    result=BOOL,
)
FILTER = _with_checked_condition(
    elementwise(
        "filter",
        "a b cond",
        NUMBERS | BOOLS | TERNARY,
        _filter,
        summary="a where cond is not 0, else b; NaN counts as true",
        category=CATEGORY,
        specs=(InputSpec(name="cond", dtypes=NUMBERS | BOOLS | TERNARY, doc="bool, or of the type of a"),),
        onnx="Where",
    )
)
WHERE = elementwise(
    "where",
    "cond a b",
    EVERY,
    _where,
    summary="a where cond is true, else b",
    category=CATEGORY,
    specs=(InputSpec(name="cond", dtypes=BOOLS),),
    onnx="Where",
)
