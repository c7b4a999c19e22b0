"""Drawing programs whose sizes differ from step to step: extents are expressions of `T` and `U`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import numpy as np

from openinfer.dsl.builder import GraphBuilder
from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.symbolic import evaluate, parse, text
from openinfer.testing.random_programs.data import small_integers
from openinfer.testing.random_programs.sample import Array, Sample
from openinfer.testing.values import Draw, draw

LIMITS = {"T": 6, "U": 5}
"""The greatest sizes of a step."""

USUAL = ({"T": 3, "U": 3}, {"T": 3, "U": 2}, {"T": 4, "U": 1}, {"T": 1, "U": 4})
"""Sizes of the model: f32[T] and f32[U] broadcast in some."""

ROWS = 64
"""Entries that tables may have: more than the steps write."""

STEPS = (3, 4, 4, 5, 6)


@dataclass(frozen=True, slots=True)
class Value:
    """A variable that statements may use.

    Attributes:
        dims: extents as text; those that only a run decides begin with ``?`` and are equal where their text is.
        writable: whether loops may add to it.
    """

    name: str
    dtype: str
    dims: tuple[str, ...]
    writable: bool = False

    @property
    def is_float(self) -> bool:
        """Whether its elements are floats."""
        return self.dtype == "f32"

    @property
    def is_open(self) -> bool:
        """Whether an extent is known when it runs only."""
        return any(dim.startswith("?") for dim in self.dims)


class SizeWriter:
    """A program while it is drawn, with the variables that the next statement can use.

    Attributes:
        blocks: those that a branch may name.
        depth: how many loops there are around the next statement.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.builder = GraphBuilder()
        self.values: list[Value] = []
        self.tensors: dict[str, Array] = {}
        self.usual = random.choice(USUAL)
        self.blocks: list[str] = []
        self.depth = 0
        self._inputs: dict[str, tuple[str, tuple[str, ...], int | None]] = {}
        self._count = 0

    def name(self, start: str) -> str:
        """Return a name that nothing has."""
        self._count += 1
        return f"{start}{self._count}"

    def chance(self, share: float) -> bool:
        """Return true in this share of the calls."""
        return self.random.random() < share

    def input(self, dtype: str, dims: Sequence[str], below: int | None = None) -> Value:
        """Declare an input; ``below`` bounds integers that are indices."""
        value = Value(self.name("x"), dtype, canonical(dims))
        self.builder.dynamic(value.name, dtype, extents(dims))
        self._inputs[value.name] = (dtype, value.dims, below)
        if below is None:
            self.values.append(value)
        return value

    def weight(self, dims: Sequence[int]) -> str:
        """Declare a constant of f32 with data in the model."""
        name = self.name("w")
        self.builder.constant(name, "f32", dims)
        self.tensors[name] = self._drawn("f32", tuple(dims), None)
        return name

    def some(self, *, rank: int | None = None, dtype: str | None = None, closed: bool = False) -> Value:
        """Return a value that fits, of any rank but 0 where none is requested, or a new input."""
        fitting = [
            value
            for value in self.values
            if (len(value.dims) == rank if rank is not None else value.dims)
            and (dtype is None or value.dtype == dtype)
            and not (closed and value.is_open)
        ]
        if fitting and self.chance(0.85):
            return self.random.choice(fitting)
        return self.input(dtype or self.random.choice(("f32", "f32", "i32")), self.shape(rank))

    def like(self, value: Value) -> Value:
        """Return a value of the same type and shape."""
        same = [other for other in self.values if (other.dtype, other.dims) == (value.dtype, value.dims)]
        return value if value.is_open and not same else self.random.choice(same or [value])

    def shape(self, rank: int | None) -> tuple[str, ...]:
        """Return the shape of an input."""
        count = self.random.choice((1, 2, 2, 2, 3)) if rank is None else rank
        first = self.random.choice(("T", "T", "U", "T+1"))
        return (first, *(self.random.choice(("T", "U", "4", "4", "4", "2*T")) for _ in range(count - 1)))

    def result(self, dtype: str, dims: Sequence[str]) -> str:
        """Return the name of a new variable for a result: volatile, or a temporary, declared or not."""
        value = Value(self.name("y"), dtype, canonical(dims), writable=True)
        chance = self.random.random()
        if value.is_open or chance < 0.25:
            value = Value(value.name, dtype, value.dims)
        elif chance < 0.5:
            self.builder.assign(value.name, dtype, extents(dims))
        else:
            self.builder.volatile(value.name, dtype, extents(dims))
        self.values.append(value)
        return value.name

    def open_dim(self) -> str:
        """Return an extent that a run decides."""
        return f"?{self.name('e')}"

    @contextmanager
    def inside(self) -> Generator[None]:
        """Forget at the end what was made inside."""
        outside = list(self.values)
        self.depth += 1
        yield
        self.depth -= 1
        self.values = outside

    def sample(self) -> Sample:
        """Return the program with inputs for steps of changing sizes; the last has sizes that fit."""
        graph = self.builder.build()
        sizes = [*(self._sizes() for _ in range(self.random.choice(STEPS))), self.usual]
        steps = tuple(map(self._step, sizes))
        tables = [each for each in graph.vars.values() if each.table and not each.fixed]
        limits = {f"{each.name}.{formal}": ROWS for each in tables for formal in each.formals}
        return Sample(graph, self.usual, self.tensors, steps, limits={**LIMITS, **limits})

    def _sizes(self) -> Mapping[str, int]:
        chance = self.random.random()
        if chance < 0.15:
            return self.usual
        sizes = {name: self.random.choice((0, 1, 1, 2, 3, most - 1, most)) for name, most in LIMITS.items()}
        return {**sizes, "U": sizes["T"]} if chance < 0.3 and sizes["T"] <= LIMITS["U"] else sizes

    def _step(self, sizes: Mapping[str, int]) -> Mapping[str, Array]:
        return {
            name: self._drawn(dtype, tuple(evaluate(parse(dim), sizes.__getitem__) for dim in dims), below)
            for name, (dtype, dims, below) in self._inputs.items()
        }

    def _drawn(self, dtype: str, shape: tuple[int, ...], below: int | None) -> Array:
        kind = TensorType(BY_NAME[dtype], shape)
        if not kind.dtype.is_float:
            return small_integers(kind, self.random, *((0, below - 1) if below is not None else (-9, 9)))
        return draw(kind.dtype, shape, Draw.DYADIC, np.random.default_rng(self.random.randrange(1 << 32)))


def canonical(dims: Sequence[str]) -> tuple[str, ...]:
    """Return extents in one form, so that equal ones are equal text."""
    return tuple(dim if dim.startswith("?") else text(parse(dim)) for dim in dims)


def extents(dims: Sequence[str]) -> list[int | str]:
    """Return extents as the builder takes them."""
    return [int(dim) if dim.isdigit() else dim for dim in dims]


def joined(left: str, right: str) -> str:
    """Return the sum of two extents."""
    if left.isdigit() and right.isdigit():
        return str(int(left) + int(right))
    return f"2*({left})" if left == right else f"{left}+({right})"
