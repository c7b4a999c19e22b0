"""Integers that stand for reals, computed as LiteRT does on its CPU (XNNPACK): rule operators.quantisation.3."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F32, I32
from openinfer.importers.tflite_files.fixed_point import rescaled
from openinfer.importers.tflite_files.node import is_quantised

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node
    from openinfer.importers.tflite_files.source import Quantisation, Tensor

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")

BOUNDS = {
    "NONE": (-math.inf, math.inf),
    "RELU": (0.0, math.inf),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""What activations that only bound their input bound it by."""


def activation(node: Node) -> str:
    """Return the name of the activation that an operator ends with."""
    return node.choice("FusedActivationFunction", ACTIVATIONS)


def activated(node: Node, value: Value) -> Value:
    """Return reals after the activation that an operator ends with."""
    name = activation(node)
    return node.call("tanh", value) if name == "TANH" else bounded(node, value, name)


def bounded(node: Node, value: Value, name: str) -> Value:
    """Return reals, or integers that stand for themselves, within the bounds of an activation."""
    if name not in BOUNDS:
        node.refuse(f"the activation {name}")
    low, high = BOUNDS[name]
    if name == "NONE":
        return value
    if high == math.inf:
        return node.call("relu", value)
    low, high = (low, high) if value.dtype.is_float else (int(low), int(high))
    return node.call("clamp", value, min=low, max=high)


def requantised(node: Node, total: Value, scale: Array, *, clips: bool = True) -> Value:
    """Return integer sums as codes of the first output.

    Args:
        scale: f32 (f64 where the result's scale divides it in f64), real value of one step of the sums, in a shape
            that broadcasts against them.
        clips: whether the activation that the operator ends with bounds the codes.
    """
    tensor = node.results[0]
    parameters = node.parameters(tensor)
    steps = scale / parameters.scale.reshape(())
    if not np.isfinite(steps.astype(np.float32)).all():
        node.refuse("a ratio of scales that f32 does not hold")
    name = activation(node) if clips else "NONE"
    if node.rounding != "f32":
        made = rescaled(node, total, steps, tensor.dtype, int(parameters.zero[0]))
        return within_bounds(node, made, tensor, name)
    code = node.call("mul", node.call("cast", total, to=F32), node.part(node.constant(steps), "scale"))
    return rounded(node, code, tensor, name)


def rounded(node: Node, code: Value, tensor: Tensor, name: str = "NONE") -> Value:
    """Return reals, in steps of a tensor, as its codes, within the bounds of an activation."""
    zero = int(node.parameters(tensor).zero[0])
    one = node.number(1.0, F32)
    made = node.emit.typed("quantize_linear", tensor.dtype, code.dims, code, one, node.number(zero, tensor.dtype))
    return within_bounds(node, made, tensor, name)


def within_bounds(node: Node, codes: Value, tensor: Tensor, name: str) -> Value:
    """Return codes of a tensor within the bounds of an activation; those that the type sets need no clamp."""
    if name not in BOUNDS:
        node.refuse(f"the activation {name} of integers")
    least, most = limits(tensor.dtype)
    low, high = (code_of(bound, node.parameters(tensor), tensor.dtype) for bound in BOUNDS[name])
    settings = {} if low == least else {"min": low}
    settings |= {} if high == most else {"max": high}
    return node.call("clamp", codes, **settings) if settings else codes


def code_of(real: float, parameters: Quantisation, dtype: DType) -> int:
    """Return the code that is nearest to a real value, as the bounds of activations are rounded."""
    least, most = limits(dtype)
    if math.isinf(real):
        return least if real < 0 else most
    steps = float(np.rint(np.float32(real) / parameters.scale[0]))
    return int(min(max(steps + int(parameters.zero[0]), least), most))


def limits(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest code of an integer type."""
    signed = dtype.name.startswith("i")
    return (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if signed else (0, (1 << dtype.bits) - 1)


def real_of(node: Node, value: Value, tensor: Tensor) -> Value:
    """Return the reals that a tensor stands for."""
    if not is_quantised(tensor):
        return value
    parameters = tensor.quantisation
    if parameters is None or parameters.is_per_channel:
        node.refuse(f"{tensor.name!r} has a scale for each channel, expected one")
    scale, zero = node.number(float(parameters.scale[0]), F32), node.number(int(parameters.zero[0]), value.dtype)
    return node.emit.typed("dequantize_linear", F32, value.dims, value, scale, zero)


def codes_of(node: Node, real: Value, tensor: Tensor) -> Value:
    """Return reals as codes of a tensor; as they are where it is of reals itself."""
    if not is_quantised(tensor):
        return real
    parameters = node.parameters(tensor)
    scale, zero = node.number(float(parameters.scale[0]), F32), node.number(int(parameters.zero[0]), tensor.dtype)
    return node.emit.typed("quantize_linear", tensor.dtype, real.dims, real, scale, zero)


def differences(node: Node, position: int, value: Value) -> Value:
    """Return codes of an input less its zero point, as i32."""
    zero = int(node.parameters(node.tensor(position)).zero[0])
    wide = node.call("cast", value, to=I32)
    return node.call("sub", wide, node.number(zero, I32)) if zero else wide


def same_parameters(first: Tensor, second: Tensor) -> bool:
    """Whether codes of two tensors stand for the same reals."""
    a, b = first.quantisation, second.quantisation
    if a is None or b is None:
        return a is b
    return bool(np.array_equal(a.scale, b.scale) and np.array_equal(a.zero, b.zero))
