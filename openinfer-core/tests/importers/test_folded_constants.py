"""Nodes whose inputs are known: a constant is what the program computes where it runs the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import info, model, node, onnx, run, saved, weights

from openinfer import ModelImportError
from openinfer.importers import ImportedModel, load
from openinfer.importers.onnx_files.translators import translators
from openinfer.ops.precision import OTHER_ULPS
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

NEWEST = 22
"""The version of ONNX's operators."""

COUNTING = {"NonZero", "Unique"}
"""Operators with results whose length the running program counts."""


def operators(kind: str) -> list[tuple[str, int]]:
    """Return the translated operators of one or two inputs that all may have a type, without required attributes."""
    usable: list[tuple[str, int]] = []
    for op in sorted(op for domain, op in translators() if not domain):
        try:
            schema = onnx.defs.get_schema(op, NEWEST)
        except onnx.defs.SchemaError:
            continue
        legal = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
        needed = schema.inputs[: schema.min_input]
        is_typed = all(kind in legal.get(port.type_str, [port.type_str]) for port in needed)
        is_free = not any(attribute.required for attribute in schema.attributes.values())
        if op not in COUNTING and is_typed and is_free and 1 <= schema.min_input <= 2:
            usable.append((op, schema.min_input))
    return usable


def of_operators(names: list[tuple[str, int]], arrays: dict[str, Any], folder: Path, *, known: bool) -> ImportedModel:
    """Import a model that calls each operator on the arrays, as constants or as inputs."""
    nodes = [node(op, " ".join(list(arrays)[:count]), f"y{op}") for op, count in names]
    results = [onnx.helper.make_empty_tensor_value_info(f"y{op}") for op, _ in names]
    ports = [info(name, x.shape, onnx.helper.np_dtype_to_tensor_dtype(x.dtype)) for name, x in arrays.items()]
    initial = weights(**arrays) if known else []
    return load(saved(model(nodes, [] if known else ports, results, initial, opset=NEWEST), folder))


def numbers(kind: str) -> dict[str, Any]:
    """Return operands of a few bits: what is added up is exact in any order, products and quotients are not."""
    rng = np.random.default_rng(7)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))
    arrays = {name: np.rint(rng.standard_normal((1, 2, 4, 4)) * 16) / 8 for name in ("x", "z")}
    arrays["x"].flat[:4] = np.nan, np.inf, -np.inf, -0.0
    return {name: array.astype(dtype) for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("kind", "title", "tolerance"),
    [
        ("FLOAT16", "tensor(float16)", 0.0),
        ("BFLOAT16", "tensor(bfloat16)", 0.0),
        # Exponentials are added up in the order of the device.
        ("DOUBLE", "tensor(double)", OTHER_ULPS * np.finfo(np.float64).eps),
    ],
)
def test_a_constant_is_what_the_running_program_computes(
    kind: str, title: str, tolerance: float, tmp_path: Path
) -> None:
    arrays = numbers(kind)
    names = operators(title)
    with pytest.raises(ModelImportError) as refused:
        of_operators(names, arrays, tmp_path, known=True)
    # Shapes or types that some do not accept, among operands that are the same for all.
    names = [(op, count) for op, count in names if f"{op} 'y{op}'" not in refused.value.nodes]
    assert len(names) >= 60, names

    known, running = (of_operators(names, arrays, tmp_path, known=is_known) for is_known in (True, False))
    read = {name: array for name, array in arrays.items() if name in running.report.inputs}
    for (op, _), constant, computed in zip(names, run(known, {}), run(running, read), strict=True):
        assert (np.shape(constant), np.asarray(constant).dtype) == (np.shape(computed), np.asarray(computed).dtype), op
        np.testing.assert_allclose(np.float64(constant), np.float64(computed), tolerance, err_msg=op)


def test_a_constant_of_f16_is_rounded_once(tmp_path: Path) -> None:
    x = np.array([-2.5, 1, -0.3], np.float16)
    ports = [info("y", None, onnx.TensorProto.FLOAT16)]
    imported = load(saved(model([node("LeakyRelu", "x", "y")], [], ports, weights(x=x)), tmp_path))
    (value,) = run(imported, {})

    exact = np.where(x < 0, x.astype(np.float64) * np.float64(np.float32(0.01)), x)
    assert imported.report.folded == 1
    np.testing.assert_array_equal(value, exact.astype(np.float16))
