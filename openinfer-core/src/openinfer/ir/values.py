"""Values of operator settings, hints and unknown attributes, as they are written in a program.

Each class is one tag of the graph JSON (``specification: json.graphs``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.symbolic import IntExpr


def _same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


@dataclass(frozen=True, slots=True)
class Ref:
    """A variable, or an entry of a prefix table: ``x``, ``W[l]``, ``QKV[l+1,0]``."""

    name: str
    indices: tuple[IntExpr, ...] = ()


@dataclass(frozen=True, slots=True)
class IntValue:
    value: int


@dataclass(frozen=True, slots=True)
class UIntValue:
    """An unsigned integer given through the API; programs write `IntValue`."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class DoubleValue:
    """A float literal. Two NaNs are equal."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DoubleValue) and _same(self.value, other.value)

    def __hash__(self) -> int:
        return hash("nan" if math.isnan(self.value) else self.value)


@dataclass(frozen=True, slots=True, eq=False)
class FloatValue:
    """A float that is exact in f32, given through the API; programs write `DoubleValue`."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloatValue) and _same(self.value, other.value)

    def __hash__(self) -> int:
        return hash("nan" if math.isnan(self.value) else self.value)


@dataclass(frozen=True, slots=True)
class BoolValue:
    value: bool


@dataclass(frozen=True, slots=True)
class StrValue:
    value: str


@dataclass(frozen=True, slots=True)
class IntListValue:
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DoubleListValue:
    values: tuple[float, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DoubleListValue)
            and len(self.values) == len(other.values)
            and all(_same(a, b) for a, b in zip(self.values, other.values, strict=True))
        )

    def __hash__(self) -> int:
        return hash(len(self.values))


NumberValue: TypeAlias = IntValue | UIntValue | DoubleValue | BoolValue


def number_value(number: float) -> NumberValue:
    """Return the value of a number or truth value as a program writes it; an integer fits i64 or u64."""
    if isinstance(number, bool):
        return BoolValue(number)
    if isinstance(number, float):
        return DoubleValue(number)
    return IntValue(number) if number < 2**63 else UIntValue(number)


@dataclass(frozen=True, slots=True)
class Number(Ref):
    """A number or truth value in place of a variable: ``0.5`` in ``op mul(x, 0.5) >> y;``.

    Attributes:
        name: the constant that holds it in a `ResolvedGraph`, where its type is known; empty in a program.
    """

    name: str = ""
    value: NumberValue = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class VarValue:
    """An identifier, possibly with indices when the setting turns out to be an input."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class DTypeValue:
    dtype: DType


@dataclass(frozen=True, slots=True)
class DTypeListValue:
    """A list of names of element types, which are variables in settings that take integers."""

    dtypes: tuple[DType, ...]


@dataclass(frozen=True, slots=True)
class ExprValue:
    """An integer expression that is not a lone literal or identifier."""

    expr: IntExpr


@dataclass(frozen=True, slots=True)
class ExprListValue:
    """A list with at least one name or expression in it."""

    exprs: tuple[IntExpr, ...]


AttrValue: TypeAlias = (
    IntValue
    | UIntValue
    | DoubleValue
    | FloatValue
    | BoolValue
    | StrValue
    | IntListValue
    | DoubleListValue
    | VarValue
    | DTypeValue
    | DTypeListValue
    | ExprValue
    | ExprListValue
)


class Attrs(Mapping[str, AttrValue]):
    """Named values in the order written; equal to any mapping with the same items, whatever their order."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, AttrValue] | tuple[tuple[str, AttrValue], ...] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> AttrValue:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"Attrs({self._items!r})"
