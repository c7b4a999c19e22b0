"""Operator statements: bound once where everything is known, else once for every value that they depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.dtypes import I64
from openinfer.errors import FeatureMissingError, ShapeError
from openinfer.ir.resolved import RuntimeScalar, integers_of
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpTypeError, SettingType
from openinfer.simulate.compile.counted import counted_outputs, cutting
from openinfer.simulate.compile.names import reader
from openinfer.simulate.program.integers import LoopIndex, value_of, values_of
from openinfer.simulate.state.varying import Varying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openinfer.bound_calls import BoundCall
    from openinfer.ir.resolved import ResolvedOp, SettingValue, UnresolvedSetting
    from openinfer.ir.values import Ref
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.selection import Choice
    from openinfer.simulate.compile.counted import Counted
    from openinfer.simulate.compile.names import Names
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend, DirectCall
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.program.integers import IntReader
    from openinfer.simulate.state.memory import Memory

    Instead: TypeAlias = Callable[[FeatureMissingError], BoundCall]

MOST_BOUND = 4096
"""Most calls that are kept for one statement; when more values occur, binding starts afresh."""

MOST_VIEWS = 64
"""The same where buffers come and go, and keeping calls would keep their memory."""

MOST_PREPARED = 64
"""Most shapes for which a statement keeps what carries it out."""


class OperatorCompiler:
    """Binds operators and copies."""

    def __init__(self, memory: Memory, backend: DeviceBackend, binder: Binder) -> None:
        self._memory = memory
        self._backend = backend
        self._binder = binder

    def compile(self, op: ResolvedOp, names: Names, instead: Instead | None = None) -> BoundCall:
        """Return the call of an operator statement.

        Args:
            instead: returns what is called from then on where a feature turns out to be missing while the program runs.

        Raises:
            FeatureMissingError: one turns out to be missing at once.
        """
        before: list[BoundCall] = []
        fixed: dict[int, Buffer | None] = {}
        late: dict[int, Late] = {}
        for position, ref in enumerate(op.inputs):
            operand = None if ref is None else self._operand(ref, names, before)
            if isinstance(operand, Late):
                late[position] = operand
            else:
                fixed[position] = operand
        outputs = [self._memory.varying(name) or self._memory.buffer(name) for name in op.outputs]
        settings = {name: _setting(value, names) for name, value in op.runtime_settings.items()}
        schema = self._binder.schema(op.op)
        after: list[BoundCall] = []
        if schema.counted:
            counted = counted_outputs(schema, op, outputs, self._backend)
            outputs, after = counted.outputs, self._cuts(op, counted)
        recipe = _Recipe(self._binder, op, fixed, tuple(late), tuple(settings), outputs)
        varies = any(isinstance(output, Varying) for output in outputs)
        if not late and not settings and not varies:
            return in_order([*before, recipe.bind((), ())])
        run = in_order([_bound_late(recipe, list(late.values()), list(settings.values())), *after])
        return in_order([*before, run if instead is None else _elsewhere(run, instead)])

    def _cuts(self, op: ResolvedOp, counted: Counted) -> list[BoundCall]:
        """Return calls that give variables the rows that an operator counted."""
        read = reader(self._backend, counted.count)
        cuts: list[BoundCall] = []
        for number, (whole, target) in counted.taken.items():
            recipe = _Recipe(self._binder, cutting(op, number), {}, (0,), ("ends",), [target])
            cuts.append(_bound_late(recipe, [whole], [lambda: (int(read()),)]))
        return cuts

    def source(self, ref: Ref, names: Names) -> tuple[list[BoundCall], Callable[[], Buffer]]:
        """Return calls to make first, and how to find the buffer of a value that a statement reads."""
        before: list[BoundCall] = []
        operand = self._operand(ref, names, before)
        return before, (operand if isinstance(operand, Late) else lambda: operand)

    def copy(self, source: Ref, target: Buffer | Varying, names: Names, *, takes_shape: bool = False) -> BoundCall:
        """Return a call that copies a value into a buffer, or to a varying variable of the same type.

        Args:
            takes_shape: whether a varying variable takes the shape of the value: no declaration gives it one.
        """
        before: list[BoundCall] = []
        operand = self._operand(source, names, before)
        if isinstance(operand, _Entry) and not isinstance(target, Varying):
            return _entry_copy(operand, target, self._backend)
        if isinstance(target, Varying) and takes_shape:
            return in_order([*before, lambda: self._hold(operand() if isinstance(operand, Late) else operand, target)])
        if isinstance(operand, Late):
            return in_order([*before, lambda: self._copy_now(operand(), target, source.name)])
        if isinstance(target, Varying):
            return in_order([*before, lambda: self._copy_now(operand, target, source.name)])
        return in_order([*before, self.copy_buffer(operand, target)])

    def copy_buffer(self, source: Buffer, target: Buffer | Varying) -> BoundCall:
        """Return a call that copies a buffer into another of its shape, or to a variable that takes this shape."""
        if isinstance(target, Varying):
            return lambda: self._hold(source, target)
        return in_order([]) if source is target else self._backend.bind_copy(source, target)

    def _copy_now(self, source: Buffer, target: Buffer | Varying, name: str) -> None:
        wanted = target.current.type if isinstance(target, Varying) else target.type
        if source.type != wanted:
            raise ShapeError(f"`{name}` is {source.type} here, the target is {wanted}")
        if isinstance(target, Varying):
            self._hold(source, target)
        elif source is not target:
            self._backend.bind_copy(source, target)()

    def _hold(self, source: Buffer, target: Varying) -> None:
        own = target.buffer(source.type)
        if source is not own:
            self._backend.bind_copy(source, own)()
        target.hold(own)

    def names_read(self, op: ResolvedOp, names: Names) -> Iterator[str]:
        """Yield the variables that settings read when the operator runs."""
        for setting in op.runtime_settings.values():
            if not isinstance(setting, RuntimeScalar):
                yield from names.scalars_in(*setting.exprs)
            elif names.index(setting.name) is None:
                yield setting.name

    def _operand(self, ref: Ref, names: Names, before: list[BoundCall]) -> Buffer | Late:
        """Return a buffer, or a function that finds it when the statement runs."""
        index = names.index(ref.name)
        if index is not None and not ref.indices:
            buffer = self._backend.allocate(TensorType(I64))
            before.append(lambda: self._backend.write(buffer, np.array(index.value, np.int64)))
            return buffer
        if ref.name not in self._memory.tables:
            return self._memory.varying(ref.name) or self._memory.buffer(ref.name)
        indices = tuple(names.integer(index) for index in ref.indices)
        constants = tuple(index for index in indices if isinstance(index, int))
        return (
            self._memory.entry(ref.name, constants)
            if len(constants) == len(indices)
            else _Entry(self._memory, ref.name, indices)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """An entry of a prefix table whose indices are only known when the statement runs."""

    memory: Memory
    name: str
    indices: tuple[int | IntReader, ...]

    def __call__(self) -> Buffer:
        return self.memory.entry(self.name, values_of(self.indices))


Late: TypeAlias = _Entry | Varying
"""A value whose buffer is found when the statement runs, by calling it."""


def _entry_copy(source: _Entry, target: Buffer, backend: DeviceBackend) -> BoundCall:
    calls: dict[tuple[int, ...], BoundCall] = {}

    def run() -> None:
        indices = values_of(source.indices)
        if indices not in calls:
            if len(calls) >= MOST_BOUND:
                calls.clear()
            calls[indices] = backend.bind_copy(source.memory.entry(source.name, indices), target)
        calls[indices]()

    return run


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound call, and the buffers that varying variables hold afterwards."""

    call: BoundCall
    results: tuple[tuple[Varying, Buffer], ...]

    def run(self) -> None:
        self.call()
        for variable, buffer in self.results:
            variable.hold(buffer)


@dataclass(frozen=True, slots=True)
class _Recipe:
    """An operator statement with what is known of it; `bind` adds the rest.

    What follows from shapes and settings alone is kept in ``prepared``, since buffers of one shape come and go.
    """

    binder: Binder
    op: ResolvedOp
    fixed: Mapping[int, Buffer | None]
    late_inputs: tuple[int, ...]
    late_settings: tuple[str, ...]
    outputs: list[Buffer | Varying]
    prepared: dict[tuple[object, ...], tuple[Choice, DirectCall | None]] = field(
        default_factory=dict[tuple[object, ...], "tuple[Choice, DirectCall | None]"]
    )

    def bind(self, late_buffers: tuple[Buffer, ...], late: tuple[SettingValue, ...]) -> BoundCall:
        """Return the bound call for some buffers of late inputs and values of settings."""
        buffers = self._inputs(late_buffers)
        prepared, _ = self._prepared(late_buffers, buffers, late)
        outputs: list[Buffer] = []
        results: list[tuple[Varying, Buffer]] = []
        for kind, output in zip(prepared.call.outputs, self.outputs, strict=False):
            outputs.append(output.buffer(kind) if isinstance(output, Varying) else output)
            if isinstance(output, Varying):
                results.append((output, outputs[-1]))
        bound = self.binder.bind_prepared(prepared, buffers, outputs)
        return _Bound(bound, tuple(results)).run if results else bound

    def has_run(self, late_buffers: tuple[Buffer, ...], late: tuple[SettingValue, ...]) -> bool:
        """Run the operator without binding it, if it can be run so here."""
        buffers = self._inputs(late_buffers)
        prepared, work = self._prepared(late_buffers, buffers, late)
        if work is None or len(self.outputs) < len(prepared.call.outputs):
            return False
        outputs: list[Buffer] = []
        results: list[tuple[Varying, Buffer]] = []
        for kind, output in zip(prepared.call.outputs, self.outputs, strict=True):
            if isinstance(output, Varying):
                buffer = output.buffer(kind)
                results.append((output, buffer))
            else:
                buffer = output
            for operand in buffers:
                if operand is buffer:
                    return False
            outputs.append(buffer)
        work(buffers, outputs)
        for varying, buffer in results:
            varying.hold(buffer)
        return True

    def _inputs(self, late_buffers: tuple[Buffer, ...]) -> list[Buffer | None]:
        inputs: list[Buffer | None] = [self.fixed.get(position) for position in range(len(self.op.inputs))]
        for position, buffer in zip(self.late_inputs, late_buffers, strict=True):
            inputs[position] = buffer
        return inputs

    def _prepared(
        self, late_buffers: tuple[Buffer, ...], buffers: list[Buffer | None], late: tuple[SettingValue, ...]
    ) -> tuple[Choice, DirectCall | None]:
        declared = [output.current.type if isinstance(output, Varying) else output.type for output in self.outputs]
        shapes = [buffer.type.shape for buffer in late_buffers]
        key = (*shapes, *[kind.shape for kind in declared], repr(late) if late else "")
        pair = self.prepared.get(key)
        if pair is None:
            if len(self.prepared) >= MOST_PREPARED:
                self.prepared.clear()
            prepared = self._prepare(buffers, late, declared)
            pair = self.prepared[key] = prepared, self.binder.direct(prepared)
        return pair

    def _prepare(
        self, buffers: list[Buffer | None], late: tuple[SettingValue, ...], declared: list[TensorType]
    ) -> Choice:
        schema = self.binder.schema(self.op.op)
        settings = {**self.op.settings, **self._converted(schema, late)}
        types = [None if buffer is None else buffer.type for buffer in buffers]
        call = call_of(schema, types, settings, declared)
        for kind, output, name in zip(call.outputs, self.outputs, self.op.outputs, strict=False):
            _check_output(self.op.op, kind, output, name)
        return self.binder.prepare(call)

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
        return lambda: integers_of(value.exprs, values_of(readers))
    return lambda: value_of(readers[0])


def _check_output(op: str, yielded: TensorType, output: Buffer | Varying, name: str) -> None:
    """Check a result against the variable that takes it; a varying one takes any extents of as many dims."""
    wanted = output.declared.type if isinstance(output, Varying) else output.type
    if yielded.dtype is not wanted.dtype:
        raise OpTypeError(f"{op} yields {yielded}, `{name}` is declared {wanted}", code="output-dtype")
    takes_extents = isinstance(output, Varying) and len(yielded.shape) == len(wanted.shape)
    if yielded.shape != wanted.shape and not takes_extents:
        raise OpTypeError(f"{op} yields {yielded}, `{name}` is declared {wanted}")


def _bound_late(recipe: _Recipe, late: list[Late], settings: list[Callable[[], SettingValue]]) -> BoundCall:
    """Return a call that binds the operator for the buffers and settings of the moment, once for each."""
    varies = any(isinstance(varying, Varying) for varying in (*late, *recipe.outputs))
    index = None if settings or varies else _only_index(late)
    if index is not None:
        return _bound_by_index(recipe, late, index)
    most = MOST_VIEWS if varies else MOST_BOUND
    # Buffers are told apart by identity, so the ones that calls were bound for are kept with them.
    calls: dict[tuple[object, ...], tuple[BoundCall, tuple[Buffer, ...]]] = {}

    def run() -> None:
        late_buffers = tuple([read() for read in late])
        values = tuple([read() for read in settings])
        key = (*map(id, late_buffers), repr(values)) if values else tuple(map(id, late_buffers))
        bound = calls.get(key)
        if bound is None:
            if varies and recipe.has_run(late_buffers, values):
                return
            if len(calls) >= most:
                calls.clear()
            bound = calls[key] = recipe.bind(late_buffers, values), late_buffers
        bound[0]()

    return run


def _elsewhere(run: BoundCall, instead: Instead) -> BoundCall:
    """Return a call that switches permanently to another if a hardware feature is missing when it is bound."""
    other: BoundCall | None = None

    def call() -> None:
        nonlocal other
        if other is None:
            try:
                run()
            except FeatureMissingError as error:
                other = instead(error)
            else:
                return
        other()

    return call


def _only_index(late: list[Late]) -> LoopIndex | None:
    """Return the loop index that alone selects the entries; None if they depend on more."""
    indices = {
        index for entry in late if isinstance(entry, _Entry) for index in entry.indices if not isinstance(index, int)
    }
    only = indices.pop() if len(indices) == 1 and all(isinstance(entry, _Entry) for entry in late) else None
    return only if isinstance(only, LoopIndex) else None


def _bound_by_index(recipe: _Recipe, late: list[Late], index: LoopIndex) -> BoundCall:
    """Do what `_bound_late` does where one loop index decides: the common case, which has to be quick."""
    calls: dict[int, BoundCall] = {}

    def run() -> None:
        value = index.value
        call = calls.get(value)
        if call is None:
            if len(calls) >= MOST_BOUND:
                calls.clear()
            call = calls[value] = recipe.bind(tuple([read() for read in late]), ())
        call()

    return run
