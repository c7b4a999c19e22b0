"""Computations as shaders: each stage as a loop program for threads, printed as GLSL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.errors import KernelMissingError, UnsupportedError
from openinfer.expr.glsl_math import REMAINDER_TURNS
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.loops.displacement import displaced
from openinfer.loops.substitution import substituted
from openinfer.lower import FIRST, Forms, Runs, dealt_out, in_runs
from openinfer.lower.runs import turns
from openinfer_backend_vulkan.glsl.loop_programs import printed
from openinfer_backend_vulkan.glsl.shaders import PORTABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.dtypes import DType
    from openinfer.layout import Layout
    from openinfer.loops import Kernel, Value
    from openinfer_backend_vulkan.glsl.loop_programs import Printed
    from openinfer_backend_vulkan.glsl.shaders import Shader, ShaderTarget


_MOST_TURNS = 1 << 31
"""More iterations than any thread of a device is given."""


@dataclass(frozen=True, slots=True)
class StageShaders:
    """The shaders of a stage, run one after the other on the same buffers.

    Attributes:
        reads, writes: names of the tensors that are bound to them: those that they only read, then the others.
        scratch: those of them that are not tensors of the computation.
    """

    shaders: tuple[Shader, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch: dict[str, TensorType]


def shaders_of(computation: Computation, target: ShaderTarget = PORTABLE) -> list[StageShaders]:
    """Return the shaders of a computation in the order in which they are run.

    If threads would run more loop iterations than the target allows, a stage takes several shaders.

    Raises:
        ExprError: GLSL cannot hold a type of the stages, or has no such function on it.
        KernelMissingError: a stage takes too many iterations of loops and cannot be divided.
        UnsupportedError: an index may need more than 32 bits.
    """
    tensors = {tensor.name: _type(tensor.dtype, tensor.shape) for tensor in (*computation.inputs, *computation.outputs)}
    return [
        _shaders(runs, target, computation.name, tensors)
        for some in dealt_out(computation, target.threads)
        for runs in _first_that_fits(some, target.most_turns)
    ]


def varying_shaders(
    computation: Computation,
    target: ShaderTarget,
    most: Mapping[str, int],
    layouts: Mapping[str, Layout],
    starts: Mapping[str, Var],
) -> list[Printed]:
    """Return a computation with sizes or places that are known at run time only, as shaders run one after the other.

    Their numbers lie in memory, where the host writes them.

    Args:
        most: the largest values of parameters, by name.
        layouts: of tensors that are not in row-major order.
        starts: parameters for the places at which tensors begin in their buffers.

    Raises:
        ExprError, KernelMissingError, UnsupportedError: as for `shaders_of`.
    """
    target = replace(target, pushed_words=0)
    largest = {var: Index.of(most[var.name]) for var in computation.parameters}
    shaders: list[Printed] = []
    for some in dealt_out(computation, target.threads, layouts):
        kernels = next((form for form in some.forms if _fit(form, largest, target.most_turns)), None)
        if kernels is None:
            message = f"a stage of {computation.name} takes too many iterations of a loop, whose length differs"
            raise KernelMissingError(f"{message} from step to step, and this device ends loops after some")
        shaders += [printed(displaced(kernel, starts), target) for kernel in kernels]
    return shaders


def _fit(kernels: Sequence[Kernel], largest: Mapping[Var, Index], most_turns: int | None) -> bool:
    bodies = (substituted(kernel.body, largest) for kernel in kernels)
    return all(turns(body, _turns_of) <= min(_MOST_TURNS - 1, most_turns or _MOST_TURNS) for body in bodies)


def _shaders(runs: Runs, target: ShaderTarget, op: str, tensors: Mapping[str, TensorType]) -> StageShaders:
    text = printed(runs.kernel, target)
    shaders = tuple(text.shader({FIRST.name: start}, op, tensors) for start in runs.starts)
    return StageShaders(shaders, text.reads, text.writes, {b.name: _type(b.dtype, (b.size,)) for b in runs.scratch})


def _first_that_fits(some: Forms, most_turns: int | None) -> list[Runs]:
    """Return the first of several forms that the device carries out."""
    for kernels in some.forms:
        runs = [_in_runs(kernel, most_turns) for kernel in kernels]
        fitting = [divided for divided in runs if divided is not None]
        if len(fitting) == len(runs):
            return fitting
    name = some.forms[-1][0].name
    message = f"a stage of {name} takes too many iterations of a loop, and this device ends loops after {most_turns}"
    raise KernelMissingError(message)


def _in_runs(kernel: Kernel, most_turns: int | None) -> Runs | None:
    if turns(kernel.body, _turns_of) >= _MOST_TURNS:
        raise UnsupportedError(f"a stage of {kernel.name} has {_MOST_TURNS} terms or more for one result")
    return Runs(kernel) if most_turns is None else in_runs(kernel, most_turns, _turns_of)


def _type(dtype: DType, shape: Sequence[Index]) -> TensorType:
    return TensorType(dtype, tuple(extent.evaluate({}) for extent in shape))


def _turns_of(value: Value) -> int:
    """Return the iterations of loops in the functions of a value: remainders of floats, and powers of integers."""
    steps = linearise(value.expr).instructions
    remainders = sum(step.function == "rem" and step.dtype.is_float for step in steps)
    return REMAINDER_TURNS * remainders + sum(
        step.dtype.bits for step in steps if step.function == "power" and step.dtype.is_integer
    )
