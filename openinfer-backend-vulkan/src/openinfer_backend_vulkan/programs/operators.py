"""Operators of a plan as functions that queue their shaders."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, Var
from openinfer.compute.constants import without_constants
from openinfer.compute.evaluate import evaluate
from openinfer.expr.counting import counted, counting, counting_by_given, counting_type
from openinfer.ir.types import TensorType
from openinfer.ops.derived import expression_computation
from openinfer.plan.programs import operands_of
from openinfer.plan.steps import TableRef, ValueRef
from openinfer.plan.values import ViewMemory
from openinfer_backend_vulkan.glsl import contents
from openinfer_backend_vulkan.glsl.computations import shaders_of, varying_shaders
from openinfer_backend_vulkan.glsl.counts import count_var, counted_value
from openinfer_backend_vulkan.programs.counted_kernels import CountedKernels, Counter
from openinfer_backend_vulkan.programs.integers import StepFaultError, reader
from openinfer_backend_vulkan.programs.kernels import FixedKernel, VaryingKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.compute import Computation
    from openinfer.layout import Layout
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Argument, ComputeStep, CountStep, Operand, PlaceStep
    from openinfer_backend_vulkan.memory.blocks import Part
    from openinfer_backend_vulkan.programs.operands import Operands, Run
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.hazards import Command, Place


class Operators:
    """Binds operators to their operands."""

    def __init__(self, plan: ExecutionPlan, operands: Operands, engine: Engine) -> None:
        self._plan, self._operands, self._engine = plan, operands, engine
        self._machine = operands.machine
        self._target = engine.device.physical.shader_target
        self._in_memory = replace(self._target, pushed_words=0)
        self._kernels: dict[Computation, tuple[list[FixedKernel], dict[str, Place]]] = {}

    def compute(self, step: ComputeStep) -> list[Run]:
        """Return what carries a computation out.

        Raises:
            UnsupportedError, KernelMissingError, ExprError: it has no form on this device.
        """
        # Entries of tables come first: the host may have to wait for the device to find out which.
        operands = dict(sorted(operands_of(step).items(), key=lambda item: not isinstance(item[1], TableRef)))
        node = step.origin.statements[0].node if step.origin.statements else None
        views = {name: value for name, operand in operands.items() if (value := self._view(operand)) is not None}
        written = [value for value in (*step.outputs, *step.temporaries) if value in self._operands.memory.polled]
        noted: list[Run] = [lambda: self._machine.unsettled.update(written)] if written else []
        if step.arguments or views:
            return [self._varying(step, operands, views, node), *noted]
        return [self._fixed(step.computation, operands, node), *noted]

    def _view(self, operand: Operand) -> ViewMemory | None:
        memory = self._plan.values[operand.value].memory if isinstance(operand, ValueRef) else None
        return memory if isinstance(memory, ViewMemory) else None

    def _fixed(self, computation: Computation, operands: dict[str, Operand], node: int | None) -> Run:
        kernels, tables = self._of(computation)
        machine, faults = self._machine, [kernel.faults for kernel in kernels if kernel.faults is not None]
        fixed = {
            name: self._operands.place(operand)()
            for name, operand in operands.items()
            if self._operands.is_fixed(operand)
        }
        # Temporaries whose elements are known have their table, whatever place the plan has for them.
        places = {**fixed, **tables}
        moving = {name: self._operands.place(operand) for name, operand in operands.items() if name not in fixed}
        commands_at: dict[tuple[Place, ...], list[Command]] = {}

        nbytes = len(moving) * machine.block.room_for(2)

        def run() -> None:
            machine.reserve(nbytes)
            now = tuple([where() for where in moving.values()])
            commands = commands_at.get(now)
            if commands is None:
                there = {**places, **dict(zip(moving, now, strict=True))}
                commands = commands_at[now] = [command for kernel in kernels for command in kernel.commands(there)]
            machine.add(commands)
            for words in faults:
                machine.watch(words, node)

        return run

    def _of(self, computation: Computation) -> tuple[list[FixedKernel], dict[str, Place]]:
        """Return the kernels of a computation, and their buffers other than its operands."""
        if computation not in self._kernels:
            engine = self._engine
            rest, extra = self._with_tables(computation)
            kernels: list[FixedKernel] = []
            for stage in shaders_of(rest, self._target):
                extra |= {name: engine.memory.tensor(kind.nbytes) for name, kind in stage.scratch.items()}
                kernels += [FixedKernel(shader, stage.reads, stage.writes, engine) for shader in stage.shaders]
            self._kernels[computation] = kernels, extra
        return self._kernels[computation]

    def _with_tables(self, computation: Computation) -> tuple[Computation, dict[str, Place]]:
        """Return a computation without the stages that read no input, and buffers of what these compute."""
        constant, rest = without_constants(computation)
        computed = zip(constant.outputs, evaluate(constant, ()), strict=True)
        return rest, {t.name: self._engine.uploaded(contents.bytes_of(np.asarray(table))) for t, table in computed}

    def _varying(
        self, step: ComputeStep, operands: dict[str, Operand], views: dict[str, ViewMemory], node: int | None
    ) -> Run:
        engine, machine = self._engine, self._machine
        computation, tables = self._with_tables(step.computation)
        starts = {name: Var(f"start_{name}") for name in views}
        most = {v.name: a.high for v, a in zip(computation.parameters, step.arguments, strict=True)}
        texts = varying_shaders(computation, self._target, most, self._layouts(computation, operands), starts)
        kernels = [VaryingKernel(text, computation.name, engine) for text in texts]
        given_sizes = zip(computation.parameters, step.arguments, strict=True)
        arguments = [(v.name, argument, reader(argument.value, machine)) for v, argument in given_sizes]
        by_name = {var.name: arg for var, arg in zip(computation.parameters, step.arguments, strict=True)}
        sized = CountedKernels(kernels, by_name, machine, self._in_memory)
        registers, bases = machine.registers, [(starts[name].name, view.register) for name, view in views.items()]
        where = {name: self._operands.place(operand) for name, operand in operands.items()}
        where |= {name: lambda place=place: place for name, place in tables.items()}

        room_for = machine.block.room_for
        nbytes = len(where) * room_for(2) + sum(room_for(kernel.words) for kernel in kernels)

        def given_values(sizes: Mapping[str, Index]) -> dict[str, int]:
            values = {name: _within(argument, read()) for name, argument, read in arguments if name not in sizes}
            return values | {name: registers[register] for name, register in bases}

        def run() -> None:
            sizes = sized.sizes()
            values = given_values(sizes)
            numbering = sized.numbering(sizes, values) if sizes else None
            if numbering is None:
                run_kernels(values if not sizes else given_values({}))
            else:
                machine.reserve(nbytes + sum(room_for(kernel.words) for kernel in numbering))
                before = [partial(sized.write_numbers, kernel, values=values) for kernel in numbering]
                run_kernels(values | dict.fromkeys(sizes, 0), before)

        def run_kernels(values: Mapping[str, int], before: Sequence[Callable[[Part], None]] | None = None) -> None:
            if before is None:
                machine.reserve(nbytes)
            places = {name: place() for name, place in where.items()}
            for number, kernel in enumerate(kernels):
                kernel.run(machine, places, values, None if before is None else before[number])
                if kernel.faults is not None:
                    machine.watch(kernel.faults, node)

        return run

    def count_rows(self, step: PlaceStep, set_register: Run) -> Run:
        """Return what gives a register the count of a kernel; ``given`` does so where the host knows it."""
        machine, value = self._machine, counted_value(self._plan, step)
        if value is None:
            return set_register
        counter = Counter(step, self._operands.memory.place(value), machine, self._in_memory, self._engine)
        count = Index.of(count_var(step.register, self._plan.registers[step.register].most))

        def run() -> None:
            if value in machine.unsettled:
                machine.release_count(step.register, count)
                counter.run()
                machine.set_register(step.register, count)
            else:
                set_register()

        return run

    def _layouts(self, computation: Computation, operands: dict[str, Operand]) -> dict[str, Layout]:
        """Return the layouts of tensors that lie in a state, with the extents of the computation."""
        layouts: dict[str, Layout] = {}
        for name, operand in operands.items():
            layout = self._plan.values[operand.value].layout if isinstance(operand, ValueRef) else None
            if layout is not None:
                layouts[name] = replace(layout, shape=computation.tensor(name).shape)
        return layouts

    def count(self, step: CountStep) -> list[Run]:
        """Return what counts where the host does not: floats, and integers that kernels write too."""
        value, machine = step.target, self._machine
        kind, place = self._plan.values[value].type, self._operands.memory.place(value)
        amount, amount_now = step.amount.constant, reader(step.amount, machine)
        given_type = TensorType(counting_type(kind.dtype), ())
        if amount is None or amount < 0:
            expr, kinds = counting_by_given(kind.dtype), [kind, given_type]
        else:
            expr, kinds = counting(kind.dtype, counted(amount, kind.dtype, down=step.down)), [kind]
        kernels, _ = self._of(expression_computation("count", expr, kinds, kind))
        commands_of: dict[Place | None, list[Command]] = {}
        room = machine.block.room_for(2)

        def run() -> None:
            by, stored = amount_now(), None
            if by < 0:
                raise StepFaultError("out-of-range", f"an amount of {by}: it must not be negative")
            machine.reserve(room)
            if len(kinds) > 1:
                stored = machine.stored(given_type.dtype, counted(by, kind.dtype, down=step.down))
            if stored not in commands_of:
                places = {"x0": place, "y0": place, **({} if stored is None else {"x1": stored})}
                commands_of[stored] = [command for kernel in kernels for command in kernel.commands(places)]
            machine.add(commands_of[stored])
            machine.unsettled.add(value)

        return [run]


def _within(argument: Argument, value: int) -> int:
    if not argument.low <= value <= argument.high:
        message = f"a size of {value} is outside of {argument.low} to {argument.high}"
        raise StepFaultError("out-of-range", message)
    return value
