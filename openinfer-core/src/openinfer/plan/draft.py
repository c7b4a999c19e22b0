"""What lowering collects: values, tables, procedures and refusals, before memory is planned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.dtypes import BOOL
from openinfer.errors import SynthesisError
from openinfer.ir.resolved import Storage
from openinfer.ir.types import TensorType
from openinfer.plan.equal_lengths import EqualLengths
from openinfer.plan.given_sizes import GivenSizes
from openinfer.plan.operands import LoopIndex, Register, Symbol, ValueRef
from openinfer.plan.steps import Demand, EqualStep, Procedure
from openinfer.plan.tables import TableUse
from openinfer.plan.values import PlanRegister

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.ir.resolved import ResolvedVar
    from openinfer.plan.steps import Origin


@dataclass(frozen=True, slots=True)
class DraftValue:
    """A value before its memory is known: a variable, or (``variable`` None) an intermediate result.

    ``is_state``: it is kept between steps. ``data``: elements of a value that no step computes any more, because the
    operators ``ops`` did when the plan was made.
    """

    name: str
    type: TensorType
    variable: ResolvedVar | None
    is_state: bool = False
    data: memoryview | None = field(default=None, repr=False)
    ops: tuple[str, ...] = ()


class UniqueNames:
    """Names that differ: one that is requested again ends with a number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbered: Counter[str] = Counter()

    def of(self, name: str) -> str:
        """Return a name that was not returned before."""
        unique = name
        while unique in self._taken:
            self._numbered[name] += 1
            unique = f"{name}.{self._numbered[name] + 1}"
        self._taken.add(unique)
        return unique


@dataclass(frozen=True, slots=True)
class Room:
    """An extent that steps change, up to a largest one."""

    most: int


@dataclass
class Draft:
    """What lowering finds: values, tables, procedures (callees first), the names that ``entry`` returns, and why
    statements are refused.

    Attributes:
        extents: of values whose shape is known at run time only; their type has the largest shape.
        given: sizes that the caller gives in every step.
        starts: registers that depend on these when a step starts, and that steps change, with their values.
        views: registers for the places of values that may be memory of a state.
        counts: registers that hold what integer scalars are that operators count, by value.
        rooms: extents of variables that take other shapes within a step, as a lowering before this one has shown.
        settled: values that were taken in the shape of their declaration, though a statement may give them another.
        lengths: registers that hold the same at the statement that is lowered.
    """

    values: list[DraftValue] = field(default_factory=list[DraftValue])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, TableUse] = field(default_factory=dict[str, TableUse])
    procedures: list[Procedure] = field(default_factory=list[Procedure])
    returned: dict[str, None] = field(default_factory=dict[str, None])
    refused: list[SynthesisError] = field(default_factory=list[SynthesisError])
    registers: list[PlanRegister] = field(default_factory=list[PlanRegister])
    extents: dict[int, tuple[int | Register, ...]] = field(default_factory=dict[int, "tuple[int | Register, ...]"])
    given: GivenSizes | None = None
    starts: list[tuple[int, Index]] = field(default_factory=list["tuple[int, Index]"])
    views: dict[int, int] = field(default_factory=dict[int, int])
    counts: dict[int, Register] = field(default_factory=dict[int, Register])
    rooms: Mapping[str, tuple[int | Index | Room, ...]] = field(
        default_factory=dict[str, "tuple[int | Index | Room, ...]"]
    )
    settled: set[int] = field(default_factory=set[int])
    lengths: EqualLengths = field(default_factory=EqualLengths)
    _values: UniqueNames = field(default_factory=UniqueNames)
    _symbols: UniqueNames = field(default_factory=UniqueNames)
    _names: dict[ValueRef | Register | str, str] = field(default_factory=dict["ValueRef | Register | str", str])

    def add_variable(self, variable: ResolvedVar) -> int:
        """Add a variable; return the number of its value."""
        value = self.numbers[variable.name] = len(self.values)
        is_state = variable.storage is Storage.PERSISTENT
        self.values.append(DraftValue(variable.name, variable.type, variable, is_state))
        declared = self.declared(variable)
        varies = not all(isinstance(extent, int) for extent in declared)
        if variable.name in self.rooms:
            extents = self.extents[value] = self._own(variable, declared, self.rooms[variable.name])
            largest = tuple(n if isinstance(n, int) else self.registers[n.number].most for n in extents)
            self.values[value] = replace(self.values[value], type=replace(variable.type, shape=largest))
        elif varies and variable.varying:
            pairs = zip(declared, variable.type.shape, strict=True)
            rooms = tuple(extent if isinstance(extent, int) else Room(most) for extent, most in pairs)
            self.extents[value] = self._own(variable, declared, rooms)
        elif varies:
            self.extents[value] = declared
        return value

    def declared(self, variable: ResolvedVar) -> tuple[int | Register, ...]:
        """Return the extents that a variable is declared with."""
        extents = None if self.given is None else self.given.extents(variable.dims, variable.type.shape)
        return variable.type.shape if extents is None else extents

    def _own(
        self, variable: ResolvedVar, declared: Sequence[int | Register], rooms: Sequence[int | Index | Room]
    ) -> tuple[int | Register, ...]:
        """Return extents of a variable that a step may change, with their values when it starts in `starts`."""
        own = list[int | Register]()
        for axis, (first, most, room) in enumerate(zip(declared, variable.type.shape, rooms, strict=True)):
            if isinstance(room, int):
                own.append(room)
            elif isinstance(room, Room):
                number = self.register(f"{variable.name}.{axis}", initial=most, most=max(most, room.most))
                if isinstance(first, Register):
                    self.starts.append((number, self.size(first)))
                own.append(Register(number))
            elif self.given is not None:
                own.append(self.given.extent(room))
        return tuple(own)

    def varies(self, value: int) -> bool:
        """Return whether the shape of a value is known at run time only.

        Where no statement lowered so far gives it another shape than its declaration's, but one that follows may, which
        comes first in the next iteration of a loop or in another block, that is noted in `settled`.
        """
        variable = self.values[value].variable
        if value not in self.extents and variable is not None and variable.varying:
            self.settled.add(value)
        return value in self.extents

    def unsettled(self) -> dict[str, tuple[int | Index | Room, ...]]:
        """Return `rooms` of variables that were taken in their declared shape, or as smaller, than a statement made.

        Lowering again with these gives every statement the shapes that the variables have.
        """
        rooms: dict[str, tuple[int | Index | Room, ...]] = {}
        for value, extents in self.extents.items():
            variable, shape = self.values[value].variable, self.values[value].type.shape
            if variable is None:
                continue
            room = tuple(map(self._room, extents, shape))
            own = [extent for extent in extents if isinstance(extent, Register) and not self.is_given(extent)]
            outgrown = any(
                isinstance(extent, Register)
                and isinstance(most, Room)
                and self.registers[extent.number].most < most.most
                for extent, most in zip(extents, room, strict=True)
            )
            if (own and value in self.settled) or outgrown:
                rooms[variable.name] = room
        return rooms

    def _room(self, extent: int | Register, most: int) -> int | Index | Room:
        if isinstance(extent, int):
            return extent
        of_sizes = None if self.given is None else self.given.extent_of(extent)
        return Room(most) if of_sizes is None else of_sizes

    def add_state(self, variable: ResolvedVar, type: TensorType) -> int:
        """Add a cache, which lies in memory of another type than its entries; return the number of its value."""
        self.numbers[variable.name] = len(self.values)
        self.values.append(DraftValue(variable.name, type, variable, is_state=True))
        return self.numbers[variable.name]

    def add_flags(self, name: str, shape: tuple[int, ...]) -> int:
        """Add truth values that are kept between steps, at first all false; return the number of their value."""
        self.values.append(DraftValue(name, TensorType(BOOL, shape), None, is_state=True))
        return len(self.values) - 1

    def register(self, name: str, *, initial: int = 0, is_kept: bool = False, most: int) -> int:
        """Add a register; return its number."""
        number = len(self.registers)
        self.registers.append(PlanRegister(number=number, name=name, initial=initial, is_kept=is_kept, most=most))
        return number

    def _given_register(self, name: str, most: int, size: str | None, extent: Index | None) -> int:
        number = len(self.registers)
        self.registers.append(
            PlanRegister(number=number, name=name, initial=most, is_kept=False, most=most, size=size, extent=extent)
        )
        return number

    def give(self, most: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        """Let the caller give some sizes in every step, of which ``most`` are the largest values."""
        self.given = GivenSizes(most, sizes, self._given_register, self.size)

    def size(self, extent: int | Register) -> Index:
        """Return an extent as an expression: a number, or the register that holds it."""
        if isinstance(extent, int):
            return Index.of(extent)
        register = self.registers[extent.number]
        return self.read(extent, register.size or register.name)

    def read(self, operand: int | LoopIndex | ValueRef | Register, name: str) -> Index:
        """Return an operand, which is called ``name``, as an expression."""
        if isinstance(operand, int):
            return Index.of(operand)
        # Two registers may be called the same, an expression of both names them apart. Of loops whose indices are
        # called the same, the innermost is meant.
        key = name if isinstance(operand, LoopIndex) else operand
        if key not in self._names:
            self._names[key] = self._symbols.of(name)
        return Index.of(Symbol(self._names[key], operand=operand))

    def words(self, extent: int | Register) -> str:
        """Return what a program calls an extent: registers of those of a variable are named ``x.0``."""
        if isinstance(extent, int):
            return str(extent)
        name, dot, axis = (register := self.registers[extent.number].name).rpartition(".")
        return f"dim {axis} of {name}" if dot and axis.isdigit() else register.removeprefix("size.")

    def equal(self, origin: Origin, statement: str, left: int | Register, right: int | Register) -> EqualStep:
        """Return the test that two extents of a statement are equal."""
        extents = [extent for extent in (left, right) if isinstance(extent, Register)]
        sizes = tuple((self.words(extent), self.size(extent)) for extent in extents)
        demand = Demand(f"{statement}: {self.words(left)} must be {self.words(right)}", sizes)
        return EqualStep(origin=origin, left=self.size(left), right=self.size(right), demand=demand)

    def is_given(self, register: Register) -> bool:
        """Return whether a register is the same throughout a step: it depends on sizes that the caller gives alone."""
        return self.given is not None and self.given.extent_of(register) is not None

    def intermediate(self, name: str, type: TensorType) -> int:
        """Add a value that the program has no name for."""
        self.values.append(DraftValue(self._values.of(name), type, None))
        return len(self.values) - 1
