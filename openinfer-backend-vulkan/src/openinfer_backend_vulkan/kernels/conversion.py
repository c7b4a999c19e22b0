"""Conversion between element types where an element may be one that the other type has nothing for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.calls import refused_expression, scalar_expression
from openinfer.ops.catalog.mutation import CAST, WITHOUT_SIGN
from openinfer.ops.shapes import needed
from openinfer_backend_vulkan.derived import expression_shader
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.shaders import Fault, Shader

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


def _may_refuse(call: OpCall) -> bool:
    return refused_expression(CAST, call) is not None


@kernel("cast", dtypes=COMPUTED, supports=_may_refuse)
def cast(call: OpCall) -> Shader:
    """x as the sign that t1 holds; an element without one is an error."""
    x, out = needed(call.inputs), call.outputs[0]
    fault = Fault(f"cast of {x} to {out.dtype}", x.shape, "the element{at} has no sign", WITHOUT_SIGN)
    test = refused_expression(CAST, call)
    refused = None if test is None else (test, fault)
    return expression_shader(scalar_expression(CAST, call), {0: x}, out, refused=refused)
