"""The kernels of a computation: stages as shaders, with sizes and places that are known at run time as numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.compute.constants import without_constants
from openinfer.compute.evaluate import evaluate
from openinfer.lower import threaded
from openinfer_backend_vulkan.buffers import bytes_of
from openinfer_backend_vulkan.computations import shaders_of
from openinfer_backend_vulkan.loop_programs import printed
from openinfer_backend_vulkan.target.based import with_bases

if TYPE_CHECKING:
    from collections.abc import Collection

    from openinfer.compute import Computation
    from openinfer.loops import Kernel
    from openinfer_backend_vulkan.computations import StageShaders
    from openinfer_backend_vulkan.loop_programs import Printed
    from openinfer_backend_vulkan.shaders import ShaderTarget


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
    known, rest = without_constants(computation)
    found = zip(known.outputs, evaluate(known, ()), strict=True)
    tables = {tensor.name: bytes_of(table).tobytes() for tensor, table in found}
    return Stages(tuple(shaders_of(rest, target)), tables)


def printed_stages(computation: Computation, based: Collection[str], target: ShaderTarget) -> tuple[Printed, ...]:
    """Return the kernels of a computation with numbers of run time; ``based`` begin at an element that is a number.

    Raises:
        ExprError, UnsupportedError: a stage has no form as a shader.
    """
    return tuple(printed_kernel(kernel, based, target) for kernel in threaded(computation, busy=target.busy))


def printed_kernel(kernel: Kernel, based: Collection[str], target: ShaderTarget) -> Printed:
    """Return a loop program whose numbers lie in a buffer; ``based`` and errors as for `printed_stages`."""
    return printed(with_bases(kernel, based), replace(target, pushed_words=0))
