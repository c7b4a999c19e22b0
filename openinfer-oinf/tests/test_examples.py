"""The generators under examples/openinfer-oinf: they run, and what they write is valid and always the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openinfer_oinf import open_oinf, verify_oinf
from openinfer_oinf.valuetypes import VALUE_TYPES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "openinfer-oinf"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))

pytestmark = pytest.mark.skipif(not SCRIPTS, reason="the examples are in a checkout only")


def generated(script: Path, folder: Path) -> tuple[Path, str]:
    path = folder / f"{script.stem}.oinf"
    done = subprocess.run([sys.executable, script, path], capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return path, done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_generator_writes_a_valid_file_and_the_same_again(script, tmp_path):
    path, text = generated(script, tmp_path)
    first = path.read_bytes()
    verify_oinf(path, file=False)
    assert text
    generated(script, tmp_path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_generator_without_a_file_name_leaves_nothing_where_it_is_run(script, tmp_path):
    temporary = tmp_path / "temporary"
    (tmp_path / "here").mkdir()
    temporary.mkdir()
    before = set(EXAMPLES.iterdir())
    done = subprocess.run(
        [sys.executable, "-B", script],
        capture_output=True,
        text=True,
        cwd=tmp_path / "here",
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert [*(tmp_path / "here").iterdir(), *temporary.iterdir()] == []
    assert set(EXAMPLES.iterdir()) == before


def test_every_value_type_is_shown(tmp_path):
    path, _ = generated(EXAMPLES / "every_value_type.py", tmp_path)
    with open_oinf(path) as file:
        assert {tensor.dtype for tensor in file.tensors()} == {each.name for each in VALUE_TYPES if each.is_element}
        assert {"str", "bool", "bitset", "u16", "f32", "i4"} <= {
            file.metadata.typed(name).dtype for name in file.metadata
        }


def test_the_readme_names_every_generator():
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"`{script.name}`" in text for script in SCRIPTS)
