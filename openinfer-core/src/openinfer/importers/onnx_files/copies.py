"""Which values of a program always equal others: what calls such as a product by 1 give back."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.branches import BranchCall
from openinfer.importers.onnx_files.elements import uniform
from openinfer.importers.onnx_files.loops import LoopCall
from openinfer.importers.onnx_files.merging import SAME_ORDER, holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Call, Program, Value

_NEUTRAL: Mapping[str, int] = MappingProxyType({"add": 0, "div": 1, "mul": 1, "or": 0, "pow": 1, "sub": 0, "xor": 0})
"""The second operand with which an operator gives its first one back; a sum of floats may change the sign of 0."""

_ORDERED = ("div", "pow", "sub")
"""Those of them whose operands may not change places."""

_CHOOSING = ("and", "max", "min", "or", "where")
"""Operators of two operands, at the end, that give back one of them where both are equal."""

_INVOLUTIONS = ("neg", "not")
"""Operators that undo themselves."""


class Copies:
    """Values by their sources: those of the same elements in the same order, maybe in another shape or a wider type."""

    def __init__(self, program: Program) -> None:
        self._sources: dict[int, Value] = {}
        self._writers: dict[int, Call] = {}
        self._follow(program.calls)

    def is_copy(self, value: Value, source: Value) -> bool:
        """Whether a value always equals another, of its shape and type."""
        has_type_of = value.dtype is source.dtype and value.dims == source.dims
        return value is source or (has_type_of and self._source(value) is source)

    def _source(self, value: Value) -> Value:
        return self._sources.get(id(value), value)

    def _follow(self, calls: Iterable[Call]) -> None:
        for call in calls:
            if isinstance(call, LoopCall):
                self._follow_loop(call)
                continue
            if isinstance(call, BranchCall):
                for side in call.sides:
                    self._follow(side.calls)
            for place, result in enumerate(call.outputs):
                self._writers[id(result)] = call
                self._note(result, self._returned(call, place))

    def _note(self, result: Value, returned: Sequence[Value | None]) -> None:
        """Note the source of a result that is one of some values, where all have one source."""
        sources = {id(value): value for value in (None if x is None else self._source(x) for x in returned)}
        source = next(iter(sources.values()), None)
        if source is not None and len(sources) == 1 and holds(result.dtype, source.dtype):
            self._sources[id(result)] = source

    def _follow_loop(self, call: LoopCall) -> None:
        if call.loop is None:
            return
        self._follow(call.loop.calls)
        for carried in call.loop.carried:
            if self.is_copy(carried.written, carried.before):
                self._note(carried.after, [carried.initial])

    def _returned(self, call: Call, place: int) -> Sequence[Value | None]:
        """Return values of which a result is one; none where it may be another."""
        if isinstance(call, BranchCall):
            return [side.results[place] for side in call.sides]
        if call.op in SAME_ORDER:
            return call.inputs[:1]
        candidates = self._candidates(call)
        # Of what is broadcast there are more elements.
        is_whole = all(x is not None and x.dims == call.outputs[0].dims for x in candidates)
        return candidates if is_whole else ()

    def _candidates(self, call: Call) -> Sequence[Value | None]:
        if call.op == "cast":
            return call.inputs[:1]
        if call.op in _INVOLUTIONS:
            inner = self._writer(call.inputs[0])
            return inner.inputs[:1] if inner is not None and inner.op == call.op else ()
        kept = self._kept_operand(call)
        if kept is not None:
            return [kept]
        return call.inputs[-2:] if call.op in _CHOOSING else ()

    def _kept_operand(self, call: Call) -> Value | None:
        """Return the operand that a call gives back since the other one is neutral; None where neither is."""
        if call.op != "and" and call.op not in _NEUTRAL:
            return None
        x, other = call.inputs[:2]
        neutral = _all_bits(call.outputs[0].dtype) if call.op == "and" else _NEUTRAL[call.op]
        if self._number(other) == neutral:
            return x
        return other if call.op not in _ORDERED and self._number(x) == neutral else None

    def _number(self, value: Value | None) -> int | float | bool | None:
        """Return the number that a value is all over; None where it is not, or is not known."""
        while value is not None and value.payload is None:
            call = self._writer(value)
            if call is None or call.op not in ("expand", *SAME_ORDER):
                return None
            value = call.inputs[0]
        return None if value is None else uniform(value.known)

    def _writer(self, value: Value | None) -> Call | None:
        return self._writers.get(id(value))


def _all_bits(dtype: DType) -> int | None:
    """Return the integer of which all bits are set; True of bool."""
    if not dtype.is_integer:
        return 1
    return -1 if dtype.minimum else dtype.maximum
