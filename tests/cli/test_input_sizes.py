"""Inputs on the command line of programs whose sizes a step gives: files and lists decide, other sources fill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import main
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """
dynamic { x: f32[B, 2]; by: f32[B]; }
volatile { s: f32[B]; y: f32[B]; }
block entry {
  op sum_axis(x, axes=[1]) >> s;
  op mul(s, by) >> y;
  return y;
}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.oi").write_text(PROGRAM)
    write_oinf({"B": SizeVar(1)}, "m.oinf")
    np.save("x.npy", np.ones((3, 2), np.float32))
    np.save("by.npy", np.full(3, 2, np.float32))


def called(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [command, "g.oi", "--model", "m.oinf", *arguments])


@pytest.mark.parametrize("x", ["x=x.npy", "x=[[1, 1], [1, 1], [1, 1]]"])
@pytest.mark.parametrize("by", ["by=2", "by=by.npy", "by=[2, 2, 2]"])
def test_a_file_or_list_gives_the_step_its_size(x: str, by: str) -> None:
    expected = "y: f32[3] = {4.00, 4.00, 4.00}  min 4  max 4  mean 4\n"

    assert called("run", "--input", x, "--input", by).output == expected
    assert called("run", "--input", by, "--input", x).output == expected


@pytest.mark.parametrize("source", ["zeros", "random"])
def test_zeros_and_random_values_have_the_size_of_the_step(source: str) -> None:
    assert called("run", "--input", f"by={source}", "--input", "x=x.npy", "--steps", "2").output.startswith(
        "after 2 steps:\ny: f32[3] = "
    )


@pytest.mark.parametrize(
    "command", [("bench", "--repeat", "1"), ("trace",), ("compare", "--device", "cpu", "--device", "cpu")]
)
def test_every_command_that_runs_steps_takes_sizes_from_files(command: tuple[str, ...]) -> None:
    result = called(*command, "--input", "x=x.npy", "--input", "by=2")

    assert result.exit_code == 0, result.output


def test_a_shape_of_another_rank_is_refused_with_the_declared_one() -> None:
    np.save("x.npy", np.ones((1, 3, 2), np.float32))

    result = called("run", "--input", "x=x.npy", "--input", "by=2")

    assert result.exit_code == 1
    assert "'x.npy' holds float32 of shape [1, 3, 2], `x` is declared f32[1,2]" in result.output


def test_files_that_disagree_about_a_size_are_refused() -> None:
    np.save("by.npy", np.ones(2, np.float32))

    result = called("run", "--input", "x=x.npy", "--input", "by=by.npy")

    assert result.exit_code == 1
    assert "size `B` is 3 by `x` and 2 by `by`" in result.output


@pytest.fixture
def batch() -> None:
    Path("in").mkdir()
    for rows in (2, 3):
        np.savez(f"in/{rows}.npz", x=np.ones((rows, 2), np.float32))


@pytest.mark.parametrize("by", ["by=2", "by=zeros", "by=random"])
def test_each_input_of_a_batch_gives_its_size_to_what_all_of_them_get(batch: None, by: str) -> None:
    lines = called("run", "--batch", "in", "--input", by).stdout.splitlines()

    assert [line.split(" = ")[0] for line in lines[:2]] == ["2.npz: y: f32[2]", "3.npz: y: f32[3]"]


def test_a_file_for_a_whole_batch_fails_for_inputs_of_other_sizes(batch: None) -> None:
    result = called("run", "--batch", "in", "--input", "by=by.npy")

    assert result.exit_code == 1
    assert "size `B` is 3 by `by` and 2 by `x`" in result.stderr
    assert result.stdout.startswith("3.npz: y: f32[3] = {4.00, 4.00, 4.00}")
