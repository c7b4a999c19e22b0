"""Tests of indices in a form that an interval analysis of variables understands.

The index of a test of several variables gets a name, and addresses in the body are written with it where they can be.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.expr import tree
from openinfer.loops import Number, Register
from openinfer.loops.substitution import indices_of, rewritten
from openinfer_synth_c.loop_programs.addresses import counter, index_text, register, tests_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from openinfer.affine import Within
    from openinfer.loops import Load, Statement, Value


@dataclass(frozen=True, slots=True)
class Guarded:
    """An `If` in C.

    Attributes:
        lines: declarations before the test.
        body: the statements under it.
    """

    lines: tuple[str, ...]
    test: str
    body: tuple[Statement, ...]


def guarded(tests: Sequence[Within], body: Sequence[Statement], fresh: Callable[[], int]) -> Guarded:
    """Return statements under tests; ``fresh`` returns a number for a new name."""
    names: dict[Index, Var] = {}
    taken = {var.name for index in indices_of(body) for var in index.variables()}
    for test in tests:
        if not _needs_name(test):
            continue
        var = Var(f"within{fresh()}", test.extent.constant or test.extent)
        named = rewritten(body, lambda index, of=test.index, var=var: _written_with(index, of, var))
        if var.name not in taken and any(var in index.variables() for index in indices_of(named)):
            names[test.index], body = var, named
    return Guarded(
        tuple(declared(index, var) for index, var in names.items()),
        tests_text(tests, {index: counter(var) for index, var in names.items()}),
        tuple(body),
    )


@dataclass(slots=True)
class NamedTests:
    """The named indices of the tests of loads, for the statements that follow their declarations.

    ``fresh`` returns a number for a new name.
    """

    fresh: Callable[[], int]
    _names: dict[Within, Var] = field(default_factory=dict["Within", Var])

    @contextmanager
    def block(self) -> Generator[None]:
        """Forget the names that are declared meanwhile."""
        names = dict(self._names)
        yield
        self._names = names

    def load(self, load: Load) -> tuple[tuple[str, ...], str, Load]:
        """Return the declarations that a load needs, its test, and the load with addresses written by them."""
        lines: list[str] = []
        names: dict[Index, str] = {}
        address = load.address
        for test in load.guards:
            if not _needs_name(test):
                continue
            var = self._names.get(test) or Var(f"within{self.fresh()}", test.extent.constant or test.extent)
            written = _written_with(address, test.index, var)
            if var not in written.variables():
                continue
            if test not in self._names:
                self._names[test] = var
                lines.append(declared(test.index, var))
            address, names[test.index] = written, counter(var)
        return tuple(lines), tests_text(load.guards, names), replace(load, address=address)


def declared(index: Index, var: Var) -> str:
    """Return the declaration of the name of an index."""
    return f"const ptrdiff_t {counter(var)} = {index_text(index)};"


def _needs_name(test: Within) -> bool:
    """Return whether a test has several variables: intervals do not carry what it says over to an address."""
    return len(test.index.variables()) > 1 and not test.is_certain


def out_of_range(refused: Value) -> str | None:
    """Return the test of a register against 0 and a number of elements, None for another test.

    It names the register itself, where a test of copies would say nothing about it.
    """
    match refused.expr, refused.leaves:
        case (
            tree.Apply(
                "logical_or",
                (
                    tree.Apply("lt", (tree.Input(0), tree.Literal(0))),
                    tree.Apply("ge", (tree.Input(0), tree.Input(1))),
                ),
            ),
            (Register(name), Number(extent)),
        ):
            return f"{register(name)} < 0 || {register(name)} >= {index_text(extent)}"
        case _:
            return None


def _written_with(index: Index, of: Index, var: Var) -> Index:
    """Return an index in which ``var`` replaces a multiple of ``of``, if no variable of ``of`` remains; else the index
    itself."""
    factors = {_quotient(index.coefficient(each), of.coefficient(each)) for each in of.variables()}
    factor = factors.pop()
    return index if factors or not factor else index + (var - of) * factor


def _quotient(dividend: int | None, divisor: int | None) -> int:
    """Return an exact quotient, 0 where there is none."""
    if not dividend or not divisor or dividend % divisor:
        return 0
    return dividend // divisor
