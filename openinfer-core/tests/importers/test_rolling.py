"""Repeated layers become a loop over prefix tables, which computes the same bits as the layers one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import INT64, agrees, info, model, node, run, saved, weights

from openinfer.importers import load
from openinfer.importers.onnx_files import repetition
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(5)


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def layers(count: int, *, named: bool = True, extra: str = "", again: str = "") -> Any:
    """Return residual layers, tanh(x w + b) + x each.

    Args:
        extra: an output within the second one.
        again: where the weight of the first layer is read once more: "after" the layers, or "inside" of each.
    """
    nodes: list[Any] = [node("Neg", "x", "h0")]
    arrays: dict[str, Any] = {}
    for layer in range(count):
        w, b = (f"net.{layer}.{part}" if named else f"{part}{'abcdef'[layer]}" for part in ("w", "b"))
        arrays |= {w: rand(6, 6), b: rand(6)}
        nodes += [
            node("MatMul", f"h{layer} {w}", f"p{layer}"),
            node("Add", f"p{layer} {b}", f"q{layer}"),
            *([node("MatMul", f"q{layer} net.0.w", f"r{layer}")] if again == "inside" else []),
            node("Tanh", f"{'r' if again == 'inside' else 'q'}{layer}", f"t{layer}"),
            node("Add", f"h{layer} t{layer}", f"h{layer + 1}"),
        ]
    nodes.append(node("MatMul", f"h{count} net.0.w", "y") if again == "after" else node("Relu", f"h{count}", "y"))
    outputs = [info("y", None), *([info(extra, None)] if extra else [])]
    return model(nodes, [info("x", ["N", 6])], outputs, weights(**arrays))


def test_layers_become_one_loop_over_tables(tmp_path: Path) -> None:
    proto = layers(5)
    imported = load(saved(proto, tmp_path))
    assert "loop layers (l in 0..5) {" in imported.text
    assert 'net_w(l): f32[6, 6] @pattern("net.{l}.w");' in imported.text
    assert imported.text.count("op linear(") == 1
    agrees(proto, imported, {"x": rand(3, 6)})


@pytest.mark.parametrize("named", [False, True])
def test_the_loop_computes_the_same_bits_as_the_layers(named: bool, tmp_path: Path) -> None:
    path = saved(layers(4, named=named), tmp_path)
    rolled, flat = load(path), load(path, roll=False)
    assert ("loop" in rolled.text, "loop" in flat.text) == (True, False)
    x = rand(2, 6)
    np.testing.assert_array_equal(run(rolled, {"x": x})[0], run(flat, {"x": x})[0])


@pytest.mark.parametrize("again", ["after", "inside"])
def test_the_weight_of_the_first_layer_may_be_read_elsewhere(again: str, tmp_path: Path) -> None:
    proto = layers(5, again=again)
    imported = load(saved(proto, tmp_path))
    assert "loop layers" in imported.text
    agrees(proto, imported, {"x": rand(3, 6)})


def test_names_that_count_nothing_get_a_pattern_of_their_own(tmp_path: Path) -> None:
    imported = load(saved(layers(4, named=False), tmp_path))
    names = set(imported.model.tensors)
    assert {f"layer.{layer}.wa" for layer in range(4)} <= names


def test_what_is_read_within_a_layer_keeps_that_layer_out_of_the_loop(tmp_path: Path) -> None:
    proto = layers(6, extra="t1")
    imported = load(saved(proto, tmp_path))
    assert "loop layers (l in 0..4) {" in imported.text
    agrees(proto, imported, {"x": rand(2, 6)})


def test_two_layers_stay_as_they_are(tmp_path: Path) -> None:
    proto = layers(2)
    imported = load(saved(proto, tmp_path))
    assert "loop" not in imported.text
    agrees(proto, imported, {"x": rand(2, 6)})


def test_an_input_of_the_model_may_be_what_the_first_layer_takes(tmp_path: Path) -> None:
    proto = layers(3)
    del proto.graph.node[0]
    proto.graph.node[0].input[0] = proto.graph.node[3].input[0] = "x"
    imported = load(saved(proto, tmp_path))
    assert "transfer x >> h;" in imported.text
    agrees(proto, imported, {"x": rand(4, 6)})


def test_two_values_may_be_handed_on(tmp_path: Path) -> None:
    """Of a pair (a, b) each layer makes (b, a w)."""
    nodes: list[Any] = []
    arrays: dict[str, Any] = {}
    for layer in range(4):
        arrays[f"w.{layer}"] = rand(3, 3)
        a, b = (f"a{layer}", f"b{layer}") if layer else ("x", "z")
        nodes += [
            node("MatMul", f"{a} w.{layer}", f"m{layer}"),
            node("Tanh", f"m{layer}", f"b{layer + 1}"),
            node("Sin", b, f"s{layer}"),
            node("Add", f"s{layer} {b}", f"a{layer + 1}"),
        ]
    proto = model(
        nodes, [info("x", [2, 3]), info("z", [2, 3])], [info("a4", None), info("b4", None)], weights(**arrays)
    )
    imported = load(saved(proto, tmp_path))
    assert "loop layers" in imported.text
    agrees(proto, imported, {"x": rand(2, 3), "z": rand(2, 3)})


@pytest.mark.parametrize("start", ["x", "h0"], ids=["what every layer reads", "what two values begin with"])
def test_a_value_has_one_meaning_in_a_loop(start: str, tmp_path: Path) -> None:
    nodes: list[Any] = [node("Cos", "x", "h0")]
    arrays: dict[str, Any] = {}
    h = c = start
    for layer in range(3):
        arrays[f"net.{layer}.w"] = rand(2, 2)
        nodes += [node("MatMul", f"{h} net.{layer}.w", f"a{layer}"), node("Sin", f"a{layer}", f"b{layer}")]
        if start == "x":
            nodes.append(node("Add", f"b{layer} x", f"c{layer}"))
            h = f"c{layer}"
        else:
            nodes.append(node("Sub", f"b{layer} {c}", f"c{layer}"))
            h, c = f"b{layer}", f"c{layer}"
    proto = model([*nodes, node("Add", f"{h} {c}", "y")], [info("x", [2, 2])], [info("y", None)], weights(**arrays))
    agrees(proto, load(saved(proto, tmp_path)), {"x": rand(2, 2)})


def test_tables_leave_other_weights_alone(tmp_path: Path) -> None:
    nodes: list[Any] = [node("MatMul", "x layer.0.weight", "c0")]
    arrays: dict[str, Any] = {"layer.0.weight": rand(2, 2)}
    for layer in range(1, 4):
        arrays |= {f"{layer}.weight": rand(2, 2), f"h.{layer}.a_b": rand(2, 2)}
        nodes += [
            node("MatMul", f"c{layer - 1} {layer}.weight", f"d{layer}"),
            node("Sin", f"d{layer}", f"e{layer}"),
            node("MatMul", f"e{layer} h.{layer}.a_b", f"c{layer}"),
        ]
    proto = model([*nodes, node("Neg", "c3", "y")], [info("x", [1, 2])], [info("y", None)], weights(**arrays))
    imported = load(saved(proto, tmp_path))
    assert "loop" in imported.text
    agrees(proto, imported, {"x": rand(1, 2)})


def test_a_range_that_layers_start_from_is_declared(tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Range", "zero n one", "h0")]
    for layer in range(4):
        nodes += [node("Mul", f"h{layer} k", f"a{layer}"), node("Sub", f"a{layer} k", f"b{layer}")]
        nodes.append(node("Neg", f"b{layer}", f"h{layer + 1}"))
    nodes.append(node("Add", "x h4", "y"))
    ends = weights(zero=np.array(0), one=np.array(1), k=np.array([3]))
    proto = model(nodes, [info("x", ["N"], INT64)], [info("y", None, INT64)], ends)
    imported = load(saved(proto, tmp_path))
    assert "loop layers" in imported.text
    agrees(proto, imported, {"x": np.arange(10)})


@pytest.mark.parametrize("seed", range(20))
def test_runs_of_equal_calls_are_those_that_a_search_place_by_place_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = np.tile(rng.integers(0, 3, rng.integers(1, 7)), 6)
    numbers[rng.integers(0, len(numbers), 2)] = rng.integers(0, 3)
    wanted: set[tuple[int, int, int]] = set()
    for period in range(3, len(numbers) // 3 + 1):
        same = [numbers[place] == numbers[place + period] for place in range(len(numbers) - period)]
        for start in range(len(same)):
            length = next((end for end in range(start, len(same)) if not same[end]), len(same)) - start
            if length >= 2 * period and (start == 0 or not same[start - 1]):
                wanted.add((start, period, length // period + 1))
    assert set(repetition.runs(numbers.tolist())) == wanted
