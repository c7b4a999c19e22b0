"""Every common mistake on the command line: one clear message with code, place and suggestion; exit 1; no traceback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from forked_commands import run_forked

from openinfer_oinf import save_file

PROGRAM = """dynamic { x: f32[B]; }
volatile { a: f32[B]; y: f32[B]; }
block entry {
  op add(x, a) >> y;
  return y;
}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "program.oi").write_text(PROGRAM)
    save_file({"a": np.arange(4, dtype=np.float32)}, tmp_path / "model.oinf", sizevars={"B": 4})
    (tmp_path / "broken.oinf").write_bytes(b"OINF\x00" + bytes(80))
    (tmp_path / "text.oinf").write_text("B := 4\n")
    np.save(tmp_path / "long.npy", np.zeros(5, np.float32))
    np.save(tmp_path / "double.npy", np.zeros(4, np.float64))
    return tmp_path


def openinfer(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_forked(["-m", "openinfer", *arguments], workspace)


def with_statement(workspace: Path, statement: str) -> str:
    path = workspace / "mistake.oi"
    path.write_text(PROGRAM.replace("op add(x, a) >> y;", statement))
    return path.name


RUN = ("run", "program.oi", "--model", "model.oinf", "--input", "x=random")

COMMANDS = {
    "wrong model file": (("run", "program.oi", "--model", "broken.oinf"), ["E_VERSION", "broken.oinf"]),
    "text for a model": (("run", "program.oi", "--model", "text.oinf"), ["text.oinf", "E_MAGIC"]),
    "absent model": (("run", "program.oi", "--model", "absent.oinf"), ["absent.oinf", "No such file"]),
    "absent program": (("check", "absent.oi"), ["absent.oi"]),
    "misspelt program": (("check", "programs.oi"), ["programs.oi", "did you mean `program.oi`?"]),
    "missing input": (RUN[:4], ["dynamic-unset", "`x`", "--input"]),
    "unknown input": ((*RUN, "--input", "xx=zeros"), ["xx", "did you mean `x`"]),
    "wrong shape": ((*RUN[:4], "--input", "x=long.npy"), ["insert-mismatch", "f32[4]", "[5]"]),
    "wrong dtype": ((*RUN[:4], "--input", "x=double.npy"), ["insert-mismatch", "float64", "f32"]),
    "unknown device": ((*RUN, "--device", "cpuu"), ["unknown device", "did you mean `cpu`"]),
    "unknown target": (
        ("synth", "program.oi", "--model", "model.oinf", "--target", "d", "-o", "out"),
        ["unknown synth target", "c"],
    ),
    "unknown size": ((*RUN, "--size", "C=4"), ["unknown-sizevar", "`C`"]),
}


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_mistake_is_reported_in_words_and_exits_with_1(mistake: str, workspace: Path) -> None:
    arguments, expected = COMMANDS[mistake]
    result = openinfer(workspace, *arguments)
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    for piece in expected:
        assert piece in result.stderr


STATEMENTS = {
    "unknown operator": ("op addd(x, a) >> y;", ["unknown-op", "did you mean `add`"]),
    "wrong shape": ("op sum_axis(x, axes=[0]) >> y;", ["shape-mismatch", "f32[4]"]),
    "missing weight": ("op add(x, b) >> y;", ["unknown-variable", "`b`"]),
    "syntax": ("op add(x, a) >> ;", ["syntax"]),
}


@pytest.mark.parametrize("mistake", STATEMENTS)
def test_a_mistake_in_the_program_is_shown_with_carets(mistake: str, workspace: Path) -> None:
    statement, expected = STATEMENTS[mistake]
    result = openinfer(workspace, "check", with_statement(workspace, statement), "--model", "model.oinf")
    assert result.returncode == 1
    assert "mistake.oi:4:" in result.stderr + result.stdout
    assert "^" in result.stderr + result.stdout
    for piece in expected:
        assert piece in result.stderr + result.stdout


def test_debug_shows_the_traceback(workspace: Path) -> None:
    result = openinfer(workspace, "--debug", "run", "program.oi", "--model", "broken.oinf")
    assert "Traceback" in result.stderr


def test_a_failed_emit_leaves_no_files(workspace: Path) -> None:
    (workspace / "taken").mkdir()
    (workspace / "taken" / "mine.txt").write_text("keep me")
    result = openinfer(workspace, "synth", "program.oi", "--model", "model.oinf", "--target", "c", "-o", "taken")
    assert result.returncode == 1
    assert [file.name for file in (workspace / "taken").iterdir()] == ["mine.txt"]
    result = openinfer(
        workspace, "synth", "program.oi", "--model", "model.oinf", "--target", "c", "-o", "program.oi/out"
    )
    assert result.returncode == 1
    assert "program.oi" in result.stderr
    assert not [path for path in workspace.iterdir() if path.name.startswith((".", "out"))]
