"""From which range random values of each input of a program come."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from openinfer.dtypes import BOOL
from openinfer.errors import OpenInferError
from openinfer.expr.linear import linearise
from openinfer.ir.resolved import Filled, FromTensor, Storage
from openinfer.ops.applying import scalar_expression
from openinfer.random_inputs.flow import Flow
from openinfer.random_inputs.indices import angle_inputs, index_inputs
from openinfer.random_inputs.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from openinfer.dtypes import DType
    from openinfer.ir.resolved import ResolvedGraph, ResolvedVar
    from openinfer.model import Model
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.random_inputs.flow import Statement
    from openinfer.random_inputs.indices import IndexInput

Part = TypeVar("Part")

WIDE = 1 << 20
"""Magnitude of random integers of more than 16 bits: beyond every narrower type, and exact in f32."""

MOST_STEERING = 7
"""The greatest random number that decides how often something runs, or where."""

MOST_ANGLE = 127
"""The greatest random integer that becomes an angle: f32 holds larger ones times a frequency to few digits."""


_MOST_OFFSET = 17
"""How far from 0 on the least index is searched: ids may begin at 1."""

_UNWRITTEN = Interval(0, 0)
"""Stands for a variable without a value; compared by identity."""


class Specials(IntEnum):
    """Special floats among random ones, each with those before it."""

    NONE = 0
    NORMAL = 1
    """Zeros of both signs, the least normal and large numbers: devices differ in what they make of others."""

    FINITE = 2
    """Subnormal numbers too."""

    ALL = 3
    """Infinities and NaN too."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The values that an input is drawn from.

    Attributes:
        bounds: least and greatest.
        use: what the program does with them that sets the bounds; empty where the type alone does.
        specials: which floats a step of special values has.
    """

    bounds: Interval
    use: str = ""
    specials: Specials = Specials.NONE

    @property
    def is_wide(self) -> bool:
        """Whether these are integers of a wide type for which the program sets no bounds."""
        return not self.use and self.bounds.high > 255


def range_of_type(dtype: DType) -> Interval:
    """Return what is drawn of a type: all values of up to 16 bits, wide ranges of other integers, -1 to 1 of floats."""
    if dtype.is_float:
        return Interval(-1, 1)
    low, high = dtype.minimum or 0, 1 if dtype is BOOL else dtype.maximum or 0
    return Interval(low, high) if dtype.bits <= 16 else Interval(max(low, -WIDE), min(high, WIDE))


def input_ranges(
    program: ResolvedGraph, model: Model, inputs: Iterable[str], environment: Environment
) -> dict[str, ValueRange]:
    """Return the range of each input: of its type, or less where the program indexes, counts or turns with it."""
    flow = Flow(program, environment)
    names = list(inputs)
    ranges = {name: ValueRange(range_of_type(program.variables[name].type.dtype)) for name in names}
    narrowing = _Narrowing(program, model, flow, ranges)
    narrowing.steer()
    narrowing.turn()
    narrowing.index()
    return {
        name: replace(found, specials=_specials(flow, name, program.variables[name].type.dtype, found.use))
        for name, found in ranges.items()
    }


class _Narrowing:
    """Narrows the ranges of the inputs of a program."""

    def __init__(self, program: ResolvedGraph, model: Model, flow: Flow, ranges: dict[str, ValueRange]) -> None:
        self._program = program
        self._model = model
        self._flow = flow
        self._ranges = ranges

    def steer(self) -> None:
        """Keep inputs small that decide how often something runs, or where."""
        for name in self._flow.steering():
            for source in self._flow.before(name, _keeps_bounds) & self._ranges.keys():
                self._narrow(source, Interval(0, MOST_STEERING), "sizes, places or counts")

    def turn(self) -> None:
        """Keep wide integers small that become angles."""
        for statement, position in self._calls(angle_inputs):
            name = statement.inputs[position]
            for source in self._flow.before(name) & self._ranges.keys() if name is not None else ():
                if self._program.variables[source].type.dtype.is_integer and self._ranges[source].is_wide:
                    self._narrow(source, Interval(0, MOST_ANGLE), "angles")

    def index(self) -> None:
        """Keep indices below the extent of what they index."""
        constraints: dict[str, list[IndexInput]] = {}
        for statement, index in self._calls(index_inputs):
            name = statement.inputs[index.position]
            if name is not None:
                constraints.setdefault(name, []).append(index)
        for name, indices in constraints.items():
            names = self._flow.before(name, _keeps_bounds)
            sources = names & self._ranges.keys()
            legal = Interval(max(index.legal.low for index in indices), min(index.legal.high for index in indices))
            bounds = self._legal_inputs(name, names, sources, legal) if sources else None
            if bounds is None:
                continue
            for source in sources:
                self._narrow(source, bounds, f"indices below {int(bounds.high) + 1}")

    def _calls(self, parts: Callable[[OpSchema, OpCall], Iterable[Part]]) -> Iterator[tuple[Statement, Part]]:
        """Yield the parts of each call whose settings are known; a definition that fails without sizes has none."""
        for statement in self._flow.statements:
            if statement.op is None or statement.op.runtime_settings or not statement.schema or not statement.call:
                continue
            with suppress(OpenInferError):
                yield from [(statement, part) for part in parts(statement.schema, statement.call)]

    def _narrow(self, name: str, bounds: Interval, use: str) -> None:
        before = self._ranges[name]
        if self._program.variables[name].type.dtype.is_float and not before.use:
            self._ranges[name] = ValueRange(bounds, use)
        elif bounds.high < before.bounds.high or not before.use:
            high = min(before.bounds.high, bounds.high)
            self._ranges[name] = ValueRange(Interval(min(max(before.bounds.low, bounds.low), high), high), use)

    def _legal_inputs(self, name: str, names: set[str], sources: set[str], legal: Interval) -> Interval | None:
        """Return the widest range of inputs, from near 0 on, for which a variable has legal values; None for none."""
        start = {other: self._at_start(self._program.variables.get(other)) for other in names - sources}
        start = {other: interval for other, interval in start.items() if interval is not _UNWRITTEN}

        def is_legal(low: int, high: int) -> bool:
            tops = {source: min(high, self._top(source)) for source in sources}
            inputs = {source: Interval(min(low, top), top) for source, top in tops.items()}
            reached = self._flow.intervals(names, start | inputs).get(name)
            return reached is not None and legal.holds(reached)

        low = next((low for low in range(_MOST_OFFSET) if is_legal(low, low)), None)
        if low is None:
            return None
        high, past = low, low + int(legal.high - legal.low) + 2
        while past - high > 1:
            middle = (high + past) // 2
            high, past = (middle, past) if is_legal(low, middle) else (high, middle)
        return Interval(low, high)

    def _top(self, name: str) -> float:
        """Return the greatest number that an input holds."""
        greatest = self._program.variables[name].type.dtype.maximum
        return float("inf") if greatest is None else greatest

    def _at_start(self, variable: ResolvedVar | None) -> Interval | None:
        """Return what a variable can be before a statement writes it; `_UNWRITTEN` where nothing reads it before."""
        if variable is None or variable.type.dtype.is_packed:
            return None
        match variable.initial:
            case _ if variable.storage is Storage.TEMPORARY:
                return _UNWRITTEN
            case Filled(value) if isfinite(value):
                return Interval(value, value)
            case FromTensor(tensor):
                values = np.asarray(self._model.load_tensor(tensor))
                numbers = values.astype(np.float64) if values.dtype.kind in "fV" else values
                bounds = Interval(float(numbers.min()), float(numbers.max())) if numbers.size else _UNWRITTEN
                return bounds if isfinite(bounds.low) and isfinite(bounds.high) else None
            case _:
                return None if variable.initial is not None else _UNWRITTEN


def _keeps_bounds(statement: Statement) -> bool:
    return statement.carries or statement.is_elementwise


def _specials(flow: Flow, name: str, dtype: DType, use: str) -> Specials:
    """Return which special floats mean something in an input.

    A sum of infinities is NaN in one order of its terms and not in another, and a float beyond an integer's range is
    converted as each machine likes.
    """
    if not dtype.is_float or use:
        return Specials.NONE
    statements = flow.after(name)
    if any(_becomes_integer(statement) for statement in statements if statement.is_elementwise):
        return Specials.NONE
    return Specials.ALL if all(map(_keeps_bounds, statements)) else Specials.FINITE


def _becomes_integer(statement: Statement) -> bool:
    """Whether an expression of a statement converts a float to an integer."""
    if statement.schema is None or statement.call is None:
        return False
    instructions = linearise(scalar_expression(statement.schema, statement.call)).instructions
    return any(
        instruction.function == "cast"
        and not instruction.dtype.is_float
        and any(instructions[number].dtype.is_float for number in instruction.operands)
        for instruction in instructions
    )
