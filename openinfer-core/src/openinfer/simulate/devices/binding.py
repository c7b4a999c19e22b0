"""Operators bound to buffers: a kernel, an expression, a fold, or a decomposition with its own scratch memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec

from openinfer.arch import DeviceArch, TargetInfo
from openinfer.bound_calls import in_order
from openinfer.errors import FeatureMissingError, KernelMissingError
from openinfer.plan import PlanOptions, limits_of, make_plan
from openinfer.plan.schedules import ScheduleFile
from openinfer.plugins.selection import (
    Computed,
    Decomposed,
    DerivedExpression,
    DerivedFold,
    HandWritten,
    Looped,
    Missing,
    choose,
    select,
)
from openinfer.simulate.devices.backend import ComputationBackend, HostBackend, LoopBackend
from openinfer.simulate.devices.floating_point import restoring_errors
from openinfer.simulate.devices.programs import keeps_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.bound_calls import BoundCall
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType
    from openinfer.model import Model
    from openinfer.ops.calls import Decomposition, OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import Choice, KernelTable
    from openinfer.plugins.types import KernelSpec
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend, DirectCall

P = ParamSpec("P")


class Binder:
    """Chooses what carries out a call on a device and binds it."""

    def __init__(self, environment: Environment, table: KernelTable, backend: DeviceBackend) -> None:
        self._environment = environment
        self._table = table
        self._backend = backend
        # Testing for a protocol goes through all of its members: once for a binder, not for every call.
        self._host = backend if isinstance(backend, HostBackend) else None

    @property
    def device(self) -> str:
        """Name of the device, without its ordinal."""
        return self._table.target

    @property
    def runs_fitting(self) -> bool:
        """Whether programs that the device cannot run whole run node by node."""
        return self._table.fitting_programs

    def on(self, backend: DeviceBackend) -> Binder:
        """Return a binder of the same kernels for another backend of the device."""
        return Binder(self._environment, self._table, backend)

    def schema(self, name: str) -> OpSchema:
        """Return the operator of that name."""
        return self._environment.op(name)

    def computes(self, dtype: DType) -> bool:
        """Whether expressions on the device may read, compute and write an element type."""
        return dtype.name in self._table.expression_dtypes

    def plan(
        self,
        resolved: ResolvedGraph,
        model: Model,
        limits: Mapping[str, int] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> ExecutionPlan:
        """Return the execution plan of a program for the device.

        Args:
            limits: how far caches may grow; those of sizes are ignored.
            sizes: the largest values, at which the program is resolved, of sizes that a step gives; None: the plan is
                for steps of the program's sizes alone.

        Raises:
            SynthesisError: a plan cannot hold something in it; the message names the statement.
        """
        found: object = getattr(self._backend, "arch", None)
        arch = found if isinstance(found, DeviceArch) else None
        given: object = None if arch is None else getattr(self._backend, "schedules", None)
        options = PlanOptions(
            machine=TargetInfo() if arch is None else arch.machine,
            schedules=given if isinstance(given, ScheduleFile) else None,
            limits=limits_of(resolved.graph, model, limits or {}).caches,
            given=sizes or {},
            # Every variable that a step wrote can be fetched after it: where nodes could run again, only results are.
            inspected=keeps_state(resolved) or self.runs_fitting,
            scheduled=arch is not None or not self.runs_fitting,
        )
        plan = make_plan(resolved, model, self._environment, self._table, options)
        return replace(plan, arch=arch)

    def bind(self, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]) -> BoundCall:
        """Return a call of an operator; `prepare` and `bind_prepared` at once."""
        return self.bind_prepared(self.prepare(call), inputs, outputs)

    def prepare(self, call: OpCall) -> Choice:
        """Choose what carries out a call of an operator.

        Raises:
            FeatureMissingError: the device leaves such calls to another.
            KernelMissingError: the device cannot carry the call out, and leaves it to no other.
        """
        choice = choose(call, partial(select, self._environment, self._table))
        for missing in choice.missing():
            raise self._refusal(missing)
        return choice

    def _refusal(self, missing: Missing) -> KernelMissingError:
        spec = self._environment.devices.get(self._table.target)
        is_left = spec is not None and spec.fallback is not None and missing.is_taken_by(spec.fallback)
        return (FeatureMissingError if is_left else KernelMissingError)(missing.reason)

    def direct(self, prepared: Choice) -> DirectCall | None:
        """Return a call for any buffers of the prepared types; None where it has to be bound to them."""
        if self._host is None or not isinstance(prepared.chosen, HandWritten):
            return None
        kernel = prepared.chosen.kernel
        call = self._host.direct_kernel(kernel, prepared.call)
        return None if call is None else _guarded(kernel, call)

    def bind_prepared(self, prepared: Choice, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]) -> BoundCall:
        """Return a call of an operator on buffers of the types that it was prepared for.

        Outputs may be inputs: all inputs are read before an output is written. Trailing ``outputs`` may be missing.
        """
        chosen = prepared.chosen
        if isinstance(chosen, DerivedExpression):
            return self._backend.bind_expression(chosen.expr, inputs, outputs[0])
        targets, copies = self._separate(prepared.call, inputs, outputs)
        if isinstance(chosen, HandWritten):
            work = [_guarded(chosen.kernel, self._backend.bind_kernel(chosen.kernel, prepared.call, inputs, targets))]
        elif isinstance(chosen, Computed):
            work = [self._computed(chosen, inputs, targets)]
        elif isinstance(chosen, Looped):
            work = [self._looped(chosen, inputs, targets)]
        elif isinstance(chosen, DerivedFold):
            source = next(buffer for buffer in inputs if buffer is not None)
            work = [self._backend.bind_fold(chosen.axes, chosen.fold, source, targets[0])]
        elif isinstance(chosen, Decomposed):
            work = self._decomposed(chosen.decomposition, prepared.parts, inputs, targets)
        else:
            raise self._refusal(chosen)
        return in_order([*work, *copies])

    def _computed(self, chosen: Computed, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]) -> BoundCall:
        backend = self._backend
        if not isinstance(backend, ComputationBackend):
            message = f"the device {backend.name} says that it runs stages, but its backend has no bind_computation"
            raise KernelMissingError(message)
        given = [buffer for buffer in inputs if buffer is not None]
        return backend.bind_computation(chosen.computation, given, outputs)

    def _looped(self, chosen: Looped, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]) -> BoundCall:
        backend = self._backend
        if not isinstance(backend, LoopBackend):
            message = f"the device {backend.name} says that it runs loop programs, but its backend has no bind_loops"
            raise KernelMissingError(message)
        return backend.bind_loops(chosen.kernel, [buffer for buffer in inputs if buffer is not None], outputs)

    def _separate(
        self, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]
    ) -> tuple[list[Buffer], list[BoundCall]]:
        """Return one buffer per output, none of which is an input, and the copies that are due afterwards."""
        if len(outputs) == len(call.outputs) and not any(own is each for own in outputs for each in inputs):
            return [*outputs], []
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
        self,
        parts: Decomposition,
        prepared: Sequence[Choice],
        inputs: Sequence[Buffer | None],
        outputs: Sequence[Buffer],
    ) -> list[BoundCall]:
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
            calls.append(self.bind_prepared(prepared[place], given, [buffers[value] for value in step.outputs]))
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


def _guarded(kernel: KernelSpec, call: Callable[P, object]) -> Callable[P, object]:
    """Return a bound call of a kernel, guarded if it is a third party's."""
    return restoring_errors(kernel.guarded(call)) if kernel.is_foreign else call
