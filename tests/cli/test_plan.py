"""`openinfer plan`: what it prints."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.estimate import estimate
from openinfer.plan.schedules import parse_schedules, schedules_text
from openinfer.plan.steps import ComputeStep

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")

DIGITS = ("examples/digits/digits.oi", "--model", "examples/digits/digits.oinf", "--size", "N=1", "--size", "S=8")


def plan(*options):
    return CliRunner().invoke(main, ["plan", *DIGITS, *options])


def test_it_shows_steps_schedules_and_reasons_in_100_columns():
    result = plan()

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert "device" not in lines[0]
    assert any(line.split()[:2] == ["stored", "relu"] for line in lines)
    assert any(line.startswith("arena of ") for line in lines)


def test_the_device_chooses_the_schedules():
    result = plan("--arch", "x86-64-v4")

    assert result.stdout.startswith("target    c, device x86-64-v4: 32 registers of 64 bytes, fused multiply-add\n")
    assert result.stdout != plan("--arch", "x86-64-v3").stdout


def test_json_is_the_plan_with_estimates():
    document = json.loads(plan("--json").stdout)

    assert document["format"] == "openinfer-plan"
    # Convolutions and pools have halos and a linear layer its weights: all accesses are proved.
    assert (document["totals"]["guarded"], document["totals"]["proved"] > 100) == (0, True)
    products = [step for step in document["blocks"][-1]["steps"] if step["kind"] == "linear"]
    # 384 products and sums for each of 10 classes, and a bias.
    assert [step["estimate"]["operations"] for step in products] == [10 * (2 * 384 + 1)]


OTHER_TARGETS = [("--target", "vulkan"), ("--arch", "llvmpipe"), ("--arch", "h200")]


@pytest.mark.parametrize("target", OTHER_TARGETS, ids=" ".join)
def test_targets_that_arrange_loops_themselves_have_plans_without_schedules(target, tmp_path):
    text, document = plan(*target), json.loads(plan(*target, "--json").stdout)
    picture = plan(*target, "--svg", str(tmp_path / "arena.svg"))

    assert (text.exit_code, picture.exit_code) == (0, 0), text.output + picture.output
    assert text.stdout.startswith("target    vulkan")
    products = [step for step in document["blocks"][-1]["steps"] if step["kind"] == "linear"]
    # 384 products and sums for each of 10 classes, and a bias.
    assert [step["estimate"]["operations"] for step in products] == [10 * (2 * 384 + 1)]
    assert not any(step["estimate"].get("stages") for step in products)
    assert (tmp_path / "arena.svg").read_text().startswith("<svg")


def test_schedules_of_targets_that_arrange_loops_themselves_are_refused(tmp_path):
    schedules = tmp_path / "schedules.txt"

    written = plan("--target", "vulkan", "--schedules-out", str(schedules))
    assert (written.exit_code, schedules.exists()) == (1, False)
    assert "error[schedules]: the synth target of the plan arranges loops itself" in written.stderr
    schedules.write_text("openinfer-schedules 1\n")
    given = plan("--target", "vulkan", "--schedules", str(schedules))
    assert given.exit_code == 1
    assert "error[schedules]: the synth target 'vulkan' arranges loops itself, no schedules fit it" in given.stderr


@pytest.mark.parametrize(("options", "code"), [(("--target", "nothing"), 1), (("--arch", "nothing"), 1)])
def test_what_is_unknown_is_refused(options, code):
    result = plan(*options)

    assert result.exit_code == code
    assert "nothing" in result.stderr


def test_schedules_are_written_and_read_back(tmp_path):
    file = tmp_path / "tuned.txt"
    assert plan("--schedules-out", str(file)).exit_code == 0

    document = json.loads(plan("--schedules", str(file), "--json").stdout)

    assert document == json.loads(plan("--json").stdout)


def test_given_schedules_reach_the_generated_source(tmp_path):
    file = tmp_path / "tuned.txt"
    plan("--schedules-out", str(file))
    linear = next(line for line in file.read_text().splitlines() if "i1=10 i2=384" in line)
    file.write_text(file.read_text().replace(linear.partition(": ")[2], "i0 i1:4 i2 i1=lanes"))
    arguments = ["synth", *DIGITS, "--target", "c", "--schedules", str(file)]

    result = CliRunner().invoke(main, [*arguments, "-o", str(tmp_path / "out"), "--plan"])

    assert result.exit_code == 0, result.output
    assert '"i0 i1:4 i2 i1=lanes"' in (tmp_path / "out" / "plan.json").read_text()


@needs_compiler
def test_synthesised_programs_with_given_schedules_agree_with_the_simulator(tmp_path):
    file = tmp_path / "tuned.txt"
    plan("--schedules-out", str(file))
    linear = next(line for line in file.read_text().splitlines() if "i1=10 i2=384" in line)
    file.write_text(file.read_text().replace(linear.partition(": ")[2], "i0 i1:4 i2 i1=lanes"))

    result = CliRunner().invoke(main, ["synth", *DIGITS, "--target", "c", "--schedules", str(file), "--verify"])

    assert result.exit_code == 0, result.output


@needs_compiler
def test_device_c_takes_schedules_from_the_environment(tmp_path, monkeypatch):
    graph = """
    dynamic { x: f32[2, 4]; } constant { w: f32[4, 8]; } volatile { y: f32[2, 8]; }
    block entry { op matmul(x, w) >> y; return y; }
    """
    model = oi.Model.from_arrays({"w": np.ones((4, 8), np.float32)})
    file = tmp_path / "tuned.txt"
    file.write_text("openinfer-schedules 1\nentry:3 nothing\n  y0[] 00000000: i0\n")
    monkeypatch.setenv("OPENINFER_C_SCHEDULES", str(file))

    with pytest.raises(oi.SynthesisError, match=r"tuned\.txt:3: the program has no step `entry:3 nothing`"):
        oi.Simulator(model, graph, device="c").make_executor()

    file.write_text("openinfer-schedules 1\n")
    with oi.Simulator(model, graph, device="c").make_executor() as executor:
        executor.step(x=np.ones((2, 4), np.float32))
        assert (executor.fetch("y") == 4).all()


def test_programs_are_printed_after_passes():
    names = ("lower", "initialise", "constants", "fuse", "arrange", "place")
    printed = plan(*(word for name in names for word in ("--print-after", name))).stdout

    assert [line.split()[1] for line in printed.splitlines() if line.startswith("after ")] == list(names)
    arranged, placed = printed.partition("after arrange\n")[2].partition("after place\n")[::2]
    assert re.search(r"^  conv2d\+relu image\S*, .*\n    y0: .*=lanes", arranged, re.MULTILINE)
    assert re.search(r"^layout   features: ", arranged, re.MULTILINE)
    assert re.search(r"^arena of \d+ bytes\n", placed, re.MULTILINE)
    lowered, fused = printed.partition("after arrange\n")[0].partition("after fuse\n")[::2]
    lowered = lowered.partition("after initialise\n")[0]
    assert lowered.startswith("after lower\n\nblock entry\n")
    assert "  relu features >> features  (line 46)" in lowered.splitlines()
    assert any(line.startswith("  conv2d+relu image") for line in fused.splitlines())


def test_an_unknown_pass_is_refused_with_those_that_ran():
    result = plan("--print-after", "fold")

    assert result.exit_code == 2
    assert "unknown pass 'fold'; the passes of this program are lower, initialise, constants, fuse" in result.stderr


DEPTHWISE = """
dynamic { x: f32[1, 32, 64, 64]; }
constant { w: f32[32, 1, 3, 3]; }
volatile { y: f32[1, 32, 64, 64]; }
block entry { op conv2d(x, w, padding=1, groups=32) >> y; return y; }
"""


def test_a_step_in_bands_costs_as_much_as_all_of_them_and_its_schedules_are_read_back():
    model = oi.Model.from_arrays({"w": np.ones((32, 1, 3, 3), np.float32)})
    found = oi.Synthesizer(arch="x86-64-v4").plan(model, DEPTHWISE)
    (step,) = [step for step in found.procedures[-1].steps if isinstance(step, ComputeStep)]
    assert step.arrangement.fusion

    estimated = estimate(found).steps[0]

    # A multiply-add for each of 9 places, 16 lanes and two in a cycle: what all 32 channels take at least.
    assert estimated.cycles is not None
    assert 32 * 64 * 64 * 9 / 16 / 2 <= estimated.cycles < 32 * 64 * 64 * 9
    given = parse_schedules(schedules_text(found.procedures))
    assert oi.Synthesizer(arch="x86-64-v4", schedules=given).plan(model, DEPTHWISE).procedures == found.procedures
