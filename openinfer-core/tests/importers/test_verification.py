"""An imported program is compared with its original."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx_models import info, model, node, saved, weights

from openinfer import Model, ModelImportError
from openinfer.cli import main
from openinfer.importers import ImportOptions, load, verify
from openinfer.importers.onnx_files import originals
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nodes = [node("MatMul", "x w", "h"), node("Tanh", "h", "t"), node("Add", "t b", "y")]
    values = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
    initial = weights(w=values, b=values[0])
    return saved(model(nodes, [info("x", ["batch", 5])], [info("y", None)], initial), tmp_path)


def spoilt(path: Path, name: str) -> Any:
    """Return an import one of whose weights is wrong."""
    imported = load(path)
    arrays = {key: imported.model.load_tensor(key).copy() for key in imported.model.tensors}
    arrays[name] += 1
    return dataclasses.replace(imported, model=Model.from_arrays(arrays, sizevars=imported.model.sizevars))


def test_a_faithful_import_agrees_over_steps_of_other_sizes(path: Path) -> None:
    found = verify(path, load(path), steps=3)
    assert (found.agrees, found.steps, found.first) == (True, 3, "")
    assert found.largest["y"] < 1e-6


def test_without_onnxruntime_the_reference_evaluator_is_the_oracle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = verify(path, load(path))
    assert (found.agrees, found.runner) == (True, "onnx.reference")


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
    assert verify(path, spoilt(path, "w"), steps=1).agrees
    found = verify(path, spoilt(path, "w"), steps=3)
    assert found.first.startswith("'kept' by ")


def test_the_reference_evaluator_prints_no_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    proto = model([node("Sigmoid", "x", "y")], [info("x", [2])], [info("y", None)])
    path = saved(proto, tmp_path)
    # Warnings are errors in these tests.
    assert verify(path, load(path), inputs={"x": np.array([-1e4, 1e4], np.float32)}).agrees
