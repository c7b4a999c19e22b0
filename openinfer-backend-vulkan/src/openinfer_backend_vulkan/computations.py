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
from openinfer.lower import FIRST, Runs, in_runs, threaded
from openinfer.lower.runs import turns
from openinfer_backend_vulkan.loop_programs import printed
from openinfer_backend_vulkan.shaders import PORTABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.dtypes import DType
    from openinfer.layout import Layout
    from openinfer.loops import Kernel, Statement, Value
    from openinfer_backend_vulkan.loop_programs import Printed
    from openinfer_backend_vulkan.shaders import Shader, ShaderTarget


_MOST_TURNS = 1 << 31
"""More iterations than any thread of a device is given."""


@dataclass(frozen=True, slots=True)
class StageShaders:
    """The shaders of a stage, run one after the other on the same buffers.

    Attributes:
        reads, writes: names of the tensors that are bound to them: those that they only read, then the others.
        scratch: what is among them beside the tensors of the computation.
    """

    shaders: tuple[Shader, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch: dict[str, TensorType]


def shaders_of(computation: Computation, target: ShaderTarget = PORTABLE) -> list[StageShaders]:
    """Return the shaders of a computation in the order in which they are run.

    Where threads would take more turns of loops than the target carries out, a stage takes several shaders.

    Raises:
        ExprError: GLSL cannot hold a type of the stages, or has no such function on it.
        KernelMissingError: a stage takes too many turns of loops and cannot be divided.
        UnsupportedError: an index may need more than 32 bits.
    """
    tensors = {tensor.name: _type(tensor.dtype, tensor.shape) for tensor in (*computation.inputs, *computation.outputs)}
    forms = zip(threaded(computation, busy=target.busy), threaded(computation, rows=False), strict=True)
    return [_of_stage(kernels, target, computation.name, tensors) for kernels in forms]


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
    forms = zip(
        threaded(computation, busy=target.busy, layouts=layouts),
        threaded(computation, rows=False, layouts=layouts),
        strict=True,
    )
    largest = {var: Index.of(most[var.name]) for var in computation.parameters}
    found: list[Printed] = []
    for kernels in forms:
        kernel = next((k for k in kernels if _fits(substituted(k.body, largest), target.most_turns)), None)
        if kernel is None:
            message = f"a stage of {computation.name} takes too many turns of a loop, whose length differs"
            raise KernelMissingError(f"{message} from step to step, and this device ends loops after some")
        found.append(printed(displaced(kernel, starts), target))
    return found


def _fits(body: Sequence[Statement], most_turns: int | None) -> bool:
    return turns(body, _turns_of) <= min(_MOST_TURNS - 1, most_turns or _MOST_TURNS)


def _of_stage(
    kernels: Sequence[Kernel], target: ShaderTarget, op: str, tensors: Mapping[str, TensorType]
) -> StageShaders:
    """Return the shaders of the first of several forms that the device carries out."""
    runs = _in_runs(kernels, target.most_turns)
    text = printed(runs.kernel, target)
    shaders = tuple(text.shader({FIRST.name: start}, op, tensors) for start in runs.starts)
    return StageShaders(shaders, text.reads, text.writes, {b.name: _type(b.dtype, (b.size,)) for b in runs.scratch})


def _in_runs(kernels: Sequence[Kernel], most_turns: int | None) -> Runs:
    for kernel in kernels:
        if turns(kernel.body, _turns_of) >= _MOST_TURNS:
            raise UnsupportedError(f"a stage of {kernel.name} has {_MOST_TURNS} terms or more for one result")
        runs = Runs(kernel) if most_turns is None else in_runs(kernel, most_turns, _turns_of)
        if runs is not None:
            return runs
    name = kernels[0].name
    message = f"a stage of {name} takes too many turns of a loop, and this device ends loops after {most_turns}"
    raise KernelMissingError(message)


def _type(dtype: DType, shape: Sequence[Index]) -> TensorType:
    return TensorType(dtype, tuple(extent.evaluate({}) for extent in shape))


def _turns_of(value: Value) -> int:
    """Return the turns of loops in the functions of a value: the remainder of floats has one."""
    steps = linearise(value.expr).instructions
    return REMAINDER_TURNS * sum(step.function == "rem" and step.dtype.is_float for step in steps)
