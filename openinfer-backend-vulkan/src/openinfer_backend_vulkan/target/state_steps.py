"""Accesses to regions of states as commands of a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.derived import expression_computation
from openinfer.plan.report import place_of
from openinfer.plan.steps import LoadStep, Register, StoreStep, ValueRef
from openinfer.scalars import converted
from openinfer.synth.c_host.regions import RegionTests
from openinfer_backend_vulkan.target.hazards import meets_any
from openinfer_backend_vulkan.target.operands import Located
from openinfer_backend_vulkan.target.regions import clearing, reading, writing
from openinfer_backend_vulkan.target.run_time import note_lengths, region_numbers
from openinfer_backend_vulkan.target.stages import varying_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.dtypes import DType
    from openinfer.loops import Kernel
    from openinfer.plan.regions import Region
    from openinfer.plan.steps import ClearStep, Operand
    from openinfer_backend_vulkan.target.kernel_writer import KernelWriter


def write_access(writer: KernelWriter, step: LoadStep | StoreStep | ClearStep) -> None:
    """Append an access; one that fails returns a status before it changes anything.

    Raises:
        SynthesisError: it has no form in the target yet.
    """
    match step:
        case LoadStep():
            _load(writer, step)
        case StoreStep():
            _store(writer, step)
        case _:
            _clear(writer, step)


def _load(writer: KernelWriter, step: LoadStep) -> None:
    code, names, region = writer.code, writer.program.names, step.region
    if step.view is not None:
        with code.at_run_time():
            tests = RegionTests(code, names, region)
            tests.enter()
            note_lengths(code, names, tests, step.lengths)
            code.line(f"{names.place(Register(step.view))} = {tests.first};")
        return
    kernel = reading(writer.program.plan.values[step.source].stored.dtype, _strides(region), region.entry)
    tensors = {"x0": writer.locator.value(step.source), "y0": writer.locator.value(step.output)}
    _moved(writer, kernel, region, (), tensors, step.lengths)


def _store(writer: KernelWriter, step: StoreStep) -> None:
    kind, target = writer.program.plan.values[step.target].stored, writer.locator.value(step.target)
    with writer.code.braces():
        source = writer.locator.operand(step.source, writer.code, "x0")
        if meets_any(target.place, [source.place]):
            # What is stored is memory of the state itself, which is overwritten as it is read.
            source = _apart(writer, source, kind.dtype, step.source)
        kernel = writing(kind.dtype, _strides(step.region), step.region.entry)
        _moved(writer, kernel, step.region, step.lengths, {"x0": source, "y0": target})


def _apart(writer: KernelWriter, source: Located, dtype: DType, operand: Operand) -> Located:
    """Append a copy of a value to memory that only this step works in; return the copy."""
    count = writer.program.plan.values[operand.value].stored.count if isinstance(operand, ValueRef) else 1
    row = TensorType(dtype, (count,))
    (place,) = writer.program.places.scratch((row.nbytes,))
    moved = expression_computation("copy", tree.Input(0, dtype), [row], row)
    writer.computed(moved, {"x0": source, "y0": Located(place)})
    return Located(place)


def _clear(writer: KernelWriter, step: ClearStep) -> None:
    if any(register is not None for register in step.left):
        message = f"{place_of(step)}: a reset after which the size of a cache is read has no form in target vulkan yet"
        raise SynthesisError(f"{message}: use --target c", code="unsupported")
    dtype = writer.program.plan.values[step.target].stored.dtype
    kernel = clearing(dtype, _strides(step.region), step.region.entry, converted(dtype, step.value))
    _moved(writer, kernel, step.region, (), {"y0": writer.locator.value(step.target)})


def _moved(
    writer: KernelWriter,
    program: Kernel,
    region: Region,
    lengths: Sequence[Index],
    tensors: Mapping[str, Located],
    noted: Sequence[int | None] = (),
) -> None:
    kernel = varying_kernel(program, [name for name, located in tensors.items() if located.base], writer.program.target)
    writer.run(kernel, region_numbers(kernel, writer.program.names, region, lengths, tensors, noted), tensors)


def _strides(region: Region) -> list[int]:
    return [axis.stride for axis in region.ranges]
