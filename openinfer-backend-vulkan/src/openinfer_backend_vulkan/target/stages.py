"""The kernels of a computation: stages as shaders, with sizes and places that are known at run time as numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Var
from openinfer.compute.constants import without_constants
from openinfer.compute.evaluate import evaluate
from openinfer.loops.displacement import displaced
from openinfer_backend_vulkan.glsl.computations import shaders_of, varying_shaders
from openinfer_backend_vulkan.glsl.contents import bytes_of
from openinfer_backend_vulkan.glsl.loop_programs import printed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from openinfer.compute import Computation
    from openinfer.layout import Layout
    from openinfer.loops import Kernel
    from openinfer.plan.steps import Argument
    from openinfer_backend_vulkan.glsl.computations import StageShaders
    from openinfer_backend_vulkan.glsl.loop_programs import Printed
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget


@dataclass(frozen=True, slots=True)
class Stages:
    """The kernels of a computation whose sizes are known.

    Attributes:
        tables: contents of tensors that are computed beforehand, by name.
    """

    stages: tuple[StageShaders, ...]
    tables: dict[str, bytes]


def stages_of(computation: Computation, target: ShaderTarget) -> Stages:
    """Return the kernels of a computation of known sizes.

    Raises:
        ExprError, KernelMissingError, UnsupportedError: a stage has no form as a shader.
    """
    rest, tables = with_tables(computation)
    return Stages(tuple(shaders_of(rest, target)), tables)


def with_tables(computation: Computation) -> tuple[Computation, dict[str, bytes]]:
    """Return a computation without the stages that read no input, and the data of what these compute, by name."""
    constant, rest = without_constants(computation)
    tables = zip(constant.outputs, evaluate(constant, ()), strict=True)
    return rest, {tensor.name: bytes_of(table).tobytes() for tensor, table in tables}


def varying_stages(
    computation: Computation,
    arguments: Sequence[Argument],
    based: Collection[str],
    layouts: Mapping[str, Layout],
    target: ShaderTarget,
) -> list[Printed]:
    """Return the kernels of a computation with numbers of run time.

    Args:
        arguments: of its parameters.
        based: tensors that begin at an element which is a number (`start_of`).
        layouts: of tensors that are not in row-major order.

    Raises:
        ExprError, KernelMissingError, UnsupportedError: a stage has no form as a shader.
    """
    most = {var.name: argument.high for var, argument in zip(computation.parameters, arguments, strict=True)}
    return varying_shaders(computation, target, most, layouts, _starts(based))


def varying_kernel(kernel: Kernel, based: Collection[str], target: ShaderTarget) -> Printed:
    """Return a loop program whose numbers lie in a buffer; ``based`` and errors as for `varying_stages`."""
    return printed(displaced(kernel, _starts(based)), replace(target, pushed_words=0))


def start_of(tensor: str) -> str:
    """Return the name of the number that says with which element a tensor begins."""
    return f"start_{tensor}"


def _starts(based: Collection[str]) -> dict[str, Var]:
    return {name: Var(start_of(name)) for name in based}
