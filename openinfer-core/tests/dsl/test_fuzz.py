"""The fuzzer of the language, briefly: the package's own errors only, every one in its place, no text slow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import ValidationError
from openinfer.model import Model
from openinfer.plugins.loader import load_environment
from openinfer.validate import resolve

FUZZER = Path(__file__).resolve().parents[2] / "fuzz" / "fuzz_language.py"

LIMIT = 20
"""Seconds for a text, many times what the longest takes: busy machines are slow, quadratic readers take minutes."""

TEXTS = int(os.environ.get("OPENINFER_FUZZ_TEXTS", "2000"))
"""Texts to read: one environment of the continuous integration reads 6,000, the others these; 20,000 by hand."""


@contextmanager
def fuzzing(tmp_path: Path, texts: int, seeds: tuple[int, ...]) -> Iterator[list[subprocess.Popen[str]]]:
    """Start the fuzzer once for each seed, and end those that run when it is left."""
    if not FUZZER.is_file():
        pytest.skip("the fuzzer is not next to the tests")
    command = [sys.executable, str(FUZZER), "--keep", str(tmp_path / "kept"), "--texts", f"{texts}"]
    command += ["--limit", f"{LIMIT}", "--seed"]
    with ExitStack() as stack:
        running: list[subprocess.Popen[str]] = []
        for seed in seeds:
            started = subprocess.Popen(
                [*command, f"{seed}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            running.append(stack.enter_context(started))
            stack.callback(started.kill)
        yield running


def table(printed: str) -> dict[str, int]:
    """Return how many texts ended in which phase and with which code."""
    rows = re.findall(r"^(?:([-PBSV]) +(\d+) .*|  +(\d+) +(\S.*))$", printed, re.MULTILINE)
    return {phase or code: int(total or times) for phase, total, times, code in rows}


@pytest.mark.rule("language.phases.5")
def test_texts_become_graphs_or_findings(tmp_path: Path) -> None:
    with fuzzing(tmp_path, TEXTS // 2, (1, 2)) as running:
        reported = [(process.communicate()[0], process.returncode) for process in running]
    for printed, code in reported:
        assert code == 0, printed
        found = table(printed)
        assert {"syntax", "bad-string", "bad-hint", "unknown-dtype", "missing-entry", "unknown-variable"} <= set(found)
        assert {"unknown-op", "shape-mismatch", "unbound"} <= set(found)
        assert TEXTS < 20_000 or {"setting-type", "unknown-setting"} <= set(found)
        assert sum(found[phase] for phase in "-PBSV") == TEXTS // 2
        assert found["-"] > TEXTS // 8, "a good share of the texts is right"


def test_equal_seeds_give_equal_texts(tmp_path: Path) -> None:
    with fuzzing(tmp_path, 300, (7, 7, 8)) as running:
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
