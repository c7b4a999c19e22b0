"""Random whole programs in several places; and that the fuzzer meets everything, sees what is wrong, and shrinks it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.dtypes import U8
from openinfer.ir.nodes import Branch, CacheRead, CacheReset, CacheWrite, Loop, Op, Transfer, Yield
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor
from openinfer.simulate.values import Tensor

MOST_DRAWN = 3_000
"""Programs among which every operator has to be; the rarest is in one of about a hundred."""

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def fuzzed(fuzzer: Path, tmp_path: Path, *options: str) -> str:
    """Run the fuzzer; return what it prints."""
    command = [sys.executable, str(fuzzer), "--keep", str(tmp_path), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@needs_gcc
def test_random_programs_are_the_same_on_cpu_and_in_c(fuzzer: Path, tmp_path: Path) -> None:
    printed = fuzzed(fuzzer, tmp_path, "--count", "96", "--seed", "1", "--targets", "cpu,c")

    assert re.search(r"^cpu: 96 programs", printed, re.MULTILINE), printed
    found = re.search(r"^c, gcc -device: (\d+) programs", printed, re.MULTILINE)
    assert found is not None
    assert int(found[1]) > 64, printed


@pytest.mark.usefixtures("vulkan")
def test_random_programs_are_the_same_on_cpu_and_vulkan(fuzzer: Path, tmp_path: Path) -> None:
    assert "vulkan: 8 programs" in fuzzed(fuzzer, tmp_path, "--count", "8", "--seed", "2", "--targets", "cpu,vulkan")


def test_every_operator_and_statement_is_drawn(programs: Any) -> None:
    environment, draw = Environment.default(), programs("drawing").drawn_sample
    operators, kinds = set(environment.ops), {Branch, CacheRead, CacheReset, CacheWrite, Loop, Op, Transfer, Yield}
    for number in range(MOST_DRAWN):
        for _, node in draw(0, number, environment).graph.nodes():
            kinds.discard(type(node.kind))
            operators -= {node.kind.op} if isinstance(node.kind, Op) else set()
        if not operators and not kinds:
            return
    pytest.fail(f"not drawn in {MOST_DRAWN} programs: {sorted(operators)}, {kinds}")


def test_a_program_depends_on_its_seed_and_number_alone(programs: Any) -> None:
    environment, draw = Environment.default(), programs("drawing").drawn_sample
    first = [draw(3, number, environment) for number in (7, 8)]
    again = [draw(3, number, environment) for number in (8, 7)]

    assert [sample.text() for sample in again] == [sample.text() for sample in reversed(first)]
    assert draw(4, 7, environment).text() != first[0].text()


TEXT = """
dynamic { x: f32[3, 5]; k: i32[4]; }
volatile { y: f32[3, 5]; z: i32[4]; s: f32; }
block entry {
  loop turns (i in 0..2) { op mul(x, x) >> y; op not(k) >> z; }
  op add(y, x) >> y;
  op sum_axis(y) >> s;
  branch more;
  return y, z, s;
}
block more { op neg(z) >> z; return; }
"""
STATE = """
dynamic { x: i32[2]; }
persistent { p: i32[2]; n: i64; }
volatile { y: i32[2]; }
block entry { cache.read p >> y; op add(x, y) >> y; cache.write y >> p; cache.increment n; return y; }
"""


def sample_of(programs: Any, text: str, **inputs: Any) -> Any:
    return programs("sample").Sample(graph(text), {}, {}, (inputs, inputs))


def inputs_of_text() -> dict[str, Any]:
    return {"x": np.arange(15, dtype=np.float32).reshape(3, 5), "k": np.arange(4, dtype=np.int32)}


def written_wrongly(programs: Any, monkeypatch: pytest.MonkeyPatch, pattern: str, instead: Any) -> None:
    """Let programs in C be written with something else in place of a pattern."""
    examining = programs("examining")
    written = examining.written_in_c

    def wrongly(sample: Any, environment: Environment) -> Any:
        found = written(sample, environment)
        return replace(found, source=re.sub(pattern, instead, found.source))

    monkeypatch.setattr(examining, "written_in_c", wrongly)


def plan_of(programs: Any, **options: Any) -> Any:
    return programs("examining").Plan(Environment.default(), **options)


def build_of(programs: Any, *, sanitize: bool) -> Any:
    return programs("c_batches").Build("gcc", "O0", sanitize)


@needs_gcc
def test_a_wrong_value_in_c_is_found_and_shrunk(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written_wrongly(programs, monkeypatch, r"(v\d+_\d+) \* (v\d+_\d+)", r"\1 + \2")
    plan = plan_of(programs, builds=(build_of(programs, sanitize=False),))
    sample = sample_of(programs, TEXT, **inputs_of_text())

    found = programs("examining").examine({0: sample}, plan, programs("tally").Tally())

    assert {finding.kind for finding in found} == {"c, gcc -O0: value"}
    small = programs("shrinking").shrunk(sample, found[0], plan)
    nodes = [node.kind for _, node in small.graph.nodes()]
    assert [kind.op for kind in nodes if isinstance(kind, Op)] == ["mul"]
    assert len(nodes) == 1
    assert len(small.steps) == 1


VARYING = """
dynamic { x: f32[3]; n: i32; }
persistent { K(t): f32[3] @table; }
block entry { cache.write x >> K[n]; cache.read K[0..n+1] >> all; op mul(all, x) >> scaled; return all, scaled; }
"""


@needs_gcc
@pytest.mark.parametrize(
    ("pattern", "instead", "is_found"),
    [("^", "", False), (r"shape_all\[0\] = \(size_t\)", "shape_all[0] = 1 + (size_t)", True)],
)
def test_results_whose_shape_varies_are_compared(
    programs: Any, monkeypatch: pytest.MonkeyPatch, pattern: str, instead: str, is_found: bool
) -> None:
    written_wrongly(programs, monkeypatch, pattern, instead)
    given = {"x": np.arange(3, dtype=np.float32)}
    steps = tuple({**given, "n": np.array(number, np.int32)} for number in range(3))
    sample = programs("sample").Sample(graph(VARYING), {}, {}, steps)
    tally = programs("tally").Tally()

    found = programs("examining").examine(
        {0: sample}, plan_of(programs, builds=(build_of(programs, sanitize=True),)), tally
    )

    assert {finding.kind for finding in found} == ({"c, gcc -O0 sanitized: value"} if is_found else set())
    assert tally.ran["c, gcc -O0 sanitized"] == 1


@needs_gcc
def test_an_access_out_of_bounds_is_found_and_ends_no_other_program(
    programs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_wrongly(programs, monkeypatch, r"x0\[14\]", "x0[15]")
    plan = plan_of(programs, builds=(build_of(programs, sanitize=True),))
    tally = programs("tally").Tally()
    samples = {
        0: sample_of(programs, TEXT.replace("[3, 5]", "[15]"), x=np.ones(15, np.float32), k=np.ones(4, np.int32)),
        1: sample_of(programs, TEXT, **inputs_of_text()),
        2: sample_of(programs, TEXT.replace("[3, 5]", "[14]"), x=np.ones(14, np.float32), k=np.ones(4, np.int32)),
    }

    found = programs("examining").examine(samples, plan, tally)

    assert {finding.number for finding in found} == {0, 1}
    assert all("heap-buffer-overflow" in finding.message for finding in found)
    assert tally.ran["c, gcc -O0 sanitized"] == 1


def test_errors_of_a_compiler_itself_are_counted_apart(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "does not compile: unit0.c:9:1: internal compiler error: in simplify_const_unary_operation"
    monkeypatch.setattr(programs("examining"), "run_batch", lambda given, _build: [said for _ in given])
    tally = programs("tally").Tally()
    plan = plan_of(programs, builds=(build_of(programs, sanitize=False),))

    found = programs("examining").examine({1: sample_of(programs, TEXT, **inputs_of_text())}, plan, tally)

    assert not found
    assert "c, gcc -O0: refused 1: an error within the compiler itself" in tally.lines([])


@needs_gcc
def test_what_does_not_compile_is_found_and_keeps_no_other_program(
    programs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_wrongly(programs, monkeypatch, r"x0\[14\]", "x0[missing]")
    plan = plan_of(programs, builds=(build_of(programs, sanitize=False),))
    tally = programs("tally").Tally()
    sample = sample_of(programs, TEXT, **inputs_of_text())
    other = sample_of(programs, TEXT.replace("[3, 5]", "[4]"), x=np.ones(4, np.float32), k=np.ones(4, np.int32))

    (finding,) = programs("examining").examine({0: other, 1: sample, 2: other}, plan, tally)

    assert finding.number == 1
    assert finding.kind.startswith("c, gcc -O0: does not compile [undeclared (first use")
    assert "missing" in finding.message
    assert tally.ran["c, gcc -O0"] == 2


@needs_gcc
def test_programs_that_collide_are_an_error_of_the_fuzzer(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written_wrongly(programs, monkeypatch, r"\Z", "int same_in_all = 1;\n")
    plan = plan_of(programs, builds=(build_of(programs, sanitize=False),))
    sample = sample_of(programs, TEXT, **inputs_of_text())

    with pytest.raises(programs("c_batches").CollisionError, match="same_in_all"):
        programs("examining").examine({0: sample, 1: sample}, plan, programs("tally").Tally())


@needs_gcc
def test_a_program_that_does_not_end_is_found(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = r"for (volatile int i = 0; i == 0;) { } status = block_entry("
    written_wrongly(programs, monkeypatch, r"status = block_entry\(", endless)
    monkeypatch.setattr(programs("c_batches"), "LONGEST_RUN", 0.5)
    plan = plan_of(programs, builds=(build_of(programs, sanitize=False),))
    sample = sample_of(programs, TEXT, **inputs_of_text())

    (finding,) = programs("examining").examine({0: sample}, plan, programs("tally").Tally())

    assert finding.kind == "c, gcc -O0: hangs"


EXTREME = """
dynamic { x: f32[4]; }
volatile { y: f32[4]; s: f32; z: f32[4]; m: f32[2, 2]; }
block entry {
  op add(x, x) >> y;
  op sum_axis(x) >> s;
  op mul(x, s) >> z;
  op reshape(x, shape=[2, 2]) >> m;
  return y, s, z, m;
}
"""


@pytest.mark.parametrize(
    ("values", "flushes", "open_ops"),
    [
        ([3e38, 3e38, -3e38, 1], False, {1}),
        ([3e18, 3e18, -3e18, 1], False, set()),
        ([np.inf, -np.inf, np.nan, 1], False, set()),
        ([1, 1e-40, 2, 3], False, set()),
        ([1, 1e-40, 2, 3], True, {0, 1, 2}),
        ([1, 0, 2, 3], True, set()),
    ],
)
def test_results_that_values_leave_open_are_known(
    programs: Any, values: list[float], flushes: bool, open_ops: set[int]
) -> None:
    sample = replace(sample_of(programs, EXTREME, x=np.array(values, np.float32)), calm=False)

    found, _ = programs("extremes").open_statements(sample, Environment.default(), flushes=flushes)

    assert found == open_ops


@pytest.mark.parametrize(
    ("flushes", "value", "is_found"), [(True, 1e-40, False), (False, 1e-40, True), (True, 1, True)]
)
def test_subnormals_may_be_zero_where_a_device_cannot_keep_them(
    programs: Any, monkeypatch: pytest.MonkeyPatch, flushes: bool, value: float, is_found: bool
) -> None:
    """The device computes with 0 instead of the value."""
    examining = programs("examining")
    run_on = examining.run_on

    def run_flushed(sample: Any, device: str, environment: Environment, **options: Any) -> Any:
        zeros = {"x": np.zeros(4, np.float32)}
        sample = sample if device == "cpu" else replace(sample, steps=(zeros, zeros))
        return run_on(sample, "cpu", environment, **options)

    monkeypatch.setattr(examining, "run_on", run_flushed)
    monkeypatch.setattr(examining, "flushes_subnormals", lambda _device: flushes)
    sample = sample_of(programs, EXTREME.replace("y, s, z, m;", "y;"), x=np.full(4, value, np.float32))

    found = examining.examine({0: sample}, plan_of(programs, devices=("vulkan",)), programs("tally").Tally())

    assert {finding.kind for finding in found} == ({"vulkan: value"} if is_found else set())


def test_state_that_is_lost_is_found(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Executor, state: Any) -> None:
        pass

    monkeypatch.setattr(Executor, "restore", forgetful)
    sample = sample_of(programs, STATE, x=np.array([1, 2], np.int32))

    found = programs("examining").examine({0: sample}, plan_of(programs, thorough=True), programs("tally").Tally())

    assert {finding.kind for finding in found} == {"restored: value"}


def test_an_exception_of_another_kind_is_found(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Executor, **inputs: Any) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(Executor, "step", broken)
    sample = sample_of(programs, STATE, x=np.array([1, 2], np.int32))

    (finding,) = programs("examining").examine({0: sample}, plan_of(programs), programs("tally").Tally())

    assert finding.kind == "cpu: raises KeyError"


def test_what_is_quantised_on_a_gpu_may_differ_by_a_step(programs: Any) -> None:
    text = """dynamic { x: f32[3]; s: f32; z: u8; } volatile { y: u8[3]; q: u8[3]; scale: f32; zero: u8; w: u8[3]; }
    block entry { op quantize_linear(x, s, z) >> y; op dynamic_quantize_linear(x) >> q, scale, zero;
    op cast(x, to=u8) >> w; }
    """
    ran = programs("running").run_on(
        sample_of(programs, text, x=np.ones(3, np.float32), s=np.float32(1), z=np.uint8(0)),
        "cpu",
        Environment.default(),
    )
    levels = programs("levels").levels_of(ran.program, Environment.default(), gpu=True)

    def wrong(name: str, values: list[int]) -> bool:
        expected, found = (Tensor(U8, (3,), np.array(each, np.uint8)) for each in ([0, 254, 7], values))
        return bool(programs("agreement").differences([{name: expected}], [{name: found}], levels))

    assert [wrong(name, [1, 255, 6]) for name in ("y", "q", "w")] == [False, False, True]
    assert [wrong(name, [255, 254, 7]) for name in ("y", "q", "w")] == [True, True, True]
    assert programs("levels").levels_of(ran.program, Environment.default())["y"] == programs("precision").EXACT


def test_what_follows_a_return_has_no_part_in_how_far_floats_may_differ(programs: Any) -> None:
    text = """dynamic { x: f32[8]; b: bool; } volatile { y: f32[8]; z: f32[8]; }
    block entry { op log_softmax(x) >> y; branch b done done; loop l (i in 0..2) { op exp(x) >> z; return; } }
    block done { return; transfer x >> y; }
    """
    ran = programs("running").run_on(
        sample_of(programs, text, x=np.ones(8, np.float32), b=np.bool_(True)), "cpu", Environment.default()
    )

    levels = programs("levels").levels_of(ran.program, Environment.default())

    assert levels["y"] > programs("precision").EXACT
    assert levels["z"] > programs("precision").EXACT


@pytest.mark.parametrize(("position", "is_open"), [(1 << 20, False), (-(1 << 62), True)])
def test_angles_of_far_positions_are_open(programs: Any, position: int, is_open: bool) -> None:
    text = "dynamic { x: f32[1, 2]; p: i64[1]; } volatile { y: f32[1, 2]; } block entry { op rope(x, p) >> y; }"
    sample = sample_of(programs, text, x=np.ones((1, 2), np.float32), p=np.array([position]))

    found, _ = programs("extremes").open_statements(sample, Environment.default(), flushes=False)

    assert bool(found) == is_open
