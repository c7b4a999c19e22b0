"""Sums of products of elements at places that strides describe: one thread for each element of the result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ops.strides import merged
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered
from openinfer_backend_vulkan.sums import sum_functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall


@dataclass(frozen=True, slots=True)
class Factor:
    """An input of a product: its stride along each dim of the result, and along each dim that is summed over."""

    outer: tuple[int, ...]
    inner: tuple[int, ...]


def contraction(
    call: OpCall,
    outer: Sequence[int],
    inner: Sequence[int],
    factors: Sequence[Factor],
    addend: Sequence[int] | None = None,
) -> Shader:
    """Return the kernel of a call whose inputs are ``factors`` and, with its strides in the result, an ``addend``.

    ``outer`` are the dims of the result, whose elements are in row-major order, ``inner`` those that are summed over.
    """
    functions = sum_functions(call, len(factors))
    added = () if addend is None else (tuple(addend),)
    result = merged(tuple(outer), (*(factor.outer for factor in factors), *added))
    summed = merged(tuple(inner), tuple(factor.inner for factor in factors))
    count, depth = math.prod(outer), math.prod(inner)
    source = rendered(
        "contraction.comp.j2",
        words=[glsl_word(given.dtype) for given in call.inputs if given is not None],
        target_word=glsl_word(call.outputs[0].dtype),
        functions=functions,
        factors=len(factors),
        addend=addend is not None,
        outer_rank=result.rank,
        inner_rank=summed.rank,
    )
    walks = (*result.extents, *_flat(result.strides), *summed.extents, *_flat(summed.strides))
    parameters = (count, depth, 0, depth, *walks)
    return Shader(source, parameters, count, turns=Turns(depth, at=2), scratch_nbytes=4 * max(count, 1))


def _flat(strides: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(step for operand in strides for step in operand)
