"""Sizes that the caller gives in every step, and extents that are computed from them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.plan.findings import about
from openinfer.plan.sizes import polynomial
from openinfer.plan.steps import IndexExpr, Register
from openinfer.symbolic import DIVISIONS, Const, Name, evaluate, names, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.symbolic import IntExpr


EVEN_HINT = (
    "sums, differences and products of such sizes are known for all of them: let the caller give the quotient, as in"
    " `x: f32[U, 2]`"
)
"""What to write where a size of steps is divided."""

_MOST_TRIED = 1 << 12
"""Largest size whose square is evaluated at every value below it, which takes some milliseconds."""


def parameter_name(size: str) -> str:
    """Return what computations call a size that the caller gives."""
    return f"extent_{size}"


class GivenSizes:
    """The registers of sizes that the caller gives, and of extents that are polynomials in them.

    Attributes:
        most: the largest value of each size.
        registers: of the sizes, by name.
    """

    def __init__(
        self,
        most: Mapping[str, int],
        sizes: Mapping[str, int],
        register: Callable[[str, int, str | None, Index], int],
    ) -> None:
        """Begin with a register for each size.

        Args:
            sizes: of the program; those that are given are the largest.
            register: makes one of a name, its largest value, the size that it is, and what it is of sizes.
        """
        self.most = dict(most)
        self._sizes = sizes
        self._register = register
        alone = {name: Index.of(Var(parameter_name(name))) for name in most}
        self.registers = {name: register(f"size.{name}", value, name, alone[name]) for name, value in most.items()}
        self._extents = {number: alone[name] for name, number in self.registers.items()}

    @property
    def parameters(self) -> frozenset[str]:
        """What computations call the sizes."""
        return frozenset(map(parameter_name, self.most))

    def register_of(self, name: str) -> Register | None:
        """Return the register of a size."""
        number = self.registers.get(name)
        return None if number is None else Register(number)

    def polynomial_of(self, register: Register) -> Index | None:
        """Return what a register is, over the parameters of sizes; None for other registers."""
        return self._extents.get(register.number)

    def extent(self, index: Index) -> int | Register:
        """Return an extent that is a polynomial over the parameters of sizes."""
        known = index.constant
        if known is not None:
            return known
        for register, extent in self._extents.items():
            if extent == index:
                return Register(register)
        shown = str(index).replace(parameter_name(""), "")
        made = self._register(f"size.{shown}", self.largest(index), None, index)
        self._extents[made] = index
        return Register(made)

    def largest(self, index: Index) -> int:
        """Return the largest value of an extent, or a bound of it where sizes are squared; 0 where it is below that."""
        inside = {var.name for var in index.variables()}
        most = {name: most for size, most in self.most.items() if (name := parameter_name(size)) in inside}
        values = product(*({0, each} for each in most.values()))
        if not index.is_multilinear:
            # The largest value may lie between the ends of a size.
            if len(most) == 1 and max(most.values()) <= _MOST_TRIED:
                values = product(*(range(each + 1) for each in most.values()))
            else:
                index = Index(tuple((atoms, factor) for atoms, factor in index.terms if factor > 0))
        return max(0, *(index.evaluate(dict(zip(most, numbers, strict=True))) for numbers in values))

    def extents(self, dims: Sequence[IntExpr], shape: Sequence[int]) -> tuple[int | Register, ...] | None:
        """Return extents as written, whose values are ``shape`` at the largest sizes; None: they depend on no size.

        Raises:
            SynthesisError: ``unsupported``: one divides, or is larger at smaller sizes.
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
        """Return an expression over sizes as a polynomial; None where it depends on none that is given.

        Raises:
            SynthesisError: ``unsupported``: it divides.
        """
        return None if self.most.keys().isdisjoint(names(expr)) else self._made(expr, expr)

    def _made(self, expr: IntExpr, whole: IntExpr) -> Index:
        if isinstance(expr, Const):
            return Index.of(expr.value)
        if isinstance(expr, Name):
            return Index.of(Var(parameter_name(expr.name)) if expr.name in self.most else self._sizes[expr.name])
        if expr.op in DIVISIONS:
            if self.most.keys().isdisjoint(names(expr)):
                return Index.of(evaluate(expr, self._sizes.__getitem__))
            message = f"`{text(whole)}` divides a size that differs from step to step"
            raise about("unsupported", message, f"{EVEN_HINT}, or leave its limit out")
        left, right = self._made(expr.left, whole), self._made(expr.right, whole)
        return left + right if expr.op == "+" else left - right if expr.op == "-" else left * right

    def starts(self) -> Iterator[tuple[int, Index]]:
        """Yield the registers that are computed when a step starts, with what they are; 0 where that is less."""
        given = set(self.registers.values())
        yield from ((register, extent) for register, extent in self._extents.items() if register not in given)

    def may_be_negative(self, index: Index) -> bool:
        """Whether a polynomial over the parameters of sizes is below 0 for some sizes."""
        names = {parameter_name(name): most for name, most in self.most.items()}
        sizes = {Var(name): Index.of(Var(name, most + 1)) for name, most in names.items()}
        low = index.substituted(sizes).interval.low
        return low is None or low < 0

    def value(self, extent: Index) -> IndexExpr:
        """Return a polynomial over sizes as an expression over their registers."""
        sizes = {
            parameter_name(name): IndexExpr(Name(f"size.{name}"), ((f"size.{name}", Register(register)),))
            for name, register in self.registers.items()
        }
        return polynomial(extent, sizes)
