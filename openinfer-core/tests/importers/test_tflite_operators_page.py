"""The table of operators in the documentation is what the importer has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openinfer.importers.tflite_files.refusals import REASONS, refusal
from openinfer.importers.tflite_files.registry import translators

tflite = pytest.importorskip("tflite", reason="operators are those of the package tflite")

PAGE = Path(__file__).parents[3] / "docs" / "import-tflite.md"
HEAD = "| operator | |\n|---|---|\n"
NOT_OPERATORS = ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")


def operators() -> list[str]:
    """Return the names of TFLite's own operators; those of StableHLO are not in its runtime."""
    names = [name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)]
    return sorted(name for name in names if name not in NOT_OPERATORS and not name.startswith("STABLEHLO_"))


def rows() -> str:
    has = translators()
    return "".join(f"| {name} | {'yes' if name in has else f'refused: {refusal(name)}'} |\n" for name in operators())


@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not part of the distribution")
def test_the_page_lists_every_operator() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, table = text.split(HEAD)
    if os.environ.get("OPENINFER_UPDATE_GOLDEN"):
        PAGE.write_text(before + HEAD + rows(), encoding="utf-8")
        return
    assert table == rows(), "run with OPENINFER_UPDATE_GOLDEN=1 to write the table again"


def test_every_operator_has_its_real_name() -> None:
    assert set(translators()) <= set(operators())
    assert set(REASONS) <= set(operators())
    assert not set(translators()) & set(REASONS)
