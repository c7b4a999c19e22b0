"""Subgraphs of TFLite models: branches, loops, and variables that are kept from one inference to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert import litert
from tflite_models import Graph, Operator, Tensor, holds, imported, model, of, op, run, saved

from openinfer import ExecutionError, ModelImportError, Simulator
from openinfer.importers import load, verify
from openinfer.importers.tflite_files.families import control_flow
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

F32, I32, BOOL = np.float32, np.int32, np.bool_
RNG = np.random.default_rng(8)


def number(name: str, value: Any) -> Any:
    return holds(name, np.asarray(value, I32 if isinstance(value, int) else F32))


def unary(kind: str) -> Graph:
    return Graph([of("a", [2, 3]), of("b", [2, 3])], [op(kind, "a", "b")], "a", "b")


def chosen(*graphs: Graph, inputs: str = "c x") -> bytes:
    tensors = [of("c", [1], BOOL), of("x", [2, 3]), of("y", [2, 3])]
    layer = op("IF", "c x", "y", "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    return model(tensors, [layer], inputs, "y", *graphs)


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_chooses_a_subgraph(condition: bool, tmp_path: Path) -> None:
    data, x = chosen(unary("ABS"), unary("NEG")), RNG.standard_normal((2, 3)).astype(F32)
    inputs = {"c": np.array([condition]), "x": x}
    program = imported(data, tmp_path)
    assert "branch" in program.text
    found = run(program, **inputs)[0]
    np.testing.assert_array_equal(found, np.abs(x) if condition else -x)
    np.testing.assert_array_equal(found, litert(saved(data, tmp_path), **inputs)[0])
    fixed = imported(data, tmp_path, values={"c": condition})
    assert "branch" not in fixed.text
    np.testing.assert_array_equal(run(fixed, x=x)[0], found)


def images(kind: str) -> Graph:
    """Return a subgraph of two layers that have channels first between them."""
    window = {"FilterWidth": 2, "FilterHeight": 2, "StrideW": 1, "StrideH": 1}
    tensors = [of("a", [1, 4, 4, 2]), of("h", [1, 4, 4, 2]), of("b", [1, 4, 4, 2])]
    operators = [op("AVERAGE_POOL_2D", "a", "h", "Pool2DOptions", **window), op(kind, "h", "b")]
    return Graph(tensors, operators, "a", "b")


@pytest.mark.parametrize("condition", [True, False])
def test_images_within_a_branch_are_not_there_outside_of_it(condition: bool, tmp_path: Path) -> None:
    window = {"FilterWidth": 3, "FilterHeight": 3, "StrideW": 1, "StrideH": 1}
    tensors = [of("c", [], BOOL), *(of(name, [1, 4, 4, 2]) for name in "xhyz")]
    operators = [
        op("IF", "c x", "h", "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2),
        op("MAX_POOL_2D", "x", "y", "Pool2DOptions", **window),
        op("ADD", "h y", "z", "AddOptions"),
    ]
    data = model(tensors, operators, "c x", "z", images("ABS"), images("NEG"))
    inputs = {"c": np.array(condition), "x": RNG.standard_normal((1, 4, 4, 2)).astype(F32)}
    found = run(imported(data, tmp_path), **inputs)[0]
    np.testing.assert_allclose(found, litert(saved(data, tmp_path), **inputs)[0], rtol=1e-6)


def looped(condition: Graph, body: Graph, start: Tensor, counter: Tensor | None = None) -> bytes:
    """Return a loop of a counter, which is stored or an input, and a value."""
    tensors = [start, of("x", [2]), counter or of("j", [], I32), of("y", [2])]
    layer = op("WHILE", "i x", "j y", "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    return model(tensors, [layer], "x" if start.stored else "i x", "j y", condition, body)


def until(comparison: str, limit: int) -> Graph:
    tensors = [of("i", [], I32), of("x", [2]), number("n", limit), of("go", [], BOOL)]
    return Graph(tensors, [op(comparison, "i n", "go")], "i x", "go")


def turn(step: int) -> Graph:
    tensors = [of("i", [], I32), of("x", [2]), number("s", step), of("j", [], I32), number("h", 1.5), of("y", [2])]
    operators = [op("ADD", "i s", "j", "AddOptions"), op("MUL", "x h", "y", "MulOptions")]
    return Graph(tensors, operators, "i x", "j y")


@pytest.mark.parametrize(
    ("comparison", "start", "limit", "step", "turns"),
    [
        ("LESS", 0, 5, 1, 5),
        ("LESS", 1, 8, 3, 3),
        ("LESS_EQUAL", 1, 7, 3, 3),
        ("GREATER", 5, 0, -2, 3),
        ("GREATER_EQUAL", 4, 0, -2, 3),
        ("LESS", 9, 5, 1, 0),
    ],
)
def test_loops_that_count_have_their_number_of_turns(
    comparison: str, start: int, limit: int, step: int, turns: int, tmp_path: Path
) -> None:
    data, x = looped(until(comparison, limit), turn(step), number("i", start)), np.array([1, -2], F32)
    program = imported(data, tmp_path)
    assert f"in 0..{turns})" in program.text or not turns
    counter, found = run(program, x=x)
    assert counter == start + turns * step
    np.testing.assert_array_equal(found, x * F32(1.5) ** turns)
    theirs = litert(saved(data, tmp_path), x=x)
    assert theirs[0] == counter
    np.testing.assert_array_equal(found, theirs[1])


def test_a_counter_that_an_activation_bounds_does_not_count(tmp_path: Path) -> None:
    tensors = [of("i", [], I32), of("x", [2]), number("s", 2), of("j", [], I32), number("h", 1.5), of("y", [2])]
    bounded = op("ADD", "i s", "j", "AddOptions", FusedActivationFunction=1)
    body = Graph(tensors, [bounded, op("MUL", "x h", "y", "MulOptions")], "i x", "j y")
    x = np.array([1, -2], F32)
    counter, found = run(imported(looped(until("LESS", 3), body, number("i", -9)), tmp_path), x=x)
    assert counter == 4
    np.testing.assert_array_equal(found, x * F32(1.5) ** 3)


def test_a_counter_of_codes_does_not_count(tmp_path: Path) -> None:
    scaled = {"dtype": np.int8, "scale": 0.5, "zero": 3}
    stored = [holds(name, np.asarray(code, np.int8), 0.5, 3) for name, code in (("n", 11), ("s", 5))]
    i, x, j = of("i", [], **scaled), of("x", [2]), of("j", [], **scaled)
    small = Graph([i, x, stored[0], of("go", [], BOOL)], [op("LESS", "i n", "go")], "i x", "go")
    body = Graph([i, x, stored[1], j], [op("ADD", "i s", "j", "AddOptions")], "i x", "j x")
    data = looped(small, body, holds("i", np.asarray(3, np.int8), 0.5, 3), counter=j)
    # From the real 0 to 4, by 1.
    assert run(imported(data, tmp_path), x=np.zeros(2, F32))[0] == 11


@pytest.mark.parametrize("start", [-2, 0, 9])
def test_a_counter_may_start_where_the_program_says(start: int, tmp_path: Path) -> None:
    data, x = looped(until("LESS", 4), turn(1), of("i", [], I32)), np.array([1, -2], F32)
    inputs = {"i": np.array(start, I32), "x": x}
    counter, found = run(imported(data, tmp_path), **inputs)
    np.testing.assert_array_equal(found, x * F32(1.5) ** max(4 - start, 0))
    theirs = litert(saved(data, tmp_path), **inputs)
    assert counter == theirs[0]
    np.testing.assert_array_equal(found, theirs[1])


def test_a_loop_may_be_ended_by_a_value(tmp_path: Path) -> None:
    tensors = [of("i", [], I32), of("x", [2]), number("axis", 0), number("n", 9.0), of("s", []), of("go", [], BOOL)]
    small = Graph(tensors, [op("SUM", "x axis", "s", "ReducerOptions"), op("LESS", "s n", "go")], "i x", "go")
    data, x = looped(small, turn(1), number("i", 0)), np.array([0.25, 0.5], F32)
    program = imported(data, tmp_path)
    assert any("at most 65536 turns" in note for note in program.report.notes)
    counter, found = run(program, x=x)
    assert counter == 7
    np.testing.assert_array_equal(found, x * F32(1.5) ** 7)
    np.testing.assert_array_equal(found, litert(saved(data, tmp_path), x=x)[1])


@pytest.mark.parametrize("start", [5.0, 0.5])
def test_a_loop_that_its_condition_does_not_end_is_an_error(
    start: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(control_flow, "MOST_TURNS", 4)
    tensors = [of("i", [], I32), of("x", [2]), number("axis", 0), number("n", 9.0), of("s", []), of("go", [], BOOL)]
    small = Graph(tensors, [op("SUM", "x axis", "s", "ReducerOptions"), op("LESS", "s n", "go")], "i x", "go")
    program, x = imported(looped(small, turn(1), number("i", 0)), tmp_path), np.array([start, 0], F32)
    if start > 1:
        assert run(program, x=x)[0] == 2
        return
    with pytest.raises(ExecutionError) as caught:
        run(program, x=x)
    assert caught.value.code == "out-of-range"


def handle(name: str, result: str, container: str = "") -> Operator:
    return op("VAR_HANDLE", "", result, "VarHandleOptions", Container=container, SharedName=name)


def counting(*first: Graph) -> bytes:
    """Return a model that adds its input to a variable, and returns the total before and after."""
    tensors = [of("x", [3]), of("r", [], I32, kind="RESOURCE"), of("before", [3]), of("y", [3])]
    operators = [
        *([op("CALL_ONCE", "", "", "CallOnceOptions", InitSubgraphIndex=1)] if first else []),
        handle("total", "r"),
        op("READ_VARIABLE", "r", "before", "ReadVariableOptions"),
        op("ADD", "before x", "y", "AddOptions"),
        op("ASSIGN_VARIABLE", "r y", "", "AssignVariableOptions"),
    ]
    return model(tensors, operators, "x", "before y", *first)


def begin(value: Any) -> Graph:
    tensors = [of("r", [], I32, kind="RESOURCE"), holds("v", value)]
    return Graph(tensors, [handle("total", "r"), op("ASSIGN_VARIABLE", "r v", "", "AssignVariableOptions")], "", "")


def test_variables_are_kept_from_step_to_step(tmp_path: Path) -> None:
    data = counting(begin(np.array([1, 2, 3], F32)))
    program = imported(data, tmp_path)
    xs = RNG.standard_normal((3, 3)).astype(F32)
    total = np.array([1, 2, 3], F32)
    with Simulator(program.model, program.graph).make_executor() as executor:
        for x in xs:
            executor.step(x=x)
            np.testing.assert_array_equal(np.asarray(executor.fetch("before")), total)
            total = total + x
            np.testing.assert_array_equal(np.asarray(executor.fetch("y")), total)
    pytest.importorskip("ai_edge_litert", reason="the original runs by LiteRT, the package ai-edge-litert")
    found = verify(saved(data, tmp_path), program, steps=3)
    assert found.agrees, found


def test_variables_of_one_name_are_two_and_none_is_the_input(tmp_path: Path) -> None:
    tensors, operators = [of("x", [3])], list[Operator]()
    for place, result in enumerate("yz"):
        tensors += [of(f"r{place}", [], I32, kind="RESOURCE"), of(f"b{place}", [3]), of(result, [3])]
        operators += [
            handle("x", f"r{place}", f"folder{place}"),
            op("READ_VARIABLE", f"r{place}", f"b{place}", "ReadVariableOptions"),
            op(("ADD", "SUB")[place], f"b{place} x", result, ("AddOptions", "SubOptions")[place]),
            op("ASSIGN_VARIABLE", f"r{place} {result}", "", "AssignVariableOptions"),
        ]
    data, x = model(tensors, operators, "x", "y z"), np.array([1, 2, 3], F32)
    program = imported(data, tmp_path)
    with Simulator(program.model, program.graph).make_executor() as executor:
        for turns in (1, 2):
            executor.step(x=x)
            np.testing.assert_array_equal(np.asarray(executor.fetch("y")), turns * x)
            np.testing.assert_array_equal(np.asarray(executor.fetch("z")), -turns * x)


def test_variables_without_a_first_value_hold_zeros(tmp_path: Path) -> None:
    x = np.array([1, 2, 3], F32)
    before, after = run(imported(counting(), tmp_path), x=x)
    np.testing.assert_array_equal(before, np.zeros(3))
    np.testing.assert_array_equal(after, x)


def test_a_variable_that_nobody_writes_is_a_constant(tmp_path: Path) -> None:
    tensors = [of("x", [3]), of("r", [], I32, kind="RESOURCE"), of("before", [3]), of("y", [3])]
    operators = [
        op("CALL_ONCE", "", "", "CallOnceOptions", InitSubgraphIndex=1),
        handle("total", "r"),
        op("READ_VARIABLE", "r", "before", "ReadVariableOptions"),
        op("ADD", "before x", "y", "AddOptions"),
    ]
    program = imported(model(tensors, operators, "x", "y", begin(np.array([1, 2, 3], F32))), tmp_path)
    assert "persistent" not in program.text
    np.testing.assert_array_equal(run(program, x=np.ones(3, F32))[0], [2, 3, 4])


def computed() -> Graph:
    tensors = [of("r", [], I32, kind="RESOURCE"), of("x", [3]), of("v", [3])]
    operators = [handle("total", "r"), op("ABS", "x", "v"), op("ASSIGN_VARIABLE", "r v", "", "AssignVariableOptions")]
    return Graph(tensors, operators, "x", "v")


WIDE, TALL = [2, 3], [3, 2]
RESHAPED = Graph([of("a", WIDE), of("b", TALL)], [op("RESHAPE", "a", "b", "ReshapeOptions", NewShape=TALL)], "a", "b")
ENDLESS = op("IF", "a", "b", "IfOptions", ThenSubgraphIndex=2, ElseSubgraphIndex=1)


@pytest.mark.parametrize(
    ("graphs", "said"),
    [
        ([unary("ABS"), RESHAPED], "results whose types or shapes the condition decides"),
        ([unary("ABS")], "an operator runs subgraph 2, of 2"),
        ([unary("ABS"), Graph([of("a", WIDE), of("b", WIDE)], [ENDLESS], "a", "b")], "subgraph 2 runs itself"),
        ([unary("ABS"), unary("REAL")], "REAL 'b'(f32[2,3]): no operator implements it"),
        ([unary("ABS"), Graph([of("b", WIDE)], [], "", "b")], "subgraph 2 has 0 inputs, and is run with 1"),
    ],
    ids=["shapes", "missing", "itself", "operator", "inputs"],
)
def test_subgraphs_that_do_not_fit_are_named(graphs: list[Graph], said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelImportError) as raised:
        imported(chosen(*graphs), tmp_path)
    assert said in str(raised.value)


def test_variables_are_not_written_in_branches(tmp_path: Path) -> None:
    tensors = [of("c", [], BOOL), of("x", [3]), of("y", [3])]
    layer = op("IF", "c x", "y", "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    path = saved(model(tensors, [layer], "c x", "y", computed()), tmp_path)
    with pytest.raises(ModelImportError, match="the variable 'total' is written in a branch or a loop"):
        load(path)
