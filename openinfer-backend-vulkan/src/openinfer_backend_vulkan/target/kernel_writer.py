"""Kernels of a step as commands of a segment; sizes and places are constants or values known at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import UnsupportedError
from openinfer_backend_vulkan.glsl.counts import counting, numbering
from openinfer_backend_vulkan.glsl.loop_programs import printed
from openinfer_backend_vulkan.target.commands import Numbering
from openinfer_backend_vulkan.target.counted_sizes import counts_of, sizes_given
from openinfer_backend_vulkan.target.operands import Located, Locator
from openinfer_backend_vulkan.target.run_time import numbering_numbers, run_numbers
from openinfer_backend_vulkan.target.stages import stages_of, varying_kernel, varying_stages, with_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.compute import Computation
    from openinfer.layout import Layout
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Argument, PlaceStep, Step
    from openinfer_backend_vulkan.glsl.computations import StageShaders
    from openinfer_backend_vulkan.glsl.loop_programs import Printed
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget
    from openinfer_backend_vulkan.target.commands import Commands, RunNumbers
    from openinfer_backend_vulkan.target.host_names import HostNames
    from openinfer_backend_vulkan.target.kernel_files import KernelFiles
    from openinfer_backend_vulkan.target.places import Place, Places


MOST_GROUPS = 65535
"""Workgroups of a row that every device has (``OPENINFER_MOST_GROUPS``)."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the segments of a program have in common.

    Attributes:
        largest: bytes of the largest buffer that the device binds to a kernel; None where that is not known.
    """

    plan: ExecutionPlan
    places: Places
    names: HostNames
    kernels: KernelFiles
    target: ShaderTarget
    largest: int | None = None

    @property
    def locator(self) -> Locator:
        return Locator(self.plan, self.places, self.names)


def lines_of(step: Step) -> list[str]:
    """Return the lines of the program that a step comes from."""
    if not step.origin.statements:
        return ["initial value"]
    statements = step.origin.statements
    return [f"line {s.line}: {s.text}" if s.line is not None else s.text for s in statements]


def step_line(step: Step) -> int:
    """Return the line of the statement at which a step stops where it fails; 0 for none."""
    fault = step.origin.fault
    return 0 if fault is None else fault.line or 0


class KernelWriter:
    """Appends the kernels of a step to a segment.

    Attributes:
        code: the segment.
        locator: finds the step's operands.
    """

    def __init__(self, program: Program, code: Commands, step: Step) -> None:
        self.program = program
        self.code = code
        self.locator = program.locator
        self._lines = lines_of(step)

    def computed(
        self,
        computation: Computation,
        tensors: Mapping[str, Located],
        arguments: Sequence[Argument] = (),
        layouts: Mapping[str, Layout] | None = None,
        counted: Mapping[str, Index] | None = None,
    ) -> None:
        """Append the stages of a computation on tensors by name.

        Args:
            arguments: of its parameters.
            layouts: of tensors that are not in row-major order.
            counted: parameters that depend on what kernels of the segment count.

        Raises:
            ExprError, KernelMissingError, UnsupportedError: a stage has no form as a shader.
        """
        based = [name for name, located in tensors.items() if located.base is not None]
        if not based and not computation.parameters and not layouts:
            places = {name: located.place for name, located in tensors.items()}
            stages = stages_of(computation, self.program.target)
            places |= {name: self.program.places.table(data, f"table {name}") for name, data in stages.tables.items()}
            for stage in stages.stages:
                self._stage(stage, places)
            return
        rest, tables = with_tables(computation)
        stored = {name: Located(self.program.places.table(data, f"table {name}")) for name, data in tables.items()}
        every = {**tensors, **stored}
        for kernel in varying_stages(rest, arguments, based, layouts or {}, self.program.target):
            numbers = run_numbers(kernel, self.program.names, rest, arguments, every, tuple(counted or ()))
            self.run(kernel, numbers, every, self._numbering(kernel, rest, arguments, counted) if counted else None)

    def _numbering(
        self, text: Printed, computation: Computation, arguments: Sequence[Argument], counted: Mapping[str, Index]
    ) -> Numbering:
        """Return what computes the numbers of a kernel that depend on counts."""
        plan, names = self.program.plan, self.program.names
        kernel = varying_kernel(numbering(text, counted, len(plan.registers), MOST_GROUPS), (), self.program.target)
        sizes = {name: expr for index in counted.values() for name, expr in sizes_given(index, names).items()}
        return Numbering(
            kernel=self._numbered(kernel, 3),
            counts=counts_of(plan, names),
            numbers=numbering_numbers(kernel, names, computation, arguments, sizes),
        )

    def count(self, step: PlaceStep, value: Place) -> None:
        """Append what gives a register the count of a kernel."""
        plan, names, target = self.program.plan, self.program.names, self.program.target
        text = printed(counting(step, len(plan.registers)), target)
        shader = text.shader({}, "count", {})
        bound = 2 + (not shader.is_pushed)
        number = self._numbered(text, bound, len(shader.parameters) if shader.is_pushed else 0)
        counts = counts_of(plan, names)
        self.code.dispatch(number, [value], [counts], shader.parameters, 1, is_pushed=shader.is_pushed)

    def _numbered(self, text: Printed, bound: int, pushed: int = 0) -> int:
        """Return the number of a kernel."""
        kernels = self.program.kernels
        kernels.note(text.features, self.program.target.narrow, text.source, text.group_size)
        return kernels.number(text.source, bound, pushed, self._lines)

    def _stage(self, stage: StageShaders, places: Mapping[str, Place]) -> None:
        sizes = [kind.nbytes for kind in stage.scratch.values()]
        scratch = self.program.places.scratch(sizes)
        all_places = {**places, **dict(zip(stage.scratch, scratch, strict=True))}
        reads, writes = ([all_places[name] for name in names] for names in (stage.reads, stage.writes))
        self._check((*reads, *writes))
        for shader in stage.shaders:
            if not shader.threads:
                continue
            bound = len(reads) + len(writes) + bool(shader.faults) + (not shader.is_pushed)
            pushed = len(shader.parameters) if shader.is_pushed else 0
            number = self.program.kernels.number(shader.source, bound, pushed, self._lines)
            self.program.kernels.note(shader.features, self.program.target.narrow, shader.source, shader.group_size)
            groups = -(-shader.threads // shader.group_size)
            self.code.dispatch(
                number,
                reads,
                writes,
                shader.parameters,
                groups,
                is_pushed=shader.is_pushed,
                may_fail=bool(shader.faults),
            )

    def run(
        self,
        kernel: Printed,
        numbers: RunNumbers,
        tensors: Mapping[str, Located],
        numbering: Numbering | None = None,
    ) -> None:
        """Append a kernel with numbers of the run, on tensors by name."""
        number = self._numbered(kernel, len(kernel.reads) + len(kernel.writes) + bool(kernel.rules) + 1)
        reads, writes = ([tensors[name].place for name in names] for names in (kernel.reads, kernel.writes))
        self._check((*reads, *writes))
        self.code.dispatch(number, reads, writes, numbers, may_fail=bool(kernel.rules), numbering=numbering)

    def _check(self, places: Sequence[Place]) -> None:
        """Note the largest of some places; raise UnsupportedError where the device cannot bind one."""
        largest = self.program.largest
        self.program.kernels.note_range(max((place.nbytes for place in places), default=0))
        long = next((place for place in places if largest is not None and place.nbytes > largest), None)
        if long is not None:
            message = f"{long.what} takes {long.nbytes:,} bytes, the device binds {largest:,} to a kernel"
            raise UnsupportedError(f"{message} (limits.max_storage_buffer_range_bytes)")
