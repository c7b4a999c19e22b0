"""Instances of a model: their memory and size, variables by name, saved state, several at once, what is refused."""

from __future__ import annotations

import shutil
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import numpy as np
import pytest

import openinfer as oi
from openinfer.scratch import scratch_directory
from openinfer.synth.c_host.statuses import STATUSES
from openinfer.synth.c_host.toolchain import run_tool

STRICT = (
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
    "-O1",
    "-ffp-contract=off",
)
SANITIZED = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")
COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("gcc", "clang")
]

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

PLAIN = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
persistent { sum: f32[2] @init(0.5); n: i16 @init(-2); seen: bool; }
block entry {
  cache.read sum >> before;
  op add(before, x) >> y;
  cache.write y >> sum;
  cache.increment n;
  cache.read seen >> was;
  op not(was) >> is;
  cache.write is >> seen;
  return y;
}
"""

HEAD = """
#include "model.h"
#include <stdio.h>
#include <string.h>
struct model one, other;
const float x[2] = {1.0f, 2.0f};
float y[2];
enum model_status step(struct model *model);
enum model_status step(struct model *model) {
    struct model_inputs inputs;
    struct model_outputs outputs;
    inputs.v_x = x;
    outputs.v_y = y;
    return model_step(model, &inputs, &outputs);
}
"""


def synthesis(text=PLAIN, arrays=None):
    return oi.Synthesizer("c").synthesize(oi.Model.from_arrays(arrays or {}), text)


def printed(main, text=PLAIN, compiler="gcc", head=HEAD, files=None):
    """Return what a program around a model prints; it is compiled strictly, with sanitizers."""
    with scratch_directory() as directory:
        for name, data in {**synthesis(text).bundle.files, **(files or {})}.items():
            (directory / name).write_bytes(data)
        body = dedent(main).strip().replace("\n", "\n    ")
        (directory / "main.c").write_text(f"{head}\nint main(void) {{\n    {body}\n    return 0;\n}}\n")
        command = [compiler, *STRICT, *SANITIZED, "-o", "run", "main.c", "model.c", "-lm"]
        run_tool(command, directory, 120, "the compiler")
        return run_tool([str(directory / "run")], directory, 60, "the program").split()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_instances_do_not_see_one_another(compiler):
    main = """
    if (model_init(&one) != MODEL_OK || model_init(&other) != MODEL_OK) { return 1; }
    step(&one);
    step(&one);
    printf("%g ", (double)y[0]);
    step(&other);
    printf("%g ", (double)y[0]);
    model_reset(&one);
    step(&one);
    printf("%g", (double)y[0]);
    """
    assert printed(main, compiler=compiler) == ["2.5", "1.5", "1.5"]


@pytest.mark.parametrize(
    "text", [PLAIN, "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op neg(x) >> y; }"]
)
def test_the_size_of_an_instance_is_its_macro(text):
    assert len(set(printed('printf("%zu %zu", sizeof(struct model), (size_t)MODEL_BYTES);', text))) == 1


def test_the_source_has_no_memory_that_changes_but_that_of_instances():
    # A sort of a long row works in arrays of its own.
    text = "dynamic { x: f32[5000]; } volatile { y: i64[5000]; } block entry { op argsort(x, axis=0) >> y; return y; }"
    made = synthesis(text)
    source = made.bundle.files["model.c"].decode()

    assert "unsigned char scratch[" in made.bundle.files["model.h"].decode()
    for line in source.splitlines():
        assert not line.strip().startswith("static ") or "(" in line or "const" in line, line
    x = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    np.testing.assert_array_equal(made.run({"x": x}).outputs["y"], np.argsort(x, kind="stable"))


def test_what_is_not_initialised_or_misaligned_is_refused():
    main = """
    MODEL_ALIGNED static unsigned char misaligned[MODEL_BYTES + 8];
    printf("%d %d ", (int)step(&one), (int)model_reset(&one));
    printf("%d %d ", (int)model_init(NULL), (int)model_init((struct model *)(void *)(misaligned + 4)));
    printf("%d ", (int)model_init(&one));
    printf("%d", (int)model_step(&one, NULL, NULL));
    """
    assert printed(main) == ["7", "7", "6", "6", "0", "1"]


def test_every_status_has_a_text():
    main = """
    int number;
    for (number = 0; number < 15; ++number) { printf("%s\\n", model_status_text((enum model_status)number)); }
    printf("%s", model_status_text((enum model_status)99));
    """
    texts = [*(status.text for status in STATUSES), "unknown status"]

    assert printed(main) == " ".join(texts).split()


def test_variables_are_found_read_and_changed():
    main = """
    enum model_variable found = MODEL_VARIABLE_SEEN;
    float sum[2] = {10.0f, 20.0f};
    int16_t n = 0;
    const unsigned char flag = 1, wrong = 2;
    model_init(&one);
    printf("%d ", (int)model_find("n", &found));
    printf("%d ", found == MODEL_VARIABLE_N);
    printf("%d ", (int)model_get(&one, found, &n, MODEL_STATE_N_BYTES));
    printf("%d ", (int)n);
    printf("%d ", (int)model_set(&one, MODEL_VARIABLE_SUM, sum, sizeof sum));
    step(&one);
    printf("%g %g ", (double)y[0], (double)y[1]);
    printf("%d ", (int)model_find("z", &found));
    printf("%d ", (int)model_get(&one, MODEL_VARIABLE_SUM, sum, 4));
    printf("%d ", (int)model_get(&one, (enum model_variable)MODEL_VARIABLES, sum, 4));
    printf("%d ", (int)model_set(&one, MODEL_VARIABLE_SEEN, &wrong, 1));
    printf("%d ", (int)model_set(&one, MODEL_VARIABLE_SEEN, &flag, 1));
    printf("%d", (int)model_get(&other, MODEL_VARIABLE_SUM, sum, sizeof sum));
    """
    assert printed(main) == ["0", "1", "0", "-2", "0", "11", "22", "8", "9", "8", "10", "0", "7"]


def test_saved_state_has_the_form_that_is_documented():
    main = """
    static unsigned char saved[MODEL_SAVE_BYTES];
    size_t at;
    model_init(&one);
    step(&one);
    if (model_save(&one, saved, sizeof saved) != MODEL_OK) { return 1; }
    for (at = 0; at < sizeof saved; ++at) { printf("%02x", saved[at]); }
    """
    data = bytes.fromhex(printed(main)[0])

    assert data[:4] == b"OIST"
    assert struct.unpack("<IQQ", data[4:24])[::2] == (1, 11)
    order = [state.name for state in synthesis().plan.states]
    items = {"sum": struct.pack("<2f", 1.5, 2.5), "n": struct.pack("<h", -1), "seen": b"\1"}
    assert data[24:-4] == b"".join(items[name] for name in order)
    assert struct.unpack("<I", data[-4:]) == (zlib.crc32(data[:-4]),)


def test_a_step_goes_on_from_loaded_state_and_what_is_damaged_or_foreign_changes_nothing():
    main = """
    static unsigned char saved[MODEL_SAVE_BYTES + 1], kept[MODEL_BYTES];
    size_t at;
    int changed = 0;
    model_init(&one);
    model_init(&other);
    step(&one);
    if (model_save(&one, saved, MODEL_SAVE_BYTES) != MODEL_OK) { return 1; }
    memcpy(kept, &other, sizeof kept);
    for (at = 0; at < MODEL_SAVE_BYTES; ++at) {
        saved[at] ^= 0x10u;
        if (model_load(&other, saved, MODEL_SAVE_BYTES) != MODEL_DAMAGED) { return 2; }
        saved[at] ^= 0x10u;
    }
    for (at = 0; at < MODEL_SAVE_BYTES; ++at) {
        if (model_load(&other, saved, at) == MODEL_OK) { return 3; }
    }
    if (model_load(&other, saved, MODEL_SAVE_BYTES + 1) == MODEL_OK) { return 4; }
    if (model_load(&other, NULL, MODEL_SAVE_BYTES) != MODEL_SIZE) { return 5; }
    changed = memcmp(kept, &other, sizeof kept) != 0;
    printf("%d ", changed);
    printf("%d ", (int)model_load(&other, saved, MODEL_SAVE_BYTES));
    step(&other);
    printf("%g", (double)y[0]);
    """
    assert printed(main) == ["0", "0", "2.5"]


def blob_of(items, *, version=1, of=None):
    head = b"OIST" + struct.pack("<IQQ", version, of, len(items))
    return head + items + struct.pack("<I", zlib.crc32(head + items))


@pytest.mark.parametrize(
    ("change", "status"),
    [({"version": 2}, "VERSION"), ({"of": 12345}, "FOREIGN"), ({"seen": b"\2"}, "VALUE"), ({"more": b"\0"}, "SIZE")],
)
def test_whole_blobs_that_do_not_fit_are_named(change, status):
    made = synthesis()
    source = made.bundle.files["model.c"].decode()
    of = int(source.split("!= UINT64_C(0x")[1].split(")")[0], 16)
    items = {"sum": struct.pack("<2f", 1, 2), "n": b"\1\0", "seen": change.pop("seen", b"\0")}
    data = b"".join(items[state.name] for state in made.plan.states) + change.pop("more", b"")
    saved = blob_of(data, **{"of": of, **change})
    main = f"""
    static const unsigned char saved[] = {{{", ".join(map(str, saved))}}};
    model_init(&one);
    printf("%d", (int)model_load(&one, saved, sizeof saved));
    """
    assert printed(main) == [str(next(each.number for each in STATUSES if each.name == status))]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_threads_run_instances_of_device_c_at_once():
    model = oi.Model.from_arrays({})

    def total(start):
        executor = oi.Simulator(model, device="c").make_executor(oi.graph(TEXT))
        found = []
        for turn in range(50):
            executor.step(x=np.full(64, start + turn, np.float32))
            found.append(executor.fetch("y")[0])
        return found

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(total, range(4)))

    assert found == [[-2.0 * (start + turn) for turn in range(50)] for start in range(4)]


TEXT = "dynamic { x: f32[64]; } volatile { y: f32[64]; } block entry { op add(x, x) >> t; barrier; op neg(t) >> y; }"


def test_the_header_says_which_results_may_lie_where_inputs_do():
    text = """
    dynamic { x: f32[4]; z: f32[4]; }
    volatile { y: f32[4]; first: f32[4]; }
    block entry {
      op add(x, z) >> first with { fuse = false };
      op cumsum(first, axis=0) >> c with { fuse = false };
      op flip(c, axes=[0]) >> y with { fuse = false };
      return y, first;
    }
    """
    header = synthesis(text).bundle.files["model.h"].decode()

    assert "/* y may lie in the memory of: x, z */" in header
    assert "/* first: of no input */" in header


def test_many_inputs_and_outputs_take_no_longer_to_write_than_to_plan():
    numbers = range(200)
    text = f"""
    dynamic {{ {" ".join(f"x{n}: f32[2];" for n in numbers)} }}
    volatile {{ {" ".join(f"y{n}: f32[2];" for n in numbers)} }}
    block entry {{
      {" ".join(f"op neg(x{n}) >> y{n};" for n in numbers)}
      return {", ".join(f"y{n}" for n in numbers)};
    }}
    """
    program, model, synthesizer = oi.graph(text), oi.Model.from_arrays({}), oi.Synthesizer("c")
    begun = time.process_time()
    synthesizer.plan(model, program)
    planned = time.process_time()
    synthesizer.synthesize(model, program)

    # Planning and writing take twice as long as planning alone where no list of pairs is sorted again for each port.
    assert time.process_time() - planned < 6 * (planned - begun)


def test_a_result_that_may_overlap_an_input_does(monkeypatch):
    text = """
    dynamic { x: f32[2]; }
    volatile { y: f32[2]; }
    block entry {
      op cumsum(x, axis=0) >> c with { fuse = false };
      op flip(c, axes=[0]) >> y with { fuse = false };
      return y;
    }
    """
    main = """
    struct model_inputs inputs;
    struct model_outputs outputs;
    float both[2] = {1.0f, 5.0f};
    inputs.v_x = both;
    outputs.v_y = both;
    model_init(&one);
    printf("%d ", (int)model_step(&one, &inputs, &outputs));
    printf("%g %g", (double)both[0], (double)both[1]);
    """
    head = '#include "model.h"\n#include <stdio.h>\nstatic struct model one;\n'

    assert "/* y may lie in the memory of: x */" in synthesis(text).bundle.files["model.h"].decode()
    assert printed(main, text, head=head) == ["0", "6", "1"]


def test_weights_that_are_missing_misaligned_or_others_are_refused():
    text = "dynamic { x: f32[2]; } volatile { w: f32[2]; y: f32[2]; } block entry { op mul(x, w) >> y; }"
    model = oi.Model.from_arrays({"w": np.array([2, 3], np.float32)})
    files = oi.Synthesizer("c", weights="file").synthesize(model, text).bundle.files
    main = """
    MODEL_ALIGNED static const float weights[3] = {2.0f, 3.0f, 0.0f}, others[2] = {3.0f, 2.0f};
    printf("%d ", (int)model_init(&one, others));
    printf("%d %d ", (int)model_init(&one, NULL), (int)model_init(&one, weights + 1));
    printf("%d ", (int)model_init(&one, weights));
    printf("%d ", (int)step(&one));
    printf("%g %g", (double)y[0], (double)y[1]);
    """
    assert printed(main, text, files=files) == ["14", "3", "3", "0", "0", "2", "6"]
