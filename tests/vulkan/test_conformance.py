"""Operators on the device vulkan against recorded results of the reference implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dtypes import BUILTIN
from openinfer.errors import ValidationError
from openinfer.simulate import Simulator

pytestmark = pytest.mark.usefixtures("vulkan")

RECORDED = Path(__file__).parents[3] / "shared" / "conformance" / "ops"
TOLERANCES = {"f8": (1.2, 0.5), "bf16": (0.2, 0.04), "f16": (1.2, 0.16), "f32": (2e-4, 2e-4), "f64": (2e-7, 2e-7)}
"""Absolute and relative tolerance: the specification's for reference data, doubled for this device."""

COMPUTED = {dtype.name for dtype in BUILTIN if dtype.bits <= 32}
"""Element types that the device computes in itself."""


def cases() -> list[dict[str, Any]]:
    manifest = RECORDED / "manifest.json"
    return json.loads(manifest.read_text())["cases"] if manifest.exists() else []


def executor_of(case: dict[str, Any], model: oi.Model) -> Any:
    names = [*case["inputs"], case["expected"]]
    infos = [model.var_info(name) for name in names]
    types = [f"{info.dtype}[{', '.join(map(str, info.shape))}]" for info in infos if info is not None]
    declared = [
        f'  v{n}: {kind} @ref("{name}");' for n, (name, kind) in enumerate(zip(names[:-1], types, strict=False))
    ]
    settings = [f"{a['name']}={str(a['value']).lower()}" for a in case["attrs"]]
    call = f"{case['op']}({', '.join([*(f'v{n}' for n in range(len(names) - 1)), *settings])})"
    target = "v0" if case["mode"] == "inplace" else "y"
    text = "\n".join(
        ["volatile {", *declared, f"  y: {types[-1]};", "}", f"block entry {{ op {call} >> {target}; return; }}"]
    )
    return Simulator(model, graph(text), device="vulkan").make_executor()


def executor_or_none(case: dict[str, Any], model: oi.Model) -> Any:
    """Return the executor, or None where the device does not support the operator."""
    try:
        return executor_of(case, model)
    except ValidationError as error:
        if {finding.code for finding in error.diagnostics} != {"kernel-missing"}:
            raise
        return None


def test_the_recorded_cases_are_there_or_their_absence_is_reported() -> None:
    if not RECORDED.exists():
        pytest.skip(f"no recorded results: {RECORDED} is absent")
    assert len(cases()) > 300


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_an_operator_agrees_with_the_recorded_result_or_is_named_missing(case: dict[str, Any]) -> None:
    with oi.ModelLoader.open(RECORDED / case["file"]) as model:
        infos = [model.var_info(name) for name in (*case["inputs"], case["expected"])]
        *inputs, output = [str(info.dtype) for info in infos if info is not None]
        if (executor := executor_or_none(case, model)) is None:
            assert not {*inputs, output} <= COMPUTED
            return
        executor.step()
        found = np.asarray(executor.fetch("v0" if case["mode"] == "inplace" else "y"))
        expected = model.load_tensor(case["expected"])
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if output in TOLERANCES:
        absolute, relative = TOLERANCES[output]
        wide = found.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=relative, atol=absolute)
    else:
        assert np.array_equal(found, expected)
