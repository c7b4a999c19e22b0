"""ONNX's own tests, of which a sample runs here: `benchmarks/onnx_backend.py` runs all of them."""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx, whose tests these are, is not installed")

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
onnx_backend: Any = import_module("onnx_backend")

SAMPLES = {"cpu": (7, 40), "c": (11, 200)}
"""Of each device the first test that runs, and how many lie between it and the next one."""


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    if onnx.__version__ != onnx_backend.VERSION:
        pytest.skip(f"the list of unsupported tests is that of onnx {onnx_backend.VERSION}, found {onnx.__version__}")
    return list(onnx_backend.cases(""))


@pytest.mark.parametrize("device", SAMPLES)
def test_a_sample_passes_but_for_tests_that_are_listed_as_unsupported(device: str, cases: list[Any]) -> None:
    first, step = SAMPLES[device]
    found = [onnx_backend.outcome(case, device) for case in cases[first::step]]

    assert [each for each in onnx_backend.judged(found) if each.state == "failed"] == []
    assert sum(each.state == "passed" for each in found) > len(found) // 2


def test_the_documented_counts_are_those_of_the_list(cases: list[Any]) -> None:
    page = (ROOT / "docs" / "import-reference.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (cpu|c) \| ([\d,]+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    unsupported = len(onnx_backend.listed())

    assert {row[0] for row in rows} == {"cpu", "c"}
    for _, passed, listed, failed in rows:
        assert (int(listed), failed) == (unsupported, "0")
        assert int(passed.replace(",", "")) == len(cases) - unsupported


def test_a_test_that_contradicts_the_list_has_failed() -> None:
    known = next(iter(onnx_backend.listed()))
    outcomes = [
        onnx_backend.Outcome(known, "passed"),
        onnx_backend.Outcome("test_of_tomorrow", "unsupported", "why"),
        onnx_backend.Outcome(known, "unsupported"),
    ]

    assert [each.state for each in onnx_backend.judged(outcomes)] == ["failed", "failed", "unsupported"]
