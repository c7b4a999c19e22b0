"""Elements of few bits that share words: neighbours along a folded axis are one i32, which the terms take apart.

The axis is split in two, and ``w[r, n]`` becomes element ``i`` of the word ``w[q, n]``, where ``r = per * q + i``. A
schedule writes the inner part out, so that shifts are by constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute.columns import free_names
from openinfer.compute.stage import Position, Read, Total
from openinfer.compute.substitution import moved
from openinfer.dtypes import I32, U32, Kind
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from openinfer.compute.stage import Element, Fold, Stage
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr

WORD = 32
"""Bits of a word."""
MANTISSA, BIAS = 23, 127
"""Bits of the mantissa of an f32, and what is added to its exponent."""


@dataclass(frozen=True, slots=True)
class Words:
    """How the elements of a read share words.

    Attributes:
        number: that of the element.
        dim: dimension along which the elements of a word follow one another.
        axis: the folded axis that walks it from element to element.
        outer: a folded axis that walks it in steps of the extent of ``axis``; None: there is none.
        per: elements of a word.
    """

    number: int
    dim: int
    axis: Var
    outer: Var | None
    per: int


def words_of(stage: Stage, number: int) -> Words | None:
    """Return how the elements of a read can share words.

    None: the terms use it otherwise than as a number of another type, or its axes do not divide into words.
    """
    fold, read = stage.fold, stage.elements[number]
    if fold is None or fold.running or len(fold.totals) != 1 or not isinstance(read, Read):
        return None
    if read.fill is not None or not _is_small(read.dtype) or not _is_cast_in_terms(stage, fold, number):
        return None
    dims = [dim for dim, index in enumerate(read.at) if index.variables() & set(fold.axes)]
    if len(dims) != 1:
        return None
    (dim,), per = dims, WORD // read.dtype.bits
    index = read.at[dim]
    for axis in fold.axes:
        if index.coefficient(axis) != 1 or not isinstance(axis.extent, int) or not axis.extent or axis.extent % per:
            continue
        rest = index - axis
        if rest == Index():
            return Words(number, dim, axis, None, per)
        outer = next((a for a in fold.axes if rest == Index.of(a) * axis.extent), None)
        if outer is not None:
            return Words(number, dim, axis, outer, per)
    return None


def _is_small(dtype: DType) -> bool:
    return dtype.kind in (Kind.SIGNED, Kind.UNSIGNED, Kind.TERNARY) and 2 <= dtype.bits <= 8


def _is_cast_in_terms(stage: Stage, fold: Fold, number: int) -> bool:
    """Return whether the terms of a fold alone use an element, cast to another type at once."""
    (total,) = fold.totals
    elsewhere = [stage.value, *([total.start] if total.start is not None else [])]
    if stage.lookups or stage.checks or any(number in linearise(expr).inputs for expr in elsewhere):
        return False
    steps = linearise(total.term).instructions
    places = {
        step_number for step_number, step in enumerate(steps) if step.function == "input" and step.index == number
    }
    users = [step for step in steps if places & set(step.operands)]
    return bool(users) and all(step.function == "cast" for step in users)


def in_words(stage: Stage, words: Words) -> Stage:
    """Return a stage that reads words of i32 instead of their elements.

    Its tensor has a dimension of words in place of ``words.dim``, after one for ``words.outer`` if there is one.
    """
    fold, read = stage.fold, stage.elements[words.number]
    if fold is None or not isinstance(read, Read) or not isinstance(words.axis.extent, int):
        raise TypeError("words are read in the terms of a fold")
    names = free_names(stage)
    quotient, inner = Var(next(names), words.axis.extent // words.per), Var(next(names), words.per)
    apart = {words.axis: quotient * words.per + inner}
    elements: list[Element] = [moved(element, apart) for element in stage.elements]
    places = [quotient] if words.outer is None else [words.outer, quotient]
    at = (*read.at[: words.dim], *map(Index.of, places), *read.at[words.dim + 1 :])
    elements[words.number] = Read(read.tensor, at, I32)
    (total,) = fold.totals
    taken = _by_mantissas if _is_cast_to_floats(total.term, words.number) else _by_shifts
    added, element = taken(tree.Input(words.number, I32), inner, read.dtype, len(elements))
    axes = tuple(part for axis in fold.axes for part in ((quotient, inner) if axis == words.axis else (axis,)))
    made = Total(total.start, with_operand(total.term, words.number, element), total.combine)
    return replace(stage, elements=(*elements, *added), fold=replace(fold, axes=axes, totals=(made,)))


def _is_cast_to_floats(term: Expr, number: int) -> bool:
    """Return whether a term uses an element as floats alone that every small integer is one of."""
    steps = linearise(term).instructions
    places = {
        step_number for step_number, step in enumerate(steps) if step.function == "input" and step.index == number
    }
    return all(step.dtype.is_float and step.dtype.bits >= 16 for step in steps if places & set(step.operands))


def _by_shifts(word: Expr, inner: Var, dtype: DType, number: int) -> tuple[tuple[Element, ...], Expr]:
    """Return an element of a word, and what it uses from ``number`` on: a sign is spread from the highest bit."""
    bits = dtype.bits
    if dtype.kind is Kind.UNSIGNED:
        moved_down = tree.shr(word, tree.Input(number, I32))
        shift = Position(inner * bits, I32)
        return (shift,), tree.bit_and(moved_down, tree.literal((1 << bits) - 1, I32))
    shift = Position(inner * -bits + (WORD - bits), I32)
    return (shift,), tree.shr(tree.shl(word, tree.Input(number, I32)), tree.literal(WORD - bits, I32))


def _by_mantissas(word: Expr, inner: Var, dtype: DType, number: int) -> tuple[tuple[Element, ...], Expr]:
    """Return an element of a word as an f32, and what it uses from ``number`` on.

    Bits ``at`` and above are kept where they are, under the exponent for which bit ``at`` counts one: with the sign bit
    inverted that is the element plus the same float without it, so that their difference is the element, exactly. Words
    are shifted only where elements lie too high for a mantissa.
    """
    bits, together = dtype.bits, MANTISSA // dtype.bits
    low, at = inner // together * (together * bits), inner % together * bits
    shift, digit = (tree.cast(tree.Input(number + n, I32), U32) for n in range(2))
    mask = tree.shl(tree.literal((1 << bits) - 1, U32), digit)
    one = tree.shl(tree.sub(tree.literal(BIAS + MANTISSA, U32), digit), tree.literal(MANTISSA, U32))
    if dtype.kind is not Kind.UNSIGNED:
        one = tree.bit_or(one, tree.shl(tree.literal(1 << (bits - 1), U32), digit))
    kept = tree.bit_and(tree.shr(tree.cast(word, U32), shift), mask)
    element = tree.sub(tree.from_bits(tree.bit_xor(kept, one)), tree.from_bits(one))
    return (Position(low, I32), Position(at, I32)), element


def with_operand(expr: Expr, number: int, operand: Expr) -> Expr:
    """Return an expression in which ``operand`` is cast wherever the input of that number was."""
    match expr:
        case tree.Apply("cast", (tree.Input(input_number, _),), dtype) if input_number == number:
            return tree.cast(operand, dtype)
        case tree.Apply(function, args, dtype):
            return tree.Apply(function, tuple(with_operand(arg, number, operand) for arg in args), dtype)
        case _:
            return expr
