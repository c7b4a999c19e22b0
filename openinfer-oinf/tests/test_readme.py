"""The examples of the package's README run unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def test_python_examples_run_in_order(tmp_path):
    pytest.importorskip("openinfer_oinf", reason="the package is not installed")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "examples.py").write_text("\n".join(blocks), "utf-8")
    done = subprocess.run([sys.executable, "examples.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("4 0.1")
