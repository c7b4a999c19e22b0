"""`If`, `Loop` and `Scan` of ONNX as branches and loops of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import FLOAT, INT64, agrees, info, model, node, run, saved, weights

from openinfer import ModelImportError
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(3)
BOOL = TensorProto.BOOL


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[str], initialisers: Any = ()) -> Any:
    """Return a graph inside of a node."""
    return helper.make_graph(nodes, "body", inputs, [info(name, None) for name in outputs], list(initialisers))


def branching() -> Any:
    """Return a model that adds or subtracts, by a condition."""
    sides = {
        "then_branch": graph([node("Add", "x w", "a"), node("Relu", "a", "z"), node("Neg", "x", "n")], [], ["z", "n"]),
        "else_branch": graph([node("Sub", "x w", "z")], [], ["z", "x"]),
    }
    nodes = [node("If", "c", "p q", **sides), node("Mul", "p q", "y")]
    inputs = [info("x", ["n", 3]), info("c", [], BOOL)]
    return model(nodes, inputs, [info("y", None), info("p", None)], weights(w=rand(3)))


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_of_the_running_program_is_a_branch(condition: bool, tmp_path: Path) -> None:
    proto = branching()
    imported = load(saved(proto, tmp_path))
    assert "branch c when_true when_false;" in imported.text
    agrees(proto, imported, {"x": rand(2, 3), "c": np.array(condition)})


def test_sides_of_different_shapes_need_the_condition(tmp_path: Path) -> None:
    sides = {
        "then_branch": graph([node("Neg", "x", "z")], [], ["z"]),
        "else_branch": graph([node("ReduceSum", "x", "z", keepdims=0)], [], ["z"]),
    }
    path = saved(
        model([node("If", "c", "y", **sides)], [info("x", [3]), info("c", [], BOOL)], [info("y", None)]), tmp_path
    )
    with pytest.raises(ModelImportError, match=r"If 'y'.*fix --set c=VALUE"):
        load(path)
    assert "op neg(x) >> y;" in load(path, values={"c": True}).text


@pytest.mark.parametrize("condition", [True, False])
def test_sides_may_have_loops(condition: bool, tmp_path: Path) -> None:
    def side(name: str) -> Any:
        parameters = weights(**{f"w{name}": rand(1, 16, 3), f"r{name}": rand(1, 16, 4)})
        return graph([node("LSTM", f"x w{name} r{name}", "z", hidden_size=4)], [], ["z"], parameters)

    nodes = [node("If", "c", "y", then_branch=side("a"), else_branch=side("b"))]
    proto = model(nodes, [info("x", ["T", 2, 3]), info("c", [], BOOL)], [info("y", None)])
    imported = load(saved(proto, tmp_path))
    assert imported.text.count("loop time") == 2
    agrees(proto, imported, {"x": rand(5, 2, 3), "c": np.array(condition)})


def test_a_condition_on_a_shape_needs_its_sizes(tmp_path: Path) -> None:
    sides = {
        "then_branch": graph([node("Squeeze", "x one", "z")], [], ["z"]),
        "else_branch": graph([node("Neg", "x", "z")], [], ["z"]),
    }
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "length"),
        node("Equal", "length one", "c"),
        node("If", "c", "y", **sides),
    ]
    path = saved(model(nodes, [info("x", [2, "T"])], [info("y", None)], weights(one=np.array([1]))), tmp_path)
    with pytest.raises(ModelImportError, match=r"If 'y'.*: fix --set T=NUMBER$") as raised:
        load(path)
    assert raised.value.inputs == ()
    assert "op squeeze(x" in load(path, values={"T": 1}).text
    assert "op neg(x)" in load(path, values={"T": 3}).text


def test_a_side_with_an_unknown_node_needs_the_condition(tmp_path: Path) -> None:
    sides = {
        "then_branch": graph([node("Neg", "x", "z")], [], ["z"]),
        "else_branch": graph([node("Det", "x", "z")], [], ["z"]),
    }
    path = saved(
        model([node("If", "c", "y", **sides)], [info("x", [3]), info("c", [], BOOL)], [info("y", None)]), tmp_path
    )
    with pytest.raises(ModelImportError, match="fix --set c=VALUE"):
        load(path)


def turning(count: Any, condition: list[Any], outputs: list[str] | None = None, **more: Any) -> Any:
    """Return a model with a loop over ``s``: s = s * w + i, whose turns give s too if ``outputs`` has a second name."""
    body = graph(
        [
            *condition,
            node("Mul", "s w", "p"),
            node("Cast", "i", "f", to=FLOAT),
            node("Add", "p f", "s2"),
            node("Neg", "s2", "row"),
        ],
        [info("i", [], INT64), info("go", [], BOOL), info("s", [3])],
        ["go2", "s2", *(["row"] if len(outputs or []) > 1 else [])],
        more.pop("constants", ()),
    )
    inputs = [info("x", [3]), *([info("m", [], INT64)] if count is None else [])]
    initial = weights(w=rand(3)) if count is None else weights(w=rand(3), m=np.array(count))
    outputs = outputs or ["y"]
    return model(
        [node("Loop", "m - x", " ".join(outputs), body=body)], inputs, [info(n, None) for n in outputs], initial
    )


def turned(proto: Any, x: Any, count: int) -> list[Any]:
    """Return the state after each turn of a model of `turning`; ONNX's reference evaluator adds nothing to it."""
    w = numpy_helper.to_array(next(each for each in proto.graph.initializer if each.name == "w"))
    states = [x]
    for number in range(count):
        states.append(states[-1] * w + np.float32(number))
    return states


SAME = [node("Identity", "go", "go2")]
"""A condition that stays as it is."""


def test_a_loop_that_no_condition_ends_counts_its_iterations(tmp_path: Path) -> None:
    proto = turning(4, SAME, ["y", "rows"])
    imported = load(saved(proto, tmp_path))
    assert "loop turns (t in 0..4)" in imported.text
    assert "branch" not in imported.text
    x = rand(3)
    y, rows = run(imported, {"x": x})
    states = turned(proto, x, 4)
    np.testing.assert_allclose(y, states[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows, -np.stack(states[1:]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outputs", [["y"], ["y", "rows"]])
@pytest.mark.parametrize(("count", "is_true"), [(0, True), (4, False), (None, False)])
def test_a_loop_without_iterations_keeps_its_states(
    count: int | None, is_true: bool, outputs: list[str], tmp_path: Path
) -> None:
    proto = turning(count, SAME, outputs)
    proto.graph.node[0].input[1] = "goes"
    proto.graph.initializer.append(numpy_helper.from_array(np.array(is_true), "goes"))
    imported = load(saved(proto, tmp_path))
    assert "loop" not in imported.text
    x = rand(3)
    y, *rows = run(imported, {"x": x, **({"m": np.array(3)} if count is None else {})})
    np.testing.assert_array_equal(y, x)
    assert [each.shape for each in rows] == [(0, 3)] * (len(outputs) - 1)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_number_of_iterations_may_be_known_at_run_time_only(count: int, tmp_path: Path) -> None:
    proto = turning(None, SAME)
    imported = load(saved(proto, tmp_path))
    assert "loop turns (t in 0..m)" in imported.text
    x = rand(3)
    (y,) = run(imported, {"x": x, "m": np.array(count)})
    np.testing.assert_allclose(y, turned(proto, x, count)[-1], rtol=1e-5, atol=1e-6)


def test_a_condition_ends_a_loop(tmp_path: Path) -> None:
    until = [node("Less", "i last", "go2")]
    proto = turning(20, until, constants=weights(last=np.array(6)))
    imported = load(saved(proto, tmp_path))
    assert "branch" in imported.text
    x = rand(3)
    # The turn whose number is 6 is the last: it is the one that ends the loop.
    np.testing.assert_allclose(run(imported, {"x": x})[0], turned(proto, x, 7)[-1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("proto", "said"),
    [
        (
            turning(1 << 40, [node("Less", "i last", "go2")], constants=weights(last=np.array(6))),
            "until a condition ends",
        ),
        (
            turning(9, [node("Less", "i last", "go2")], ["y", "rows"], constants=weights(last=np.array(6))),
            "results with a row for each turn",
        ),
        (turning(None, SAME, ["y", "rows"]), "whose number only the running program knows"),
    ],
)
def test_a_loop_that_no_statement_says_is_an_error_that_names_it(proto: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match=f"Loop 'y'.*{said}"):
        load(saved(proto, tmp_path))


@pytest.mark.parametrize("value", [None, 20])
def test_a_loop_without_a_largest_count_takes_one_as_the_message_says(value: int | None, tmp_path: Path) -> None:
    until = [node("Less", "i last", "go2")]
    proto = turning(None, until, constants=weights(last=np.array(6)))
    proto.graph.node[0].input[0] = ""
    with pytest.raises(ModelImportError, match=r"no largest number of turns; give the node its first input \(M\)"):
        load(saved(proto, tmp_path))

    proto.graph.node[0].input[0] = "m"
    imported = load(saved(proto, tmp_path), values={} if value is None else {"m": value})

    x = rand(3)
    (y,) = run(imported, {"x": x, **({"m": np.array(20)} if value is None else {})})
    np.testing.assert_allclose(y, turned(proto, x, 7)[-1], rtol=1e-5, atol=1e-6)


def test_a_branch_within_a_loop_reads_the_number_of_the_turn(tmp_path: Path) -> None:
    sides = {
        "then_branch": graph([node("Cast", "i", "f", to=FLOAT), node("Add", "s f", "z")], [], ["z"]),
        "else_branch": graph([node("Neg", "s", "z")], [], ["z"]),
    }
    body = graph(
        [*SAME, node("Less", "i two", "early"), node("If", "early", "s2", **sides)],
        [info("i", [], INT64), info("go", [], BOOL), info("s", [2])],
        ["go2", "s2"],
        weights(two=np.array(2)),
    )
    proto = model([node("Loop", "m - x", "y", body=body)], [info("x", [2])], [info("y", None)], weights(m=np.array(5)))
    imported = load(saved(proto, tmp_path))
    x = rand(2)
    # -(-(-((x + 0) + 1)))
    np.testing.assert_allclose(run(imported, {"x": x})[0], -(x + 1), rtol=1e-6)


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_is_a_loop_over_an_axis(axis: int, backward: int, tmp_path: Path) -> None:
    body = graph(
        [node("Add", "s e", "s2"), node("Mul", "s2 e", "row"), node("Identity", "s", "before")],
        [info("s", [2]), info("e", [2])],
        ["s2", "row", "before"],
    )
    attributes: dict[str, Any] = {
        "num_scan_inputs": 1,
        "scan_input_axes": [axis],
        "scan_input_directions": [backward],
        "scan_output_axes": [axis, 0],
        "scan_output_directions": [0, backward],
    }
    dims: list[Any] = ["T", 2] if axis == 0 else [2, "T"]
    proto = model(
        [node("Scan", "s0 x", "last rows befores", body=body, **attributes)],
        [info("s0", [2]), info("x", dims)],
        [info(name, None) for name in ("last", "rows", "befores")],
    )
    imported = load(saved(proto, tmp_path))
    assert "loop turns (t in 0..T)" in imported.text
    s0, x = rand(2), rand(*((5, 2) if axis == 0 else (2, 5)))
    state = s0
    rows: list[Any] = []
    befores: list[Any] = []
    for element in np.moveaxis(x, axis, 0)[:: -1 if backward else 1]:
        befores.append(state)
        state = state + element
        rows.append(state * element)
    last, found_rows, found_befores = run(imported, {"s0": s0, "x": x})
    np.testing.assert_allclose(last, state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found_rows, np.stack(rows, axis), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found_befores, np.stack(befores[:: -1 if backward else 1]), rtol=1e-5, atol=1e-6)


def test_a_scan_whose_state_changes_shape_is_an_error_that_names_it(tmp_path: Path) -> None:
    body = graph([node("Concat", "s e", "s2", axis=0)], [info("s", [2]), info("e", [2])], ["s2"])
    proto = model(
        [node("Scan", "s0 x", "y", body=body, num_scan_inputs=1)],
        [info("s0", [2]), info("x", [3, 2])],
        [info("y", None)],
    )
    with pytest.raises(ModelImportError, match=r"Scan 'y'.*a state whose type or shape changes"):
        load(saved(proto, tmp_path))


@pytest.mark.parametrize("handed_on", ["b s", "b a", "s s", "x a", "a s", "x x"])
def test_states_may_change_places_and_come_from_outside(handed_on: str, tmp_path: Path) -> None:
    """Each state of a turn is what the body hands on: another state, a value around the loop, one value twice."""
    states = [info("a", [3]), info("b", [3])]
    taken = [info("i", [], INT64), info("c", [], BOOL), *states]
    outputs = [f"{name}_{place}" for place, name in enumerate(handed_on.split())]
    copies = [node("Identity", *pair) for pair in zip(handed_on.split(), outputs, strict=True)]
    body = graph([node("Add", "a x", "s"), node("Identity", "c", "goes_on"), *copies], taken, ["goes_on", *outputs])
    loop = node("Loop", "n always p q", "y z", body=body)
    fixed = weights(n=np.int64(5), always=np.array(True))
    inputs = [info(name, [3]) for name in "xpq"]
    proto = model([loop], inputs, [info("y", None), info("z", None)], fixed)

    imported = load(saved(proto, tmp_path))

    agrees(proto, imported, {name: rand(3) for name in "xpq"})


def test_branches_that_read_a_value_of_a_failed_node_are_not_reported_as_well(tmp_path: Path) -> None:
    inner = graph([node("Relu", "a", "i")], [], ["i"])
    nested = graph([node("If", "t", "j", then_branch=inner, else_branch=inner), node("Neg", "j", "k")], [], ["k"])
    nodes = [node("Det", "x", "a"), node("If", "t", "y", then_branch=nested, else_branch=nested)]
    proto = model(nodes, [info("x", [3])], [info("y", None)], weights(t=np.array(True)))
    with pytest.raises(ModelImportError) as raised:
        load(saved(proto, tmp_path))
    assert raised.value.nodes == ("Det 'a'",)


def test_weights_of_a_cell_whose_names_are_made_up_are_named_after_its_module(tmp_path: Path) -> None:
    gru = node("GRU", "x val_1 val_2 val_3", "- h", hidden_size=2, linear_before_reset=1)
    gru.name = "/net/memory/GRU"
    arrays = {"val_1": rand(1, 6, 3), "val_2": rand(1, 6, 2), "val_3": rand(1, 12)}
    proto = model([gru], [info("x", ["steps", 1, 3])], [info("h", None)], weights(**arrays))
    imported = load(saved(proto, tmp_path), feeds={})
    assert set(imported.model.tensors) == {"net.memory.weight", "net.memory.recurrent", "net.memory.bias"}


def while_below(*rows: str) -> Any:
    """Return a loop of up to ten turns that doubles `s` while it is below 100; ``rows`` are results of each turn."""
    nodes = [node("Add", "s s", "t"), node("Identity", "t", "u"), node("Less", "t most", "go")]
    inputs = [info("turn", [], TensorProto.INT64), info("goes", [], BOOL), info("s", [])]
    outputs = [info("go", [], BOOL), info("t", []), *(info(name, []) for name in rows)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    ends = weights(m=np.array(10), yes=np.array(True), most=np.float32(100))
    results = " ".join(["y", *(f"{name}s" for name in rows)])
    return model([node("Loop", "m yes x", results, body=body)], [info("x", [])], [info("y", None)], ends)


def test_rows_of_iterations_that_a_condition_ends_are_an_error_that_names_the_loop(tmp_path: Path) -> None:
    stateful = while_below()
    agrees(stateful, load(saved(stateful, tmp_path)), {"x": np.float32(3)})
    with pytest.raises(ModelImportError, match="a row for each turn, whose number a condition") as raised:
        load(saved(while_below("u"), tmp_path))
    assert raised.value.nodes == ("Loop 'y'",)
