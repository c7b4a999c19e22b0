"""The fuzzer of the language, briefly: the package's own errors only, every one in its place, no text slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).resolve().parents[1] / "fuzz" / "fuzz_language.py"


def fuzz(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not FUZZER.is_file():
        pytest.skip("the fuzzer is not beside the tests")
    command = [sys.executable, str(FUZZER), "--keep", str(tmp_path / "kept"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_texts_become_graphs_or_findings(tmp_path: Path) -> None:
    done = fuzz(tmp_path, "--texts", "20000", "--seed", "1")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    found = {line.split()[1] for line in done.stdout.splitlines()[:-1]}
    assert {"syntax", "bad-string", "bad-hint", "unknown-dtype", "missing-entry", "unknown-variable"} <= found


def test_equal_seeds_give_equal_texts(tmp_path: Path) -> None:
    tables = [fuzz(tmp_path, "--texts", "300", "--seed", seed).stdout.split(" texts in")[0] for seed in "778"]
    assert tables[0] == tables[1] != tables[2]
