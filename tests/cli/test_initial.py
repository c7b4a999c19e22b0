"""`--initial`: what persistent variables hold before the first step of a command that runs a program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from generated_c import needs_gcc

from openinfer.cli import main
from openinfer_oinf import write_oinf

PROGRAM = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
persistent { h: f32[2]; n: i32; p: i4[3]; K(t): f32[2] @table; }
block entry {
  cache.read h >> old;
  op add(old, x) >> y;
  cache.write y >> h;
  cache.read n >> at;
  cache.write x >> K[at];
  cache.increment n;
  return y;
}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.oi").write_text(PROGRAM)
    write_oinf({}, "m.oinf")
    np.save("h.npy", np.array([3, 4], np.float32))
    np.save("K.npy", np.array([[5, 6], [7, 8]], np.float32))


def command(name: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [name, "g.oi", "--model", "m.oinf", "--input", "x=1", *arguments])


def printed(*arguments: str) -> dict[str, object]:
    """Return the values of variables after a run of one step."""
    wanted = [word for name in ("y", "n", "p", "K") for word in ("--output", name)]
    result = command("run", "--json", *wanted, *arguments)
    assert result.exit_code == 0, result.output
    return {name: np.array(each["values"]).tolist() for name, each in json.loads(result.stdout)["outputs"].items()}


def test_a_run_begins_with_the_given_values() -> None:
    assert printed() == {"y": [1, 1], "n": 1, "p": [0, 0, 0], "K": [[1, 1]]}
    given = ["h=h.npy", "n=2", "p=[1, -2, 7]", "K=K.npy"]
    assert printed(*(word for each in given for word in ("--initial", each))) == {
        "y": [4, 5],
        "n": 3,
        "p": [1, -2, 7],
        "K": [[5, 6], [7, 8], [1, 1]],
    }
    assert printed("--initial", "K=[[5, 6]]", "--initial", "n=1")["K"] == [[5, 6], [1, 1]]


def test_random_values_depend_on_the_seed() -> None:
    one, same, other = (printed("--initial", "h=random", "--seed", seed)["y"] for seed in ("1", "1", "2"))
    assert one == same
    assert one != other


def test_random_first_values_are_not_the_random_inputs() -> None:
    arguments = ["run", "g.oi", "--model", "m.oinf", "--json", "--output", "y"]
    sums = []
    for x, h in (("random", "zeros"), ("zeros", "random")):
        result = CliRunner().invoke(main, [*arguments, "--input", f"x={x}", "--initial", f"h={h}"])
        sums.append(json.loads(result.stdout)["outputs"]["y"]["values"])
    assert sums[0] != sums[1]


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["h=1", "h=2"], 2, "--initial h=... is given twice: a variable has one first value"),
        (["h"], 2, "expected NAME=FILE.npy, NAME=random, NAME=zeros or NAME=VALUE, found 'h'"),
        (["hh=1"], 1, "error[unknown-variable]: unknown variable `hh`: did you mean `h`?"),
        (["x=1"], 1, "error[state-mismatch]: `x` is dynamic: only persistent variables keep a value (h, n, p, K)"),
        (["h=K.npy"], 1, "'K.npy' holds float32 of shape [2, 2], `h` is declared f32[2]"),
        (["h=none.npy"], 1, "none.npy"),
        (["K=random"], 1, "`K` is a table: expected a file ending in .npy or a list, found 'random'"),
        (["K=3"], 1, "`K` is a table: expected a file ending in .npy or a list, found '3'"),
        (["K=h.npy"], 1, "`K` takes all entries in one array of rank 2 [t, 2], found shape [2]"),
        (["p=[1, 2, 8]"], 1, "`p`: 8"),
    ],
)
@pytest.mark.parametrize("name", ["run", "bench"])
def test_what_does_not_fit_is_refused(name: str, given: list[str], code: int, message: str) -> None:
    result = command(name, *(word for each in given for word in ("--initial", each)))
    assert (result.exit_code, message in " ".join(result.output.split())) == (code, True), result.output


def test_a_saved_state_and_first_values_exclude_each_other() -> None:
    assert command("run", "--initial", "h=h.npy", "--state", "s.oinf").exit_code == 0
    again = command("run", "--initial", "h=h.npy", "--state", "s.oinf")
    assert (again.exit_code, "s.oinf has the state after earlier ones" in again.output) == (2, True)
    assert command("run", "--state", "s.oinf").stdout.startswith("y: f32[2] = {5.00, 6.00}")
    traced = command("trace", "--initial", "h=h.npy", "--state", "s.oinf", "--script", "-")
    assert (traced.exit_code, "leave out one" in traced.output) == (2, True)
    batch = CliRunner().invoke(main, ["run", "g.oi", "-m", "m.oinf", "--batch", "x.npz", "--initial", "h=1"])
    assert (batch.exit_code, "--initial does not go with --batch" in batch.output) == (2, True)


def test_a_benchmark_begins_every_repetition_with_the_given_values() -> None:
    Path("g.oi").write_text(PROGRAM.replace("@table", "@table @fixed(t=5)"))
    # The table has room for one entry more: a repetition that began where the last one ended would fail.
    result = command("bench", "--initial", "h=h.npy", "--initial", "n=4", "--initial", "K=K.npy", "--repeat", "2")
    assert result.exit_code == 0, result.output
    full = command("bench", "--initial", "n=5", "--repeat", "2")
    assert (full.exit_code, "error[cache-limit]" in full.output) == (1, True), full.output


def test_a_trace_begins_with_the_given_values() -> None:
    Path("words").write_text("step 2\nprint old\n")
    result = command("trace", "--initial", "h=h.npy", "--script", "words")
    assert (result.exit_code, "3" in result.output and "4" in result.output) == (0, True), result.output


def test_devices_are_compared_from_the_given_values() -> None:
    result = command("compare", "--device", "cpu", "--device", "cpu", "--initial", "h=random", "--steps", "2")
    assert result.exit_code == 0, result.output
    below = command("compare", "--device", "cpu", "--device", "cpu", "--initial", "n=-1")
    assert (below.exit_code, "must not be negative" in below.output) == (1, True), below.output


@needs_gcc
def test_a_bundle_is_verified_from_the_given_values() -> None:
    common = ["synth", "g.oi", "-m", "m.oinf", "--target", "c", "--limit", "t=8", "--verify", "--steps", "3"]

    def verified(*given: str) -> Result:
        return CliRunner().invoke(main, [*common, *(word for each in given for word in ("--initial", each))])

    result = verified("h=h.npy", "n=2", "p=[1, -2, 7]")
    assert result.exit_code == 0, result.output
    refused = verified("K=K.npy")
    assert (refused.exit_code, "tables begin with their declared entries here" in refused.output) == (2, True)
    alone = CliRunner().invoke(main, [*common[:8], "-o", "out", "--initial", "h=1"])
    assert (alone.exit_code, "--initial goes with --verify" in alone.output) == (2, True)
