"""Whatever a model holds, the program that is written of it can be read back, or the error says what is too large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx_models import INT64, info, model, node, run, saved, weights

from openinfer.dsl import graph
from openinfer.errors import ModelImportError
from openinfer.importers import load
from openinfer.importers.onnx_files.naming import LONGEST, legal
from openinfer.plugins.environment import Environment

on_cpu = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

LOWEST, HIGHEST = -(2**63), 2**63 - 1
BEYOND = np.uint64(2**63 + 5)


@settings(deadline=None)
@given(st.text(alphabet="aZ09_./:-é ", max_size=2 * LONGEST))
def test_a_name_that_was_cut_is_legal(text: str) -> None:
    name = legal(text, "fallback")
    assert len(name) <= LONGEST + 1
    graph(f"volatile {{ {name}: f32; }}\nblock entry {{ return {name}; }}")


@on_cpu
def test_weights_whose_names_are_cut_before_a_digit_are_imported(tmp_path: Path) -> None:
    names = [f"net/dense_{layer}/BiasAdd/ReadVariableOp/resource:0" for layer in (3, 4)]
    nodes = [node("Add", f"x {names[0]}", "a"), node("Mul", f"a {names[1]}", "y")]
    initial = weights(**{name: np.arange(3, dtype=np.float32) for name in names})
    imported = load(saved(model(nodes, [info("x", [3])], [info("y", None)], initial), tmp_path))
    (y,) = run(imported, {"x": np.ones(3, np.float32)})
    assert y.tolist() == [0, 2, 6]


UNSIGNED = {
    "Clip": ("x - bound", {"bound": BEYOND}, [1, 2**64 - 1], [1, 2**63 + 5]),
    "Pad": ("x pads bound", {"pads": np.array([1, 0]), "bound": BEYOND}, [1], [2**63 + 5, 1]),
    "BitShift": ("x bound", {"bound": BEYOND}, [3, 2**64 - 1], [0, 0]),
}


@on_cpu
@pytest.mark.parametrize("op", UNSIGNED)
def test_numbers_beyond_the_signed_range_are_constants(op: str, tmp_path: Path) -> None:
    inputs, constants, x, y = UNSIGNED[op]
    attributes: dict[str, Any] = {"direction": "LEFT"} if op == "BitShift" else {}
    kind = TensorProto.UINT64
    proto = model(
        [node(op, inputs, "y", **attributes)],
        [info("x", [len(x)], kind)],
        [info("y", None, kind)],
        weights(**constants),
    )
    (result,) = run(load(saved(proto, tmp_path)), {"x": np.array(x, np.uint64)})
    assert result.tolist() == y


@on_cpu
def test_elements_of_a_one_hot_may_lie_beyond_the_signed_range(tmp_path: Path) -> None:
    constants = weights(depth=np.array(2), values=np.array([0, 2**64 - 1], np.uint64))
    inputs, outputs = [info("x", [1], INT64)], [info("y", None, TensorProto.UINT64)]
    proto = model([node("OneHot", "x depth values", "y")], inputs, outputs, constants)
    (result,) = run(load(saved(proto, tmp_path)), {"x": np.array([1])})
    assert result.tolist() == [[0, 2**64 - 1]]


@on_cpu
@pytest.mark.parametrize("count", [LOWEST, -1, 0])
def test_a_loop_of_a_negative_count_runs_no_turn(count: int, tmp_path: Path) -> None:
    types = {"i": ([], INT64), "c": ([], TensorProto.BOOL), "a": ([2], 1), "co": ([], TensorProto.BOOL), "b": ([2], 1)}
    infos = {name: info(name, dims, kind) for name, (dims, kind) in types.items()}
    body = model(
        [node("Identity", "c", "co"), node("Add", "a a", "b")],
        [infos["i"], infos["c"], infos["a"]],
        [infos["co"], infos["b"]],
    ).graph
    loop = node("Loop", "count - x", "y", body=body)
    proto = model([loop], [info("x", [2])], [info("y", [2])], weights(count=np.array(count)))
    (y,) = run(load(saved(proto, tmp_path)), {"x": np.ones(2, np.float32)})
    assert y.tolist() == [1, 1]


def test_an_integer_of_a_size_beyond_64_bits_is_named(tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Add", "s lowest", "r"), node("Add", "x r", "y")]
    proto = model(nodes, [info("x", ["n"], INT64)], [info("y", None, INT64)], weights(lowest=np.array([LOWEST])))
    with pytest.raises(ModelImportError, match=r"n-9223372036854775808 has an integer that does not fit 64 bits"):
        load(saved(proto, tmp_path))


def test_a_program_that_the_language_cannot_express_is_an_error_of_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openinfer.importers.onnx_files.printing.legal", "4_{}{}".format)
    path = saved(model([node("Relu", "x", "y")], [info("x", [2])], [info("y", None)]), tmp_path)
    with pytest.raises(ModelImportError, match="the model needs a program that the language cannot express"):
        load(path)


def test_numbers_are_called_by_what_operators_use_them_for(tmp_path: Path) -> None:
    nodes = [node("Mul", "x a", "t"), node("Div", "t b", "u"), node("Mul", "u c", "v"), node("Pow", "v e", "y")]
    numbers = {"a": 0.018904, "b": -255.0, "c": 0.0189041, "e": 1 / 3}
    initial = weights(**{name: np.array(number, np.float32) for name, number in numbers.items()})
    text = load(saved(model(nodes, [info("x", [2])], [info("y", None)], initial), tmp_path)).text
    assert "op mul(x, factor_0_0189) >> t;" in text
    assert "op div(t, divisor_m255) >> u;" in text
    assert "op mul(u, factor_0_0189_2) >> v;" in text
    assert "op pow(v, exponent_0_333) >> y;" in text


def test_a_number_that_operators_use_in_several_ways_is_a_number(tmp_path: Path) -> None:
    nodes = [node("Div", "x a", "t"), node("Div", "a t", "u"), node("Mul", "u one", "y")]
    initial = weights(a=np.array(12.5, np.float32), one=np.array([1, 1], np.float32))
    text = load(saved(model(nodes, [info("x", [2])], [info("y", None)], initial), tmp_path)).text
    assert "op div(x, number_12_5) >> t;" in text
    assert "op div(number_12_5, t) >> u;" in text
