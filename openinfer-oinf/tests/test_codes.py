"""The meanings of codes: one for each that the package gives to a finding, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import openinfer_oinf
from openinfer_oinf.codes import MEANINGS

PACKAGE = Path(openinfer_oinf.__file__).parent


def test_every_code_of_the_package_has_a_meaning_and_no_other() -> None:
    used = {
        node.value
        for module in PACKAGE.rglob("*.py")
        if module.name != "codes.py"
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[EW]_[A-Z_]+", node.value)
    }
    assert len(used) > 50
    assert used == set(MEANINGS)


def test_meanings_are_sentences() -> None:
    assert [code for code, text in MEANINGS.items() if not re.fullmatch(r"[A-Z`].{20,}[.-]", text)] == []
