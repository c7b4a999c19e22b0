"""An imported program is compared with its original."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto
from onnx_models import INT64, info, model, node, onnx, saved, weights

from openinfer import Model, ModelImportError, graph
from openinfer.cli import main
from openinfer.importers import ImportOptions, load, step_executors, verify
from openinfer.importers.onnx_files import originals
from openinfer.importers.step_executors import StepExecutors
from openinfer.importers.step_inputs import step_inputs
from openinfer.importers.step_sizes import StepPrograms
from openinfer.importers.verification import verified
from openinfer.plugins.environment import Environment
from openinfer.tolerances import Tolerance
from openinfer.validate import resolve

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nodes = [node("MatMul", "x w", "h"), node("Tanh", "h", "t"), node("Add", "t b", "y")]
    values = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
    initial = weights(w=values, b=values[0])
    return saved(model(nodes, [info("x", ["batch", 5])], [info("y", None)], initial), tmp_path)


def test_the_original_adds_products_of_signed_bytes_exactly(tmp_path: Path) -> None:
    """ONNX Runtime adds pairs of them in 16 bits on x86 processors without VNNI where nothing asks for more."""
    proto = model(
        [node("MatMulInteger", "x w", "y")],
        [info("x", [1, 64], TensorProto.UINT8)],
        [info("y", [1, 16], TensorProto.INT32)],
        weights(w=np.full((64, 16), 127, np.int8)),
    )
    original = originals.opened(saved(proto, tmp_path), ImportOptions())
    outputs = original.run({"x": np.full((1, 64), 255, np.uint8)})
    assert set(outputs["y"].reshape(-1).tolist()) == {64 * 127 * 255}


def test_an_original_without_exact_sums_runs_all_the_same(tmp_path: Path) -> None:
    """ONNX Runtime has no kernel of QGemm on such processors where sums of weights with sign have to be exact."""
    constants = weights(
        s=np.float32(0.5), z=np.uint8(2), w=np.full((3, 2), 5, np.int8), t=np.float32(0.25), v=np.int8(0)
    )
    proto = model(
        [node("QGemm", "x s z w t v", "y", domain="com.microsoft")],
        [info("x", [1, 3], TensorProto.UINT8)],
        [info("y", [1, 2])],
        constants,
    )
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    original = originals.opened(saved(proto, tmp_path), ImportOptions())
    outputs = original.run({"x": np.full((1, 3), 4, np.uint8)})
    assert outputs["y"].tolist() == [[3.75, 3.75]]


def spoilt(path: Path, name: str) -> Any:
    """Return an import one of whose weights is wrong."""
    imported = load(path)
    arrays = {key: imported.model.load_tensor(key).copy() for key in imported.model.tensors}
    arrays[name] += 1
    return dataclasses.replace(imported, model=Model.from_arrays(arrays, sizevars=imported.model.sizevars))


def test_a_faithful_import_agrees_over_steps_of_other_sizes(path: Path) -> None:
    found = verify(path, load(path), steps=3)
    assert (found.agrees, found.steps, found.first) == (True, 3, "")
    assert found.outputs["y"].largest < 1e-6


def test_without_onnxruntime_the_reference_evaluator_is_the_oracle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = verify(path, load(path))
    assert (found.agrees, found.runner) == (True, "onnx.reference")


@pytest.mark.parametrize("numpy_lacks", ["BFLOAT16", "FLOAT8E5M2"])
@pytest.mark.parametrize("is_input", [True, False])
def test_what_onnxruntime_cannot_exchange_is_compared_with_the_reference_evaluator(
    numpy_lacks: str, is_input: bool, tmp_path: Path
) -> None:
    low, f32 = (onnx.TensorProto.DataType.Value(name) for name in (numpy_lacks, "FLOAT"))
    before, after = (low, f32) if is_input else (f32, low)
    proto = model([node("Cast", "x", "y", to=after)], [info("x", [2, 3], before)], [info("y", None, after)], opset=19)
    path = saved(proto, tmp_path)
    result = verify(path, load(path))
    assert (result.agrees, result.runner) == (True, "onnx.reference")


@pytest.mark.parametrize("runtime", ["onnxruntime", "onnx.reference"])
def test_inputs_that_the_original_does_not_run_on_are_an_error(
    runtime: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime == "onnx.reference":
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    else:
        pytest.importorskip(runtime, reason="the original runs by onnxruntime")
    original = originals.opened(path, ImportOptions())
    with pytest.raises(ModelImportError, match=rf"(?s)does not run \({runtime}.*give inputs that fit with --input"):
        original.run({"x": np.zeros((2, 7), np.float32)})


def test_a_model_that_onnx_runtime_does_not_load_is_not_blamed_on_the_inputs(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the original runs by onnxruntime")
    path = tmp_path / "unknown.onnx"
    proto = model([node("Relu", "x", "y", nonsense=3)], [info("x", [2])], [info("y", None)])
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(
        ModelImportError, match=r"(?s)does not load the original, so .* Unrecognized attribute"
    ) as raised:
        verify(path, load(path))
    assert "--input" not in str(raised.value)


@pytest.mark.parametrize(("weight", "value"), [("w", "h"), ("b", "y")])
def test_the_first_value_that_differs_is_named(weight: str, value: str, path: Path) -> None:
    found = verify(path, spoilt(path, weight))
    assert not found.agrees
    assert found.first.startswith(repr(value))
    assert str(found).startswith("DIFFERS with ")


def test_an_input_that_is_not_there_is_an_error(path: Path) -> None:
    with pytest.raises(ModelImportError, match="no input z; it has: x"):
        verify(path, load(path), inputs={"z": np.zeros(3)})


def test_the_command_fails_where_they_differ(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["import", str(path), "-o", str(tmp_path), "--verify", "--steps", "1"]
    agreeing = CliRunner().invoke(main, arguments)
    assert (agreeing.exit_code, "agrees with" in agreeing.output) == (0, True)
    wrong = spoilt(path, "b")
    monkeypatch.setattr("openinfer.importers.load", lambda *_, **__: wrong)
    differing = CliRunner().invoke(main, [*arguments, "--json"])
    assert differing.exit_code == 1
    assert '"agrees": false' in differing.output


def accumulating(tmp_path: Path) -> Path:
    """Return a model whose state `h` adds up squares of its input: no difference shows before the second step."""
    nodes = [node("Mul", "x x", "squares"), node("Mul", "h w", "kept"), node("Add", "kept squares", "hn")]
    ports = [info("x", [3]), info("h", [3])]
    return saved(model(nodes, ports, [info("hn", [3])], weights(w=np.array([0.25, 0.5, 0.75], np.float32))), tmp_path)


def test_the_first_value_that_differs_is_named_where_only_a_state_carries_the_difference(tmp_path: Path) -> None:
    path = accumulating(tmp_path)
    assert load(path).report.feeds == {"hn": "h"}
    assert verify(path, spoilt(path, "w"), steps=1, inputs={"x": 0.5}).agrees
    found = verify(path, spoilt(path, "w"), steps=3)
    assert found.first.startswith("'kept' by ")


def test_the_reference_evaluator_prints_no_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    proto = model([node("Sigmoid", "x", "y")], [info("x", [2])], [info("y", None)])
    path = saved(proto, tmp_path)
    # Warnings are errors in these tests.
    assert verify(path, load(path), inputs={"x": np.array([-1e4, 1e4], np.float32)}).agrees


U8, F16 = 2, 10


def test_all_values_of_a_byte_are_compared(tmp_path: Path) -> None:
    image = [info("x", [4, 64], U8)]
    cast = node("Cast", "x", "f", to=1)
    right = saved(model([cast, node("Relu", "f", "y")], image, [info("y", None)]), tmp_path)
    limits = weights(low=np.float32(0), high=np.float32(232))
    wrong = load(
        saved(model([cast, node("Clip", "f low high", "y")], image, [info("y", None)], limits), tmp_path, "wrong.onnx")
    )
    found = verify(right, wrong, steps=1)
    # 23 of 256 values differ.
    assert not found.agrees
    assert found.inputs == {"x": "u8 0..255"}
    assert found.outputs["y"].beyond > 10


def two_rows(tmp_path: Path) -> Path:
    """Return a model with a table of 30 words and one of 2 types, and a mask whose other values overflow."""
    nodes = [
        node("Gather", "words ids", "w"),
        node("Gather", "types tt", "t"),
        node("Add", "w t", "e"),
        node("Cast", "mask", "m", to=1),
        node("Sub", "m one", "n"),
        node("Mul", "n most", "a"),
        node("Unsqueeze", "a axis", "u"),
        node("Add", "e u", "s"),
        node("Softmax", "s", "y", axis=1),
    ]
    random = np.random.default_rng(3)
    initial = weights(
        words=random.standard_normal((30, 4)).astype(np.float32),
        types=random.standard_normal((2, 4)).astype(np.float32),
        one=np.float32(1),
        most=np.float32(3e38),
        axis=np.array([2]),
    )
    inputs = [info(name, ["n", "t"], INT64) for name in ("ids", "tt", "mask")]
    return saved(model(nodes, inputs, [info("y", None)], initial), tmp_path)


def test_indices_stay_below_what_they_index_and_masks_are_masks(tmp_path: Path) -> None:
    path = two_rows(tmp_path)
    found = verify(path, load(path))
    assert found.agrees
    assert found.inputs["ids"] == "i64 0..29, indices below 30"
    assert found.inputs["tt"] == "i64 0..1, indices below 2"
    assert found.inputs["mask"].startswith("i64 0..1, as with more the original fails")
    assert found.outputs["y"].not_finite == 0


def test_one_number_is_given_to_all_elements(tmp_path: Path) -> None:
    path = two_rows(tmp_path)
    arguments = ["import", str(path), "-o", str(tmp_path), "--verify", "--input", "tt=1", "--input", "mask=1", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    checked = json.loads(result.stdout)["verification"]
    assert checked["inputs"]["tt"] == "i64 given"
    assert checked["agrees"] is True


def halves(tmp_path: Path) -> Path:
    """Return a model of halves, two products deep."""
    random = np.random.default_rng(0)
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("MatMul", "b v", "y")]
    initial = weights(
        w=random.standard_normal((64, 64)).astype(np.float16), v=random.standard_normal((64, 32)).astype(np.float16)
    )
    return saved(model(nodes, [info("x", [8, 64], F16)], [info("y", None, F16)], initial), tmp_path)


@pytest.fixture
def one_step_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make outputs of originals one unit in the last place larger, whatever runs them."""
    run = originals.OnnxOriginal.run

    def nudged(self, inputs):
        return {name: np.nextafter(y, y.dtype.type(np.inf)) for name, y in run(self, inputs).items()}

    monkeypatch.setattr(originals.OnnxOriginal, "run", nudged)


@pytest.mark.usefixtures("one_step_off")
def test_halves_may_be_apart_by_what_their_roundings_make(tmp_path: Path) -> None:
    path = halves(tmp_path)
    found = verify(path, load(path))
    assert found.agrees
    assert 2e-3 < found.outputs["y"].tolerance.relative < 2e-2
    narrow = verify(path, load(path), tolerances={"f16": Tolerance(0, 0)})
    assert not narrow.agrees
    assert narrow.outputs["y"].tolerance == Tolerance(0, 0)


@pytest.mark.usefixtures("one_step_off")
def test_the_command_takes_tolerances(tmp_path: Path) -> None:
    path = halves(tmp_path)
    arguments = ["import", str(path), "-o", str(tmp_path), "--verify"]
    assert CliRunner().invoke(main, [*arguments, "--tolerance", "f16=0"]).exit_code == 1
    assert CliRunner().invoke(main, [*arguments, "--tolerance", "f32=0", "--tolerance", "0.1,0.1"]).exit_code == 0
    twice = CliRunner().invoke(main, [*arguments, "--tolerance", "1", "--tolerance", "2"])
    assert (twice.exit_code, "the tolerance of all floats is given twice" in twice.output) == (2, True)
    alone = CliRunner().invoke(main, [*arguments[:-1], "--tolerance", "1"])
    assert (alone.exit_code, "go with --verify" in alone.output) == (2, True)


def test_what_is_left_of_terms_that_cancel_is_not_a_difference(tmp_path: Path) -> None:
    """The mean of what the mean was taken from is 0 but for rounding."""
    nodes = [
        node("MatMul", "x w", "h"),
        node("ReduceMean", "h", "m", axes=[-1], keepdims=1),
        node("Sub", "h m", "c"),
        node("ReduceMean", "c", "y", axes=[-1], keepdims=1),
    ]
    random = np.random.default_rng(0)
    initial = weights(w=random.standard_normal((16, 64)).astype(np.float32))
    path = saved(model(nodes, [info("x", ["n", 16])], [info("y", None)], initial), tmp_path)
    found = verify(path, load(path))
    assert found.agrees, str(found)


def test_quantised_outputs_are_reported_in_steps(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "h"), node("QuantizeLinear", "h s z", "y")]
    random = np.random.default_rng(0)
    initial = weights(w=random.standard_normal((64, 64)).astype(np.float32), s=np.float32(0.05), z=np.array(3, np.int8))
    path = saved(model(nodes, [info("x", [8, 64])], [info("y", None, 3)], initial), tmp_path)
    imported = load(path)
    arrays = {name: imported.model.load_tensor(name).copy() for name in imported.model.tensors}
    name = next(name for name, array in arrays.items() if array.shape == (64, 64))
    for factor, agrees in ((1.0, True), (1.001, True), (1.1, False)):
        changed = arrays | {name: arrays[name] * np.float32(factor)}
        other = dataclasses.replace(imported, model=Model.from_arrays(changed, sizevars=imported.model.sizevars))
        # Special values would fill the range of the integers.
        found = verify(path, other, inputs={"x": random.uniform(-1, 1, (8, 64)).astype(np.float32)}, steps=1)
        assert found.agrees is agrees, str(found)
        if factor == 1.001:
            ((distance, count),) = found.outputs["y"].steps
            assert f"output y: {count} of 512 elements differ: {count} by 1 (allowed 1)" in str(found)
            assert distance == 1


def test_what_the_reference_evaluator_lets_overflow_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = saved(model([node("LogSoftmax", "x", "y", axis=-1)], [info("x", [1, 3])], [info("y", None)]), tmp_path)
    found = verify(path, load(path), inputs={"x": np.array([[0, 120, -30]], np.float32)})
    assert found.agrees
    (note,) = found.notes
    assert note.startswith(
        "output y: 2 of 3 elements are not compared: they are finite in the program, and not in onnx"
    )


class Optimising:
    """An original whose optimisations change results."""

    runner = "optimiser"
    guards_overflow = True

    def __init__(self, right: Any, apart: float) -> None:
        self._right = right
        self._apart = apart

    def run(self, inputs: Any) -> Any:
        return {name: value + self._apart for name, value in self._right.run(inputs).items()}

    def unoptimised(self, inputs: Any) -> Any:
        return self._right.run(inputs)

    def values(self, inputs: Any) -> Any:
        return self._right.values(inputs)


@pytest.mark.parametrize(("weight", "verdict"), [("", "agrees, which counts"), ("b", "differs too")])
def test_an_original_that_disagrees_with_itself_is_said_to(weight: str, verdict: str, path: Path) -> None:
    original = Optimising(originals.opened(path, ImportOptions()), 0.5)
    found = verified(spoilt(path, weight) if weight else load(path), original, steps=2)
    assert found.agrees is not bool(weight)
    (note,) = found.notes
    assert note.startswith("output y: the optimisations of optimiser move it by up to 0.5")
    assert note.endswith(f" (steps 1, 2 and the one with special floats); without them it {verdict}")


def test_onnxruntime_runs_without_optimisations_too(path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the original runs by onnxruntime")
    original = originals.opened(path, ImportOptions())
    given = {"x": np.ones((2, 5), np.float32)}
    np.testing.assert_allclose(original.unoptimised(given)["y"], original.run(given)["y"], rtol=1e-6)


def test_results_that_are_not_finite_are_noted(tmp_path: Path) -> None:
    path = saved(model([node("Log", "x", "y")], [info("x", [64])], [info("y", None)]), tmp_path)
    found = verify(path, load(path))
    assert found.agrees
    (note,) = found.notes
    assert re.match(r"output y: \d+ of 64 elements are NaN or infinite, in the program too; give inputs", note)


def test_a_step_of_special_values_finds_what_usual_ones_do_not(tmp_path: Path) -> None:
    ports = [info("x", [400])], [info("y", None)]
    right = saved(model([node("Relu", "x", "y")], *ports), tmp_path)
    limits = weights(low=np.float32(0), high=np.float32(2))
    wrong = load(saved(model([node("Clip", "x low high", "y")], *ports, limits), tmp_path, "wrong.onnx"))
    found = verify(right, wrong)
    assert (found.agrees, found.with_specials) == (False, True)
    assert found.inputs["x"].endswith("special: ±(zeros, the least normal, subnormal, 32768, infinity, NaN)")
    assert "over 2 steps, and one with special values" in str(found)


SMALL_ERRORS: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "where inputs are large": (
        [node("Tanh", "x", "y")],
        [node("Tanh", "x", "t"), node("Min", "t limit", "y")],
        {"limit": np.float32(0.99)},
    ),
    "where inputs are zero": (
        [node("Abs", "x", "y")],
        [node("Abs", "x", "a"), node("Equal", "x zero", "is_zero"), node("Where", "is_zero small a", "y")],
        {"zero": np.float32(0), "small": np.float32(0.01)},
    ),
}
"""Nodes of a model, and of one that differs by 0.01, though only for special floats; constants."""


@pytest.mark.parametrize("name", SMALL_ERRORS)
def test_large_inputs_hide_no_error_of_what_does_not_grow_with_them(name: str, tmp_path: Path) -> None:
    right, wrong, constants = SMALL_ERRORS[name]
    ports = [info("x", [8, 50])], [info("y", [8, 50])]
    path = saved(model(right, *ports), tmp_path)
    spoilt_path = saved(model(wrong, *ports, weights(**constants)), tmp_path, "wrong.onnx")
    assert verify(path, load(path)).agrees
    found = verify(path, load(spoilt_path))
    assert not found.agrees
    assert found.outputs["y"].largest == pytest.approx(0.01, rel=0.01)
    assert found.outputs["y"].elements == 400


def test_a_model_without_inputs_is_compared(tmp_path: Path) -> None:
    initial = weights(w=np.linspace(-2, 2, 8, dtype=np.float32))
    path = saved(model([node("Sin", "w", "y")], [], [info("y", [8])], initial), tmp_path)
    assert verify(path, load(path)).agrees


def test_the_magnitude_of_a_mask_allows_no_more(tmp_path: Path) -> None:
    """A program that is wrong by a third, whose input has a mask of the least f32."""
    nodes = [node("Add", "x mask", "m"), node("Softmax", "m", "y", axis=-1)]
    path = saved(model(nodes, [info("x", [2, 4]), info("mask", [4])], [info("y", [2, 4])]), tmp_path)
    imported = load(path)
    mask = np.array([0, 0, 0, np.finfo(np.float32).min], np.float32)
    assert verify(path, imported, inputs={"mask": mask}).agrees
    wrong_graph = graph(imported.graph.to_dsl().replace("op softmax", "op sigmoid").replace(", axis=-1", ""))
    wrong = dataclasses.replace(imported, graph=wrong_graph)
    assert not verify(path, wrong, inputs={"mask": mask}).agrees


def test_integers_that_floats_became_are_off_by_one_at_most(tmp_path: Path) -> None:
    nodes = [node("Exp", "x", "e"), node("Cast", "e", "y", to=INT64)]
    path = saved(model(nodes, [info("x", [64])], [info("y", [64], INT64)]), tmp_path)
    imported = load(path)
    x = np.linspace(5, 10, 64, dtype=np.float32)
    assert verify(path, imported, inputs={"x": x}).outputs["y"].tolerance.relative < 1e-4


def test_sizes_of_steps_are_distinct_the_largest_the_least_and_one_more(tmp_path: Path) -> None:
    conv = node("Conv", "x w", "y", strides=[2])
    ports = [info("x", ["batch", 1, "n"])], [info("y", None)]
    path = saved(model([conv], *ports, weights(w=np.ones((1, 1, 5), np.float32))), tmp_path)
    imported = load(path)
    shapes = [step_inputs(imported, {}, step, 0)["x"].shape for step in range(4)]
    assert shapes[0] == (1, 1, 10)
    assert shapes[1][0] * shapes[1][2] * 4 > 1 << 20
    assert shapes[2:] == [(1, 1, 5), (2, 1, 6)]
    limited = step_inputs(imported, {}, 1, 0, programs=StepPrograms(imported, Environment.default(), limits={"n": 40}))
    assert limited["x"].shape[2] == 40
    assert verify(path, imported).steps == 4


def test_other_sizes_than_the_least_are_within_the_budget(tmp_path: Path) -> None:
    path = saved(model([node("Relu", "x", "y")], [info("x", ["batch", "n", 1 << 16])], [info("y", None)]), tmp_path)
    imported = load(path)
    programs = StepPrograms(imported, Environment.default(), budget=1 << 20)
    sizes = [programs.of(step).sizes for step in range(4)]
    assert sizes[:3] == [{"batch": 1, "n": 2}, {"batch": 1, "n": 2}, {"batch": 1, "n": 1}]
    assert sizes[3] == {"batch": 2, "n": 1}
    assert programs.too_large == {"batch=2, n=2": 1 << 21}


def test_sizes_that_are_not_compared_are_noted(tmp_path: Path) -> None:
    path = saved(model([node("Relu", "x", "y")], [info("x", ["n", 1 << 18])], [info("y", None)]), tmp_path)
    command = ["import", str(path), "-o", str(tmp_path), "--verify"]
    found = CliRunner().invoke(main, [*command, "--budget", "3"])
    assert "not compared at n=2: values take 4 MiB there, which --budget 4 allows" in found.output
    assert "not compared" not in CliRunner().invoke(main, [*command, "--budget", "4"]).output


def test_the_state_goes_on_where_another_executor_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_executors, "KEPT_NBYTES", 0)
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Add", "s h", "hn"), node("Add", "x h", "y")]
    ports = [info("x", ["n"]), info("h", [])], [info("y", None), info("hn", [])]
    path = saved(model(nodes, *ports), tmp_path)
    imported = load(path, feeds={"hn": "h"})
    assert verify(path, imported).agrees
    with StepExecutors(imported, {}, Environment.default(), {}) as executors:
        opened = []
        for size, before in ((3, 0), (5, 3), (3, 8)):
            opened.append(executors.at(resolve(imported.graph, imported.model, sizes={"n": size})))
            opened[-1].step(x=np.ones(size, np.float32))
            assert opened[-1].outputs()["y"].tolist() == [before + 1.0] * size
    assert len({id(executor) for executor in opened}) == 3
