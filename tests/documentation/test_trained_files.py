"""The table of trained files has the form and the files of the script that prints it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the script reads models with the package onnx")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "trained-files.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("trained_files", ROOT / "benchmarks" / "trained_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def rows(head: str) -> list[list[str]]:
    table = PAGE.partition(f"{head}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_rows_have_the_columns_of_the_script(script: Any) -> None:
    outcome = script.Outcome("a.onnx", 1.0, 2, ("N=1",), script.Cost(3.0, 4.0, 5.0), agrees=True, result="agrees")
    columns = outcome.row().count("|")
    assert rows(script.HEAD)
    assert {len(row) + 1 for row in rows(script.HEAD)} == {columns}


def test_every_package_is_there_in_its_version(script: Any) -> None:
    shown = {row[0].strip("`").partition("/")[0] for row in rows(script.HEAD)}
    assert shown == {f"{package}-{version}" for package, version in script.PACKAGES.items()}


def test_sizes_are_those_that_the_script_fixes(script: Any) -> None:
    for path, _, _, fixed, *_ in rows(script.HEAD):
        expected = next((sizes for end, sizes in script.SIZES.items() if path.strip("`").endswith(end)), ())
        assert tuple(fixed.replace("`", "").split()) == expected, path


def test_the_last_line_counts_the_rows_that_agree(script: Any) -> None:
    table = rows(script.HEAD)
    agreeing = sum(row[-1].startswith("agrees") for row in table)
    assert PAGE.rstrip().endswith(f"{agreeing} of {len(table)} files agree")
    assert f"{agreeing} of {len(table)} agree" in (ROOT / "docs" / "import-reference.md").read_text(encoding="utf-8")
