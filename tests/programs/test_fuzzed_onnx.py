"""Random ONNX graphs against onnxruntime; and that the fuzzer meets every operator, sees what is wrong, shrinks it."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer import ModelImportError
from openinfer.plugins.environment import Environment

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed")

FUZZER = Path(__file__).resolve().parents[2] / "openinfer-core" / "fuzz" / "fuzz_onnx.py"

pytestmark = pytest.mark.skipif(not FUZZER.is_file(), reason="the fuzzer is not in this tree")

SEED = 3


def test_random_graphs_are_what_onnxruntime_computes(tmp_path: Path) -> None:
    targets = "cpu,c" if shutil.which("gcc") else "cpu"
    sample = ["--count", "100", "--seed", f"{SEED}", "--targets", targets, "--levels", "O0", "--keep", str(tmp_path)]

    run = subprocess.run([sys.executable, str(FUZZER), *sample], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    imported = re.search(r"^graphs: (\d+) imported", run.stdout, re.MULTILINE)
    assert imported is not None
    assert int(imported[1]) > 90, run.stdout


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the fuzzer by name."""
    monkeypatch.syspath_prepend(str(FUZZER.parent))
    return lambda name: importlib.import_module(f"random_onnx.{name}")


@pytest.fixture
def runtime(graphs: Any) -> Iterator[Any]:
    with graphs("runtime").Runtime() as process:
        yield process


def start(graphs: Any, runtime: Any) -> Any:
    """Return a trace without values."""
    return graphs("tracing").Trace(0, runtime, Environment.default())


def test_every_translated_operator_is_drawn_as_valid_nodes(graphs: Any, runtime: Any) -> None:
    drawing, tally = graphs("drawing"), graphs("tally").OnnxTally()
    newest = runtime.newest_opset()
    translated, _ = drawing.operators(newest)
    never = []
    for op in translated:
        for number in range(20):
            tally.drawn.clear()
            opset = drawing.opsets_of(op, newest)[-1 - number % len(drawing.opsets_of(op, newest))]
            trace = graphs("tracing").Trace(opset, runtime, Environment.default())
            writer = drawing.Writer(drawing.Random(f"{op}/{number}"), trace, tally, calm=True)
            writer.write(op)
            # Onnxruntime has no kernel for some.
            if writer.nodes or sum(tally.drawn.values()) < drawing.TRIES:
                break
        else:
            never.append(op)

    assert not never


def test_a_graph_depends_on_its_seed_and_number_alone(graphs: Any, runtime: Any) -> None:
    draw, tally = graphs("drawing").drawn_graph, graphs("tally").OnnxTally()
    newest = runtime.newest_opset()
    trace = start(graphs, runtime)
    first = [draw(3, number, newest, trace, tally).graph.text() for number in (7, 8)]
    again = [draw(3, number, newest, trace, tally).graph.text() for number in (8, 7)]

    assert again == first[::-1]
    assert draw(4, 7, newest, trace, tally).graph.text() != first[0]


def drawn_of(graphs: Any, runtime: Any, *nodes: Any, opset: int = 17, **sources: Any) -> Any:
    """Return a graph as if it had been drawn; its result is the last one."""
    modules = graphs("graphs")
    arrays = {name: modules.Source(np.asarray(array), is_known=False) for name, array in sources.items()}
    graph = modules.OnnxGraph(opset, arrays, nodes, (nodes[-1].output[0],))
    return graphs("drawing").DrawnGraph(graph, graphs("tracing").traced(graph, runtime, Environment.default()))


def plan(graphs: Any) -> Any:
    return graphs("examining").Plan(Environment.default())


def translated_wrongly(monkeypatch: pytest.MonkeyPatch, op: str, instead: str) -> None:
    from openinfer.importers.onnx_files import registry
    from openinfer.importers.onnx_files.translators import translators

    translators()
    monkeypatch.setitem(registry._REGISTERED, ("", op), lambda node: node.call(instead, node.given(0)))


def three_nodes(graphs: Any, runtime: Any) -> Any:
    make = onnx.helper.make_node
    nodes = make("Add", ["x", "x"], ["a"]), make("Neg", ["a"], ["b"]), make("Relu", ["b"], ["c"])
    return drawn_of(graphs, runtime, *nodes, x=np.arange(-6, 6, dtype=np.float32).reshape(3, 4))


def test_a_wrong_translation_is_found_and_shrunk_to_its_node(
    graphs: Any, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = three_nodes(graphs, runtime)
    tally = graphs("tally").OnnxTally()
    assert not graphs("examining").examine_graphs({0: drawn}, plan(graphs), tally)
    assert tally.values["exactly"] == 12
    translated_wrongly(monkeypatch, "Neg", "abs")

    (finding,) = graphs("examining").examine_graphs({0: drawn}, plan(graphs), graphs("tally").OnnxTally())
    small = graphs("shrinking").shrunk(drawn, finding, plan(graphs))

    assert finding.kind == "onnx: value of Relu"
    assert [node.op_type for node in small.nodes] == ["Neg", "Relu"]
    assert {source.array.size for source in small.sources.values()} == {1}


def test_an_exception_of_the_importer_is_found(graphs: Any, runtime: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = three_nodes(graphs, runtime)

    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(graphs("examining"), "load", broken)

    (finding,) = graphs("examining").examine_graphs({0: drawn}, plan(graphs), graphs("tally").OnnxTally())

    assert finding.kind == "import: raises KeyError"


@pytest.mark.parametrize(
    ("message", "code", "manner"),
    [
        ("Conv 'y'(f32[1]): over 3 dims", "import-unsupported", None),
        ("input 'k' has to be known at import: fix --set k=VALUE", "import-value", None),
        ("its attributes do not fit the operator (TypeError: x)", "import-unsupported", "unclear refusal"),
        ("<class 'int'> is not iterable", "import-unsupported", "unclear refusal"),
        ("no node writes the output", "import-file", "refused as import-file"),
    ],
)
def test_unclear_refusals_are_known(graphs: Any, message: str, code: str, manner: str | None) -> None:
    unclear = graphs("messages").unclear(ModelImportError(message, code=code))

    assert unclear is None if manner is None else str(unclear).startswith(manner)


def test_a_crash_of_onnxruntime_is_a_refusal_and_ends_nothing_else(graphs: Any, runtime: Any) -> None:
    assert runtime.newest_opset() > 12
    os.kill(runtime._process.pid, signal.SIGKILL)

    with pytest.raises(graphs("runtime").RefusedError, match="crashes"):
        runtime.run(b"", [])
    assert runtime.newest_opset() > 12


def test_a_model_that_hangs_is_a_refusal(graphs: Any, runtime: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.newest_opset()
    os.kill(runtime._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(graphs("runtime"), "LONGEST_S", 0.1)

    with pytest.raises(graphs("runtime").RefusedError, match="hangs"):
        runtime.run(b"", [])


@pytest.mark.parametrize(
    ("variants", "result", "is_wrong"),
    [
        ([1.0, 1.0, 1.0], 1.0, False),
        ([1.0, 1.0, 1.0], np.nextafter(np.float32(1), np.float32(2)), True),
        ([0.0, 0.0, 0.0], -0.0, False),
        ([1.0, 1.1, 0.9], 1.3, False),
        ([1.0, 1.1, 0.9], 1.5, True),
        ([1.0, 1.1, 0.9], np.nan, True),
        ([1.0, np.nan, 0.9], 1.5, False),
        ([np.nan, np.nan, np.nan], 1.0, True),
        ([np.inf, np.inf, np.inf], 1.0, True),
    ],
)
def test_results_may_differ_as_far_as_variants_do(
    graphs: Any, variants: list[float], result: float, is_wrong: bool
) -> None:
    arrays = tuple(np.array([value], np.float32) for value in variants)

    line = graphs("comparing").mismatch(arrays, np.array([result], np.float32), Counter())

    assert (line is not None) == is_wrong


def test_rounding_is_followed_to_where_it_decides(graphs: Any, runtime: Any) -> None:
    """Whether exp(x) is above its own value is not defined, nor what follows; whether x is above zero is."""
    make = onnx.helper.make_node
    x = np.array([0.3, -0.7, 1.1, 2.0], np.float32)
    nodes = (
        make("Exp", ["x"], ["a"]),
        make("Greater", ["a", "limit"], ["b"]),
        make("Greater", ["x", "zero"], ["c"]),
    )
    drawn = drawn_of(graphs, runtime, *nodes, x=x, limit=np.exp(x), zero=np.float32(0))

    values = drawn.trace.values
    assert any((other != values["b"][0]).any() for other in values["b"][1:])
    assert all((other == values["c"][0]).all() for other in values["c"][1:])


@pytest.mark.parametrize(
    "dtype", ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "f2", "f4"]
)
@pytest.mark.parametrize("shape", [(), (0, 2), (3,)])
def test_what_is_not_defined_keeps_its_type(graphs: Any, dtype: str, shape: tuple[int, ...]) -> None:
    precision, random = graphs("precision"), np.random.default_rng(0)
    like = np.ones(shape, dtype)

    variants = [precision.anything(like, number, random) for number in range(4)]

    assert {(made.dtype, made.shape) for made in variants} == {(like.dtype, shape)}
    if like.dtype.kind in "iu":
        assert (variants[0] == np.iinfo(like.dtype).min).all()
        assert (precision.anything(like * 0, 0, random) == np.iinfo(like.dtype).max).all()


def test_sums_of_no_products_are_not_what_onnxruntime_leaves_in_memory(graphs: Any, runtime: Any) -> None:
    make, byte = onnx.helper.make_node, np.uint8
    scaled = {"s": np.float32(0.5), "z": byte(7)}
    rows, columns = np.zeros((2, 0), byte), np.zeros((0, 3), byte)
    image, kernel = np.zeros((1, 0, 3, 3), byte), np.zeros((2, 0, 2, 2), byte)
    products = [
        (make("MatMulInteger", ["x", "w"], ["y"]), {"x": rows, "w": columns}),
        (make("ConvInteger", ["x", "w"], ["y"]), {"x": image, "w": kernel}),
        (make("QLinearMatMul", "xszwszsz", ["y"]), {"x": rows, "w": columns, **scaled}),
    ]
    for node, sources in products:
        drawn = drawn_of(graphs, runtime, node, **sources)
        tally = graphs("tally").OnnxTally()

        assert not graphs("examining").examine_graphs({0: drawn}, plan(graphs), tally)
        assert tally.values["not compared"] == drawn.trace.values["y"][0].size
        assert not tally.values["exactly"]


def test_an_exponential_less_1_is_compared_where_it_does_not_cancel(graphs: Any, runtime: Any) -> None:
    x = -np.geomspace(1e-6, 8, 400).astype(np.float32)
    for op, attributes in (("Elu", {}), ("Selu", {}), ("Celu", {}), ("Celu", {"alpha": 4.0}), ("Celu", {"alpha": 0.1})):
        drawn = drawn_of(graphs, runtime, onnx.helper.make_node(op, ["x"], ["y"], **attributes), x=x)
        tally = graphs("tally").OnnxTally()

        assert not graphs("examining").examine_graphs({0: drawn}, plan(graphs), tally)
        assert tally.values["nearly"] > 50


def differing(graphs: Any, node: Any, result: Any, *inputs: Any) -> Any:
    """Return which elements of a result of onnxruntime are not compared."""
    mask, _ = graphs("known_differences").unreliable(node, 17, inputs, np.asarray(result), 0)
    return np.zeros(np.shape(result), bool) if mask is None else mask


def test_what_onnxruntime_rounds_or_divides_otherwise_is_not_compared(graphs: Any) -> None:
    make = onnx.helper.make_node
    total, norm = make("ReduceL1", ["x"], ["y"]), make("MeanVarianceNormalization", ["x"], ["y"], axes=[1])

    assert differing(graphs, total, np.int64(1 << 60), np.array([(1 << 60) + 1])).all()
    assert not differing(graphs, total, np.int64(1 << 53), np.array([1 << 53])).any()
    rows = np.array([[0.1, 0.1, 0.1], [0.1, 0.2, 0.3]], np.float32)
    assert differing(graphs, norm, np.zeros_like(rows), rows).tolist() == [[True] * 3, [False] * 3]


def test_elements_that_are_made_unique_are_not_nan(graphs: Any) -> None:
    calls, recipes = graphs("calls"), graphs("recipe_registry").registered()
    values = {"x": np.array([1.0, np.nan, 1.0], np.float32)}
    random = graphs("drawing").Random("unique")
    nodes = 0
    for _ in range(40):
        call = calls.Call(onnx.defs.get_schema("Unique"), random, values, set(), False, "v")
        try:
            recipes["Unique"](call)
        except calls.ImpossibleError:
            continue
        nodes += 1
        assert call.node().input[0] != "x"
    assert nodes


def test_slices_go_forward_to_an_open_end(graphs: Any) -> None:
    calls, recipes = graphs("calls"), graphs("recipe_registry").registered()
    random = graphs("drawing").Random("slices")
    ends: list[int] = []
    for _ in range(60):
        call = calls.Call(onnx.defs.get_schema("Slice"), random, {}, set(), False, "v")
        recipes["Slice"](call)
        if "steps" in call.inputs:
            last, step = (call.sources[call.inputs[name][0]].array.tolist() for name in ("ends", "steps"))
            ends += [end for end, by in zip(last, step, strict=True) if by < 0]
    assert ends
    assert (1 << 63) - 1 not in ends
