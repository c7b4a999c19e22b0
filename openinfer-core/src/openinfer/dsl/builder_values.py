"""What the builder's arguments mean: names, references, expressions and values as the syntax tree holds them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias, cast

from openinfer import symbolic
from openinfer.dsl.grammar import NAME, Mismatch, match
from openinfer.dsl.syntax import Attribute, Indexed, Items, Literal, Setting, Sum, Word
from openinfer.dsl.tree_statements import access_of
from openinfer.dsl.tree_values import I64_MAX, U64_MAX, LiteralError, expression_of, reference_of
from openinfer.dtypes import DType
from openinfer.errors import GraphError
from openinfer.ir.text import ref_text
from openinfer.ir.values import Number, Ref, number_value
from openinfer.symbolic import LITERAL_WORDS, BinOp, Const, IntExpr, Name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from openinfer.dsl.grammar import Tree
    from openinfer.dsl.syntax import Place, Value
    from openinfer.ir.nodes import CacheAccess

    ResultT = TypeVar("ResultT")

Dim: TypeAlias = int | str | IntExpr
Item: TypeAlias = int | float | str | DType | IntExpr
Given: TypeAlias = "bool | int | float | str | Ref | DType | IntExpr | Sequence[Item]"
Attrs: TypeAlias = "Mapping[str, Sequence[Given] | Mapping[str, Given]]"

_NAME = re.compile(NAME)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The attributes of a declaration; ``attrs`` are those that the language does not know, with their arguments."""

    init: float | None = None
    ref: str | None = None
    pattern: str | None = None
    table: bool = False
    auto_dim: Sequence[str] = ()
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    attrs: Attrs = field(default_factory=dict[str, "Sequence[Given] | Mapping[str, Given]"])


def attributes(known: Known, place: Place) -> Iterator[Attribute]:
    """Yield the attributes of a declaration."""
    if isinstance(known.init, str):
        raise GraphError(f"init is a number or truth value, found {known.init!r}", code="init-mismatch")
    if known.init is not None:
        yield Attribute("init", _literal(known.init, place, largest=U64_MAX), place, known=True)
    if known.ref is not None:
        yield Attribute("ref", string_of(known.ref, "ref"), place, known=True)
    if known.pattern is not None:
        yield Attribute("pattern", string_of(known.pattern, "pattern"), place, known=True)
    if known.table:
        yield Attribute("table", (), place, known=True)
    if known.auto_dim:
        yield Attribute("auto_dim", tuple(word(index, place) for index in known.auto_dim), place, known=True)
    if known.fixed:
        bounds = tuple((word(index, place), count_of(count)) for index, count in known.fixed.items())
        yield Attribute("fixed", bounds, place, known=True)
    for name, arguments in known.attrs.items():
        yield Attribute(name_of(name), _arguments(arguments, place), place, known=False)


def _arguments(arguments: Sequence[Given] | Mapping[str, Given], place: Place) -> tuple[Setting, ...]:
    from collections.abc import Mapping

    if isinstance(arguments, Mapping):
        return settings_of(arguments, place)
    return tuple(Setting(None, value_of(argument, place)) for argument in arguments)


# Names


def name_of(name: object) -> str:
    """Return a name.

    Raises:
        GraphError: it is none.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise GraphError(f"expected a name (letters, digits and _), found {name!r}", code="syntax")
    return name


def string_of(text: object, what: str) -> str:
    """Return a string.

    Raises:
        GraphError: it is none, or it contains half of a surrogate pair.
    """
    if not isinstance(text, str):
        raise GraphError(f"{what} is a string, found {text!r}", code="syntax")
    half = _SURROGATE.search(text)
    if half is not None:
        message = f"{what} is not Unicode text: {half.group()!r} at {half.start()} is half of a surrogate pair"
        raise GraphError(message, code="bad-string")
    return text


def word(name: str | DType, place: Place) -> Word:
    """Return a name, or that of an element type, with its place."""
    return Word(name_of(name.name if isinstance(name, DType) else name), place)


def target(name: str | Ref) -> str:
    """Return the name of a variable that takes no indices here."""
    if isinstance(name, Ref) and name.indices:
        raise GraphError(f"expected a variable, found an entry of the table `{name.name}`", code="syntax")
    return name_of(name.name if isinstance(name, Ref) else name)


def names_of(names: Sequence[str | Ref], what: str) -> tuple[str, ...]:
    """Return at least one name."""
    if not names:
        raise GraphError(f"{what} takes at least one variable", code="syntax")
    return tuple(map(target, names))


def count_of(number: int) -> int:
    """Return an integer of 64 bits that is not negative."""
    if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number <= I64_MAX:
        raise GraphError(f"expected an integer from 0 to {I64_MAX}, found {number!r}", code="bad-number")
    return int(number)


# References and expressions


def reference(given: str | Ref) -> Ref:
    """Return the variable or prefix table entry that a text names."""
    return _checked(given) if isinstance(given, Ref) else _read("reference", given, reference_of)


def operand(value: str | Ref | float, place: Place) -> Ref:
    """Return the variable, prefix table entry or number that an operator takes."""
    if isinstance(value, Number):
        return value
    if isinstance(value, str | Ref):
        return reference(value)
    literal = _literal(value, place, largest=U64_MAX)
    return Number(value=number_value(cast("float", literal.value)))


def _checked(ref: Ref) -> Ref:
    return Ref(name_of(ref.name), tuple(map(expression, ref.indices)))


def access(given: str | Ref) -> CacheAccess:
    """Return the cache access that a text writes."""
    return _read("access", ref_text(_checked(given)) if isinstance(given, Ref) else given, access_of)


def expression(given: Dim) -> IntExpr:
    """Return the integer expression that a text or number writes."""
    if isinstance(given, Const | Name | BinOp):
        return _read("sum", symbolic.text(given), expression_of)
    return _read("sum", given, expression_of) if isinstance(given, str) else Const(count_of(given))


def dims_of(dims: Sequence[Dim]) -> tuple[IntExpr, ...]:
    """Return extents or bounds."""
    if isinstance(dims, str):
        raise GraphError(f'expected a list of dimensions such as ["B", 4], found the text {dims!r}', code="syntax")
    return tuple(map(expression, dims))


def _read(rule: str, text: str, make: Callable[[Tree], ResultT]) -> ResultT:
    found = match(rule, text.lstrip(), 0)
    if isinstance(found, Mismatch) or found.end != len(text.lstrip()):
        what = {"reference": "a variable such as `x` or `W[l,0]`", "access": "an access such as `K` or `K[l,0..t]`"}
        raise GraphError(f"expected {what.get(rule, 'an integer expression')}, found {text!r}", code="syntax")
    try:
        return make(found)
    except LiteralError as error:
        raise GraphError(str(error), code=error.code) from error


# Values


def settings_of(given: Mapping[str, Given], place: Place) -> tuple[Setting, ...]:
    """Return settings or hints."""
    return tuple(Setting(Word(_setting_name(name), place), value_of(value, place)) for name, value in given.items())


def _setting_name(name: str) -> str:
    """Return the name of a setting, which may be a literal word such as ``nan``."""
    return name if name in LITERAL_WORDS else name_of(name)


def value_of(value: Given, place: Place) -> Value:
    """Return the value of a setting.

    Raises:
        GraphError: the language has no such value.
    """
    if isinstance(value, Ref) and value.indices:
        return Indexed(_checked(value), place)
    if isinstance(value, list | tuple):
        return Items(tuple(_item(item, place) for item in value), place)
    return _item(value, place)


def _item(value: object, place: Place) -> Literal | Sum:
    if isinstance(value, DType):
        return Sum(Name(value.name), place)
    if isinstance(value, Ref) and not value.indices:
        return Sum(Name(name_of(value.name)), place)
    if isinstance(value, Name | BinOp):
        return Sum(expression(value), place)
    return _literal(value.value if isinstance(value, Const) else value, place)


def _literal(value: object, place: Place, largest: int = I64_MAX) -> Literal:
    if isinstance(value, str):
        return Literal(string_of(value, "a value"), place)
    if isinstance(value, bool):
        return Literal(value, place)
    if isinstance(value, Integral):
        if not -(2**63) <= int(value) <= largest:
            raise GraphError(f"integer {value} does not fit 64 bits", code="bad-number")
        return Literal(int(value), place)
    if isinstance(value, Real):
        return Literal(float(value), place)
    kinds = "a number, truth value, string, Ref, DType, expression or list of them"
    raise GraphError(f"expected {kinds}, found {type(value).__name__}", code="syntax")
