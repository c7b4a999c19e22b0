"""Blocks that run on threads while `entry` goes on: the bits of those in line, without a data race."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from textwrap import dedent

import numpy as np
import pytest
from consumer_programs import PROGRAMS
from generated_c import COMPILERS, STEPS, STRICT, needs_gcc, noise

from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.model import Model
from openinfer.plan.steps import CallStep
from openinfer.plan.values import ArenaMemory
from openinfer.scratch import scratch_directory
from openinfer.synth import Synthesizer
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.testing.waiting import limit_s
from openinfer_synth_c.target import CTarget

RACES = (*STRICT, "-O1", "-g", "-fsanitize=thread")
"""A race that the sanitizer sees ends the program with status 66."""

WORKING = """
    dynamic { x: f32[32, 32]; }
    volatile { h: f32[32, 32]; a: f32[32, 32]; b: f32[32, 32]; y: f32[32, 32]; }
    persistent { sum: f32[32, 32]; }
    block entry {
      op relu(x) >> h;
      yield h;
      op softmax(x, axis=0) >> p;
      op matmul(p, x) >> q;
      op matmul(q, p) >> y;
      await h;
      op add(y, h) >> y;
      return y, a, b;
    }
    block one { await h; op softmax(h, axis=0) >> t; op matmul(t, h) >> u; op matmul(u, t) >> a; yield h; }
    block two { await h; op softmax(h, axis=1) >> r; op matmul(r, r) >> s; cache.read sum >> v; op add(v, s) >> w;
                cache.write w >> sum; op matmul(s, r) >> b; yield h; }
    """
"""Blocks that keep several arrays each, all at the same time."""

PARALLEL = {
    **PROGRAMS,
    "arrays of intermediate results": WORKING,
    "temporaries of the same name": """
        dynamic { x: f32[64]; }
        volatile { h: f32[64]; a: f32[64]; b: f32[64]; y: f32[64]; }
        block entry { transfer x >> h; yield h; op cumsum(x, axis=0) >> y; await h; return a, b, y; }
        block one { await h; op cumsum(h, axis=0) >> t; op cumsum(t, axis=0) >> a; yield h; }
        block two { await h; op neg(h) >> t; op cumsum(t, axis=0) >> b; yield h; }""",
    "steps that need memory to work in": """
        dynamic { x: f32[3000]; }
        volatile { h: f32[3000]; a: i64[3000]; b: i64[3000]; y: i64[3000]; }
        block entry { transfer x >> h; yield h; op argsort(x, axis=0) >> y; await h; return a, b, y; }
        block one { await h; op argsort(h, axis=0, descending=true) >> a; yield h; }
        block two { await h; op neg(h) >> t; op argsort(t, axis=0) >> b; yield h; }""",
    "a view of a cache that another block extends": """
        dynamic { x: f32[4]; }
        volatile { h: f32[4]; g: f32[4]; a: f32[4]; y: f32[4]; }
        persistent { n: i32; K(t): f32[4] @table @fixed(t=64); }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          cache.read K[0..n] >> all;
          transfer x >> h;
          op neg(x) >> g;
          yield h, g;
          op exp(x) >> y;
          await h, g;
          return a, y;
        }
        block adds { await h; op sum_axis(all, axes=[0]) >> s; op add(s, h) >> a; yield h; }
        block extends { await g; cache.write g >> K[0]; yield g; }""",
}


def of_threads(text, **options):
    return Synthesizer("c", threads=True, **options).synthesize(Model.from_arrays({}), graph(text))


def in_line(text):
    return Synthesizer("c").synthesize(Model.from_arrays({}), graph(text))


def run(synthesis, x, flags):
    target, steps = synthesis.target, len(x)
    ran = target.build_and_run(
        synthesis.plan, synthesis.bundle, {"x": x}, steps=steps, flags=flags, timeout=limit_s(60)
    )
    return ran.outputs


@needs_gcc
@pytest.mark.parametrize("name", PARALLEL)
def test_threads_give_the_bits_of_consumers_in_line_without_a_race(name):
    threads, plain = of_threads(PARALLEL[name]), in_line(PARALLEL[name])
    x = noise(STEPS, *threads.plan.inputs[0].type.shape, seed=3)

    found, expected = run(threads, x, RACES), run(plain, x, (*STRICT, "-O1"))

    assert found.keys() == expected.keys()
    for output, array in found.items():
        np.testing.assert_array_equal(array.view(np.uint8), expected[output].view(np.uint8), output)


def starts(synthesis, block):
    (found,) = [p for p in synthesis.plan.procedures if p.name == block]
    return [step.procedure for step in found.steps if isinstance(step, CallStep) and step.on_thread]


def test_blocks_that_share_nothing_that_changes_start_at_the_yield():
    assert starts(of_threads(WORKING), "entry") == ["one", "two"]


def test_readers_run_at_the_same_time_and_before_the_one_that_writes():
    synthesis = of_threads(PROGRAMS["a writer and readers of what was yielded"])

    assert starts(synthesis, "entry") == ["reads+sums+alters"]
    assert starts(synthesis, "reads+sums+alters") == ["reads"]
    lines = [line.strip().split("  ")[0] for line in synthesis.report().splitlines()]
    group = lines[lines.index("block reads+sums+alters") + 1 :][:4]
    assert group == ["start reads", "call sums", "join reads", "call alters"]


def test_blocks_with_temporaries_of_one_name_follow_one_another():
    assert starts(of_threads(PARALLEL["temporaries of the same name"]), "entry") == ["one+two"]


def places(synthesis, names):
    return [
        (v.memory.offset, v.memory.offset + v.stored.nbytes)
        for v in synthesis.plan.values
        if v.name in names and isinstance(v.memory, ArenaMemory)
    ]


def test_what_blocks_work_in_lies_apart_from_what_entry_works_in_meanwhile():
    synthesis = of_threads(WORKING)

    sides = [places(synthesis, names) for names in ("pq", "tu", "rsw")]
    assert all(sides)
    for number, side in enumerate(sides):
        others = [place for other in sides[number + 1 :] for place in other]
        assert all(end <= first or last <= start for start, end in side for first, last in others)
    assert synthesis.plan.arena_nbytes > in_line(WORKING).plan.arena_nbytes


def test_a_result_lies_in_no_input_that_is_read_while_it_is_written():
    text = """
        dynamic { x: f32[4]; }
        volatile { h: f32[4]; a: f32[4]; y: f32[4]; }
        block entry { op neg(x) >> h; yield h; op exp(x) >> y; await h; return a, y; }
        block one { await h; op abs(h) >> a; yield h; }"""

    headers = [each.bundle.files["model.h"].decode() for each in (of_threads(text), in_line(text))]
    assert ["a may lie in the memory of: x" in header for header in headers] == [False, True]


FAULTS = """
    dynamic { x: f32[4]; i: i64; j: i64; }
    volatile { h: f32[4]; a: f32; b: f32; y: f32; }
    persistent { runs: i32; }
    block entry {
      transfer x >> h;
      yield h;
      op select(x, axis=0, index=j) >> y;
      await h;
      return y, a, b;
    }
    block one { await h; op select(h, axis=0, index=i) >> a; yield h; }
    block two { await h; op sum_axis(h) >> b; cache.increment runs; yield h; }"""

FAULTY_CALLER = """
    #include "model.h"
    #include <stdio.h>

    static struct model model;

    static enum model_status step(int64_t i, int64_t j) {
        static const float x[4] = {1, 2, 3, 4};
        static float y, a, b;
        struct model_inputs inputs = {0};
        struct model_outputs outputs = {0};
        inputs.v_x = x;
        inputs.v_i = &i;
        inputs.v_j = &j;
        outputs.v_y = &y;
        outputs.v_a = &a;
        outputs.v_b = &b;
        return model_step(&model, &inputs, &outputs);
    }

    int main(void) {
        int32_t runs = 0;
        if (model_init(&model) != MODEL_OK) {
            return 1;
        }
        printf("%d %d", step(0, 0) == MODEL_OK, step(9, 0) == MODEL_SHAPE);
        printf(" %d %d", step(0, 9) == MODEL_SHAPE, step(9, 9) == MODEL_SHAPE);
        model_get(&model, MODEL_VARIABLE_RUNS, &runs, sizeof runs);
        printf(" %d", (int)runs);
        return 0;
    }
    """


def built(synthesis, caller, *flags, compiler="gcc", own="", run_it=True):
    """Return what a C program around a bundle prints, or the names that it takes from libraries."""
    with scratch_directory() as directory:
        for name, data in synthesis.bundle.files.items():
            (directory / name).write_bytes(data)
        (directory / "main.c").write_text(dedent(caller).strip() + "\n")
        (directory / "own.h").write_text(dedent(own).strip() + "\n")
        arguments = [compiler, *flags, "-include", "own.h", "-pthread", "-o", "run", "main.c", "model.c", "-lm"]
        run_tool(arguments, directory, limit_s(60), "the compiler")
        if run_it:
            return run_tool([str(directory / "run")], directory, limit_s(60), "the program")
        return subprocess.run(["nm", "run"], cwd=directory, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("compiler", COMPILERS)
def test_errors_of_blocks_are_those_of_the_step_and_every_block_ends(compiler):
    assert built(of_threads(FAULTS), FAULTY_CALLER, *RACES, compiler=compiler) == "1 1 1 1 4"


SEVERAL = """
    #include "model.h"
    #include <pthread.h>
    #include <stdio.h>
    #include <string.h>

    struct run { struct model model; float y[1024], a[1024], b[1024]; };
    static struct run runs[3];

    static void *steps(void *argument) {
        struct run *const run = argument;
        static const float x[1024] = {1, 2, 3, 4, 5, 6};
        struct model_inputs inputs = {0};
        struct model_outputs outputs = {0};
        int i;
        inputs.v_x = x;
        outputs.v_y = run->y;
        outputs.v_a = run->a;
        outputs.v_b = run->b;
        if (model_init(&run->model) != MODEL_OK) {
            return run;
        }
        for (i = 0; i < 10; ++i) {
            if (model_step(&run->model, &inputs, &outputs) != MODEL_OK) {
                return run;
            }
        }
        return NULL;
    }

    int main(void) {
        pthread_t threads[3];
        void *failed;
        int i, wrong = 0;
        for (i = 0; i < 3; ++i) {
            wrong += pthread_create(&threads[i], NULL, steps, &runs[i]) != 0;
        }
        for (i = 0; i < 3; ++i) {
            pthread_join(threads[i], &failed);
            wrong += failed != NULL || memcmp(runs[i].y, runs[0].y, 3 * sizeof runs[0].y) != 0;
        }
        printf("%d", wrong);
        return 0;
    }
    """


@pytest.mark.parametrize("compiler", COMPILERS)
def test_several_instances_run_on_threads_of_their_own(compiler):
    assert built(of_threads(WORKING), SEVERAL, *RACES, compiler=compiler) == "0"


BOARD = """
    #include "model.h"
    #include <stdio.h>

    uint64_t openinfer_board_ticks(void);
    void openinfer_board_write(const char *text, size_t bytes);
    uint64_t openinfer_board_ticks(void) { return 0; }
    void openinfer_board_write(const char *text, size_t bytes) { (void)text; (void)bytes; }

    #if defined(COUNTED)
    int started, joined;
    #endif

    static struct model model;

    int main(void) {
        static const float x[4] = {1, 2, 3, 4};
        static float y[4], a[4], b, h[4];
        struct model_inputs inputs = {0};
        struct model_outputs outputs = {0};
        inputs.v_x = x;
        outputs.v_y = y;
        outputs.v_a = a;
        outputs.v_b = &b;
        outputs.v_h = h;
        if (model_init(&model) != MODEL_OK || model_step(&model, &inputs, &outputs) != MODEL_OK) {
            return 1;
        }
        printf("%g %g", (double)a[3], (double)b);
    #if defined(COUNTED)
        printf(" %d %d", started, joined);
    #endif
        return 0;
    }
    """

OWN_THREADS = """
    extern int started, joined;
    #define OPENINFER_THREAD int
    #define OPENINFER_THREAD_START(thread, run, argument) (*(thread) = 7, ++started, run(argument), 1)
    #define OPENINFER_THREAD_JOIN(thread) joined += *(thread) == 7
    """


@needs_gcc
def test_without_an_operating_system_blocks_run_in_line_unless_the_board_has_threads():
    synthesis = of_threads(PROGRAMS["a writer and readers of what was yielded"])
    flags = (*STRICT, "-DOPENINFER_BARE_METAL")

    assert built(synthesis, BOARD, *flags) == "-4 10"
    assert "pthread_create" not in built(synthesis, BOARD, *flags, run_it=False)
    assert built(synthesis, BOARD, *flags, "-DCOUNTED", own=OWN_THREADS) == "-4 10 2 2"


@needs_gcc
@pytest.mark.parametrize(("standard", "wanted"), [("c99", "pthread_create"), ("c11", "thrd_create")])
def test_threads_are_those_of_c11_or_posix(standard, wanted):
    flags = [*STRICT[1:], f"-std={standard}"]

    assert wanted in built(of_threads(FAULTS), FAULTY_CALLER, *flags, run_it=False)
    assert built(of_threads(FAULTS), FAULTY_CALLER, *flags) == "1 1 1 1 4"


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("gcc") is None, reason="make or gcc is not installed")
def test_the_makefile_links_threads(tmp_path):
    of_threads(FAULTS).emit(tmp_path / "out")

    run_tool(["make", "CC=gcc", "CFLAGS=-O1", "-C", "out"], tmp_path, limit_s(60), "make")
    assert (tmp_path / "out" / "model").is_file()


def test_a_program_without_hand_overs_is_written_as_without_threads():
    text = "dynamic { x: f32[4]; } volatile { y: f32[4]; } block entry { op exp(x) >> y; return y; }"

    threads, plain = of_threads(text).bundle.files, in_line(text).bundle.files
    assert {name for name in plain if threads[name] != plain[name]} == {"PROVENANCE.json", "sbom.spdx.json"}
    options = [json.loads(files["PROVENANCE.json"])["options"]["threads"] for files in (threads, plain)]
    assert options == [True, False]


def test_threads_are_used_through_the_platform_header_alone():
    files = of_threads(WORKING).bundle.files

    for name, data in files.items():
        if name.endswith((".h", ".c")) and name != "openinfer_platform.h":
            assert not re.search(r"pthread|thrd_|threads\.h", data.decode()), name


def test_a_target_without_threads_refuses_them(monkeypatch):
    monkeypatch.setattr(CTarget, "options", frozenset({"prefix"}))

    with pytest.raises(SynthesisError, match="the synth target 'c' has no option threads: leave it out"):
        Synthesizer("c", threads=True)


def test_the_analyser_does_not_check_threads():
    with pytest.raises(SynthesisError, match="the analyser does not follow threads"):
        of_threads(WORKING).prove()
