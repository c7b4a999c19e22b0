"""Sizes that the caller gives in every step, and extents that are computed from them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.dims import (
    Condition,
    Let,
    LetKind,
    Relation,
    collected,
    division,
    evaluated,
    index_of_expression,
    lets_in,
    sources,
    with_values,
)
from openinfer.plan.findings import about
from openinfer.plan.steps import Register
from openinfer.symbolic import DIVISIONS, names, operations, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.affine import Interval
    from openinfer.affine.index import Atom
    from openinfer.symbolic import BinOp, Division, IntExpr


QUOTIENT_HINT = "let the caller give the quotient, as in `x: f32[U, 2]`, or leave its limit out"
"""What to write where a size of steps is divided by another one."""

_MOST_EVALUATED = 1 << 12
"""Largest size whose square is evaluated at every value below it, which takes some milliseconds."""


def parameter_name(size: str) -> str:
    """Return what computations call a size that the caller gives."""
    return f"extent_{size}"


class GivenSizes:
    """The registers of sizes that the caller gives, and of extents that are computed from them.

    Attributes:
        most: the largest value of each size.
        registers: of the sizes, by name.
        demands: what has to hold of the sizes of a step so that declared extents have values, with what is declared.
    """

    def __init__(
        self,
        most: Mapping[str, int],
        sizes: Mapping[str, int],
        register: Callable[[str, int, str | None, Index | None], int],
        size: Callable[[int | Register], Index],
    ) -> None:
        """Begin with a register for each size.

        Args:
            sizes: of the program; those that are given are the largest.
            register: makes one of a name, its largest value, the size that it is, and its polynomial in sizes.
            size: returns a number, or what a register holds, as an expression of the plan.
        """
        self.most = dict(most)
        self._sizes = sizes
        self._register = register
        self._size = size
        alone = {name: Index.of(Var(parameter_name(name))) for name in most}
        self.registers = {name: register(f"size.{name}", value, name, alone[name]) for name, value in most.items()}
        self._extents = {number: alone[name] for name, number in self.registers.items()}
        self.demands: dict[Condition, str] = {}

    @property
    def parameters(self) -> frozenset[str]:
        """What computations call the sizes."""
        return frozenset(map(parameter_name, self.most))

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all registers, which keep their values during a step."""
        return frozenset(self._extents)

    def register_of(self, name: str) -> Register | None:
        """Return the register of a size."""
        number = self.registers.get(name)
        return None if number is None else Register(number)

    def extent_of(self, register: Register) -> Index | None:
        """Return what a register is, over the parameters of sizes; None for other registers."""
        return self._extents.get(register.number)

    def holds(self, index: Index) -> bool:
        """Return whether a register may hold an index from the start of a step on: what sizes are, or broadcast to."""
        return all(self._is_of_sizes(atom) for atoms, _ in index.terms for atom in atoms)

    def _is_of_sizes(self, atom: Atom) -> bool:
        if not isinstance(atom, Var):
            return self.holds(atom.of) and self.holds(atom.by)
        if not isinstance(atom, Let):
            return atom.name in self.parameters
        is_broadcast = atom.kind in (LetKind.COMMON, LetKind.STRIDE)
        return is_broadcast and all(self.holds(part) and not self.may_be_negative(part) for part in atom.parts)

    def extent(self, index: Index) -> int | Register:
        """Return an extent that is an index over the parameters of sizes, and over what these broadcast to."""
        constant = index.constant
        if constant is not None:
            return constant
        for register, extent in self._extents.items():
            if extent == index:
                return Register(register)
        for let in lets_in(_computed(index)):
            self.extent(Index.of(let))
        made = self._register(f"size.{_shown(index)}", self.largest(index), None, None if lets_in(index) else index)
        self._extents[made] = index
        return Register(made)

    def largest(self, index: Index) -> int:
        """Return the largest value of an extent, or a bound of it where sizes are squared; 0 where it is below that."""
        inside = sources(index)
        most = {name: most for size, most in self.most.items() if (name := parameter_name(size)) in inside}
        values = product(*({0, 1, high} if lets_in(index) else {0, high} for high in most.values()))
        is_even = index.is_multilinear and all(isinstance(atom, Var) for atoms, _ in index.terms for atom in atoms)
        if not is_even:
            # The largest value may lie between the ends of a size.
            if len(most) > 1 or max(most.values()) > _MOST_EVALUATED:
                return max(0, self._bounds(index).high or 0)
            values = product(*(range(high + 1) for high in most.values()))
        return max(0, *(evaluated(index, dict(zip(most, numbers, strict=True))) for numbers in values))

    def extents(self, dims: Sequence[IntExpr], shape: Sequence[int]) -> tuple[int | Register, ...] | None:
        """Return extents as written, whose values are ``shape`` at the largest sizes; None: they depend on no size.

        Raises:
            SynthesisError: ``unsupported``: one divides by a size, or is larger at smaller sizes.
        """
        indices = [self.index(dim) for dim in dims]
        if len(indices) != len(shape) or all(index is None for index in indices):
            return None
        for dim, index, extent in zip(dims, indices, shape, strict=True):
            if index is not None and self.largest(index) > extent:
                message = f"`{text(dim)}` is larger at smaller sizes: up to {self.largest(index)}, not {extent}"
                raise about("unsupported", message, "declare the extent as a size of its own, which the caller gives")
        return tuple(
            extent if index is None else self.extent(index) for extent, index in zip(shape, indices, strict=True)
        )

    def index(self, expr: IntExpr) -> Index | None:
        """Return an expression over sizes as an index; None where it depends on none that is given.

        Raises:
            SynthesisError: ``unsupported``: it divides by a size that is given.
        """
        return None if self.most.keys().isdisjoint(names(expr)) else self._made(expr)

    def _made(self, expr: IntExpr) -> Index:
        return collected(expr, self._extent_of_size, self._divided)

    def _extent_of_size(self, size: str) -> Index:
        return Index.of(Var(parameter_name(size)) if size in self.most else self._sizes[size])

    def _divided(self, operator: Division, of: Index, by: Index, expr: BinOp) -> Index:
        if by.constant is None or by.constant < 1:
            message = f"`{text(expr)}` divides by a size that differs from step to step"
            raise about("unsupported", message, QUOTIENT_HINT)
        self._demand(of, Relation.AT_LEAST, f"`{text(expr.left)}` must be at least 0")
        if operator == "%":
            return of % by
        if operator == "/":
            self._demand(of % by, Relation.EQUAL, f"`{text(expr.left)}` must be a multiple of {by}")
        return -(-of // by) if operator == "ceil" else of // by

    def _demand(self, index: Index, relation: Relation, words: str) -> None:
        """Note what has to hold in every step, unless it holds for all sizes."""
        low, high = (bounds := self._bounds(index)).low, bounds.high
        if low is None or low < 0 or (relation is Relation.EQUAL and high != 0):
            self.demands.setdefault(Condition(index, relation), words)

    def _bounds(self, index: Index) -> Interval:
        """Return bounds of an index over the parameters of sizes."""
        names = {parameter_name(name): most for name, most in self.most.items()}
        sizes = {Var(name): Index.of(Var(name, most + 1)) for name, most in names.items()}
        broadcast = {let: Index.of(Var(let.name, self.largest(Index.of(let)) + 1)) for let in lets_in(index)}
        return index.substituted({**sizes, **broadcast}).interval

    def starts(self) -> Iterator[tuple[int, Index]]:
        """Yield the registers that are computed when a step starts, with what they are; 0 where that is less."""
        registers = set(self.registers.values())
        yield from ((register, extent) for register, extent in self._extents.items() if register not in registers)

    def may_be_negative(self, index: Index) -> bool:
        """Whether an index over the parameters of sizes is below 0 for some sizes."""
        low = self._bounds(index).low
        return low is None or low < 0

    def expression(self, expr: IntExpr) -> Index:
        """Return an expression over sizes, those included that are the same in every step."""
        return index_of_expression(expr, lambda name: self._size(self.register_of(name) or self._sizes[name]))

    def negative(self, dims: Sequence[IntExpr]) -> Iterator[IntExpr]:
        """Yield the extents, as written, that are below 0 at some sizes."""
        for dim in dims:
            if self.most.keys().isdisjoint(names(dim)):
                continue
            if DIVISIONS.isdisjoint(operations(dim)):
                if self.may_be_negative(self._made(dim)):
                    yield dim
            elif "-" in operations(dim):
                yield dim

    def value(self, extent: Index) -> Index:
        """Return what the register of an extent is set to, as an expression over those of sizes."""
        values = {str(extent): self._size(Register(register)) for register, extent in self._extents.items()}
        let = next((let for let in lets_in(extent) if extent == Index.of(let)), None)
        value = with_values(_computed(extent), values, lambda index: self._bounds(index).low)
        if let is None or let.kind is not LetKind.STRIDE:
            return value
        # 0 where the extent is 1, and 1 above it; for 0 the quotient is 2.
        return division("%", division("floor", Index.of(2), value + 1) + 1, Index.of(2))


def _shown(index: Index) -> str:
    return str(index).replace(parameter_name(""), "")


def _computed(index: Index) -> Index:
    """Return what a register is computed from: of a symbol its parts, else the index itself."""
    let = next((let for let in lets_in(index) if index == Index.of(let)), None)
    if let is None:
        return index
    return let.chosen if let.kind is LetKind.COMMON else let.parts[0]
