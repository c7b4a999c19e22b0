"""A form that is recognised becomes one statement, and agrees with what it replaces at random sizes and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx_models import FLOAT, INT64, agrees, info, model, node, saved, weights

from openinfer import Simulator
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
extents = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Form:
    """Nodes, their inputs and constants, and the operator that they are."""

    nodes: list[Any]
    inputs: dict[str, Any]
    op: str
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    statements: int = 1


def check(form: Form, folder: Path) -> None:
    kinds = {name: INT64 if array.dtype == np.int64 else FLOAT for name, array in form.inputs.items()}
    inputs = [info(name, array.shape, kinds[name]) for name, array in form.inputs.items()]
    proto = model(form.nodes, inputs, [info("y", None)], weights(**form.constants), opset=13)
    imported = load(saved(proto, folder))
    ops = [line.split("(")[0].strip() for line in imported.text.splitlines() if line.strip().startswith("op ")]
    assert ops.count(f"op {form.op}") == 1, imported.text
    assert len(ops) <= form.statements, imported.text
    agrees(proto, imported, form.inputs)


def norm_apart(form: str, axes: list[int]) -> list[Any]:
    """Return a layer norm whose variance is E[x²] - E[x]²."""
    nodes = [
        node("ReduceMean", "x", "m", axes=axes),
        node("Mul", "x x", "s"),
        node("ReduceMean", "s", "q", axes=axes),
        node("Mul", "m m", "mm"),
        node("Sub", "q mm", "v0"),
        node("Relu", "v0", "v") if form == "bounded" else node("Identity", "v0", "v"),
        node("Add", "v eps", "e"),
        node("Sqrt", "e", "r"),
        node("Sub", "x m", "c"),
    ]
    if form == "reciprocal":
        return [*nodes, node("Reciprocal", "r", "i"), node("Mul", "c i", "n"), node("Mul", "n scale", "y")]
    return [*nodes, node("Div", "c r", "n"), node("Mul", "n scale", "y")]


@pytest.mark.parametrize("form", ["plain", "bounded", "reciprocal"])
@few
@given(shape=st.tuples(extents, extents, st.integers(2, 6)), last=st.booleans(), seed=seeds)
def test_a_layer_norm_whose_variance_is_a_difference(
    form: str, shape: tuple[int, int, int], last: bool, seed: int, tmp_path: Path
) -> None:
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(shape).astype(np.float32)
    scale = generator.standard_normal(shape[2:] if last else shape[1:]).astype(np.float32)
    nodes = norm_apart(form, [-1] if last else [1, 2])
    check(Form(nodes, {"x": x}, "layer_norm", {"eps": np.float32(1e-3), "scale": scale}), tmp_path)


@few
@given(shape=st.lists(extents, min_size=1, max_size=4), seed=seeds, data=st.data())
def test_a_softmax_that_is_written_out(shape: list[int], seed: int, data: st.DataObject, tmp_path: Path) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    nodes = [
        node("ReduceMax", "x", "m", axes=[axis]),
        node("Sub", "x m", "c"),
        node("Exp", "c", "e"),
        node("ReduceSum", "e axes", "s", keepdims=1),
        node("Div", "e s", "y"),
    ]
    x = 40 * np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    check(Form(nodes, {"x": x}, "softmax", {"axes": np.array([axis])}), tmp_path)


@pytest.mark.parametrize("is_cast", [False, True])
@few
@given(shape=st.lists(extents, min_size=1, max_size=2), rows=st.integers(2, 7), width=extents, seed=seeds)
def test_a_one_hot_row_times_a_matrix(
    is_cast: bool, shape: list[int], rows: int, width: int, seed: int, tmp_path: Path
) -> None:
    generator = np.random.default_rng(seed)
    values = np.array([0, 1], np.int64) if is_cast else np.array([0, 1], np.float32)
    nodes = [node("OneHot", "ids depth values", "h0"), node("Cast", "h0", "h", to=1), node("MatMul", "h table", "y")]
    ids = generator.integers(0, rows, shape)
    # Rows that are all the same would be one number, and no table.
    table = np.arange(rows * width, dtype=np.float32).reshape(rows, width) - 1
    constants = {"depth": np.array(rows), "values": values, "table": table}
    check(Form(nodes, {"ids": ids}, "embedding", constants), tmp_path)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dims", [1, 2])
@few
@given(
    channels=extents,
    scalar=st.booleans(),
    factor=st.sampled_from(("Mul c f", "Mul f c", "Div c f")),
    term=st.sampled_from(("Add p t", "Add t p", "Sub p t")),
    seed=seeds,
)
def test_factors_and_terms_of_channels_after_a_convolution(
    bias: bool, dims: int, channels: int, scalar: bool, factor: str, term: str, seed: int, tmp_path: Path
) -> None:
    generator = np.random.default_rng(seed)

    def numbers(*shape: int) -> Any:
        return generator.uniform(0.5, 2, shape).astype(np.float32)

    row = (channels, *[1] * dims)
    nodes = [
        node("Conv", "x w b" if bias else "x w", "c"),
        node(*factor.split(" ", 1), "p"),
        node(*term.split(" ", 1), "y"),
    ]
    constants = {"w": numbers(channels, 2, *[3] * dims), "f": numbers(*(() if scalar else row)), "t": numbers(1, *row)}
    constants |= {"b": numbers(channels)} if bias else {}
    check(Form(nodes, {"x": numbers(2, 2, *[5] * dims)}, f"conv{dims}d", constants), tmp_path)


@few
@given(rows=extents, width=st.integers(2, 5), rank=st.integers(1, 3), factor=st.booleans(), seed=seeds)
def test_a_bias_with_dims_in_front(rows: int, width: int, rank: int, factor: bool, seed: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    shape = (1,) * (rank - 1) + (width,)
    nodes = [node("MatMul", "x w", "p"), node("Add", "p b", "s"), node("Mul", "s f", "y")]
    nodes = nodes if factor else [nodes[0], node("Add", "p b", "y")]
    constants = {
        "w": generator.standard_normal((3, width)).astype(np.float32),
        "b": generator.standard_normal(shape).astype(np.float32),
        "f": generator.standard_normal(width).astype(np.float32),
    }
    x = generator.standard_normal((2, rows, 3)).astype(np.float32)
    check(
        Form(nodes, {"x": x}, "linear", constants if factor else {"w": constants["w"], "b": constants["b"]}), tmp_path
    )


KEYS = {
    "keys are swapped": ((0, 1, 2, 3), [node("Transpose", "k", "kt", perm=[0, 1, 3, 2])]),
    "one transpose of both": ((0, 2, 1, 3), [node("Transpose", "k", "kt", perm=[0, 2, 3, 1])]),
    "positions first": ((2, 0, 1, 3), [node("Transpose", "k", "kt", perm=[1, 2, 3, 0])]),
    "swapped with heads in one dim": (
        (0, 1, 2, 3),
        [
            node("Reshape", "k flat", "k3"),
            node("Transpose", "k3", "kt3", perm=[0, 2, 1]),
            node("Reshape", "kt3 by_heads", "kt"),
        ],
    ),
}


@pytest.mark.parametrize("form", KEYS)
@few
@given(
    batch=extents, heads=extents, queries=extents, keys=st.integers(2, 5), width=extents, mask=st.booleans(), seed=seeds
)
def test_attention_whose_keys_are_laid_out_elsewhere(
    form: str, batch: int, heads: int, queries: int, keys: int, width: int, mask: bool, seed: int, tmp_path: Path
) -> None:
    order, nodes = KEYS[form]
    generator = np.random.default_rng(seed)
    q, k, v = (
        generator.standard_normal((batch, heads, length, width)).astype(np.float32) for length in (queries, keys, keys)
    )
    nodes = [
        *nodes,
        node("Mul", "q root", "qs"),
        node("Mul", "kt root", "ks"),
        node("MatMul", "qs ks", "p"),
        *([node("Add", "p mask", "s")] if mask else [node("Identity", "p", "s")]),
        node("Softmax", "s", "w", axis=-1),
        node("MatMul", "w v", "y"),
    ]
    constants = {"root": np.float32(width**-0.25)}
    if mask:
        constants["mask"] = generator.standard_normal((queries, keys)).astype(np.float32)
    if "one dim" in form:
        constants["flat"] = np.array([batch * heads, keys, width])
        constants["by_heads"] = np.array([batch, heads, width, keys])
    inputs = {"q": q, "k": np.ascontiguousarray(k.transpose(order)), "v": v}
    check(Form(nodes, inputs, "sdpa", constants, statements=3), tmp_path)


@few
@given(heads=extents, queries=extents, keys=st.integers(2, 5), width=extents, seed=seeds)
def test_attention_of_matrices_in_one_batch(
    heads: int, queries: int, keys: int, width: int, seed: int, tmp_path: Path
) -> None:
    generator = np.random.default_rng(seed)
    q = generator.standard_normal((heads, queries, width)).astype(np.float32)
    k, v = (generator.standard_normal((keys, heads, width)).astype(np.float32) for _ in range(2))
    nodes = [
        node("Transpose", "k", "kt", perm=[1, 2, 0]),
        node("Transpose", "v", "vt", perm=[1, 0, 2]),
        node("MatMul", "q kt", "p"),
        node("Softmax", "p", "w", axis=-1),
        node("MatMul", "w vt", "y"),
    ]
    check(Form(nodes, {"q": q, "k": k, "v": v}, "sdpa", statements=3), tmp_path)


FACTORS = {1: [[1], []], 2: [[2]], 3: [[3]], 4: [[4], [2, 2]], 6: [[6], [2, 3], [3, 2]]}


@st.composite
def regrouped(draw: st.DrawFn, shape: list[int]) -> list[int]:
    """Return dims with as many elements: some divided, some that are neighbours joined, and some ones."""
    dims = [part for extent in shape for part in draw(st.sampled_from(FACTORS.get(extent, [[extent]])))]
    joined: list[int] = []
    for extent in dims:
        if joined and draw(st.booleans()):
            joined[-1] *= extent
        else:
            joined += [1, extent] if draw(st.integers(0, 3)) == 0 else [extent]
    return joined


@pytest.mark.parametrize("batch", [None, 3])
@settings(few, max_examples=30)
@given(
    start=st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3), count=st.integers(2, 6), data=st.data()
)
def test_a_chain_of_reshapes_and_transposes(
    batch: int | None, start: list[int], count: int, data: st.DataObject, tmp_path: Path
) -> None:
    """With a batch, whose size is free, the first dim stays. Parts of powers of two always make up a dim."""
    first = [] if batch is None else [batch]
    x = np.arange(np.prod(first + start), dtype=np.float32).reshape(first + start)
    nodes: list[Any] = [node("Neg", "x", "v0")]
    constants: dict[str, Any] = {}
    moved = -x
    for number in range(count):
        ports = f"v{number}", f"v{number + 1}"
        if moved.ndim > 0 and data.draw(st.booleans()):  # onnx writes no empty `perm`
            perm = [*range(len(first)), *data.draw(st.permutations(range(len(first), moved.ndim)))]
            nodes.append(node("Transpose", *ports, perm=perm))
            moved = moved.transpose(perm)
        else:
            dims = data.draw(regrouped([*moved.shape[len(first) :]]))
            constants[f"s{number}"] = np.array([-1] * len(first) + dims, np.int64)
            nodes.append(node("Reshape", f"{ports[0]} s{number}", ports[1]))
            moved = moved.reshape(first + dims)
    nodes.append(node("Neg", f"v{count}", "y"))
    proto = model(nodes, [info("x", ["batch"] * len(first) + start)], [info("y", None)], weights(**constants))
    imported = load(saved(proto, tmp_path))

    executor = Simulator(imported.model, imported.graph, sizes={"batch": batch} if batch else {}).make_executor()
    executor.step(x=x)

    np.testing.assert_array_equal(executor.fetch("y"), -moved)
    most = count if {3, 6} & {*start} else min(3, count)
    assert imported.text.count(" op ") <= 2 + most, imported.text


@pytest.mark.parametrize(("op", "inputs", "divisor"), [("Div", "c f", 0.0), ("Div", "f c", 2.0), ("Sub", "f c", 2.0)])
def test_what_is_no_factor_or_term_stays(op: str, inputs: str, divisor: float, tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), node(op, inputs, "y")]
    constants = {"w": np.ones((2, 2, 3, 3), np.float32), "f": np.array([[[1.0]], [[divisor]]], np.float32)}
    path = saved(model(nodes, [info("x", [1, 2, 5, 5])], [info("y", None)], weights(**constants)), tmp_path)
    assert f"op {op.lower()}(" in load(path).text
