"""`openinfer synth --prove`: Frama-C finds no undefined behaviour in what is written, and finds it where it is put."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer import programs
from openinfer.cli import main
from openinfer.errors import SynthesisError
from openinfer.model import ModelLoader
from openinfer.synth import Synthesizer
from openinfer_oinf import save_file
from openinfer_synth_c import frama_c

pytestmark = pytest.mark.skipif(shutil.which("frama-c") is None, reason="Frama-C is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"

# Run-time indices, state that grows, truth values, and a row that is chosen by an input.
PROGRAM = """
dynamic { x: f32[4]; row: i32; }
volatile { w: f32[3, 4]; y: f32[4]; }
persistent { n: i32 @init(0); seen: bool @init(false); K(t): f32[4] @auto_dim(t) @fixed(t=8); }
block entry {
  cache.write x >> K[n];
  cache.increment n;
  op gather(w, row, axis=0) >> picked;
  cache.read K[0..n] >> kept;
  op sum_axis(kept, axis=0) >> total;
  op mul(total, picked) >> y;
  op is_finite(y) >> finite;
  cache.write finite >> seen;
  return y;
}
"""


GUARD = r"if \(\w+ < 0 \|\| [^\n]*"


def model_of():
    return oi.Model.from_arrays({"w": np.arange(12, dtype=np.float32).reshape(3, 4)})


def proved(program=PROGRAM, **options):
    return Synthesizer("c", **options).synthesize(model_of(), programs.graph(program)).prove()


def with_defect(monkeypatch, pattern, replacement):
    """Change the source that is analysed."""

    def changed(plan):
        files = original(plan)
        source, count = re.subn(pattern, replacement, files["model.c"], count=1)
        assert count == 1
        return {**files, "model.c": source}

    original = frama_c.analysed_source
    monkeypatch.setattr(frama_c, "analysed_source", changed)


def test_state_and_indices_of_run_time_are_proved():
    assert proved().proof.alarms == ()


def test_the_bundle_records_the_proof_and_how_to_repeat_it():
    synthesis = proved()
    files = synthesis.bundle.files
    recorded = json.loads(files["PROVENANCE.json"])["proof"]

    assert recorded["analyser"] == "Eva of Frama-C"
    assert recorded["version"] == synthesis.proof.version
    assert recorded["options"] == list(synthesis.proof.options)
    assert recorded["alarms"] == []
    assert "seconds" not in recorded
    assert f"frama-c {' '.join(recorded['options'])} proof.c" in files["README.md"].decode()
    assert b'#include "model.c"' in files["proof.c"]
    assert files == proved().bundle.files


def test_reals_that_are_rounded_to_bytes_are_proved():
    program = """
    dynamic { x: f32[16]; }
    volatile { u8s: u8[16]; i8s: i8[16]; }
    block entry {
      op round(x, mode="half_even") >> whole;
      op cast(whole, to=u8) >> u8s;
      op round(x, mode="half_even") >> again;
      op cast(again, to=i8) >> i8s;
      return u8s, i8s;
    }
    """
    synthesis = proved(program)

    assert b"oi_round_i8_f32(" in synthesis.bundle.files["model.c"]
    assert synthesis.proof.alarms == ()


def test_vectors_of_reals_that_are_rounded_to_bytes_are_proved():
    program = """
    dynamic { x: f32[2, 4, 16]; }
    block entry {
      op mean_axis(x, axes=[0, 1]) >> mean;
      op round(mean, mode="half_even") >> whole;
      op cast(whole, to=u8) >> y;
      return y;
    }
    """
    synthesis = proved(program)

    assert b"round_u8_f32x2(" in synthesis.bundle.files["model.c"]
    assert synthesis.proof.alarms == ()


def test_sums_of_bytes_along_rows_and_channels_are_proved():
    program = """
    dynamic { x: f32[1, 16, 5, 4]; }
    constant { k: i8[6, 16, 3, 3] @init(3); d: i8[16, 1, 3, 3] @init(-7); }
    volatile { y: f32[1, 6, 5, 4]; z: f32[1, 16, 5, 4]; }
    block entry {
      op round(x, mode="half_even") >> whole;
      op cast(whole, to=u8) >> bytes;
      op conv_integer(bytes, k, padding=1) >> total;
      op cast(total, to=f32) >> y;
      op conv_integer(bytes, d, padding=1, groups=16) >> own;
      op cast(own, to=f32) >> z;
      return y, z;
    }
    """
    synthesis = proved(program)

    assert b"uint32_t total0 = 0u;" in synthesis.bundle.files["model.c"]
    assert synthesis.proof.alarms == ()


def test_any_reals_that_become_integers_are_proved():
    """Among them infinities and NaN, which no integer is."""
    program = """
    dynamic { x: f32[3]; z: f64[3]; v: f32[32]; }
    volatile { a: i8[3]; b: u8[3]; c: i32[3]; d: u64[3]; e: i8[32]; f: u8[32]; }
    block entry {
      op log(x) >> y;
      op cast(y, to=i8) >> a;
      op cast(y, to=u8) >> b;
      op cast(z, to=i32) >> c;
      op cast(z, to=u64) >> d;
      op cast(v, to=i8) >> e;
      op cast(v, to=u8) >> f;
      return a, b, c, d, e, f;
    }
    """
    assert proved(program).proof.alarms == ()


def test_windows_of_bytes_over_the_border_and_rows_in_words_are_proved():
    program = """
    dynamic { x: i8[1, 1, 9, 10]; z: i8[1, 64]; }
    constant { k: i8[4, 1, 6, 4] @init(3); m: i8[64, 16] @init(-2); five: i8 @init(5); }
    volatile { y: i32[1, 4, 5, 5]; u: i32[1, 16]; }
    block entry {
      op conv_integer(x, k, x_zero=five, padding="same_upper", stride=2) >> y;
      op matmul_integer(z, m) >> u;
      return y, u;
    }
    """
    synthesis = proved(program, arch="cortex-m4")

    source = synthesis.bundle.files["model.c"].decode()
    assert "  IN_WORDS(y0);" in source
    assert re.search(r"(n_within\d+) >= 0 \? x0\[10 \* \1", source)
    assert " 10 < 10" not in source
    assert synthesis.proof.alarms == ()


def test_windows_in_rows_and_codes_without_floats_are_proved():
    program = """
    dynamic { x: i8[1, 1, 9, 10]; }
    constant { k: i8[4, 1, 6, 4] @init(3); m: f32 @init(0.0125); one: f32 @init(1.0); five: i8 @init(5); }
    volatile { y: i8[1, 4, 5, 5]; }
    block entry {
      op conv_integer(x, k, x_zero=five, padding="same_upper", stride=2) >> total;
      op cast(total, to=f32) >> number;
      op mul(number, m) >> scaled;
      op quantize_linear(scaled, one, zero_point=five) >> y;
      return y;
    }
    """
    synthesis = proved(program, arch="rv32imc")

    source = synthesis.bundle.files["model.c"].decode()
    assert "oi_requantise_i32(" in source
    assert re.search(r"(n_within\d+) >= 0 \? load_i8x4\(x0 \+ 10 \* \1\)", source)
    assert synthesis.proof.alarms == ()


def test_vectors_are_analysed_in_plain_c_and_the_record_says_so():
    program = "dynamic { x: f32[64]; } volatile { y: f32[64]; } block entry { op relu(x) >> y; return y; }"
    synthesis = proved(program, arch="x86-64-v3", prefix="positive")

    assert synthesis.proof.alarms == ()
    assert synthesis.proof.form == "c99"
    assert "in its form in plain C99" in synthesis.bundle.files["README.md"].decode()
    assert b"vector_size" in synthesis.bundle.files["positive.c"]


@pytest.mark.parametrize("arch", [None, "x86-64-v3"])
def test_arrays_of_totals_that_short_loops_count_through_are_proved(arch):
    program = """
    dynamic { x: u8[1, 16, 12, 12]; }
    constant { k: i8[32, 16, 1, 1] @init(3); d: i8[32, 1, 3, 3] @init(-7); }
    volatile { y: i32[1, 32, 12, 12]; }
    block entry {
      op conv_integer(x, k) >> total;
      op cast(total, to=u8) >> bytes;
      op conv_integer(bytes, d, padding=1, groups=32) >> y;
      return y;
    }
    """
    synthesis = proved(program, arch=arch)

    assert re.search(rb"UNROLLED for .*\n?.*total\d+\[[^]]*n", synthesis.bundle.files["model.c"])
    assert synthesis.proof.alarms == ()


@pytest.mark.parametrize("room", [32, 150])
def test_a_range_of_which_both_ends_are_known_at_run_time_is_proved(room):
    """Entries of a step after those of earlier ones: how many there is room for depends on where they start."""
    program = f"""
    dynamic {{ x: f32[T, 4]; }}
    persistent {{ n: i32; K(l, t): f32[4] @table @fixed(l=2, t={room}); }}
    block entry {{
      loop layers (l in 0..2) {{ cache.write x >> K[l, n..n + T]; }}
      cache.increment T n;
      op neg(x) >> y;
      return y;
    }}
    """
    model = oi.Model.from_arrays({}, sizevars={"T": 3})
    synthesis = Synthesizer("c", limits={"T": 16}).synthesize(model, programs.graph(program)).prove()

    assert synthesis.proof.alarms == ()
    assert ("-eva-split-limit" in synthesis.proof.options) == (room > 100)


PREFILL = """
dynamic { x: f32[T, 8]; }
constant { w: f32[8, 8]; places: f32[48, 8]; }
persistent { n: i32; K(h, t): f32[4] @table @fixed(h=2, t=48); W(h, t): f32[4] @table @fixed(h=2, t=48); }
block entry {
  cache.read n >> at;
  op narrow(places, axis=0, start=at, length=T) >> place;
  op add(x, place) >> h;
  op sum_axis(h, axes=[0]) >> total;
  op matmul(h, w) >> q;
  op reshape(q, shape=[T, 2, 4]) >> parts;
  op transpose(parts, perm=[1, 0, 2]) >> by_head;
  cache.write by_head >> K[0..2, at..at + T];
  cache.write by_head >> W[0..2, at..at + T];
  cache.read K[0..2, 0..at + T] >> keys;
  cache.read W[0..2, 0..at + T] >> values;
  op sdpa(by_head, keys, values, causal=true) >> seen;
  cache.increment T n;
  op topk(total, k=2) >> y, z;
  return seen, y, z;
}
"""


def test_a_prompt_of_any_length_is_proved():
    """Blocks and their rests over run-time extents, rows of a table, stores of several rows, attention, a selection."""
    arrays = {"w": np.ones((8, 8), np.float32), "places": np.ones((48, 8), np.float32)}
    model = oi.Model.from_arrays(arrays, sizevars={"T": 1})

    assert Synthesizer("c", limits={"T": 16}).synthesize(model, programs.graph(PREFILL)).prove().proof.alarms == ()


RING = """
dynamic {{ k: f32[2, 1, 4]; x: f32; }}
volatile {{ n: i64; }}
persistent {{ step: i64; K(h, t): f32[4] @table @fixed(h=2, t={rows}); last(t): f32 @table; }}
block entry {{
  cache.read step >> n;
  cache.write k >> K[0..2, n % {rows}..n % {rows} + 1];
  cache.write x >> last[n % {rows}];
  cache.increment step;
  cache.read K[0..2, (n + 1) % {rows}..{rows}] >> older;
  cache.read K[0..2, 0..(n + 1) % {rows}] >> newer;
  op concat(older, newer, axis=1) >> every;
  cache.read last[(n + 1) % {rows}..{rows}] >> recent;
  op neg(recent) >> bent;
  transfer recent >> copied;
  return every, bent, copied;
}}
"""


def test_both_parts_of_a_ring_are_proved_where_they_lie():
    """Elements in a row and apart, at a place of run time, computed with and copied."""
    synthesis = proved(RING.format(rows=6))

    assert b"(model->s_last + model->n_recent_at)" in synthesis.bundle.files["model.c"]
    assert synthesis.proof.alarms == ()


def test_the_analyser_follows_as_many_values_as_a_ring_has_rows(monkeypatch):
    commands = []

    def stopped(command, *_):
        commands.append(command)
        if len(commands) == 2:
            raise SynthesisError("stopped")
        return ""

    monkeypatch.setattr(frama_c, "run_tool", stopped)
    with pytest.raises(SynthesisError, match="stopped"):
        proved(RING.format(rows=200))

    assert int(commands[1][commands[1].index("-eva-split-limit") + 1]) >= 201


def test_slices_between_places_of_run_time_are_proved():
    """Backwards to a fixed place and to the first one, and a few rows from a place on, of which there may be fewer."""
    program = """
    dynamic { x: f32[T, 4]; i: i32; }
    block entry {
      op slice(x, axes=[0], starts=[i], ends=[-99], steps=[-1]) >> a;
      op slice(x, axes=[0], starts=[i], ends=[1], steps=[-1]) >> b;
      op slice(x, axes=[0], starts=[i], ends=[i+2]) >> c;
      return a, b, c;
    }
    """
    model = oi.Model.from_arrays({}, sizevars={"T": 3})
    synthesis = Synthesizer("c", limits={"T": 6}).synthesize(model, programs.graph(program)).prove()

    assert synthesis.proof.alarms == ()


def test_an_index_without_its_guard_is_an_alarm(monkeypatch):
    with_defect(monkeypatch, GUARD, ";")

    alarms = proved().proof.alarms

    assert {alarm.kind for alarm in alarms} & {"mem_access", "pointer_value"}


def test_a_loop_that_goes_too_far_is_an_alarm_at_its_line(monkeypatch):
    program = "dynamic { x: f32[7]; } volatile { y: f32[7]; } block entry { op exp(x) >> y; return y; }"
    with_defect(monkeypatch, r"outputs->v_y\);", "outputs->v_y + 4);")

    synthesis = Synthesizer("c").synthesize(model_of(), programs.graph(program)).prove()

    assert synthesis.proof.alarms
    assert {alarm.file for alarm in synthesis.proof.alarms} == {"model.c"}
    place = f"`model.c:{synthesis.proof.alarms[0].line}`"
    assert place in synthesis.bundle.files["README.md"].decode()


def test_a_step_that_never_ends_well_proves_nothing(monkeypatch):
    with_defect(monkeypatch, r"(block_entry\(struct model[^\n]*\{\n)", r"\1    return MODEL_INDEX;\n")

    with pytest.raises(SynthesisError, match="did not reach the end of a step"):
        proved()


def synth(tmp_path, *options):
    (tmp_path / "p.oi").write_text(PROGRAM)
    save_file({"w": np.arange(12, dtype=np.float32).reshape(3, 4)}, tmp_path / "m.oinf")
    arguments = ["synth", str(tmp_path / "p.oi"), "-m", str(tmp_path / "m.oinf"), "--target", "c", "--prove", *options]
    return CliRunner().invoke(main, arguments)


def test_the_command_ends_with_1_at_an_alarm_and_writes_the_bundle(monkeypatch, tmp_path):
    with_defect(monkeypatch, GUARD, ";")

    result = synth(tmp_path, "--json", "-o", str(tmp_path / "out"))

    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["proof"]["alarms"][0]["file"] == "model.c"
    assert json.loads((tmp_path / "out" / "PROVENANCE.json").read_text())["proof"]["alarms"]


def test_the_command_says_what_it_found(tmp_path):
    result = synth(tmp_path)

    assert result.exit_code == 0, result.output
    assert re.search(r"^Eva of Frama-C .*: 0 alarms, \d+\.\d s$", result.output, re.MULTILINE)


@pytest.mark.parametrize(("folder", "file"), [("digits", "digits.oi"), ("cache-decode", "decode.oi")])
def test_an_example_has_no_alarm(folder, file, tmp_path):
    model = EXAMPLES / folder / "digits.oinf"
    if not model.exists():
        model = written_model(folder, tmp_path / "model.oinf")
    with ModelLoader.open(model) as opened:
        synthesis = Synthesizer("c", limits={"t": 100} if folder == "cache-decode" else None).synthesize(
            opened, EXAMPLES / folder / file, sizes=opened.sizevars
        )
        assert synthesis.prove(timeout=300).proof.alarms == ()


def written_model(folder, path):
    spec = importlib.util.spec_from_file_location(f"make_{folder}", EXAMPLES / folder / "make_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(path)
    return path
