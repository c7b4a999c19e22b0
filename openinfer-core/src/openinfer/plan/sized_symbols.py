"""The symbols of one statement: sizes and settings that are known at run time only, with their values and words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from openinfer import symbolic
from openinfer.affine import Index, Interval, Var
from openinfer.dims import (
    Condition,
    LetKind,
    Relation,
    Space,
    division,
    index_of,
    index_of_expression,
    is_size,
    lets_in,
    sources,
    with_values,
)
from openinfer.plan.given_sizes import parameter_name
from openinfer.plan.steps import LoopIndex, Register, ValueRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from openinfer.dims import Let
    from openinfer.ir.resolved import SettingValue
    from openinfer.plan.draft import Draft
    from openinfer.plan.varying_settings import VaryingSettings
    from openinfer.symbolic import BinOp, Division, IntExpr

_NAME = re.compile(r"[A-Za-z_]\w*")

LARGEST = 2**62
"""Settings are between this and its negative: sums of two of them have 64 bits."""


class SizedSymbols:
    """Symbols of sizes, made when they are first met.

    Attributes:
        values: what a symbol is when the program runs, by its name.
        words: what the program calls it.
    """

    def __init__(self, draft: Draft, loops: Mapping[int, Interval]) -> None:
        self.space = Space(joins=True)
        self.values: dict[str, Index] = {}
        self.words: dict[str, str] = {}
        self._draft = draft
        self._loops = loops
        self._dims: dict[str, int] = {}
        self._lengths: dict[Register, Register] = {}
        self._divisions: dict[str, str] = {}

    def shape(self, extents: Sequence[int | Register] | None) -> tuple[int, ...] | None:
        """Return extents as sizes."""
        return None if extents is None else tuple(n if isinstance(n, int) else self._extent(n) for n in extents)

    def shape_of_operand(self, extents: Sequence[int | Register] | None) -> tuple[int, ...] | None:
        """Return extents of a value that a statement reads: none is below 0, or the step was refused before."""
        sizes = self.shape(extents)
        for size in sizes or ():
            if is_size(size) and not self.space.is_never_negative(extent := index_of(size)):
                self.space.assume(Condition(extent, Relation.AT_LEAST))
        return sizes

    def settings(self, settings: VaryingSettings) -> Callable[[], Mapping[str, SettingValue]]:
        """Return a function that evaluates the settings of a statement, those that are not known as sizes."""
        leaves = {name: self._leaf(name, meaning) for name, meaning in settings.meanings.items()}
        every = [number for numbers, _ in settings.varying.values() for number in numbers]
        names = {name for number in every if isinstance(number, Index) for name in sources(number)}
        sizes = {name: self._of_size(name) for name in sorted(names)}

        def value(number: int | Index | IntExpr) -> int:
            if isinstance(number, Index):
                return number.evaluate(sizes)
            if isinstance(number, int):
                return number
            index = index_of_expression(number, lambda name: index_of(leaves[name]), self._divided)
            return cast("int", self.space.dim(index))

        def evaluated() -> Mapping[str, SettingValue]:
            values = dict(settings.known)
            for setting, (numbers, is_list) in settings.varying.items():
                values[setting] = tuple(map(value, numbers)) if is_list else value(numbers[0])
            return values

        return evaluated

    def _divided(self, operator: Division, of: Index, by: Index, expr: BinOp) -> Index:
        """Return a quotient or remainder in a setting: the size that it is, or a symbol that a step computes.

        A symbol has an error of its own where the division has no value. Sizes of 64 bits with a sign cannot be made
        non-negative by adding multiples of the divisor, as `with_values` does.
        """
        signs = (Condition(of, Relation.AT_LEAST), Condition(by - 1, Relation.AT_LEAST))
        if not all(self.space.certain(sign) for sign in signs):
            index = division(operator, of, by)
            self._divisions |= {let.name: _factor_text(let) for let in lets_in(index)}
            return index
        left, right = (cast("int", self.space.dim(part)) for part in (of, by))
        return index_of(symbolic.applied(expr, left, right))

    def listed(self, guards: Iterable[Condition]) -> str:
        """Return the sizes and settings that guards are about, as the program calls them."""
        names = {self.words.get(name, name) for guard in guards for name in sources(guard.index)}
        return ", ".join(f"`{name}`" for name in sorted(names))

    def in_words(self, text: str) -> str:
        """Return a message with sizes, and divisions of settings, as the program writes them."""
        for name, written in reversed(self._divisions.items()):
            # One within another one was met before it.
            text = text.replace(name, written)
        return _NAME.sub(lambda name: self.words.get(name[0], name[0]), text)

    def is_of_step(self, name: str) -> bool:
        """Return whether a symbol is a size that the caller gives in every step."""
        return self._draft.given is not None and name in self._draft.given.parameters

    def expression(self, index: Index) -> Index:
        """Return an index over the symbols as an expression of the plan.

        Raises:
            ValueError: it divides what has no least value.
        """
        return with_values(index, self.values, lambda divided: self.space.bounds(divided).low)

    def _extent(self, register: Register) -> int:
        original = self._draft.lengths.original(register)
        register = original if self._draft.is_given(original) else self._lengths.setdefault(original, register)
        extent = None if self._draft.given is None else self._draft.given.extent_of(register)
        if extent is not None:
            for name in sources(extent):
                self._of_size(name)
            return cast("int", self.space.dim(extent))
        planned = self._draft.registers[register.number]
        name = f"n{register.number}"
        if name not in self._dims and (rest := self._rest(register)) is not None:
            self._dims[name] = rest
        return self._dim(name, self._draft.size(register), Interval(0, planned.most), self._draft.words(register))

    def _rest(self, register: Register) -> int | None:
        """Return the length of a range as what another one of the statement leaves of the length of both."""
        most = self._draft.registers[register.number].most
        for other in [other for other in self._lengths.values() if other != register]:
            together = self._draft.lengths.ranges.together(register, other)
            if together is not None and self._draft.registers[other.number].most <= together <= most:
                return together - self._extent(other)
        return None

    def _of_size(self, name: str) -> int:
        """Return a size that the caller gives, by the name of its parameter."""
        given_sizes = self._draft.given
        if given_sizes is None:
            raise ValueError(f"{name} is not a size that the caller gives")
        index = Index.of(Var(name))
        return self._dim(
            name,
            given_sizes.value(index),
            Interval(0, given_sizes.largest(index)),
            name.removeprefix(parameter_name("")),
        )

    def _leaf(self, name: str, binding: int | LoopIndex | ValueRef | Register) -> int:
        """Return what a name in a setting means."""
        if isinstance(binding, int):
            return binding
        if isinstance(binding, Register):
            return self._extent(binding)
        bounds = self._bounds(binding)
        if bounds.low is not None and bounds.low == bounds.high:
            return bounds.low
        return self._dim(f"s_{name}", self._draft.read(binding, name), bounds, name)

    def _bounds(self, binding: LoopIndex | ValueRef) -> Interval:
        if isinstance(binding, LoopIndex):
            low, high = self._loops[binding.loop].low, self._loops[binding.loop].high
        else:
            dtype = self._draft.values[binding.value].type.dtype
            low, high = int(dtype.minimum or 0), int(dtype.maximum or LARGEST)
        return Interval(
            max(-LARGEST if low is None else low, -LARGEST), min(LARGEST if high is None else high, LARGEST)
        )

    def _dim(self, name: str, value: Index, bounds: Interval, words: str) -> int:
        if name not in self._dims:
            # Rules take sizes as the integers that they stand for.
            self._dims[name] = cast("int", self.space.size(name, bounds.low, bounds.high))
            self.values[name] = value
            self.words[name] = words
        return self._dims[name]


def _factor_text(division: Let) -> str:
    """Return a division as the language writes it within a product."""
    is_call = division.kind in (LetKind.FLOOR, LetKind.CEIL)
    return division.written if is_call else f"({division.written})"
