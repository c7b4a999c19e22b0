"""Random inputs on the command line are those that the program takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import main
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """
dynamic { tokens: i64[T]; shift: i64[T]; }
volatile { table: f32[5, 2]; }
block entry {
  op embedding(tokens, table) >> rows;
  op add(shift, shift) >> sum;
  return rows, sum, tokens, shift;
}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.oi").write_text(PROGRAM)
    write_oinf({"T": SizeVar(64), "table": np.ones((5, 2), np.float32)}, "m.oinf")
    Path("in").mkdir()
    for number in range(2):
        np.savez(f"in/{number}.npz", shift=np.zeros(64, np.int64))


def called(command: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [command, "g.oi", "--model", "m.oinf", "--input", "tokens=random", *arguments])


def test_indices_exist_and_what_has_no_bounds_is_of_the_whole_type() -> None:
    result = called("run", "--input", "shift=random", "--output", "tokens=t.npy", "--output", "shift=s.npy")

    assert result.exit_code == 0, result.output
    assert set(np.load("t.npy")) == set(range(5))
    assert np.abs(np.load("s.npy").astype(float)).max() > 2**40


@pytest.mark.parametrize(
    "command",
    [
        ("bench", "--repeat", "1", "--input", "shift=0"),
        ("trace", "--input", "shift=0"),
        ("compare", "--device", "cpu", "--device", "cpu", "--input", "shift=0"),
        ("run", "--steps", "2", "--input", "shift=0"),
        ("run", "--batch", "in"),
    ],
)
def test_every_command_that_runs_programs_draws_them_so(command: tuple[str, ...]) -> None:
    name, *arguments = command
    result = called(name, *arguments)

    assert result.exit_code == 0, result.output
    assert "out of range" not in result.output


def test_inputs_of_a_batch_differ() -> None:
    called("run", "--batch", "in", "--output", "tokens=all.npz")

    first, second = np.load("all.npz")["tokens"]
    assert set(first) == set(second) == set(range(5))
    assert (first != second).any()


def test_a_seed_repeats_them() -> None:
    one, other, third = (
        called("run", "--json", "--seed", seed, "--input", "shift=0", "--output", "tokens").stdout for seed in "112"
    )

    assert json.loads(one) == json.loads(other) != json.loads(third)
