"""A program while it is drawn: the builder, and the variables that the next statement can use."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np

from openinfer.array_types import dtype_of_array
from openinfer.dsl.builder import GraphBuilder
from openinfer.dtypes import BY_NAME, DType, Kind
from openinfer.ir.graph import MemoryKind
from openinfer.ir.types import TensorType
from openinfer.plugins.environment import Environment
from openinfer.testing.random_programs.data import drawn_values
from openinfer.testing.random_programs.precision import UNKNOWN
from openinfer.testing.random_programs.sample import Array, Sample

SIZES = {"N": 3, "M": 4, "B": 2}
ENTRIES = 4
"""Entries of a prefix table."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that statements may use.

    Attributes:
        kind: its memory; None for a temporary.
        level: how many open roundings it has (`openinfer.testing.random_programs.precision`), as far as drawing goes.
        is_table: whether it is a prefix table, of which entries are used.
        formals: how many indices that table has.
        is_index: whether its values are legal as indices or bounds of loops, and small.
    """

    name: str
    type: TensorType
    kind: MemoryKind | None
    level: int = 0
    is_table: bool = False
    formals: int = 0
    is_index: bool = False

    @property
    def is_written(self) -> bool:
        """Whether statements may write it."""
        return not self.is_table and self.kind in (None, MemoryKind.VOLATILE)


class Writer:
    """What drawing a program works on."""

    def __init__(self, random: Random, environment: Environment) -> None:
        self.random = random
        self.environment = environment
        self.builder = GraphBuilder()
        self.calm = random.random() < 0.8
        self.visible: list[Variable] = []
        self.hidden: set[str] = set()
        self.indices: list[str] = []
        self.blocks: list[str] = []
        self.written: list[str] = []
        self.tensors: dict[str, Array] = {}
        self.inputs: dict[str, Callable[[], Array]] = {}
        self.defaults: set[str] = set()
        self.is_entry = False
        self._count = 0

    def name(self, start: str) -> str:
        """Return a name that nothing has."""
        self._count += 1
        return f"{start}{self._count}"

    def sample(self, steps: int) -> Sample:
        """Return the program with inputs for some steps."""
        given = tuple(
            {
                name: draw()
                for name, draw in self.inputs.items()
                if name not in self.defaults or self.random.random() < 0.6
            }
            for _ in range(steps)
        )
        return Sample(self.builder.build(), SIZES, self.tensors, given, self.calm)

    @contextmanager
    def inside(self) -> Generator[None]:
        """Forget at the end the temporaries that were made inside."""
        outside = list(self.visible)
        yield
        self.visible = [each for each in self.visible if each.kind is not None or each in outside]

    def dims(self, shape: Sequence[int]) -> list[int | str]:
        """Return extents, some of them as expressions of sizes."""
        return [self._dim(extent) if self.random.random() < 0.15 else extent for extent in shape]

    def _dim(self, extent: int) -> int | str:
        name, value = self.random.choice(list(SIZES.items()))
        rest = extent - value
        if rest >= 0 and self.random.random() < 0.7:
            return name if rest == 0 else f"{name}+{rest}"
        return f"{extent // value}*{name}" if extent and extent % value == 0 else extent

    # Variables

    def fitting(self, kind: TensorType, level: int = 0) -> list[Variable]:
        """Return the variables of a type with at most so many open roundings."""
        return [each for each in self.visible if each.type == kind and each.level <= level]

    def given(self, kind: TensorType, draw: Callable[[], Array] | None = None) -> Variable:
        """Declare a variable that has a value when the step starts: that of ``draw``, or any."""
        chance = self.random.random()
        if chance < 0.3:
            stored = self._of_model(kind, draw or (lambda: drawn_values(kind, self.random, calm=self.calm)))
            if stored is not None:
                return stored
        if chance < 0.45 and draw is None:
            return self._filled(kind)
        return self.input(kind, draw)

    def input(self, kind: TensorType, draw: Callable[[], Array] | None = None) -> Variable:
        """Declare a dynamic variable."""
        values = draw or (lambda: drawn_values(kind, self.random, calm=self.calm))
        variable = Variable(self.name("x"), kind, MemoryKind.DYNAMIC, is_index=draw is not None)
        init = self.initial(kind.dtype) if draw is None and self.random.random() < 0.1 else None
        self.builder.dynamic(variable.name, kind.dtype, self.dims(kind.shape), init=init)
        self.inputs[variable.name] = values
        if init is not None:
            self.defaults.add(variable.name)
        self.visible.append(variable)
        return variable

    def _of_model(self, kind: TensorType, values: Callable[[], Array]) -> Variable | None:
        """Declare a variable or a prefix table with data in the model, where models in memory hold the type."""
        if dtype_of_array(np.empty(0, values().dtype)) is not kind.dtype:
            return None
        memory = MemoryKind.CONSTANT if self.random.random() < 0.6 else MemoryKind.VOLATILE
        declare = self.builder.constant if memory is MemoryKind.CONSTANT else self.builder.volatile
        if self.random.random() < 0.35:
            name, formals = self.name("W"), ["l", "h"][: self.random.choice((1, 1, 2))]
            pattern = ".".join([name, *(f"{{{formal}}}" for formal in formals)])
            declare(name, kind.dtype, self.dims(kind.shape), formals=formals, pattern=pattern)
            for places in product(range(ENTRIES), repeat=len(formals)):
                self.tensors[".".join([name, *map(str, places)])] = values()
            made = Variable(name, kind, memory, is_table=True, formals=len(formals))
        else:
            name, stored = self.name("k"), self.random.random() < 0.3
            declare(name, kind.dtype, self.dims(kind.shape), ref=f"of.{name}" if stored else None)
            self.tensors[f"of.{name}" if stored else name] = values()
            made = Variable(name, kind, memory)
        self.visible.append(made)
        return made

    def _filled(self, kind: TensorType) -> Variable:
        """Declare a variable with one value everywhere."""
        memory = MemoryKind.CONSTANT if self.random.random() < 0.5 else MemoryKind.VOLATILE
        declare = self.builder.constant if memory is MemoryKind.CONSTANT else self.builder.volatile
        variable = Variable(self.name("f"), kind, memory)
        declare(variable.name, kind.dtype, self.dims(kind.shape), init=self.initial(kind.dtype))
        self.visible.append(variable)
        return variable

    def initial(self, dtype: DType) -> float:
        """Return a value for ``@init``."""
        if dtype.is_float:
            return self.random.choice((0.0, 1.0, -0.5, 2.5))
        if dtype.kind is Kind.BOOL:
            return self.random.random() < 0.5
        if dtype.kind is Kind.TERNARY:
            return self.random.choice((-1, 1))
        low, high = dtype.minimum or 0, dtype.maximum if dtype.maximum is not None else 255
        return self.random.choice((low, high, min(high, 1), 0))

    def index(self) -> Variable:
        """Return a scalar input from 0 to 3."""
        known = [
            each for each in self.visible if each.is_index and each.type.shape == () and each.type.dtype.name == "i32"
        ]
        if known and self.random.random() < 0.7:
            return self.random.choice(known)
        kind = TensorType(BY_NAME["i32"], ())
        variable = Variable(self.name("t"), kind, MemoryKind.DYNAMIC, is_index=True)
        self.builder.dynamic(variable.name, kind.dtype)
        self.inputs[variable.name] = lambda: np.array(self.random.randrange(4), np.int32)
        self.visible.append(variable)
        return variable

    def reference(self, variable: Variable) -> str:
        """Return how a statement names a variable: of a prefix table, one entry."""
        if not variable.is_table:
            return variable.name
        return f"{variable.name}[{', '.join(self._place() for _ in range(variable.formals))}]"

    def _place(self) -> str:
        """Return the index of an entry of a prefix table."""
        chance = self.random.random()
        if self.indices and chance < 0.7:
            return f"{self.random.choice(self.indices)}{'+1' if chance < 0.2 else ''}"
        return self.index().name if chance < 0.8 else str(self.random.randrange(ENTRIES))

    def result(self, kind: TensorType, level: int, *, taken: Sequence[str], liked: Sequence[str] = ()) -> str:
        """Return the name of a variable for a result: one that is there and not ``taken``, or a new one."""
        chance = self.random.random()
        if chance < 0.35 or liked:
            known = [each for each in self.fitting(kind, UNKNOWN) if each.name not in taken and self._may_write(each)]
            known = [each for each in known if each.name in liked] or known
            if known:
                return self._overwritten(self.random.choice(known), level)
        name = self.name("y")
        if chance < 0.55 and self.is_entry:
            self.builder.assign(name, kind.dtype, self.dims(kind.shape))
            self.visible.append(Variable(name, kind, None, level))
            return name
        init = self.initial(kind.dtype) if self.random.random() < 0.1 else None
        self.builder.volatile(name, kind.dtype, self.dims(kind.shape), init=init)
        self.visible.append(Variable(name, kind, MemoryKind.VOLATILE, level))
        self.written.append(name)
        return name

    def _may_write(self, variable: Variable) -> bool:
        """Whether a result may be written over a variable: seldom over an input of the step."""
        is_input = variable.kind is MemoryKind.DYNAMIC and self.random.random() < 0.1
        return not variable.is_index and (variable.is_written or is_input)

    def _overwritten(self, variable: Variable, level: int) -> str:
        place = self.visible.index(variable)
        self.visible[place] = Variable(variable.name, variable.type, variable.kind, max(level, variable.level))
        if variable.kind is not None and variable.name not in self.written:
            self.written.append(variable.name)
        return variable.name


def count_of(kind: TensorType) -> int:
    """Return the elements of a type."""
    return math.prod(kind.shape)
