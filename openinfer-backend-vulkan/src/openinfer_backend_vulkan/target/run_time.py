"""Numbers of kernels that only the run knows: extents, where buffers begin, and how many workgroups there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.codegen import c_notation
from openinfer.synth.c_host.integers import declare_integers, number_text
from openinfer.synth.c_host.regions import RegionTests
from openinfer_backend_vulkan.glsl.loop_programs import ITERATIONS
from openinfer_backend_vulkan.target.commands import RunNumbers
from openinfer_backend_vulkan.target.regions import FIRST, length_of
from openinfer_backend_vulkan.target.stages import start_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from openinfer.compute import Computation
    from openinfer.plan.regions import Region
    from openinfer.plan.steps import Argument
    from openinfer.synth.c_host.lines import Lines
    from openinfer_backend_vulkan.glsl.loop_programs import Printed
    from openinfer_backend_vulkan.target.host_names import HostNames
    from openinfer_backend_vulkan.target.operands import Located


def run_numbers(
    kernel: Printed,
    names: HostNames,
    computation: Computation,
    arguments: Sequence[Argument],
    tensors: Mapping[str, Located],
    counted: Collection[str] = (),
) -> RunNumbers:
    """Return the numbers of a kernel of a computation, as C that computes them.

    Args:
        counted: parameters that the host does not know; the device computes their numbers and the workgroups.
    """
    parameters = {var.name: f"count{number}" for number, var in enumerate(computation.parameters)}
    bases = _bases(tensors)
    texts = {**parameters, ITERATIONS: "iterations", **{name: text for name, (text, _) in bases.items()}}

    sizes = {
        parameters[var.name]: argument
        for var, argument in zip(computation.parameters, arguments, strict=True)
        if var.name not in counted
    }
    if counted:
        texts |= dict.fromkeys((*counted, ITERATIONS), "0")

    def write(code: Lines) -> list[str]:
        _declare_sizes(code, names, sizes)
        _declare_bases(code, kernel, bases)
        if not counted:
            code.line(f"const int64_t iterations = {_product(kernel.places, parameters)};")
        return _in_order(kernel, texts)

    return RunNumbers(write=write, count=len(kernel.numbers), groups=_groups(kernel))


def numbering_numbers(
    kernel: Printed, names: HostNames, computation: Computation, arguments: Sequence[Argument], sizes: Mapping[str, str]
) -> RunNumbers:
    """Return the numbers of the kernel that computes those of another one.

    Args:
        computation, arguments: of that one.
        sizes: expressions of further numbers, by name.
    """
    parameters = {var.name: f"count{number}" for number, var in enumerate(computation.parameters)}
    by_name = {var.name: argument for var, argument in zip(computation.parameters, arguments, strict=True)}
    counts = {parameters[name]: by_name[name] for name in kernel.numbers if name in by_name}
    texts = {**parameters, **sizes, ITERATIONS: "1"}

    def write(code: Lines) -> list[str]:
        _declare_sizes(code, names, counts)
        return _in_order(kernel, texts)

    return RunNumbers(write=write, count=len(kernel.numbers), groups="1")


def region_numbers(
    kernel: Printed,
    names: HostNames,
    region: Region,
    stored_lengths: Sequence[Index],
    tensors: Mapping[str, Located],
    noted: Sequence[int | None] = (),
) -> RunNumbers:
    """Return the numbers of a kernel that moves a region, as C that tests the places first.

    Args:
        stored_lengths: extents of what is stored, which have to be the lengths of the ranges.
        noted: registers that take these lengths.
    """
    bases = _bases(tensors)

    def write(code: Lines) -> list[str]:
        tests = RegionTests(code, names, region)
        tests.enter(stored_lengths)
        note_lengths(code, names, tests, noted)
        _declare_bases(code, kernel, bases)
        lengths = {length_of(number): length for number, length in enumerate(tests.lengths)}
        extents = [f"openinfer_extent({length})" for length in lengths.values()]
        code.line(f"const int64_t iterations = {' * '.join((*extents, str(region.entry)))};")
        texts = {**lengths, FIRST: tests.first, ITERATIONS: "iterations"}
        return _in_order(kernel, {**texts, **{name: text for name, (text, _) in bases.items()}})

    return RunNumbers(write=write, count=len(kernel.numbers), groups=_groups(kernel))


def note_lengths(code: Lines, names: HostNames, tests: RegionTests, registers: Sequence[int | None]) -> None:
    """Append the statements that keep the lengths of a region's ranges in registers."""
    for register, length in zip(registers, tests.lengths, strict=False):
        if register is not None:
            code.line(f"{names.register(register)} = {length};")


def _bases(tensors: Mapping[str, Located]) -> dict[str, tuple[str, Callable[[Lines], str] | None]]:
    """Return the variable of where each buffer begins, and what computes it, by the name of the parameter."""
    return {start_of(name): (f"base{n}", located.base) for n, (name, located) in enumerate(tensors.items())}


def _declare_bases(
    code: Lines, kernel: Printed, bases: Mapping[str, tuple[str, Callable[[Lines], str] | None]]
) -> None:
    for name, (text, base) in bases.items():
        if base is not None and name in kernel.numbers:
            code.line(f"const int64_t {text} = {base(code)};")


def _in_order(kernel: Printed, texts: Mapping[str, str]) -> list[str]:
    return [texts[number] if isinstance(number, str) else str(number) for number in kernel.numbers]


def _groups(kernel: Printed) -> str:
    if kernel.local == kernel.group_size:
        return "iterations"
    return f"(iterations * {kernel.local} + {kernel.group_size - 1}) / {kernel.group_size}"


def _declare_sizes(code: Lines, names: HostNames, arguments: Mapping[str, Argument]) -> None:
    values = {name: argument.value for name, argument in arguments.items()}
    declare_integers(code, names, values, flag="count_overflow")
    for name, argument in arguments.items():
        low, high = number_text(argument.low), number_text(argument.high)
        code.refuse(f"{name} < {low} || {name} > {high}")


def _product(extents: Sequence[int | Index], parameters: Mapping[str, str]) -> str:
    notation = c_notation(lambda var: parameters[var.name])
    texts = [f"openinfer_extent({notation.index(Index.of(extent))})" for extent in extents]
    return " * ".join(texts) or "1"
