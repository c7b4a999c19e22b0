"""The fuzzer of the language, briefly: the package's own errors only, every one in its place, no text slow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import ValidationError
from openinfer.model import Model
from openinfer.plugins.loader import load_environment
from openinfer.validate import resolve

FUZZER = Path(__file__).resolve().parents[1] / "fuzz" / "fuzz_language.py"

TEXTS = int(os.environ.get("OPENINFER_FUZZ_TEXTS", "2000"))
"""Texts to read: one environment of the continuous integration reads 20,000, the others these."""


def started(tmp_path: Path, texts: int, seed: int) -> subprocess.Popen[str]:
    if not FUZZER.is_file():
        pytest.skip("the fuzzer is not beside the tests")
    options = ["--keep", str(tmp_path / "kept"), "--texts", f"{texts}", "--seed", f"{seed}"]
    command = [sys.executable, str(FUZZER), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def table(printed: str) -> dict[str, int]:
    """Return how many texts ended in which phase and with which code."""
    rows = re.findall(r"^(?:([-PBSV]) +(\d+) .*|  +(\d+) +(\S.*))$", printed, re.MULTILINE)
    return {phase or code: int(total or times) for phase, total, times, code in rows}


def test_texts_become_graphs_or_findings(tmp_path: Path) -> None:
    running = [started(tmp_path, TEXTS // 2, seed) for seed in (1, 2)]
    for process in running:
        printed, _ = process.communicate()
        assert process.returncode == 0, printed
        found = table(printed)
        assert {"syntax", "bad-string", "bad-hint", "unknown-dtype", "missing-entry", "unknown-variable"} <= set(found)
        assert {"unknown-op", "shape-mismatch", "unbound"} <= set(found)
        assert TEXTS < 20_000 or {"setting-type", "unknown-setting"} <= set(found)
        assert sum(found[phase] for phase in "-PBSV") == TEXTS // 2
        assert found["-"] > TEXTS // 8, "a good share of the texts is right"


def test_equal_seeds_give_equal_texts(tmp_path: Path) -> None:
    running = [started(tmp_path, 300, seed) for seed in (7, 7, 8)]
    tables = [table(process.communicate()[0]) for process in running]
    assert tables[0] == tables[1] != tables[2]


def test_a_table_without_index_as_an_input_by_name_is_refused() -> None:
    text = """
      dynamic { x: f32[D, D]; }
      volatile { W(l): f32[D, D] @pattern("W.{l}"); y: f32[D, D]; }
      block entry { op linear(x, W[1], bias=W) >> y; return; }
    """
    model = Model.from_arrays({"W.1": np.zeros((3, 3), np.float32)}, sizevars={"D": 3})
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), model, environment=load_environment(autoload=False))
    assert [finding.code for finding in caught.value.diagnostics] == ["needs-index"]
