"""Powers of integers, of which negative exponents are errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import SINT
from openinfer.expr import tree
from openinfer.ops.calls import scalar_expression
from openinfer.ops.catalog.functions import POW
from openinfer.ops.shapes import needed
from openinfer_backend_vulkan.derived import expression_shader
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.shaders import Fault

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer_backend_vulkan.shaders import Shader

_SIGNED = frozenset(dtype.name for dtype in SINT) & COMPUTED


@kernel("pow", dtypes=_SIGNED)
def power(call: OpCall) -> Shader:
    """a to the power b, wrapping."""
    a, b, out = needed(call.inputs), needed(call.inputs, 1), call.outputs[0]
    exponent = tree.Input(1, b.dtype)
    is_negative = tree.lt(exponent, tree.literal(0, b.dtype))
    wrong, legal = "the exponent{at} of the result is negative", "integers take exponents from 0 on"
    fault = Fault(f"pow of {a} and {b}", out.shape, wrong, legal)
    return expression_shader(scalar_expression(POW, call), {0: a, 1: b}, out, refused=(is_negative, fault))
