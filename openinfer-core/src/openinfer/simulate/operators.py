"""Operator statements: bound once where everything is known, else once for every value that they depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.dtypes import I64
from openinfer.errors import DTypeError, ShapeError
from openinfer.ir.resolved import RuntimeScalar
from openinfer.ir.types import TensorType
from openinfer.ops.calls import call_of
from openinfer.ops.schema import SettingType
from openinfer.simulate.binding import in_order
from openinfer.simulate.integers import LoopIndex, value_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openinfer.ir.resolved import ResolvedOp, SettingValue, UnresolvedSetting
    from openinfer.ir.values import Ref
    from openinfer.ops.schema import OpSchema
    from openinfer.simulate.backend import BoundCall, Buffer, DeviceBackend
    from openinfer.simulate.binding import Binder
    from openinfer.simulate.integers import IntReader
    from openinfer.simulate.memory import Memory
    from openinfer.simulate.names import Names

    Source: TypeAlias = "Buffer | Callable[[], Buffer]"
    """A buffer, or how to find the one that is meant at this moment."""

MOST_BOUND = 4096
"""Most calls that are kept for one statement; when more values occur, binding starts afresh."""


class OperatorCompiler:
    """Binds operators and copies."""

    def __init__(self, memory: Memory, backend: DeviceBackend, binder: Binder) -> None:
        self._memory = memory
        self._backend = backend
        self._binder = binder

    def compile(self, op: ResolvedOp, names: Names) -> BoundCall:
        """Return the call of an operator statement."""
        outputs = [self._memory.buffer(name) for name in op.outputs]
        before: list[BoundCall] = []
        fixed: dict[int, Buffer | None] = {}
        entries: dict[int, tuple[Ref, tuple[int | IntReader, ...]]] = {}
        for position, ref in enumerate(op.inputs):
            found = None if ref is None else self._operand(ref, names, before)
            if ref is not None and isinstance(found, tuple):
                entries[position] = (ref, found)
            else:
                fixed[position] = None if isinstance(found, tuple) else found
        settings = {name: _setting(value, names) for name, value in op.runtime_settings.items()}
        recipe = _Recipe(self._memory, self._binder, op, fixed, entries, tuple(settings), outputs)
        if not entries and not settings:
            return in_order([*before, recipe.bind((), ())])
        return in_order([*before, _bound_late(recipe, entries, list(settings.values()))])

    def copy(self, source: Ref, target: Buffer, names: Names) -> BoundCall:
        """Return a call that copies a value into a buffer of the same type."""
        before: list[BoundCall] = []
        found = self._operand(source, names, before)
        if not isinstance(found, tuple):
            if found is target:
                return in_order([])
            return in_order([*before, self._backend.bind_copy(found, target)])
        calls: dict[tuple[int, ...], BoundCall] = {}

        def run() -> None:
            indices = values_of(found)
            if indices not in calls:
                if len(calls) >= MOST_BOUND:
                    calls.clear()
                calls[indices] = self._backend.bind_copy(self._memory.entry(source.name, indices), target)
            calls[indices]()

        return run

    def names_read(self, op: ResolvedOp, names: Names) -> Iterator[str]:
        """Yield the variables that settings read when the operator runs."""
        for setting in op.runtime_settings.values():
            if not isinstance(setting, RuntimeScalar):
                yield from names.scalars_in(*setting.exprs)
            elif names.index(setting.name) is None:
                yield setting.name

    def _operand(self, ref: Ref, names: Names, before: list[BoundCall]) -> Buffer | tuple[int | IntReader, ...]:
        """Return a buffer, or the indices of a prefix entry that are only known when the statement runs."""
        index = names.index(ref.name)
        if index is not None and not ref.indices:
            buffer = self._backend.allocate(TensorType(I64))
            before.append(lambda: self._backend.write(buffer, np.array(index.value, np.int64)))
            return buffer
        if ref.name not in self._memory.tables:
            return self._memory.buffer(ref.name)
        indices = tuple(names.integer(each) for each in ref.indices)
        known = tuple(each for each in indices if isinstance(each, int))
        return self._memory.entry(ref.name, known) if len(known) == len(indices) else indices


@dataclass(frozen=True, slots=True)
class _Recipe:
    """An operator statement with what is known of it; `bind` adds the rest."""

    memory: Memory
    binder: Binder
    op: ResolvedOp
    fixed: Mapping[int, Buffer | None]
    entries: Mapping[int, tuple[Ref, tuple[int | IntReader, ...]]]
    late_settings: tuple[str, ...]
    outputs: list[Buffer] = field(default_factory=list["Buffer"])

    def bind(self, indices: tuple[tuple[int, ...], ...], late: tuple[SettingValue, ...]) -> BoundCall:
        """Return the bound call for some entries and values of settings."""
        inputs = dict(self.fixed)
        for (position, (ref, _)), index in zip(self.entries.items(), indices, strict=True):
            inputs[position] = self.memory.entry(ref.name, index)
        buffers = [inputs[position] for position in range(len(self.op.inputs))]
        schema = self.binder.schema(self.op.op)
        settings = {**self.op.settings, **self._converted(schema, late)}
        types = [None if buffer is None else buffer.type for buffer in buffers]
        call = call_of(schema, types, settings, [buffer.type for buffer in self.outputs])
        for found, buffer, name in zip(call.outputs, self.outputs, self.op.outputs, strict=False):
            if found.dtype is not buffer.type.dtype:
                raise DTypeError(f"{self.op.op} yields {found}, `{name}` is declared {buffer.type}")
            if found.shape != buffer.type.shape:
                raise ShapeError(f"{self.op.op} yields {found}, `{name}` is declared {buffer.type}")
        return self.binder.bind(call, buffers, self.outputs)

    def _converted(self, schema: OpSchema, late: tuple[SettingValue, ...]) -> dict[str, SettingValue]:
        converted: dict[str, SettingValue] = {}
        for name, value in zip(self.late_settings, late, strict=True):
            spec = schema.setting(name)
            floating = spec is not None and spec.type is SettingType.FLOAT
            converted[name] = float(value) if floating and isinstance(value, int | float) else value
        return converted


def _setting(value: UnresolvedSetting, names: Names) -> Callable[[], SettingValue]:
    if isinstance(value, RuntimeScalar):
        return names.scalar(value.name)
    readers = [names.integer(expr) for expr in value.exprs]
    if value.is_list:
        return lambda: values_of(readers)
    return lambda: value_of(readers[0])


def _bound_late(
    recipe: _Recipe,
    entries: Mapping[int, tuple[Ref, tuple[int | IntReader, ...]]],
    settings: list[Callable[[], SettingValue]],
) -> BoundCall:
    """Return a call that binds the operator for the indices and settings of the moment, once for each."""
    readers = [indices for _, indices in entries.values()]
    if len(readers) == 1 and len(readers[0]) == 1 and isinstance(readers[0][0], LoopIndex) and not settings:
        return _bound_by_index(recipe, readers[0][0])
    calls: dict[tuple[object, ...], BoundCall] = {}

    def run() -> None:
        indices = tuple(values_of(each) for each in readers)
        late = tuple(read() for read in settings)
        key = (indices, repr(late)) if late else indices
        call = calls.get(key)
        if call is None:
            if len(calls) >= MOST_BOUND:
                calls.clear()
            call = calls[key] = recipe.bind(indices, late)
        call()

    return run


def _bound_by_index(recipe: _Recipe, index: LoopIndex) -> BoundCall:
    """Do what `_bound_late` does where one loop index decides: the common case, which has to be quick."""
    calls: dict[int, BoundCall] = {}

    def run() -> None:
        value = index.value
        call = calls.get(value)
        if call is None:
            if len(calls) >= MOST_BOUND:
                calls.clear()
            call = calls[value] = recipe.bind(((value,),), ())
        call()

    return run
