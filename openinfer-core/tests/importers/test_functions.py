"""Functions that a model defines are inlined as ONNX defines: defaults, opsets of their own, names of operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import helper, info, node, onnx, run, saved

from openinfer.errors import ModelImportError
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

X = np.array([-2.0, -0.5, 1.0, 3.0], np.float32)


def passing(made: Any, attribute: str, name: str) -> Any:
    """Return a node with an attribute that is the attribute ``name`` of its function."""
    reference = made.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = attribute, name, onnx.AttributeProto.FLOAT
    return made


def function(name: str, nodes: list[Any], opset: int = 17, domain: str = "d", **defaults: float) -> Any:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("d", 1)]
    written = [helper.make_attribute(key, value) for key, value in defaults.items()]
    return helper.make_function(domain, name, ["x"], ["y"], nodes, opsets, [], written)


def of_function(call: Any, *functions: Any, opset: int = 17) -> Any:
    graph = helper.make_graph([call], "g", [info("x", [4])], [info("y", None)])
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", opset), ("d", 1), ("com.microsoft", 1))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions))


def leaky() -> Any:
    return function("leaky", [passing(node("LeakyRelu", "x", "y"), "alpha", "alpha")], alpha=0.5)


OUTER = function("outer", [node("leaky", "x", "y", domain="d")])
OUTER_WITH_OWN = function("outer", [passing(node("leaky", "x", "y", domain="d"), "alpha", "slope")], slope=0.125)

DEFAULTS = {
    "left out": (of_function(node("leaky", "x", "y", domain="d"), leaky()), 0.5),
    "given": (of_function(node("leaky", "x", "y", domain="d", alpha=0.25), leaky()), 0.25),
    "in a function": (of_function(node("outer", "x", "y", domain="d"), OUTER, leaky()), 0.5),
    "passed on": (of_function(node("outer", "x", "y", domain="d"), OUTER_WITH_OWN, leaky()), 0.125),
}


@pytest.mark.parametrize(("proto", "alpha"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_attributes_have_default_values(proto: Any, alpha: float, tmp_path: Path) -> None:
    (y,) = run(load(saved(proto, tmp_path)), {"x": X})
    np.testing.assert_array_equal(y, np.where(X < 0, np.float32(alpha) * X, X))


def test_a_function_may_be_of_an_older_opset(tmp_path: Path) -> None:
    older = function("total", [node("ReduceSum", "x", "y", axes=[0], keepdims=1)], opset=11)
    (y,) = run(load(saved(of_function(node("total", "x", "y", domain="d"), older), tmp_path)), {"x": X})
    assert y.tolist() == [1.5]


def test_an_opset_that_cannot_be_converted_is_named(tmp_path: Path) -> None:
    newer = function("smooth", [node("Gelu", "x", "y")], opset=20)
    with pytest.raises(ModelImportError, match="functions of the model are of opset 20, the model of 13") as raised:
        load(saved(of_function(node("smooth", "x", "y", domain="d"), newer, opset=13), tmp_path))
    assert "export both in one opset" in str(raised.value)


@pytest.mark.parametrize(("name", "domain"), [("Relu", ""), ("Relu", "ai.onnx"), ("Gelu", "com.microsoft")])
def test_a_function_with_the_name_of_an_operator_takes_its_place_with_a_note(
    name: str, domain: str, tmp_path: Path
) -> None:
    shadow = function(name, [node("Neg", "x", "y")], domain=domain)
    imported = load(saved(of_function(node(name, "x", "y", domain=domain), shadow), tmp_path))
    assert run(imported, {"x": X})[0].tolist() == (-X).tolist()
    assert any(f"the function '{name}' of the model takes the place" in note for note in imported.report.notes)
