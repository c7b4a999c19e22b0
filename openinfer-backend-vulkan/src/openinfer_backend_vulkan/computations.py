"""Computations as shaders: each stage as a loop program for threads, printed as GLSL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.lower import threaded
from openinfer_backend_vulkan.loop_programs import printed

if TYPE_CHECKING:
    from openinfer.compute import Computation
    from openinfer_backend_vulkan.shaders import Shader


@dataclass(frozen=True, slots=True)
class StageShader:
    """A shader with the names of the tensors that are bound to it: those that it only reads, then the others."""

    shader: Shader
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def shaders_of(computation: Computation) -> list[StageShader]:
    """Return the shaders of a computation in the order in which they are run.

    Raises:
        ExprError: GLSL cannot hold a type of the stages, or has no such function on it.
        UnsupportedError: an index may need more than 32 bits.
    """
    texts = [printed(kernel) for kernel in threaded(computation)]
    return [StageShader(text.shader({}), text.reads, text.writes) for text in texts]
