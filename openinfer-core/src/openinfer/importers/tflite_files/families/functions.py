"""Functions of single elements; of integers of 8 bits a table of 256 codes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import BOOL
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import limits
from openinfer.importers.tflite_files.through_reals import through_reals

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting, Value
    from openinfer.importers.tflite_files.node import Translator


@dataclass(frozen=True, slots=True)
class Function:
    """An operator, and what it computes in f64.

    Attributes:
        settings: settings of the operator, from the options of a node.
        exact: the function of an array; further arguments are the numbers among the settings.
    """

    op: str
    exact: Callable[..., Array]
    settings: Callable[[Node], dict[str, Setting]] = lambda _: {}


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _elu(x: Array) -> Array:
    return np.where(x >= 0, x, np.expm1(np.minimum(x, 0)))


def _hard_swish(x: Array) -> Array:
    return x * np.clip(x / 6 + 0.5, 0, 1)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _relu(x: Array, alpha: float = 0.0) -> Array:
    return np.where(x >= 0, x, x * alpha)


def _slope(node: Node) -> dict[str, Setting]:
    return {"alpha": float(node.option("Alpha", 0.0))}


def _formula(node: Node) -> dict[str, Setting]:
    return {"approximate": "tanh"} if node.option("Approximate", False) else {}


FUNCTIONS = MappingProxyType(
    {
        "ABS": Function("abs", np.abs),
        "CEIL": Function("ceil", np.ceil),
        "COS": Function("cos", np.cos),
        "ELU": Function("elu", _elu),
        "EXP": Function("exp", np.exp),
        "FLOOR": Function("floor", np.floor),
        "GELU": Function("gelu", _gelu, _formula),
        "HARD_SWISH": Function("hard_swish", _hard_swish),
        "LEAKY_RELU": Function("relu", _relu, _slope),
        "LOG": Function("log", np.log),
        "LOGISTIC": Function("sigmoid", _sigmoid),
        "NEG": Function("neg", np.negative),
        "ROUND": Function("round", np.rint, lambda _: {"mode": "half_even"}),
        "RSQRT": Function("rsqrt", _rsqrt),
        "SIGN": Function("sign", np.sign),
        "SIN": Function("sin", np.sin),
        "SQRT": Function("sqrt", np.sqrt),
        "SQUARE": Function("square", np.square),
        "TANH": Function("tanh", np.tanh),
    }
)


def _translator(function: Function) -> Translator:
    def of_reals(node: Node) -> Value:
        return node.elementwise(lambda x: _called(node, function, x))

    wide = through_reals(of_reals)

    def translated(node: Node) -> Value | Sequence[Value]:
        if not node.is_quantised:
            return of_reals(node)
        if node.tensor(0).dtype.bits != 8 or not is_quantised(node.results[0]):
            return wide(node)
        table = node.part(node.constant(_table(node, function)), "codes")
        return node.elementwise(lambda x: node.call("gather", table, x))

    return translated


def _called(node: Node, function: Function, x: Value) -> Value:
    made = node.call(function.op, x, **function.settings(node))
    return made if made.dtype is x.dtype else node.call("cast", made, to=x.dtype)


def _table(node: Node, function: Function) -> Array:
    """Return the code of the result for each code; those below zero come last, as indices count from there."""
    tensor, result = node.tensor(0), node.results[0]
    parameters, scaled = node.parameters(tensor), node.parameters(result)
    least, most = limits(tensor.dtype)
    codes = np.arange(most + 1) if not least else np.concatenate([np.arange(most + 1), np.arange(least, 0)])
    reals = float(parameters.scale[0]) * (codes - int(parameters.zero[0]))
    settings: dict[str, Any] = {k: v for k, v in function.settings(node).items() if k != "mode"}
    made = np.nan_to_num(function.exact(reals, **settings) / float(scaled.scale[0]))
    low, high = limits(result.dtype)
    return np.clip(np.rint(made) + int(scaled.zero[0]), low, high).astype(f"{'u' if not low else ''}int8")


def _not(node: Node) -> Value:
    if node.given(0).dtype is not BOOL:
        node.refuse(f"of {node.given(0).dtype}")
    return node.call("not", node.given(0))


TRANSLATORS = MappingProxyType(
    {**{name: _translator(function) for name, function in FUNCTIONS.items()}, "LOGICAL_NOT": _not}
)
