"""`openinfer synth`: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from openinfer.cli import main
from openinfer.expr.c_renderer import helper_source
from openinfer_oinf import write_oinf

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")

PROGRAM = """
dynamic { x: f32[N, 3]; }
volatile { w: f32[3, 2]; y: f32[N, 2]; }
block entry {
  op matmul(x, w) >> y;
  op softmax(y) >> y;
  return y;
}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "p.oi").write_text(PROGRAM)
    weights = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    write_model(tmp_path / "m.oinf", weights)
    return tmp_path


def write_model(path, weights):
    from dataclasses import dataclass

    from openinfer_oinf import SizeVar, TensorSpec

    @dataclass
    class Weights:
        N: SizeVar
        w: TensorSpec

    write_oinf(Weights(N=SizeVar(2), w=TensorSpec(weights)), path)


def synth(files, *options, graph="p.oi"):
    arguments = ["synth", str(files / graph), "--model", str(files / "m.oinf"), "--size", "N=2", *options]
    return CliRunner().invoke(main, arguments)


def test_it_writes_the_bundle_and_says_what_it_holds(files):
    result = synth(files, "--target", "c", "-o", str(files / "out"))

    assert result.exit_code == 0, result.output
    assert "arena 256 bytes, weights 64 bytes" in result.stdout
    assert {entry.name for entry in (files / "out").iterdir()} >= {
        "model.c",
        "model.h",
        "main.c",
        "Makefile",
        "plan.json",
    }


@needs_compiler
def test_verification_compares_with_the_simulator(files):
    result = synth(files, "--target", "c", "--verify", "--seed", "3", "--json")

    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["directory"] is None
    assert document["verify"]["within"] is True
    (output,) = document["verify"]["outputs"]
    assert (output["name"], output["mismatched"]) == ("y", 0)
    assert output["tolerance"] == {"absolute": 1e-6, "relative": 1e-5}
    assert document["verify"]["inputs"] == {"x": "f32 -1..1; special: ±(zeros, the least normal, 32768)"}
    assert output["relative"] <= 1e-5


@needs_compiler
def test_a_temporary_that_is_returned_is_verified_too(files):
    text = "dynamic { x: f32[N]; } block entry { assign t: f32[N]; op relu(x) >> t; return t, x; }"
    (files / "t.oi").write_text(text)

    result = synth(files, "--target", "c", "--verify", "--json", graph="t.oi")

    assert result.exit_code == 0, result.output
    verified = json.loads(result.stdout)["verify"]["outputs"]
    assert [(output["name"], output["within"]) for output in verified] == [("t", True), ("x", True)]


@needs_compiler
def test_sizes_can_be_overridden(files):
    result = synth(files, "--target", "c", "--verify", "--size", "N=5", "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["outputs"] == {"y": "f32[5,2]"}


@needs_compiler
def test_a_difference_beyond_tolerance_ends_with_1(files, monkeypatch):
    from openinfer_synth_c import project

    original = project.bundle_of

    def wrong(plan):
        bundle = original(plan)
        source = bundle.files["model.c"].replace(b"= oi_exp_f32(", b"= 1.5f + oi_exp_f32(")
        assert source != bundle.files["model.c"]
        return type(bundle)({**bundle.files, "model.c": source}, bundle.products)

    monkeypatch.setattr("openinfer_synth_c.target.bundle_of", wrong)
    result = synth(files, "--target", "c", "--verify")

    assert result.exit_code == 1
    assert (
        "error[verify-mismatch]: the synthesised program and the simulator differ beyond tolerance in: y in step 1; "
        "no node differs when each runs on its own" in result.stderr
    )
    assert "NO" in result.stdout


RUNNING = """
dynamic { x: f32[3]; }
volatile { y: f32[3]; }
persistent { n: i32; }
block entry {
  cache.increment n;
  cache.read n >> count;
  op cast(count, to=f32) >> c;
  op mul(x, c) >> t;
  op tanh(t) >> y;
  return y;
}
"""


@needs_compiler
def test_every_step_of_every_sequence_is_compared(files):
    (files / "running.oi").write_text(RUNNING)

    result = synth(files, "--target", "c", "--verify", "--steps", "5", "--inputs", "2", "--json", graph="running.oi")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["verify"]["first"] is None


@needs_compiler
@pytest.mark.parametrize(
    ("options", "count"),
    [((), "1 step"), (("--steps", "5"), "5 steps"), (("--steps", "2", "--inputs", "3"), "6 steps")],
)
def test_the_time_of_a_verification_says_of_how_many_steps_it_is(files, options, count):
    result = synth(files, "--target", "c", "--verify", *options)

    assert result.exit_code == 0, result.output
    assert re.search(
        rf"^[0-9.]+ microseconds per step \(wall clock, {count}, least of \d+ runs after one",
        result.stdout,
        re.MULTILINE,
    )
    assert "\n0.0 microseconds" not in result.stdout


BENT = """
dynamic { x: f32[3]; }
volatile { y: f32[3]; by: f32 @init(4.0); }
block entry {
  op mul(x, by) >> t;
  op tanh(t) >> y;
  op neg(y) >> y;
  return y;
}
"""


@needs_compiler
def test_the_first_node_that_differs_is_named(files, monkeypatch):
    def wrong(names):
        # Beyond 2, which x alone does not reach.
        return helper_source(names).replace(
            "tanh_f32(float x)\n{", "tanh_f32(float x)\n{\n    if (x > 2.0f) { return 0.5f; }"
        )

    monkeypatch.setattr("openinfer_synth_c.project.helper_source", wrong)
    monkeypatch.setattr("openinfer_synth_c.step_functions.helper_source", wrong)
    (files / "bent.oi").write_text(BENT)

    result = synth(files, "--target", "c", "--verify", "--steps", "9", graph="bent.oi")

    assert result.exit_code == 1
    assert re.search(
        r"differ beyond tolerance in: y in step [1-9]; the first node that differs: line 6: ", result.stderr
    )
    assert "after `op tanh(t) >> y`" in result.stderr


LOOKUP = """
dynamic { ids: i32[2]; row: i64; share: bf16; nibble: i4[2]; unused: f32; }
volatile { w: f32[3, 2]; y: f32[2, 2]; z: f32[2]; s: bf16; n: i4[2]; }
block entry {
  op embedding(ids, w) >> y;
  op embedding(row, w) >> z;
  op mul(share, share) >> s;
  op add(nibble, nibble) >> n;
  return y, z, s, n;
}
"""


@needs_compiler
def test_verification_takes_inputs_where_random_ones_mean_nothing(files):
    (files / "lookup.oi").write_text(LOOKUP)
    np.save(files / "ids.npy", np.array([2, 0], np.int32))
    values = (f"ids={files / 'ids.npy'}", "row=1", "share=1.5", "nibble=[3, -2]", "unused=zeros")
    options = [word for value in values for word in ("--input", value)]

    result = synth(files, "--target", "c", "--verify", *options, "--json", graph="lookup.oi")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["verify"]["within"] is True


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ("ids=[1.5, 0]", "i32 takes an integer, found 1.5"),
        ("ids=[2147483648, 0]", "2147483648 does not fit"),
        ("nibble=8", "8 does"),
    ],
)
def test_verification_refuses_inputs_that_do_not_fit_as_run_does(files, given, reported):
    (files / "lookup.oi").write_text(LOOKUP)

    result = synth(files, "--target", "c", "--verify", "--input", given, graph="lookup.oi")

    assert result.exit_code == 1
    assert f"error[insert-mismatch]: `{given.partition('=')[0]}`: " in result.stderr
    assert reported in result.stderr


def test_verification_draws_indices_below_what_they_index(files):
    (files / "lookup.oi").write_text(LOOKUP)

    result = synth(files, "--target", "c", "--verify", "--json", graph="lookup.oi")

    assert result.exit_code == 0, result.output
    drawn = json.loads(result.stdout)["verify"]["inputs"]
    assert drawn["ids"] == "i32 0..2, indices below 3"
    assert drawn["row"] == "i64 0..2, indices below 3"
    assert drawn["nibble"] == "i4 -8..7"


SUMMED = """
dynamic { ids: i32[4]; }
volatile { w: f32[3, 2]; y: f32[4, 2]; }
block entry { op cumsum(ids, axis=0) >> sums; op embedding(sums, w) >> y; return y; }
"""


def test_verification_names_the_statement_that_a_random_input_does_not_suit(files):
    (files / "summed.oi").write_text(SUMMED)

    result = synth(files, "--target", "c", "--verify", graph="summed.oi")

    assert result.exit_code == 1
    assert "error[out-of-range]: op embedding(sums: i32[4], w: f32[3,2]) >> y" in result.stderr
    assert "summed.oi:4:" in result.stderr


@pytest.mark.rule("api.commands.1")
@pytest.mark.parametrize(
    ("command", "options"),
    [("synth", ("--target", "c", "-o", "out")), ("plan", ()), ("check", ("--target", "c"))],
    ids=["synth", "plan", "check"],
)
@pytest.mark.parametrize(
    ("choice", "code"), [((), 1), (("--size", "N=1"), 0), (("--limit", "N=4"), 0)], ids=["none", "size", "limit"]
)
def test_sizes_of_steps_need_limits(files, monkeypatch, command, options, choice, code):
    monkeypatch.chdir(files)

    result = CliRunner().invoke(main, [command, "p.oi", "--model", "m.oinf", *options, *choice])

    assert result.exit_code == code, result.output
    if code:
        assert "size `N` may differ from step to step, and needs a limit" in result.output
        assert "give --limit N=..., or one value for all steps: --size N=..." in result.output


def test_without_a_compiler_verification_ends_with_3(files, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")

    result = synth(files, "--target", "c", "--verify")

    assert result.exit_code == 3
    assert "error[no-compiler]" in result.stderr


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--target", "d", "-o", "OUT"), 1, "error[unknown-target]: unknown synth target 'd'"),
        (("--target", "d"), 1, "error[unknown-target]: unknown synth target 'd'"),
        (("--arch", "cortex-m23"), 1, "(for a file write './cortex-m23')"),
        (("--target", "c", "-o", "FULL"), 1, "error[output-directory]"),
        (("--target", "c"), 2, "give -o DIR, --verify or --prove"),
        (("--target", "c", "-o", "OUT", "--size", "N"), 2, "expected NAME=N"),
        pytest.param(("--target", "c", "-o", "OUT", "--size", "N=" + "9" * 5000), 2, "5000 digits", id="large size"),
        (("--target", "c", "--verify", "--seed", "-1"), 2, "--seed"),
        (("--target", "c", "--verify", "--timeout", "nan"), 2, "--timeout"),
        (("--target", "c", "--verify", "--timeout", "-1"), 2, "--timeout"),
        (("--target", "c", "--verify", "--timeout", "0"), 2, "--timeout"),
        (("--target", "c", "--verify", "--timeout", "1e300"), 2, "--timeout"),
        (("--target", "c", "--verify", "--tolerance", "nan"), 2, "expected [DTYPE=]ABS[,REL]"),
        (("--target", "c", "-o", "OUT", "--tolerance", "1e-3"), 2, "--tolerance goes with --verify"),
        (("--target", "c", "-o", "OUT", "--input", "x=zeros"), 2, "--input goes with --verify"),
        (("--target", "c", "--verify", "--input", "z=zeros"), 1, "unknown variable `z`"),
        (("--target", "c", "--verify", "--input", "x=[1]"), 1, "`x` is declared f32[2,3], found a value of shape [1]"),
        (("--target", "c", "-o", "OUT", "--size", "M=2"), 1, "no size variable `M`"),
    ],
)
def test_mistakes_end_with_one_message_and_write_nothing(files, options, code, text):
    places = {"OUT": str(files / "out"), "FULL": str(files)}
    before = sorted(files.iterdir())

    result = synth(files, *(places.get(option, option) for option in options))

    assert result.exit_code == code
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(files.iterdir()) == before


def test_an_arena_of_more_than_a_gibibyte_is_warned_of(files):
    few = synth(files, "--target", "c", "-o", str(files / "few"), "--size", "N=16777216")
    many = synth(files, "--target", "c", "-o", str(files / "many"), "--size", "N=134217728")
    strict = synth(files, "--target", "c", "-o", str(files / "strict"), "--size", "N=134217728", "--strict")

    assert (few.exit_code, few.stderr) == (0, "")
    assert many.exit_code == 0
    assert "warning[large-arena]: the intermediate results take" in many.stderr
    assert strict.exit_code == 1
    assert "error[large-arena]" in strict.stderr
    assert not (files / "strict").exists()


def test_what_cannot_be_synthesised_is_shown_in_the_text(files):
    text = PROGRAM.replace("return y;", "branch again;\n  return y;") + "block again {\n  branch again;\n  return;\n}\n"
    (files / "bad.oi").write_text(text)

    result = synth(files, "--target", "c", "-o", str(files / "out"), graph="bad.oi")

    assert result.exit_code == 1
    assert "block 'again' reaches itself (again -> again): recursion cannot be synthesised" in result.stderr
    assert "branch again;" in result.stderr
    assert not (files / "out").exists()


@needs_compiler
def test_the_recogniser_of_digits_agrees():
    digits = Path(__file__).parents[2] / "examples" / "digits"
    arguments = [
        "synth",
        str(digits / "digits.oi"),
        "--model",
        str(digits / "digits.oinf"),
        *("--size", "N=1", "--size", "S=8"),
        "--target",
        "c",
        "--verify",
    ]

    result = CliRunner().invoke(main, [*arguments, "--json"])

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["verify"]["within"] is True
