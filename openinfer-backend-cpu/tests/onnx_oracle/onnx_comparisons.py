"""What OpenInfer's operators are in ONNX: nodes that the reference evaluator of the package onnx carries out.

A comparison returns the expected outputs of a call, and raises `IncomparableError` for settings that ONNX does
not have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from openinfer.dtypes import DType
from openinfer.ir.types import TensorType

Array: TypeAlias = "np.ndarray[Any, Any]"


class IncomparableError(Exception):
    """ONNX has nothing like this call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call of an operator.

    Attributes:
        inputs: floats all of one type, packed integers a byte each; None where left out.
        settings: every one by its canonical name.
        outputs: types of the outputs.
    """

    op: str
    inputs: Sequence[Any]
    settings: Mapping[str, Any]
    outputs: Sequence[TensorType]

    @property
    def x(self) -> Array:
        return self.inputs[0]

    def get(self, name: str) -> Any:
        return self.settings[name]

    def refuse(self, name: str, value: Any = None) -> None:
        """Refuse a setting unless it has this value."""
        if self.settings[name] != value:
            raise IncomparableError(f"{name}={self.settings[name]}")


Comparison: TypeAlias = "Callable[[Asked], Array | list[Array]]"
COMPARISONS: dict[str, Comparison] = {}


def ask(op: str, *inputs: Array | None, outputs: int = 1, opset: int = 23, **attributes: Any) -> Any:
    """Return the output of one node, or with ``outputs`` above 1 a list."""
    names = ["" if array is None else f"x{number}" for number, array in enumerate(inputs)]
    made = [f"y{number}" for number in range(outputs)]
    given = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if name}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in made]
    graph = helper.make_graph([helper.make_node(op, names, made, **attributes)], "one", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = ReferenceEvaluator(model).run(None, given)
    return found[0] if outputs == 1 else found


def of(*names: str) -> Callable[[Comparison], Comparison]:
    def add(comparison: Comparison) -> Comparison:
        COMPARISONS.update(dict.fromkeys(names, comparison))
        return comparison

    return add


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def like(value: Any, array: Array) -> Array:
    return np.array(value, array.dtype)


# Elementwise operators

SAME = {
    "abs": "Abs",
    "acosh": "Acosh",
    "add": "Add",
    "asinh": "Asinh",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "elu": "Elu",
    "eq": "Equal",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "gather": "Gather",
    "gather_nd": "GatherND",
    "ge": "GreaterOrEqual",
    "gelu": "Gelu",
    "gt": "Greater",
    "hard_sigmoid": "HardSigmoid",
    "hard_swish": "HardSwish",
    "identity": "Identity",
    "is_inf": "IsInf",
    "is_nan": "IsNaN",
    "le": "LessOrEqual",
    "log": "Log",
    "log_softmax": "LogSoftmax",
    "lt": "Less",
    "mish": "Mish",
    "mul": "Mul",
    "neg": "Neg",
    "pow": "Pow",
    "prelu": "PRelu",
    "scatter": "ScatterElements",
    "scatter_nd": "ScatterND",
    "selu": "Selu",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sinh": "Sinh",
    "softmax": "Softmax",
    "softplus": "Softplus",
    "sqrt": "Sqrt",
    "sub": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
}
"""Operators whose settings are attributes of the same name."""


@of(*SAME)
def _same(call: Asked) -> Array:
    theirs = SAME[call.op]
    if call.settings.get("acc") is not None:
        raise IncomparableError("acc")
    if call.x.dtype == np.bool_ and theirs in ("Add", "Mul"):
        return ask({"Add": "Or", "Mul": "And"}[theirs], *call.inputs)
    inputs = call.inputs
    if theirs in ("GatherND", "ScatterND"):
        # One number is a place of the first dimension; ONNX writes it as a vector.
        inputs = [x if number != 1 else np.atleast_1d(x) for number, x in enumerate(inputs)]
    return ask(theirs, *inputs, **{name: value for name, value in call.settings.items() if name != "acc"})


@of("and", "or", "xor", "not")
def _logic(call: Asked) -> Array:
    name = call.op.capitalize()
    return ask(name if call.x.dtype == np.bool_ else f"Bitwise{name}", *call.inputs)


@of("ne")
def _ne(call: Asked) -> Array:
    return ask("Not", ask("Equal", *call.inputs))


@of("shl", "shr")
def _shift(call: Asked) -> Array:
    bits = call.get("bits")
    if not 0 <= bits < 8 * call.x.dtype.itemsize or call.x.dtype.kind != "u":
        raise IncomparableError("ONNX shifts unsigned integers by less than their width")
    return ask("BitShift", call.x, np.full_like(call.x, bits), direction="LEFT" if call.op == "shl" else "RIGHT")


@of("div")
def _div(call: Asked) -> Array:
    a, b = call.inputs
    mask = call.get("div_by_zero_mask")
    is_float = a.dtype.kind == "f"
    if is_float and mask in (None, "ieee"):
        return ask("Div", a, b)
    zero = ask("Equal", b, np.zeros_like(b))
    value = 0 if mask is None or (not is_float and np.isnan(mask)) else mask
    return ask("Where", zero, like(value, a), ask("Div", a, ask("Where", zero, np.ones_like(b), b)))


@of("rem", "mod")
def _rem(call: Asked) -> Array:
    a, b = call.inputs
    if (b == 0).any():
        raise IncomparableError("a remainder of 0")
    if a.dtype.kind == "f" and call.op == "mod":
        whole = ask("Floor", ask("Div", a, b))
        return ask("Sub", a, ask("Mul", whole, b))
    return ask("Mod", a, b, fmod=int(call.op == "rem"))


@of("recip")
def _recip(call: Asked) -> Array:
    mask = call.get("div_by_zero_mask")
    found = ask("Reciprocal", call.x)
    if mask in (None, "ieee"):
        return found
    zero = ask("Equal", call.x, np.zeros_like(call.x))
    return ask("Where", zero, like(mask, call.x), found)


@of("rsqrt")
def _rsqrt(call: Asked) -> Array:
    return ask("Reciprocal", ask("Sqrt", call.x))


@of("square")
def _square(call: Asked) -> Array:
    return ask("Mul", call.x, call.x)


@of("silu")
def _silu(call: Asked) -> Array:
    return ask("Mul", call.x, ask("Sigmoid", ask("Mul", call.x, like(call.get("beta"), call.x))))


@of("sign")
def _sign(call: Asked) -> Array:
    return ask("Cast", ask("Sign", call.x), to=onnx.TensorProto.INT8)


@of("trunc")
def _trunc(call: Asked) -> Array:
    return ask("Mul", ask("Sign", call.x), ask("Floor", ask("Abs", call.x)))


@of("round")
def _round(call: Asked) -> Array:
    call.refuse("mode", "half_even")
    return ask("Round", call.x)


@of("max", "min")
def _extreme(call: Asked) -> Array:
    if np.isnan(np.concatenate([x.reshape(-1) for x in call.inputs]).astype(np.float64)).any():
        call.refuse("nan", "propagate")
    return ask(call.op.capitalize(), *call.inputs)


@of("where", "filter")
def _where(call: Asked) -> Array:
    cond, a, b = call.inputs if call.op == "where" else (call.inputs[2], *call.inputs[:2])
    return ask("Where", ask("Cast", cond, to=onnx.TensorProto.BOOL), a, b)


@of("fill_nan_like")
def _fill_nanlike(call: Asked) -> Array:
    broken = ask("Or", ask("IsNaN", call.x), ask("IsInf", call.x))
    return ask("Where", broken, like(call.get("value"), call.x), call.x)


@of("is_finite_each")
def _is_finite_each(call: Asked) -> Array:
    return ask("Not", ask("Or", ask("IsNaN", call.x), ask("IsInf", call.x)))


@of("relu")
def _relu(call: Asked) -> Array:
    if call.x.dtype.kind != "f":
        raise IncomparableError("ONNX's LeakyRelu takes floats")
    leaky = ask("LeakyRelu", call.x, alpha=float(call.get("alpha")))
    return ask("Clip", leaky, _bound(call, "clamp_min"), _bound(call, "clamp_max"))


@of("clamp")
def _clamp(call: Asked) -> Array:
    call.refuse("nan", "propagate")
    if call.x.dtype.kind == "u" and any((call.get(name) or 0) < 0 for name in ("min", "max")):
        raise IncomparableError("bounds outside of the type")
    return ask("Clip", call.x, _bound(call, "min"), _bound(call, "max"))


def _bound(call: Asked, name: str) -> Array | None:
    value = call.get(name)
    return None if value is None else like(value, call.x)


@of("cast")
def _cast(call: Asked) -> Array:
    if call.x.dtype.kind == "f" and not call.get("to").is_float:
        call.refuse("rounding_mode", "trunc")
    if not call.get("to").is_float and call.get("to").minimum is not None and _outside(call.x, call.get("to")):
        raise IncomparableError("ONNX leaves open what becomes of numbers outside of the type")
    target = {"f32": onnx.TensorProto.FLOAT, "f64": onnx.TensorProto.DOUBLE, "f16": onnx.TensorProto.FLOAT16}
    integers = {f"{sign}{bits}": f"{'U' if sign == 'u' else ''}INT{bits}" for sign in "iu" for bits in (8, 16, 32, 64)}
    target |= {ours: getattr(onnx.TensorProto, theirs) for ours, theirs in integers.items()}
    target["bool"] = onnx.TensorProto.BOOL
    if call.get("to").name not in target:
        raise IncomparableError(f"to={call.get('to')}")
    return ask("Cast", call.x, to=target[call.get("to").name])


def _outside(x: Array, dtype: DType) -> bool:
    return bool((x < dtype.minimum).any() or (x > dtype.maximum).any())


@of("fill")
def _fill(call: Asked) -> Array:
    value = helper.make_tensor("value", helper.np_dtype_to_tensor_dtype(call.x.dtype), [1], [call.get("value")])
    return ask("ConstantOfShape", whole(*call.x.shape), value=value)


# Reductions and scans

REDUCTIONS = {
    "sum_axis": "ReduceSum",
    "mean_axis": "ReduceMean",
    "prod_axis": "ReduceProd",
    "max_axis": "ReduceMax",
    "min_axis": "ReduceMin",
    "l2_axis": "ReduceL2",
    "logsumexp_axis": "ReduceLogSumExp",
}


@of(*REDUCTIONS)
def _reduce(call: Asked) -> Array:
    if call.settings.get("acc") is not None or (call.op == "mean_axis" and call.x.dtype.kind != "f"):
        raise IncomparableError("acc, or the mean of integers")
    if call.op == "logsumexp_axis" and call.x.ndim == 0:
        raise IncomparableError("the evaluator cannot reduce scalars here")
    axes = call.get("axes")
    every = range(call.x.ndim) if axes in (None, ()) else (axes,) if isinstance(axes, int) else axes
    named = whole(*every) if call.x.ndim else None
    return ask(REDUCTIONS[call.op], call.x, named, keepdims=int(call.get("keepdims")))


@of("any_axis", "all_axis")
def _of_bools(call: Asked) -> Array:
    if call.x.size == 0:
        raise IncomparableError("the evaluator finds no extremum of nothing")
    axes = call.get("axes")
    named = None if axes is None else np.atleast_1d(np.array(axes, np.int64))
    extremum = {"any_axis": "ReduceMax", "all_axis": "ReduceMin"}[call.op]
    numbers = ask("Cast", call.x, to=onnx.TensorProto.INT32)
    return ask("Cast", ask(extremum, numbers, named, keepdims=int(call.get("keepdims"))), to=onnx.TensorProto.BOOL)


@of("argmax_axis", "argmin_axis")
def _arg(call: Asked) -> Array:
    attributes = {"keepdims": int(call.get("keepdims")), "select_last_index": int(not call.get("select_first"))}
    axis = call.get("axis")
    return ask(
        {"argmax_axis": "ArgMax", "argmin_axis": "ArgMin"}[call.op],
        call.x,
        axis=axis if isinstance(axis, int) else axis[0],
        **attributes,
    )


@of("cumsum")
def _cumsum(call: Asked) -> Array:
    flags = {name: int(call.get(name)) for name in ("exclusive", "reverse")}
    return ask("CumSum", call.x, np.array(call.get("axis"), np.int64), **flags)


@of("topk")
def _topk(call: Asked) -> list[Array]:
    flags = {name: int(call.get(name)) for name in ("largest", "sorted")}
    return ask("TopK", call.x, whole(call.get("k")), outputs=2, axis=call.get("axis"), **flags)


@of("argsort")
def _argsort(call: Asked) -> Array:
    axis = call.get("axis")
    if call.x.ndim == 0:
        raise IncomparableError("ONNX sorts along a dim")
    k = whole(call.x.shape[axis])
    return ask("TopK", call.x, k, outputs=2, axis=axis, largest=int(call.get("descending")))[1]
