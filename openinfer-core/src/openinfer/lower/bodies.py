"""Straight-line code in which each load that several statements share is made once, where it is first used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import I32
from openinfer.expr import tree
from openinfer.expr.constants import folded
from openinfer.expr.linear import linearise
from openinfer.loops import Let, Load, Number, Register, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openinfer.expr.tree import Expr
    from openinfer.loops import Leaf, Statement
    from openinfer.lower.names import Names


@dataclass(frozen=True, slots=True, eq=False)
class _Operand:
    """A largest part of an expression that uses one element and no total, or the bytes of one word.

    ``numbers`` are those of the elements; ``Input(k)`` of ``expr`` is that of ``numbers[k]``.
    """

    numbers: tuple[int, ...]
    expr: Expr


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """An expression over operands: ``Input(k)`` of ``expr`` is ``operands[k]``."""

    expr: Expr
    operands: tuple[_Operand, ...]


class Body:
    """Collects statements that store values; equal leaves are one object.

    Args:
        is_shared: whether loads that several statements share have names.
    """

    def __init__(self, names: Names, *, is_shared: bool = True) -> None:
        self._names = names
        self._is_shared = is_shared
        self._forms: dict[int, tuple[Expr, _Form]] = {}
        self._entries: list[tuple[Callable[[Value], Statement], _Form, tuple[tuple[Leaf, ...], ...]]] = []
        self._numbered: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[Expr, Expr]] = {}
        self._inlined: dict[tuple[int, tuple[int, ...]], Expr] = {}

    def put(self, make: Callable[[Value], Statement], expr: Expr, leaves: Mapping[int, Leaf]) -> None:
        """Append the statement that ``make`` returns for the value of an expression, ``Input(k)`` is ``leaves[k]``."""
        form = self._form(self._with_numbers(expr, leaves))
        by_operand = tuple(tuple(leaves[number] for number in operand.numbers) for operand in form.operands)
        self._entries.append((make, form, by_operand))

    def statements(self) -> Iterator[Statement]:
        """Yield the statements in their order, with names for what they share."""
        uses = Counter(
            _key(operand, operand_leaves)
            for _, form, leaves in self._entries
            for operand, operand_leaves in zip(form.operands, leaves, strict=True)
        )
        registers: dict[tuple[int, ...], Register] = {}
        for make, form, leaves in self._entries:
            named_leaves: list[Leaf] = []
            named: list[int] = []
            for position, (operand, operand_leaves) in enumerate(zip(form.operands, leaves, strict=True)):
                key, loads = _key(operand, operand_leaves), [leaf for leaf in operand_leaves if isinstance(leaf, Load)]
                if self._is_shared and uses[key] > 1 and len(loads) == len(operand_leaves):
                    if key not in registers:
                        registers[key] = Register(self._names.new(loads[0].buffer.name), operand.expr.dtype)
                        yield Let(registers[key].name, _value(operand.expr, list(operand_leaves)))
                    named_leaves.append(registers[key])
                    named.append(position)
                else:
                    named_leaves += operand_leaves
            yield make(_value(self._expr(form, tuple(named)), named_leaves))

    def _expr(self, form: _Form, named: tuple[int, ...]) -> Expr:
        """Return the expression of a form in which operands are written out but for those that have names."""
        key = (id(form), named)
        if key not in self._inlined:
            parts: dict[int, Expr] = {}
            first = 0
            for position, operand in enumerate(form.operands):
                if position in named:
                    parts[position] = tree.Input(first, operand.expr.dtype)
                    first += 1
                    continue
                types = {i.index: i.dtype for i in linearise(operand.expr).instructions if i.function == "input"}
                inputs: dict[int, Expr] = {number: tree.Input(first + number, types[number]) for number in types}
                parts[position] = tree.substitute(operand.expr, inputs)
                first += len(operand.numbers)
            self._inlined[key] = tree.substitute(form.expr, parts)
        return self._inlined[key]

    def _with_numbers(self, expr: Expr, leaves: Mapping[int, Leaf]) -> Expr:
        """Return an expression with the numbers of places that are known as constants."""
        constants: dict[int, int] = {}
        for number in linearise(expr).inputs:
            leaf = leaves[number]
            if isinstance(leaf, Number) and leaf.index.constant is not None and leaf.dtype is I32:
                constants[number] = leaf.index.constant
        key = (id(expr), tuple(constants.items()))
        if constants and key not in self._numbered:
            literals: dict[int, Expr] = {number: tree.literal(value, I32) for number, value in constants.items()}
            self._numbered[key] = (expr, folded(tree.substitute(expr, literals)))
        return self._numbered[key][1] if constants else expr

    def _form(self, expr: Expr) -> _Form:
        if id(expr) not in self._forms:
            self._forms[id(expr)] = (expr, _form(expr))
        return self._forms[id(expr)][1]


def _value(expr: Expr, leaves: list[Leaf]) -> Value:
    """Return a value whose equal leaves are one."""
    if len({id(leaf) for leaf in leaves}) == len(leaves):
        return Value(expr, tuple(leaves))
    first = {id(leaf): position for position, leaf in reversed(list(enumerate(leaves)))}
    kept = sorted(first.values())
    inputs: dict[int, Expr] = {
        position: tree.Input(kept.index(first[id(leaf)]), leaf.dtype) for position, leaf in enumerate(leaves)
    }
    return Value(tree.substitute(expr, inputs), tuple(leaves[position] for position in kept))


def _key(operand: _Operand, leaves: tuple[Leaf, ...]) -> tuple[int, ...]:
    return (id(operand.expr), *map(id, leaves))


def _form(expr: Expr) -> _Form:
    operands: list[_Operand] = []
    numbered: dict[tuple[object, ...], int] = {}

    def operand(part: Expr, numbers: tuple[int, ...]) -> Expr:
        """Return the input that stands for a part; parts of one form are one operand."""
        own = linearise(part)
        key = (numbers, own)
        if key not in numbered:
            numbered[key] = len(operands)
            types = {i.index: i.dtype for i in own.instructions if i.function == "input"}
            inputs: dict[int, Expr] = {n: tree.Input(position, types[n]) for position, n in enumerate(numbers)}
            operands.append(_Operand(numbers, tree.substitute(part, inputs)))
        return tree.Input(numbered[key], part.dtype)

    done: dict[int, Expr] = {}

    def split(part: Expr) -> Expr:
        if id(part) not in done:
            inputs = linearise(part).inputs
            is_one = len(inputs) == 1 and (inputs[0] >= 0 or isinstance(part, tree.Input))
            if is_one or (_is_word(part) and min(inputs, default=-1) >= 0):
                done[id(part)] = operand(part, tuple(inputs))
            elif isinstance(part, tree.Apply):
                done[id(part)] = tree.Apply(part.function, tuple(split(arg) for arg in part.args), part.dtype)
            else:
                done[id(part)] = part
        return done[id(part)]

    return _Form(split(expr), tuple(operands))


def _is_word(part: Expr) -> bool:
    """Return whether a part is a word of bytes, or made of one and constants."""
    match part:
        case tree.Apply("word"):
            return True
        case tree.Apply(_, args):
            rest = [arg for arg in args if not isinstance(arg, tree.Literal)]
            return len(rest) == 1 and _is_word(rest[0])
        case _:
            return False
