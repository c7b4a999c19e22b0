"""Copies, fills and accesses to states as functions that queue their commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.errors import UnsupportedError
from openinfer.expr import tree
from openinfer.loops.displacement import displaced
from openinfer.ops.derived import expression_computation
from openinfer.plan.regions import Axis, Region
from openinfer.plan.steps import ClearStep, CopyStep, FillStep, InputStep, LoadStep, StoreStep, ValueRef
from openinfer.plan.values import ViewMemory
from openinfer.scalars import converted
from openinfer_backend_vulkan.glsl import contents
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.loop_programs import printed
from openinfer_backend_vulkan.glsl.shaders import ShaderTarget
from openinfer_backend_vulkan.memory.blocks import Part
from openinfer_backend_vulkan.programs.integers import reader
from openinfer_backend_vulkan.programs.kernels import FixedKernel, VaryingKernel
from openinfer_backend_vulkan.programs.regions import RegionReader, clearing, loading, storing
from openinfer_backend_vulkan.queue.commands import Copy, Fill

if TYPE_CHECKING:
    from openinfer.loops import Kernel
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer_backend_vulkan.programs.operands import Operands, Run
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.hazards import Command, Place

Step = CopyStep | FillStep | InputStep | LoadStep | StoreStep | ClearStep


class Movement:
    """Binds what moves elements."""

    def __init__(self, plan: ExecutionPlan, operands: Operands, engine: Engine) -> None:
        self._plan, self._operands, self._engine = plan, operands, engine
        self._machine, self._memory = operands.machine, operands.memory
        self._target = ShaderTarget(narrow=engine.device.physical.narrow, pushed_words=0)

    def runs(self, step: Step) -> list[Run]:
        """Return what carries a step out on the device.

        Raises:
            UnsupportedError: an index may need more than 32 bits.
        """
        match step:
            case CopyStep():
                runs = self._copy(step)
            case FillStep():
                runs = [self._adding(self._fill(step))]
            case InputStep():
                source = self._memory.inputs.storages[step.number]
                runs = [self._adding(self._copied(source, step.output))]
            case LoadStep():
                runs = [self._load(step)]
            case StoreStep():
                runs = [self._store(step)]
            case ClearStep():
                runs = [self._clear(step)]
        target = step.target if isinstance(step, StoreStep | ClearStep) else step.output
        if target in self._memory.polled:
            runs.append(lambda: self._machine.unsettled.add(target))
        return runs

    def _adding(self, commands: list[Command]) -> Run:
        machine = self._machine

        def run() -> None:
            machine.reserve()
            machine.add(commands)

        return run

    def _copied(self, source: Place, target: int) -> list[Command]:
        """Return what copies as much as a value has room for."""
        place, nbytes = self._memory.place(target), self._plan.values[target].type.nbytes
        nbytes = min(nbytes, source.nbytes)
        if not nbytes or _is_same(source, place):
            return []
        return [Copy(source=source, target=place, nbytes=nbytes)]

    def _copy(self, step: CopyStep) -> list[Run]:
        machine, source = self._machine, step.source
        if isinstance(source, ValueRef):
            view = self._plan.values[source.value].memory
            if isinstance(view, ViewMemory):
                return [self._copy_of_view(step, source.value, view)]
            if self._operands.is_fixed(source):
                return [self._adding(self._copied(self._memory.place(source.value), step.output))]
        where, commands = self._operands.place(source), dict[object, "list[Command]"]()

        nbytes = machine.block.room_for(2)

        def run() -> None:
            machine.reserve(nbytes)
            place = where()
            if place not in commands:
                commands[place] = self._copied(place, step.output)
            machine.add(commands[place])

        return [run]

    def _copy_of_view(self, step: CopyStep, source: int, view: ViewMemory) -> Run:
        kind = self._plan.values[source].type
        row = Region((Axis(Index.of(0), Index.of(kind.count), Index.of(kind.count), 1, kind.count),))
        kernel = self._kernel(loading(row, kind.dtype, self._plan.values[view.state].type.count))
        count = (lambda: kind.count) if step.count is None else reader(step.count, self._machine)
        machine, places = self._machine, {"x": self._memory.place(source), "y": self._memory.place(step.output)}
        nbytes = self._words(kernel)

        def run() -> None:
            length = count()
            machine.reserve(nbytes)
            kernel.run(machine, places, {"start": machine.registers[view.register], "length0": length})

        return run

    def _fill(self, step: FillStep) -> list[Command]:
        kind, place = self._plan.values[step.output].type, self._memory.place(step.output)
        if not kind.count:
            return []
        value = converted(kind.dtype, step.value)
        if kind.dtype.bits < 64:
            return [Fill(target=place, word=contents.fill_word(kind.dtype, value))]
        computation = expression_computation("fill", tree.literal(value, kind.dtype), [], kind)
        commands: list[Command] = []
        for stage in shaders_of(computation, self._target):
            for shader in stage.shaders:
                commands += FixedKernel(shader, stage.reads, stage.writes, self._engine).commands({"y0": place})
        return commands

    def _kernel(self, kernel: Kernel) -> VaryingKernel:
        return VaryingKernel(printed(kernel, self._target), kernel.name, self._engine)

    def _words(self, kernel: VaryingKernel) -> int:
        """Return the bytes of the parameter block that a kernel takes, and one element that it reads from there."""
        block = self._machine.block
        return block.room_for(kernel.words) + block.room_for(2)

    def _name(self, value: int) -> str:
        return self._plan.values[value].name

    def _load(self, step: LoadStep) -> Run:
        machine, registers = self._machine, self._machine.registers
        region = RegionReader(step.region, machine, self._name(step.source))
        lengths = list(enumerate(step.lengths))
        kernel = None
        if step.view is None:
            kind = self._plan.values[step.source].type
            kernel = self._kernel(loading(step.region, kind.dtype, kind.count))
        nbytes = 0 if kernel is None else self._words(kernel)
        places = {"x": self._memory.place(step.source), "y": self._memory.place(step.output)}

        def run() -> None:
            taken = region.take()
            for axis, register in lengths:
                if register is not None:
                    registers[register] = taken.lengths[axis]
            if step.view is not None:
                registers[step.view] = taken.start
            if kernel is not None:
                machine.reserve(nbytes)
                kernel.run(machine, places, _values(taken.start, taken.lengths))

        return run

    def _store(self, step: StoreStep) -> Run:
        machine, kind = self._machine, self._plan.values[step.target].type
        region = RegionReader(step.region, machine, self._name(step.target), step.lengths)
        source, target = self._operands.place(step.source), self._memory.place(step.target)
        view = self._plan.values[step.source.value].memory if isinstance(step.source, ValueRef) else None
        starts = {"x": Var("start_x")} if isinstance(view, ViewMemory) else {}
        kernel = self._kernel(displaced(storing(step.region, kind.dtype, kind.count), starts))
        nbytes = self._words(kernel)

        def run() -> None:
            taken = region.take()
            values = _values(taken.start, taken.lengths)
            if isinstance(view, ViewMemory):
                values["start_x"] = machine.registers[view.register]
            machine.reserve(nbytes)
            kernel.run(machine, {"x": source(), "y": target}, values)

        return run

    def _clear(self, step: ClearStep) -> Run:
        if any(register is not None for register in step.left):
            raise UnsupportedError("entries of a cache that are followed one by one have no form on this device")
        machine, kind = self._machine, self._plan.values[step.target].type
        region = RegionReader(step.region, machine, self._name(step.target))
        value = converted(kind.dtype, step.value)
        kernel = self._kernel(clearing(step.region, kind.dtype, kind.count, value))
        places, nbytes = {"y": self._memory.place(step.target)}, self._words(kernel)

        def run() -> None:
            taken = region.take()
            machine.reserve(nbytes)
            kernel.run(machine, places, _values(taken.start, taken.lengths))

        return run


def _values(start: int, lengths: list[int]) -> dict[str, int]:
    return {"start": start, **{f"length{axis}": length for axis, length in enumerate(lengths)}}


def _is_same(one: Place, other: Place) -> bool:
    """Whether two places begin at the same byte."""
    return _begin(one) == _begin(other)


def _begin(place: Place) -> tuple[int, int]:
    return (id(place.storage), place.offset) if isinstance(place, Part) else (id(place), 0)
