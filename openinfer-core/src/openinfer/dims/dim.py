"""A size known at run time only, with the arithmetic and the comparisons of an integer."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite, isinf
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeGuard

from openinfer.affine import Index
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.division import divided
from openinfer.dims.errors import NeedsNumberError
from openinfer.dims.lets import divisor, evaluated, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.dims.asking import Asked

_MANTISSA_BITS = 53
"""Products of a size and a float with no more bits are exact in f64, so that flooring them is integer arithmetic."""


def made(index: Index, asked: Asked) -> Size:
    """Return an index as a size: a number where it is constant."""
    constant = index.constant
    return Dim(index, asked) if constant is None else constant


def is_size(value: object) -> TypeGuard[Dim]:
    """Return whether a value is a size that is known at run time only: ``isinstance`` takes it for an integer."""
    return type(value) is Dim


def index_of(size: Size) -> Index:
    """Return a size as an index.

    Raises:
        NeedsNumberError: it is a float.
    """
    index = _index_or_none(size)
    if index is None:
        raise NeedsNumberError(f"sizes and {size!r} have no common form: expected integers")
    return index


def _refused(sign: str, left: Any, right: Any) -> Any:
    """Raise `NeedsNumberError` for an operation that sizes do not have; other operands are left to Python."""
    size, other = (left, right) if type(left) is Dim else (right, left)
    if not isinstance(other, int | float):
        return NotImplemented
    message = f"`{left} {sign} {right}` needs numbers: `{size}` is known at run time only"
    raise NeedsNumberError(message, sizes=sources(size.index))


def _of_numbers(sign: str, *, is_reflected: bool = False) -> Callable[[Dim, Any], Any]:
    """Return the method of an operator that sizes do not have."""
    return lambda size, other: _refused(sign, *((other, size) if is_reflected else (size, other)))


class Dim:
    """An integer that is known at run time only.

    Arithmetic yields sizes. A comparison answers with a bool where that is certain; else the answer is a guard of the
    `openinfer.dims.Path` in progress. What only a number can do raises `NeedsNumberError`.

    Attributes:
        index: the expression of the size, in canonical form.
        asked: who answers questions.
    """

    __slots__ = ("asked", "index")

    # Rules ask `isinstance(setting, int)` to tell an integer from a list or a float: a size is an integer.
    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return int

    def __init__(self, index: Index, asked: Asked) -> None:
        self.index = index
        self.asked = asked

    def at(self, values: Mapping[str, int]) -> int:
        """Return the number where sizes have these values.

        Raises:
            KeyError: a size has no value.
        """
        return evaluated(self.index, values)

    def __affine__(self) -> Index:
        return self.index

    # Arithmetic

    def __add__(self, other: Any) -> Any:
        index = _index_or_none(other)
        return _refused("+", self, other) if index is None else made(self.index + index, self.asked)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        index = _index_or_none(other)
        return _refused("-", self, other) if index is None else made(self.index - index, self.asked)

    def __rsub__(self, other: Any) -> Any:
        index = _index_or_none(other)
        return _refused("-", other, self) if index is None else made(index - self.index, self.asked)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float) and isfinite(other):
            return Ratio(self, Fraction(other))
        index = _index_or_none(other)
        return _refused("*", self, other) if index is None else made(self.index * index, self.asked)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if type(other) is int and other:
            return Ratio(self, Fraction(1, other))
        return _refused("/", self, other)

    def __neg__(self) -> Any:
        return made(-self.index, self.asked)

    def __pos__(self) -> Dim:
        return self

    def __abs__(self) -> Any:
        return self if self.asked.followed(Condition(self.index, Relation.AT_LEAST)) else -self

    def __pow__(self, power: int, modulus: Any = None) -> Any:
        if type(power) is not int or modulus is not None:
            return _refused("**", self, power)
        if power < 0:
            raise NeedsNumberError(f"`{self}` to the power of {power} is not an integer", sizes=sources(self.index))
        product: Any = 1
        for _ in range(power):
            product = self * product
        return product

    def __floordiv__(self, other: Any) -> Any:
        index = _index_or_none(other)
        return _refused("//", self, other) if index is None else _quotient(self.index, index, self.asked)

    def __rfloordiv__(self, other: Any) -> Any:
        index = _index_or_none(other)
        return _refused("//", other, self) if index is None else _quotient(index, self.index, self.asked)

    def __mod__(self, other: Any) -> Any:
        index = _index_or_none(other)
        return _refused("%", self, other) if index is None else _remainder(self.index, index, self.asked)

    def __rmod__(self, other: Any) -> Any:
        index = _index_or_none(other)
        return _refused("%", other, self) if index is None else _remainder(index, self.index, self.asked)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    # Questions

    def __eq__(self, other: object) -> bool:
        return self._decided(other, Relation.EQUAL)

    def __ne__(self, other: object) -> bool:
        return self._decided(other, Relation.UNEQUAL)

    def __ge__(self, other: Any) -> bool:
        return self._decided(other, Relation.AT_LEAST)

    def __gt__(self, other: Any) -> bool:
        return self._decided(other, Relation.AT_LEAST, shift=1)

    def __le__(self, other: Any) -> bool:
        return self._decided(other, Relation.AT_LEAST, sign=-1)

    def __lt__(self, other: Any) -> bool:
        return self._decided(other, Relation.AT_LEAST, sign=-1, shift=1)

    def __bool__(self) -> bool:
        return self.asked.decide(Condition(self.index, Relation.UNEQUAL))

    def _decided(self, other: object, relation: Relation, *, sign: int = 1, shift: int = 0) -> bool:
        index = _index_or_none(other)
        if index is None:
            if isinstance(other, float) and isinf(other):
                return relation is Relation.UNEQUAL or (relation is Relation.AT_LEAST and other * sign < 0)
            if isinstance(other, float):
                message = f"`{self}` is compared with {other}, and is known at run time only"
                raise NeedsNumberError(message, sizes=sources(self.index))
            return NotImplemented
        return self.asked.decide(Condition((self.index - index) * sign - shift, relation))

    # What a number alone can do. Tables tell keys apart by their hash before they compare them.

    def __index__(self) -> NoReturn:
        raise NeedsNumberError(f"`{self}` is known at run time only", sizes=sources(self.index))

    __int__ = __float__ = __trunc__ = __floor__ = __ceil__ = __invert__ = bit_length = __index__
    __hash__ = __index__  # pyright: ignore[reportAssignmentType]

    def __round__(self, digits: Any = None) -> NoReturn:
        self.__index__()

    __rtruediv__, __rpow__ = _of_numbers("/", is_reflected=True), _of_numbers("**", is_reflected=True)
    __lshift__, __rlshift__ = _of_numbers("<<"), _of_numbers("<<", is_reflected=True)
    __rshift__, __rrshift__ = _of_numbers(">>"), _of_numbers(">>", is_reflected=True)
    __and__, __rand__ = _of_numbers("&"), _of_numbers("&", is_reflected=True)
    __or__, __ror__ = _of_numbers("|"), _of_numbers("|", is_reflected=True)
    __xor__, __rxor__ = _of_numbers("^"), _of_numbers("^", is_reflected=True)

    def __str__(self) -> str:
        return str(self.index)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        try:
            return format(str(self), spec)
        except ValueError:
            raise NeedsNumberError(f"`{self}` has no form {spec!r}", sizes=sources(self.index)) from None


Size: TypeAlias = int | Dim
"""An integer, known or known at run time only."""


class Ratio:
    """A size times a fraction: ``math.floor``, ``math.ceil`` and ``math.trunc`` of it are sizes.

    ``int()`` is not, since Python lets it return numbers alone: it raises `NeedsNumberError`, as all else does that
    floats can do.

    Raises:
        NeedsNumberError: the product has more bits than a float holds, so that the float's rounding would be part of
            the result.
    """

    def __init__(self, dim: Dim, factor: Fraction) -> None:
        self._dim = dim
        self._factor = factor
        high, is_positive = dim.asked.bounds(dim.index).high, dim.asked.certain(Condition(dim.index, Relation.AT_LEAST))
        if not is_positive or high is None or (high * abs(factor.numerator)).bit_length() > _MANTISSA_BITS:
            raise NeedsNumberError(f"`{dim}` times {float(factor)} has no exact form", sizes=sources(dim.index))

    def __floor__(self) -> Any:
        return self._dim * self._factor.numerator // self._factor.denominator

    def __ceil__(self) -> Any:
        return -(-(self._dim * self._factor.numerator) // self._factor.denominator)

    def __trunc__(self) -> Any:
        return self.__floor__() if self._factor >= 0 else self.__ceil__()

    def _refuse(self, *_operands: object) -> NoReturn:
        message = f"`{self}` is known at run time only: `math.floor`, `math.ceil` and `math.trunc` make it a size"
        raise NeedsNumberError(message, sizes=sources(self._dim.index))

    __int__ = __float__ = __complex__ = __index__ = __bool__ = __round__ = __abs__ = __neg__ = __pos__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __eq__(self, other: object) -> bool:
        self._refuse()

    def __hash__(self) -> int:
        self._refuse()

    def __str__(self) -> str:
        return f"{self._dim} * {self._factor}"

    __repr__ = __str__


def _index_or_none(value: object) -> Index | None:
    if type(value) is Dim:
        return value.index
    return Index.of(int(value)) if isinstance(value, int) else None


def _positive(of: Index, by: Index, asked: Asked) -> tuple[Index, Index]:
    """Return a dividend and a divisor above 0 with an equal quotient.

    Raises:
        ZeroDivisionError: the divisor is 0.
        NeedsNumberError: its sign is open, and no answer may be followed.
    """
    if not asked.followed(Condition(by, Relation.UNEQUAL)):
        raise ZeroDivisionError("integer division or modulo by zero")
    return (of, by) if asked.followed(Condition(by, Relation.AT_LEAST)) else (-of, -by)


def _quotient(of: Index, by: Index, asked: Asked) -> Size:
    of, by = _positive(of, by, asked)
    multiple, rest = divided(of, by)
    return made(multiple if _is_below(rest, by, asked) else of // divisor(by), asked)


def _remainder(of: Index, by: Index, asked: Asked) -> Size:
    dividend, positive = _positive(of, by, asked)
    # A remainder has the sign of its divisor: x % -n is -(-x % n).
    sign = 1 if dividend == of else -1
    _, rest = divided(dividend, positive)
    for candidate in (dividend, dividend + positive, rest):
        if _is_below(candidate, positive, asked):
            return made(candidate * sign, asked)
    return made((dividend % divisor(positive)) * sign, asked)


def _is_below(index: Index, extent: Index, asked: Asked) -> bool:
    is_least = asked.certain(Condition(index, Relation.AT_LEAST))
    return bool(is_least and asked.certain(Condition(extent - 1 - index, Relation.AT_LEAST)))
