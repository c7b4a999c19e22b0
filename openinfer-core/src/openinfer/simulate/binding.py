"""Operators bound to buffers: a kernel, an expression, a fold, or a decomposition with its own scratch memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import KernelMissingError
from openinfer.plan import make_plan
from openinfer.plugins.selection import Decomposed, DerivedExpression, DerivedFold, HandWritten, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType
    from openinfer.model import Model
    from openinfer.ops.calls import Decomposition, OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable
    from openinfer.simulate.backend import BoundCall, Buffer, DeviceBackend

MOST_NESTED = 32
"""Deepest decomposition of decompositions; a composite operator that leads back to itself goes past it."""


class Binder:
    """Chooses what carries out a call on a device and binds it."""

    def __init__(self, environment: Environment, table: KernelTable, backend: DeviceBackend) -> None:
        self._environment = environment
        self._table = table
        self._backend = backend

    def on(self, backend: DeviceBackend) -> Binder:
        """Return what binds the same kernels on another backend of the device."""
        return Binder(self._environment, self._table, backend)

    def schema(self, name: str) -> OpSchema:
        """Return the operator of that name."""
        return self._environment.op(name)

    def computes(self, dtype: DType) -> bool:
        """Whether expressions on the device may read, compute and write an element type."""
        return dtype.name in self._table.expression_dtypes

    def plan(self, resolved: ResolvedGraph, model: Model) -> ExecutionPlan:
        """Return the execution plan of a program for the device.

        Raises:
            SynthesisError: a plan cannot hold something in it; the message names the statement.
        """
        return make_plan(resolved, model, self._environment, self._table)

    def bind(
        self, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer], depth: int = 0
    ) -> BoundCall:
        """Return a call of an operator. Outputs may be inputs: all inputs are read before an output is written.

        Trailing ``outputs`` may be missing.

        Raises:
            KernelMissingError: the device cannot carry the call out.
        """
        chosen = select(self._environment, self._table, call)
        if isinstance(chosen, DerivedExpression):
            return self._backend.bind_expression(chosen.expr, inputs, outputs[0])
        targets, copies = self._separate(call, inputs, outputs)
        if isinstance(chosen, HandWritten):
            work = [self._backend.bind_kernel(chosen.kernel, call, inputs, targets)]
        elif isinstance(chosen, DerivedFold):
            source = next(buffer for buffer in inputs if buffer is not None)
            work = [self._backend.bind_fold(chosen.axes, chosen.fold, source, targets[0])]
        elif isinstance(chosen, Decomposed):
            work = self._decomposed(chosen.decomposition, inputs, targets, depth)
        else:
            raise KernelMissingError(chosen.reason)
        return in_order([*work, *copies])

    def _separate(
        self, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]
    ) -> tuple[list[Buffer], list[BoundCall]]:
        """Return one buffer per output, none of which is an input, and the copies that are due afterwards."""
        targets: list[Buffer] = []
        copies: list[BoundCall] = []
        for number, kind in enumerate(call.outputs):
            own = outputs[number] if number < len(outputs) else None
            if own is not None and all(own is not buffer for buffer in inputs):
                targets.append(own)
                continue
            targets.append(self._backend.allocate(kind))
            if own is not None:
                copies.append(self._backend.bind_copy(targets[-1], own))
        return targets, copies

    def _decomposed(
        self, parts: Decomposition, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer], depth: int
    ) -> list[BoundCall]:
        if depth >= MOST_NESTED:
            raise KernelMissingError(f"{parts.steps[0].call.op} decomposes more than {MOST_NESTED} levels deep")
        buffers = {n: b for n, b in zip(parts.inputs, inputs, strict=True) if n is not None and b is not None}
        copies: list[tuple[int, Buffer]] = []
        for number, buffer in zip(parts.outputs, outputs, strict=True):
            if number in buffers:
                copies.append((number, buffer))
            else:
                buffers[number] = buffer
        kept = set(buffers)
        last_uses = {value: place for place, step in enumerate(parts.steps) for value in (*step.inputs, *step.outputs)}
        pool = _Pool(self._backend)
        calls: list[BoundCall] = []
        for place, step in enumerate(parts.steps):
            for value in step.outputs:
                if value not in buffers:
                    buffers[value] = pool.take(parts.values[value])
            given = [None if value is None else buffers[value] for value in step.inputs]
            calls.append(self.bind(step.call, given, [buffers[value] for value in step.outputs], depth + 1))
            for value in {v for v in (*step.inputs, *step.outputs) if v is not None and v not in kept}:
                if last_uses[value] == place:
                    pool.give(buffers[value])
        return [*calls, *(self._backend.bind_copy(buffers[number], buffer) for number, buffer in copies)]


class _Pool:
    """Scratch buffers that are free to be used again, by type."""

    def __init__(self, backend: DeviceBackend) -> None:
        self._backend = backend
        self._free: dict[TensorType, list[Buffer]] = {}

    def take(self, kind: TensorType) -> Buffer:
        free = self._free.get(kind)
        return free.pop() if free else self._backend.allocate(kind)

    def give(self, buffer: Buffer) -> None:
        self._free.setdefault(buffer.type, []).append(buffer)


def in_order(calls: Sequence[BoundCall]) -> BoundCall:
    """Return one call that makes several, in order."""
    if len(calls) == 1:
        return calls[0]
    fixed = tuple(calls)

    def run() -> None:
        for call in fixed:
            call()

    return run
