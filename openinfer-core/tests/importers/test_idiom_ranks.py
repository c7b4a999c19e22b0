"""Patterns are looked for in any program: values of rank 0, without elements and of unusual extents included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import INT64, info, model, node, weights

from openinfer.importers.imported import ImportOptions
from openinfer.importers.onnx_files import idioms
from openinfer.importers.onnx_files.batch_norms import without_batch_norms, without_channel_constants
from openinfer.importers.onnx_files.head_splits import with_heads_before_splits
from openinfer.importers.onnx_files.idiom_search import with_idioms
from openinfer.importers.onnx_files.reading import model_of
from openinfer.importers.onnx_files.rewriting import idioms_ending_with
from openinfer.importers.onnx_files.translating import translate
from openinfer.importers.onnx_files.values import Program, Value
from openinfer.plugins.environment import Environment
from openinfer.scanning import modules_in
from openinfer.symbolic import Const, IntExpr, Name

HIDDEN = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
NORM = [
    node("ReduceMean", "x", "m", axes=[-1]),
    node("Sub", "x m", "c"),
    node("Mul", "c c", "q"),
    node("ReduceMean", "q", "v", axes=[-1]),
    node("Add", "v eps", "w"),
    node("Sqrt", "w", "d"),
    node("Div", "c d", "n"),
    node("Mul", "n row", "s"),
    node("Add", "s row", "y"),
]
RMS_NORM = [
    node("Pow", "x two", "q"),
    node("ReduceMean", "q", "v", axes=[-1]),
    node("Add", "v eps", "a"),
    node("Sqrt", "a", "r"),
    node("Div", "one r", "d"),
    node("Mul", "x d", "y"),
]
ATTENTION = [
    node("Transpose", "x", "k", perm=[0, 1, 3, 2]),
    node("MatMul", "x k", "p"),
    node("Add", "p hidden", "a"),
    node("Softmax", "a", "w", axis=-1),
    node("MatMul", "w x", "y"),
]
APART = [
    NORM[0],
    node("Mul", "x x", "q"),
    NORM[3],
    node("Mul", "m m", "mm"),
    node("Sub", "v mm", "u"),
    node("Relu", "u", "bound"),
    node("Add", "bound eps", "w"),
    NORM[1],
    *NORM[5:],
]
SOFTMAX = [
    node("ReduceMax", "x", "m", axes=[-1]),
    node("Sub", "x m", "c"),
    node("Exp", "c", "e"),
    node("ReduceSum", "e last", "s", keepdims=1),
    node("Div", "e s", "y"),
]
FOLDED_KEYS = [
    node("Reshape", "x rows_of_keys", "k3"),
    node("Transpose", "k3", "t3", perm=[0, 2, 1]),
    node("Reshape", "t3 keys_in_rows", "k"),
    *ATTENTION[1:],
]
BYTES = [node("DequantizeLinear", "b one", "xf"), node("DequantizeLinear", "codes scale", "wf", axis=1)]
IMAGES = [node("DequantizeLinear", "image one", "xf"), node("DequantizeLinear", "kernel one", "wf")]
ROTATED = [
    node("Slice", "x zero half end", "low"),
    node("Slice", "x half most end", "high"),
    node("Neg", "high", "negated"),
    node("Concat", "negated low", "swapped", axis=-1),
    node("Mul", "x cos", "by_cos"),
    node("Mul", "swapped sin", "by_sin"),
    node("Add", "by_cos by_sin", "y"),
]
HEADS = [
    node("Split", "flat parts", "a other", axis=-1),
    node("Reshape", "a shape", "c"),
    node("Reshape", "other shape", "d"),
    node("Transpose", "c", "e", perm=[0, 2, 1, 3]),
    node("Transpose", "d", "f", perm=[0, 2, 1, 3]),
    node("Add", "e f", "y"),
]
PATTERNS = {
    "gelu": [
        node("Div", "x root", "u"),
        node("Erf", "u", "e"),
        node("Add", "e one", "g"),
        node("Mul", "x g", "p"),
        node("Mul", "p quarter", "y"),
    ],
    "silu": [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")],
    "layer norm": NORM,
    "RMS norm": RMS_NORM,
    "linear": [node("MatMul", "x weight", "p"), node("Add", "p wide", "y")],
    "transposed": [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t", "y")],
    "embedding": [node("Gather", "embedding ids", "y")],
    "layer norm with a difference": APART,
    "softmax": SOFTMAX,
    "one-hot rows": [node("OneHot", "ids depth values", "rows"), node("MatMul", "rows embedding", "y")],
    "attention": ATTENTION,
    "attention in one batch": FOLDED_KEYS,
    "rotary": ROTATED,
    "heads before splits": HEADS,
    "product of integers": [*BYTES, node("MatMul", "xf wf", "p"), node("Add", "p wide", "y")],
    "quantised weights": [BYTES[1], node("MatMul", "x wf", "p"), node("Add", "p wide", "y")],
    "quantised again": [*BYTES, node("MatMul", "xf wf", "p"), node("QuantizeLinear", "p two", "y")],
    "pool of codes": [IMAGES[0], node("MaxPool", "xf", "p", kernel_shape=[2, 2]), node("QuantizeLinear", "p one", "y")],
    "mean of codes": [IMAGES[0], node("GlobalAveragePool", "xf", "p"), node("QuantizeLinear", "p two", "y")],
    "convolution of integers": [*IMAGES, node("Conv", "xf wf", "y")],
    "channel constants": [
        node("Conv", "pixels filter", "c"),
        node("Mul", "c factors", "p"),
        node("Add", "p factors", "y"),
    ],
    "batch norm": [node("Conv", "pixels filter", "c"), node("BatchNormalization", "c row row row row", "y")],
}
INPUTS = {
    "x": info("x", ["B", 3, 5, 4]),
    "ids": info("ids", ["N"], INT64),
    "b": info("b", ["B", 4], 2),
    "image": info("image", ["B", 2, 6, 6], 2),
    "pixels": info("pixels", ["B", 2, 6, 6]),
    "flat": info("flat", ["B", 5, 24]),
}
HALVES = np.tile(np.linspace(0, 1, 10, dtype=np.float32).reshape(5, 2), (1, 2))
CONSTANTS = {
    **{name: np.float32(value) for name, value in (("one", 1), ("two", 2), ("eps", 1e-5), ("quarter", 0.5))},
    "root": np.float32(2**0.5),
    "row": np.ones(4, np.float32),
    "wide": np.ones(6, np.float32),
    "scale": np.ones(6, np.float32),
    "weight": np.ones((4, 6), np.float32),
    "codes": np.ones((4, 6), np.int8),
    "kernel": np.ones((3, 2, 3, 3), np.int8),
    "filter": np.ones((4, 2, 3, 3), np.float32),
    "embedding": np.ones((9, 3), np.float32),
    "hidden": HIDDEN,
    "cos": np.cos(HALVES),
    "sin": np.sin(HALVES),
    "last": np.array([-1]),
    "depth": np.array(9),
    "values": np.array([0, 1], np.float32),
    "factors": np.full((4, 1, 1), 2, np.float32),
    "rows_of_keys": np.array([-1, 5, 4]),
    "keys_in_rows": np.array([-1, 3, 4, 5]),
    "zero": np.array([0]),
    "half": np.array([2]),
    "most": np.array([2**63 - 1]),
    "end": np.array([3]),
    "parts": np.array([12, 12]),
    "shape": np.array([0, 5, 3, 4]),
}
DIMS: dict[str, tuple[IntExpr, ...]] = {
    "rank 0": (),
    "no elements": (Const(2), Const(0), Const(0)),
    "a size": (Name("N"),),
}


def program_of(name: str) -> Program:
    nodes = PATTERNS[name]
    used = {each for n in nodes for each in n.input}
    inputs = [spec for key, spec in INPUTS.items() if key in used]
    constants = weights(**{key: value for key, value in CONSTANTS.items() if key in used})
    proto = model(nodes, inputs, [info("y", None)], constants, opset=13)
    return translate(model_of(proto, Path(), "small"), ImportOptions(), Environment.default()).program


def rewritten(program: Program) -> None:
    with_idioms(program)
    with_heads_before_splits(program)
    without_batch_norms(program)
    without_channel_constants(program)


def computed(program: Program) -> list[Value]:
    """Return the values whose numbers are not known."""
    return [*program.inputs, *(value for call in program.calls for value in call.outputs)]


@pytest.mark.parametrize("dims", DIMS.values(), ids=DIMS.keys())
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_over_values_of_other_ranks_is_no_failure(name: str, dims: tuple[IntExpr, ...]) -> None:
    for position in range(len(computed(program_of(name)))):
        program = program_of(name)
        computed(program)[position].dims = dims
        rewritten(program)
    program = program_of(name)
    for value in computed(program):
        value.dims = dims
    rewritten(program)


def test_every_matcher_has_a_pattern_here(monkeypatch: pytest.MonkeyPatch) -> None:
    modules_in(idioms)
    ops = Environment.default().ops
    registered = {idiom for op in ops for idiom in idioms_ending_with(op)}
    matched: set[Any] = set()

    def noted(op: str) -> list[Any]:
        return [lambda calls, call, of=of: of(calls, call) and not matched.add(of) for of in idioms_ending_with(op)]

    monkeypatch.setattr("openinfer.importers.onnx_files.idiom_search.idioms_ending_with", noted)
    for name in PATTERNS:
        rewritten(program_of(name))
    assert {idiom.__qualname__ for idiom in registered - matched} == set()
