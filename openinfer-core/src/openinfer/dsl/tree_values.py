"""From the matcher's trees to names, numbers, expressions and values of the syntax tree."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from openinfer.dsl.grammar import INTEGER, Tree
from openinfer.dsl.syntax import Indexed, Items, Literal, Place, Setting, Sum, Word
from openinfer.ir.strings import EscapeError, unescape
from openinfer.ir.values import Number, Ref, number_value
from openinfer.symbolic import Const, IntExpr, Name, SymbolicSyntaxError, integer
from openinfer.symbolic import parse as parse_integer_expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openinfer.dsl.syntax import Value

_WIDTH_SUFFIX = re.compile(r"[iu](?:8|16|32|64|128|size)$")
_INTEGER = re.compile(rf"(?<![A-Za-z0-9_.]){INTEGER}")
_LONGEST_INTEGER = 200
I64_MAX, U64_MAX = 2**63 - 1, 2**64 - 1


class LiteralError(ValueError):
    """A number, string or expression has the right form and no legal value."""

    def __init__(self, code: str, message: str, place: Place) -> None:
        super().__init__(message)
        self.code = code
        self.place = place


def place_of(tree: Tree) -> Place:
    """Return the place of a tree without trailing white space."""
    return Place(tree.start, tree.start + len(tree.text.rstrip()))


def places_of(trees: Iterable[Tree]) -> tuple[Place, ...]:
    return tuple(map(place_of, trees))


def text_of(tree: Tree) -> str:
    return tree.text.rstrip()


def word_of(tree: Tree) -> Word:
    text = tree.text.rstrip()
    return Word(text, Place(tree.start, tree.start + len(text)))


def optional(tree: Tree) -> Tree | None:
    """Return what follows ``?`` if it was there."""
    return tree.children[0] if tree.children else None


def inside(tree: Tree, place: int) -> Tree | None:
    """Return the optional child ``place`` of what follows ``?`` if both were there."""
    found = tree.children
    return optional(found[0].children[place]) if found else None


def listed(tree: Tree | None, place: int = 0) -> Iterator[Tree]:
    """Yield the elements of ``first (comma next)*``, which are the children from ``place`` on."""
    if tree is not None:
        yield tree.children[place]
        for pair in tree.children[place + 1].children:
            yield pair.children[1]


def names_of(tree: Tree | None) -> tuple[Word, ...]:
    return tuple(map(word_of, listed(tree)))


def place_without_last(tree: Tree) -> Place:
    """Return the place of a tree without its last token (``;`` or ``{``)."""
    last = tree.children[-1]
    return Place(tree.start, tree.start + len(tree.text[: last.start - tree.start].rstrip()))


def string_of(tree: Tree) -> str:
    """Return the text of a string literal.

    Raises:
        LiteralError: an escape is none of the language's.
    """
    try:
        return unescape(text_of(tree))
    except EscapeError as error:
        start = tree.start + error.offset
        raise LiteralError("bad-string", str(error), Place(start, start + error.length)) from error


def target_of(tree: Tree) -> str:
    """Return the text of a ``text`` rule: a string or a bare name."""
    chosen = tree.children[0]
    return string_of(chosen) if chosen.expr_name == "string" else text_of(chosen)


def integer_of(tree: Tree, *, sign: int = 1, largest: int = I64_MAX) -> int:
    """Return an integer literal without its width suffix.

    Raises:
        LiteralError: it does not fit 64 bits.
    """
    digits = _WIDTH_SUFFIX.sub("", text_of(tree).lstrip("+- \t\r\n\f\v"))
    value = sign * integer(digits) if len(digits) <= _LONGEST_INTEGER else None
    if value is None or not -(2**63) <= value <= largest:
        shown = text_of(tree) if len(digits) <= 40 else f"{digits[:20]}…"
        raise LiteralError("bad-number", f"integer {shown} does not fit 64 bits", place_of(tree))
    return value


def signed_of(tree: Tree, largest: int = I64_MAX) -> int:
    return integer_of(tree, sign=-1 if tree.text.startswith("-") else 1, largest=largest)


def _float(tree: Tree) -> float:
    digits = re.sub(r"[_\s]", "", text_of(tree))
    value = float(digits)
    if value in (float("inf"), float("-inf")) and "inf" not in digits:
        raise LiteralError(
            "bad-number", f"number {digits} does not fit f64: write inf if infinity is meant", place_of(tree)
        )
    return value


def expression_of(tree: Tree) -> IntExpr:
    """Return the integer expression of a ``sum``.

    Raises:
        LiteralError: it is none, or has an integer that does not fit 64 bits.
    """
    text = text_of(tree)
    if text.isidentifier():
        return Name(text)
    try:
        return _expression(text)
    except LiteralError as error:
        place = Place(tree.start + error.place.start, tree.start + error.place.end)
        raise LiteralError(error.code, str(error), place) from error


@lru_cache(maxsize=4096)
def _expression(text: str) -> IntExpr:
    """Return the expression that a text is: programs write the same few ones again and again."""
    for number in _INTEGER.finditer(text):
        _check_integer(number.group(), number.start())
    try:
        return parse_integer_expression(text)
    except SymbolicSyntaxError as error:
        raise LiteralError("syntax", str(error), Place(error.offset, error.offset + 1)) from error


def _check_integer(digits: str, offset: int) -> None:
    plain = _WIDTH_SUFFIX.sub("", digits)
    if len(plain) > _LONGEST_INTEGER or integer(plain) > I64_MAX:
        shown = plain if len(plain) <= 40 else f"{plain[:20]}…"
        raise LiteralError("bad-number", f"integer {shown} does not fit 64 bits", Place(offset, offset + len(digits)))


def sums_of(tree: Tree | None) -> tuple[IntExpr, ...]:
    return tuple(map(expression_of, listed(tree)))


def dims_of(tree: Tree) -> tuple[IntExpr, ...]:
    """Return the extents of an optional ``dims``."""
    return sums_of(inside(tree, 1))


def dim_places(tree: Tree) -> tuple[Place, ...]:
    """Return the places of the extents of an optional ``dims``."""
    return places_of(listed(inside(tree, 1)))


def scalar_of(tree: Tree, largest: int = I64_MAX) -> Literal | None:
    """Return a literal, or None if the tree is of another kind."""
    name = tree.expr_name
    if name == "string":
        return Literal(string_of(tree), place_of(tree))
    if name == "float":
        return Literal(_float(tree), place_of(tree))
    if name == "boolean":
        return Literal(text_of(tree) == "true", place_of(tree))
    if name == "signed":
        return Literal(signed_of(tree, largest), place_of(tree))
    if name == "integer":
        return Literal(integer_of(tree, largest=largest), place_of(tree))
    return None


def _scalar_or_sum(tree: Tree) -> Literal | Sum:
    literal = scalar_of(tree)
    if literal is not None:
        return literal
    expr = expression_of(tree)
    return Literal(expr.value, place_of(tree)) if isinstance(expr, Const) else Sum(expr, place_of(tree))


def value_of(tree: Tree) -> Value:
    chosen = tree.children[0]
    if chosen.expr_name == "list":
        items = listed(optional(chosen.children[1]))
        return Items(tuple(_scalar_or_sum(item.children[0]) for item in items), place_of(chosen))
    if chosen.expr_name == "indexed":
        return Indexed(indexed_of(chosen), place_of(chosen))
    return _scalar_or_sum(chosen)


def indexed_of(tree: Tree) -> Ref:
    name, subscript = tree.children
    return Ref(text_of(name), sums_of(subscript.children[1]))


def reference_of(tree: Tree) -> Ref:
    name, rest = tree.children
    subscript = optional(rest)
    return Ref(text_of(name), sums_of(subscript.children[1]) if subscript is not None else ())


def number_of(tree: Tree) -> Number:
    """Return the number of a ``literal``."""
    literal = cast("Literal", scalar_of(tree.children[0], U64_MAX))
    return Number(value=number_value(cast("float", literal.value)))


def setting_of(tree: Tree) -> Setting:
    name, _, value = tree.children
    return Setting(word_of(name), value_of(value))


def hints_of(tree: Tree) -> tuple[Setting, ...]:
    """Return the settings of an optional ``hints``."""
    return tuple(map(setting_of, listed(inside(tree, 2))))
