"""Rotary position embeddings: one thread for each element.

Angles are counted in turns as fractions of 64 bits, in which whole turns fall away: positions of any size are exact.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ops.rotary import Rotary, frequencies, rope_cached_plan, rope_plan
from openinfer.ops.shapes import needed
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.functions import Functions
from openinfer_backend_vulkan.indices import index_values, out_of_range
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, rendered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall

_TURNS_A_RADIAN = Fraction(0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163AB, 1 << 226)
"""1 / (2 pi), of which 2 / pi is the best known part: its first 224 bits."""

_FLOATS = frozenset({"f8", "bf16", "f16", "f32"})


def _floats_in_32_bits(call: OpCall) -> bool:
    return all(given is None or given.dtype.name in _FLOATS or given.dtype.is_integer for given in call.inputs)


@kernel("rope", supports=_floats_in_32_bits)
def rope(call: OpCall) -> Shader:
    """Pairs turned by the position times their frequency."""
    x, pos = needed(call.inputs), needed(call.inputs, 1)
    how = rope_plan(call.inputs, call.settings)
    functions = _functions(call, 1)
    for name, function in (("cosine", tree.cos), ("sine", tree.sin)):
        functions.add(name, function(tree.mul(tree.Input(0, F32), tree.literal(2 * math.pi, F32))), F32)
    values = index_values(pos, 1)
    words = [glsl_word(x.dtype), values["index_word"]]
    source = _rendered("rope.comp.j2", call, how, functions, words, **values)
    speeds = [turns(frequency) for frequency in frequencies(how, call.settings)]
    table = (word for speed in speeds for word in (speed & 0xFFFFFFFF, speed >> 32))
    return Shader(source, (*_parameters(x.shape, how), *table), x.count)


def turns(frequency: float) -> int:
    """Return the part of a turn that a position adds, in units of 2^-64."""
    return round(Fraction(frequency) * _TURNS_A_RADIAN * (1 << 64)) % (1 << 64)


@kernel("rope_cached", supports=_floats_in_32_bits)
def rope_cached(call: OpCall) -> Shader:
    """Pairs turned by given cosines and sines, from the row that the position names or that of the same number."""
    x, cos = needed(call.inputs), needed(call.inputs, 1)
    pos = call.inputs[3] if len(call.inputs) > 3 else None
    how = rope_cached_plan(call.inputs, call.settings)
    values = {} if pos is None else index_values(pos, 3)
    words = [glsl_word(needed(call.inputs, number).dtype) for number in range(3)]
    words += [] if pos is None else [str(values["index_word"])]
    functions = _functions(call, 3)
    source = _rendered("rope_cached.comp.j2", call, how, functions, words, named=pos is not None, **values)
    faults = () if pos is None else (out_of_range(call.op, pos, cos.shape[0]),)
    return Shader(source, (*_parameters(x.shape, how), cos.shape[0]), x.count, faults=faults)


def _functions(call: OpCall, loaded: int) -> Functions:
    functions = Functions(F32)
    for number in range(loaded):
        functions.load(number, needed(call.inputs, number).dtype)
    functions.store(tree.cast(tree.Input(0, F32), call.outputs[0].dtype))
    return functions


def _rendered(
    template: str, call: OpCall, how: Rotary, functions: Functions, words: Sequence[object], **values: object
) -> str:
    return rendered(
        template,
        words=words,
        target_word=glsl_word(call.outputs[0].dtype),
        functions=functions,
        interleaved=how.interleaved,
        batched=how.batched,
        **values,
    )


def _parameters(shape: tuple[int, ...], how: Rotary) -> tuple[int, ...]:
    """Return the parameters that ``rotary.glsl`` reads: 0 to 5."""
    below, each = math.prod(shape[how.axis + 1 :]), math.prod(shape[1:])
    return (math.prod(shape), shape[-1], how.pairs, below, shape[how.axis], each)
