"""Patterns of calls that one operator computes: what a pattern needs to know of a program, and how it is replaced.

The last call of a pattern becomes the operator, in its place; calls that nobody needs then are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Call, Program, Setting, Value

Idiom: TypeAlias = "Callable[[Calls, Call], bool]"
"""Looks whether a call is the last of a pattern, replaces it if so, and returns whether it did."""

_IDIOMS: dict[str, list[Idiom]] = {}


def ends_with(*ops: str) -> Callable[[Idiom], Idiom]:
    """Register an idiom whose last call is of one of these operators."""

    def register(idiom: Idiom) -> Idiom:
        for op in ops:
            _IDIOMS.setdefault(op, []).append(idiom)
        return idiom

    return register


def idioms_ending_with(op: str) -> Sequence[Idiom]:
    """Return the idioms of the modules that are imported whose last call is of this operator."""
    return _IDIOMS.get(op, ())


SAME_SHAPE = ("gelu", "silu", "layer_norm", "rms_norm")
"""Operators of patterns whose result has the shape of their first input."""


class Calls:
    """Who writes and who reads the values of a program.

    Attributes:
        halves: halves of tables that patterns share, by the identity of the table.
    """

    def __init__(self, program: Program) -> None:
        self._writers = {id(value): call for call in program.calls for value in call.outputs}
        self._readers: dict[int, int] = {}
        self._before: dict[int, list[Call]] = {}
        self._after: dict[int, list[Call]] = {}
        self.halves: dict[int, Value] = {}
        self._transposed: dict[int, tuple[Value, Value]] = {}
        for call in program.calls:
            for value in call.reads():
                self._readers[id(value)] = self._readers.get(id(value), 0) + 1
        for _, value in program.outputs:
            self._readers[id(value)] = self._readers.get(id(value), 0) + 2

    def transposed(self, matrix: Value) -> Value:
        """Return a known matrix with rows and columns exchanged: one for all patterns that ask for it."""
        kept = self._transposed.get(id(matrix))
        if kept is None:
            # The matrix is kept too, so that its identity stays its own.
            kept = matrix, known(matrix.array().T, matrix.dtype, matrix.name)
            self._transposed[id(matrix)] = kept
        return kept[1]

    def writer(self, value: Value | None, *ops: str) -> Call | None:
        """Return the call that writes a value, where it is of one of these operators."""
        call = None if value is None else self._writers.get(id(value))
        return call if call is not None and (not ops or call.op in ops) else None

    def inner(self, value: Value | None, *ops: str) -> Call | None:
        """Return the call that writes a value which nobody else reads, where it is of one of these operators."""
        call = self.writer(value, *ops)
        return call if call is not None and all(self._readers.get(id(v), 0) <= 1 for v in call.outputs) else None

    def count(self, value: Value) -> int:
        """Return how often calls read a value."""
        return self._readers.get(id(value), 0)

    def before(self, call: Call, made: Sequence[Call]) -> None:
        """Put calls in front of one, once every call has been compared with the patterns."""
        self._before.setdefault(id(call), []).extend(made)
        self._writers.update({id(value): new for new in made for value in new.outputs})

    def after(self, call: Call, made: Sequence[Call]) -> None:
        """Put calls after one, once every call has been compared with the patterns."""
        self._after.setdefault(id(call), []).extend(made)

    def with_neighbours(self, call: Call) -> Sequence[Call]:
        """Return a call with those that belong in front of it and after it."""
        return [*self._before.get(id(call), ()), call, *self._after.get(id(call), ())]

    def replace(
        self, call: Call, op: str, inputs: Sequence[Value | None], settings: Mapping[str, Setting] | None = None
    ) -> bool:
        """Make a call another one with the same result; return whether it was, since its type has to stay.

        Constants of more dims than the value that they are combined with give the result these dims.
        """
        x = inputs[0]
        if op in SAME_SHAPE and (x is None or x.dims != call.outputs[0].dims):
            return False
        call.op, call.inputs, call.settings, call.declared = op, tuple(inputs), dict(settings or {}), False
        return True

    def factors(self, value: Value) -> tuple[float, list[Value]]:
        """Return a product as a number and values: products and quotients that nobody else reads are followed."""
        number = 1.0
        values: list[Value] = []
        waiting = [(value, True)]
        while waiting:
            current, is_root = waiting.pop()
            scalar = scalar_value(current)
            if scalar is not None:
                number *= scalar
                continue
            call = self.writer(current, "mul", "div") if is_root else self.inner(current, "mul", "div")
            a, b = (call.inputs[0], call.inputs[1]) if call is not None else (None, None)
            if call is None or a is None or b is None:
                values.append(current)
            elif call.op == "mul":
                waiting += [(b, False), (a, False)]
            else:
                divisor = scalar_value(b)
                if not divisor:
                    values.append(current)
                else:
                    number /= divisor
                    waiting.append((a, False))
        return number, values

    def terms(self, value: Value) -> tuple[float, list[Value]] | None:
        """Return a sum of two as a number and values; None where it is none."""
        call = self.inner(value, "add", "sub")
        a, b = (call.inputs[0], call.inputs[1]) if call is not None else (None, None)
        if call is None or a is None or b is None:
            return None
        left, right = scalar_value(a), scalar_value(b)
        if call.op == "sub":
            return (-right, [a]) if right is not None else None
        number = (left or 0.0) + (right or 0.0)
        return number, [given for given, scalar in ((a, left), (b, right)) if scalar is None]


def scalar_value(value: Value | None) -> float | None:
    """Return the number that a known value of one element is, or None."""
    if value is None or value.payload is None or value.payload.count != 1:
        return None
    return float(scalar_of(value.array(), value.dtype))


def permutation(call: Call) -> tuple[int, ...]:
    """Return the axes of the input of a transpose in the order of its result, counted from 0."""
    rank = call.outputs[0].rank
    perm = call.settings.get("perm")
    if not isinstance(perm, tuple):
        return tuple(range(rank))[::-1]
    return tuple(axis % rank for axis in perm if isinstance(axis, int))


ROUNDING = {"f16": 2e-3, "bf16": 1.6e-2}
"""How far numbers may lie from those that are meant, relative to these, by the element type of a model."""


def close(left: float | None, right: float, dtype: DType) -> bool:
    """Whether two numbers are equal but for rounding to the element type of a model."""
    return left is not None and abs(left - right) <= ROUNDING.get(dtype.name, 2e-6) * abs(right)
