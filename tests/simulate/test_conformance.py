"""Operators against recorded results of the reference implementation, through whole programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Simulator

RECORDED = Path(__file__).parents[3] / "shared" / "conformance" / "ops"
TOLERANCE = {"f8": (0.6, 0.25), "bf16": (0.1, 0.02), "f16": (0.6, 0.08), "f32": (1e-4, 1e-4), "f64": (1e-7, 1e-7)}
"""Absolute and relative tolerance of each float type; other types are exact."""

FLOATS_RECORDED_AS_F32 = 1e-6
"""The recorded f64 results were computed in f32."""


def cases() -> list[dict[str, Any]]:
    manifest = RECORDED / "manifest.json"
    if not manifest.exists():
        return []
    return json.loads(manifest.read_text())["cases"]


def setting(attr: dict[str, Any]) -> str:
    value = attr["value"]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{attr['name']}={text}"


def program(case: dict[str, Any], model: oi.Model) -> str:
    """Return a program with the case's inputs as model-backed variables, so that their linking is tested too."""

    def declared(name: str) -> str:
        info = model.var_info(name)
        assert info is not None
        return f"{info.dtype}[{', '.join(map(str, info.shape))}]"

    inputs = [f"  v{n}: {declared(name)} @ref({name!r});" for n, name in enumerate(case["inputs"])]
    arguments = ", ".join([*(f"v{n}" for n in range(len(case["inputs"]))), *map(setting, case["attrs"])])
    target = "v0" if case["mode"] == "inplace" else "y"
    declarations = "\n".join(inputs).replace("'", '"')
    return (
        f"volatile {{\n{declarations}\n  y: {declared(case['expected'])};\n}}\n"
        f"block entry {{ op {case['op']}({arguments}) >> {target}; return; }}"
    )


def test_the_recorded_cases_are_there_or_their_absence_is_reported() -> None:
    if not RECORDED.exists():
        pytest.skip(f"no recorded results: {RECORDED} is absent")
    assert len(cases()) > 300


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_an_operator_agrees_with_the_recorded_result(case: dict[str, Any]) -> None:
    with oi.ModelLoader.open(RECORDED / case["file"]) as model:
        executor = Simulator(model, graph(program(case, model))).make_executor()
        executor.step()
        found = np.asarray(executor.fetch("v0" if case["mode"] == "inplace" else "y"))
        expected = model.load_tensor(case["expected"])
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        name = case["output_dtype"]
        if name not in TOLERANCE:
            assert np.array_equal(found, expected)
            return
        absolute, relative = TOLERANCE[name]
        absolute = max(absolute, FLOATS_RECORDED_AS_F32)
        a, b = found.astype(np.float64), expected.astype(np.float64)
        near = np.abs(a - b) <= np.maximum(absolute, relative * np.maximum(np.abs(a), np.abs(b)))
        assert np.all(near | (a == b) | (np.isnan(a) & np.isnan(b)))
