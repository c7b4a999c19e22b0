"""Pads that a graph computes, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import INT64, info, model, node, saved, weights

from openinfer import Simulator
from openinfer.errors import ExecutionError
from openinfer.importers import ImportedModel, load
from openinfer.plugins.environment import Environment

runtime = pytest.importorskip("onnxruntime", reason="results are those of onnxruntime")

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")


def agrees(path: Path, imported: ImportedModel, inputs: dict[str, Any], device: str = "cpu") -> None:
    expected = runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    with Simulator(imported.model, imported.graph, device=device).make_executor() as executor:
        executor.step(**{ours: inputs[name] for name, ours in imported.report.inputs.items()})
        found = executor.outputs()
    for name, theirs in zip(imported.report.outputs.values(), expected, strict=True):
        np.testing.assert_allclose(found[name], theirs, rtol=1e-6, err_msg=f"{name} of {inputs}")


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def given(mode: str) -> Any:
    """Both results have the margins of one input: their extents are equal, whatever they are."""
    nodes = [
        node("Pad", "x pads - axes", "y", mode=mode),
        node("Neg", "x", "n"),
        node("Pad", "n pads - axes", "z", mode=mode),
        node("Mul", "y z", "r"),
        node("Shape", "r", "s"),
    ]
    inputs = [info("x", ["T", 3]), info("pads", [2], INT64)]
    outputs = [info("r", None), info("s", None, INT64)]
    return model(nodes, inputs, outputs, weights(axes=np.array([-2])), opset=19)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pads_may_be_an_input(mode: str, tmp_path: Path) -> None:
    path = saved(given(mode), tmp_path)
    imported = load(path)
    for pads in ([1, 2], [0, 0], [3, 1]):
        agrees(path, imported, {"x": image(4, 3), "pads": np.array(pads, np.int64)})


def test_pads_of_run_time_may_cut_off(tmp_path: Path) -> None:
    inputs = [info("x", ["T", 3]), info("pads", [4], INT64)]
    path = saved(model([node("Pad", "x pads", "y")], inputs, [info("y", None)], opset=19), tmp_path)
    imported = load(path)
    for pads in ([-1, 1, 3, 0], [2, -1, -1, -1], [-2, 0, -2, 0]):
        agrees(path, imported, {"x": image(4, 3), "pads": np.array(pads, np.int64)})


@pytest.mark.parametrize("mode", ["constant", "wrap"])
def test_a_shape_that_the_file_says_bounds_what_pads_decide(mode: str, tmp_path: Path) -> None:
    device = "c" if "c" in Environment.default().devices else "cpu"
    inputs = [info("x", [4, 3]), info("pads", [4], INT64), info("number", [])]
    value = "number" if mode == "constant" else ""
    pad = node("Pad", f"x pads {value}".strip(), "y", mode=mode)
    path = saved(model([pad], inputs, [info("y", [5, 4])], opset=19), tmp_path)
    imported = load(path)
    assert any("`y` has the shape [5, 4] of the file" in note for note in imported.report.notes)

    arrays = {"x": image(4, 3), "number": np.array(7, np.float32)}
    for pads in ([1, 2, 0, -1], [0, 0, 1, 1], [-1, 2, 2, -1]):
        agrees(path, imported, arrays | {"pads": np.array(pads, np.int64)}, device)
    with pytest.raises(ExecutionError, match=r"is declared \w+\[5,4\]"):
        agrees(path, imported, arrays | {"pads": np.array([1, 1, 1, 1], np.int64)}, device)


def letterbox() -> Any:
    """A picture in a larger one, at a height that data decide; its width and its channels stay known."""
    nodes = [
        node("ReduceMax", "m", "highest", keepdims=0),
        node("Cast", "highest", "top", to=INT64),
        node("Unsqueeze", "top zero", "above"),
        node("Sub", "four above", "below"),
        node("Concat", "none above none none below none", "pads", axis=0),
        node("Pad", "x pads grey", "y"),
        node("Unsqueeze", "y zero", "batch"),
        node("Conv", "batch w", "c"),
    ]
    known = weights(
        zero=np.array([0]), four=np.array([4]), none=np.array([0]), grey=np.float32(0.5), w=image(3, 2, 2, 2)
    )
    inputs = [info("x", [2, 5, "W"]), info("m", [3])]
    return model(nodes, inputs, [info("y", None), info("c", None)], known, opset=19)


def test_pads_that_the_graph_computes_leave_other_extents_known(tmp_path: Path) -> None:
    path = saved(letterbox(), tmp_path)
    imported = load(path)
    for top in (0, 1, 4):
        agrees(path, imported, {"x": image(2, 5, 6), "m": np.array([0, top, -3], np.float32)})
