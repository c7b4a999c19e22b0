"""Attention: one thread for each element of the result, which walks the keys that its query sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, F32
from openinfer.expr import tree
from openinfer.ops.attention import Attention, attention
from openinfer.ops.strides import broadcast_strides
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.functions import Functions
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall

_KEPT = 3
"""Words of a thread that are kept between runs: the greatest weight, the sum of powers, and the weighted sum."""


@kernel("sdpa", dtypes=COMPUTED)
def sdpa(call: OpCall) -> Shader:
    """Attention of q [B,Hq,Sq,D] over k and v, with their first dims left out where they are 1; computed in f32."""
    how = attention(call.inputs, call.settings)
    mask = call.inputs[3] if len(call.inputs) > 3 else None
    output = call.outputs[0]
    source = rendered(
        "sdpa.comp.j2",
        words=[glsl_word(given.dtype) for given in call.inputs if given is not None],
        target_word=glsl_word(output.dtype),
        functions=_functions(call, how),
        mask=mask is not None,
        hides=mask is not None and mask.dtype is BOOL,
        causal=how.causal,
        window=how.window is not None,
    )
    extents = (how.heads, how.queries, how.value_depth, how.depth, how.kv_heads, max(how.group, 1), how.keys)
    limits = (how.valid, how.offset, how.window or 0)
    return Shader(
        source,
        (output.count, 0, how.keys, *extents, *limits, *_mask_strides(mask, how)),
        output.count,
        # A key takes a turn, and its product with the query one for each element and one to find the end.
        turns=Turns(how.keys, how.depth + 2, at=1),
        scratch_nbytes=4 * _KEPT * max(output.count, 1),
    )


def _functions(call: OpCall, how: Attention) -> Functions:
    functions = Functions(F32)
    for number, given in enumerate(given for given in call.inputs if given is not None):
        functions.load(number, given.dtype)
    x = tree.Input(0, F32)
    weight = tree.mul(tree.literal(how.scale, F32), x)
    if how.softcap > 0:
        cap = tree.literal(how.softcap, F32)
        weight = tree.mul(cap, tree.tanh(tree.div(weight, cap)))
    functions.add("weight_of", weight, F32)
    functions.add("power", tree.exp(x), F32)
    functions.add("is_nan", tree.is_nan(x), F32)
    functions.store(tree.cast(x, call.outputs[0].dtype))
    return functions


def _mask_strides(mask: TensorType | None, how: Attention) -> tuple[int, ...]:
    if mask is None:
        return ()
    return broadcast_strides(mask.shape, (how.batch, how.heads, how.queries, how.keys))
