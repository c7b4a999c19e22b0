"""Persistent variables in several memories: equal to the simulator, saved as the same bytes, under sanitizers."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from generated_c import COMPILERS, needs_gcc, noise, printed_by

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare

STEPS, MIDDLE = 100, 50

# Two caches of 512 bytes, of which entries are cleared one by one and all at once; a cache that grows; packed elements
# and a truth value.
PROGRAM = """
dynamic { x: f32[8]; code: i4[3]; }
volatile { y: f32[8]; far: f32; past: i4[3]; again: bool; }
constant { half: f32 @init(0.5); last_row: i32 @init(15); }
persistent {
  n: i32; full: bool; last: i4[3] @init(-3);
  k(t): f32[8] @table @fixed(t=16) @init(0.25);
  v(t): f32[8] @table @fixed(t=16);
  h(t): f32 @table @init(2.0);
}
block entry {
  cache.read last >> past;
  cache.write code >> last;
  cache.read full >> again;
  cache.write x >> k[n];
  cache.read k[0..16] >> ks;
  op sum_axis(ks, axes=[0]) >> total;
  cache.read v[n] >> old;
  op mul(old, half) >> less;
  op add(total, less) >> y;
  cache.write y >> v[n];
  op sum_axis(x, axes=[0]) >> height;
  cache.write height >> h[n];
  cache.read h[0..n + 1] >> heights;
  op sum_axis(heights, axes=[0]) >> far;
  cache.read n >> row;
  op eq(row, last_row) >> is_full;
  cache.write is_full >> full;
  cache.increment n;
  branch is_full wrap stay;
  return y, far, past, again;
}
block wrap { cache.reset n; cache.reset k[3]; cache.reset v; cache.reset h; return; }
block stay { return; }
"""
INPUTS = {"x": noise(STEPS, 8), "code": np.random.default_rng(5).integers(-8, 8, (STEPS, 3)).astype(np.int8)}
MEMORIES = (("near", 640, "tcm"), ("far", 640, "sram"))

pytestmark = needs_gcc


def synthesised(memories=(), text=PROGRAM):
    banks = [{"name": name, "bytes": nbytes, "kind": kind} for name, nbytes, kind in memories]
    arch = {"version": 2, "device": {"type": "cpu", "api": "c"}, **({"memories": banks} if banks else {})}
    return Synthesizer(arch=arch, limits={"h.t": 16}).synthesize(Model.from_arrays({}), graph(text))


def caller(synthesis):
    """Return a program that runs all steps, and halfway saves the state of one instance and loads it into another.

    It prints the saved bytes, then each step's results.
    """
    header = synthesis.bundle.files["model.h"].decode()
    given = re.findall(r"void \*((?:arena|states)_\w+)", re.search(r"model_init\(.*\);", header)[0])
    arrays = "".join(
        f"MODEL_ALIGNED static unsigned char {name}_{number}[MODEL_{name.upper()}_BYTES];"
        for number in (0, 1)
        for name in given
    )
    calls = [", ".join((f"&models[{number}]", *(f"{name}_{number}" for name in given))) for number in (0, 1)]
    xs = ", ".join(float(value).hex() + "f" for value in INPUTS["x"].ravel())
    codes = ", ".join(f"{byte:#04x}" for step in INPUTS["code"] for byte in packed(step))
    return f"""
    #include "model.h"
    #include <stdio.h>
    #include <string.h>
    static struct model models[2];
    {arrays}
    static const float xs[{8 * STEPS}] = {{{xs}}};
    static const uint8_t codes[{2 * STEPS}] = {{{codes}}};
    static unsigned char saved[MODEL_SAVE_BYTES];
    int main(void) {{
        struct model *model = &models[0];
        if (model_init({calls[0]}) != MODEL_OK || model_init({calls[1]}) != MODEL_OK) {{ return 1; }}
        for (int step = 0; step < {STEPS}; ++step) {{
            float y[8], far = 0.0f;
            uint8_t past[2];
            bool again = false;
            struct model_inputs inputs;
            struct model_outputs outputs;
            inputs.v_x = &xs[8 * step];
            inputs.v_code = &codes[2 * step];
            outputs.v_y = y;
            outputs.v_far = &far;
            outputs.v_past = past;
            outputs.v_again = &again;
            if (step == {MIDDLE}) {{
                if (model_save(model, saved, sizeof saved) != MODEL_OK) {{ return 2; }}
                if (model_reset(model) != MODEL_OK) {{ return 3; }}
                model = &models[1];
                if (model_load(model, saved, sizeof saved) != MODEL_OK) {{ return 4; }}
                for (size_t i = 0; i < sizeof saved; ++i) {{ printf("%02x", (unsigned)saved[i]); }}
                printf("\\n");
            }}
            if (model_step(model, &inputs, &outputs) != MODEL_OK) {{ return 5; }}
            for (int i = 0; i < 8; ++i) {{ printf("%a ", (double)y[i]); }}
            printf("%a %02x%02x %d\\n", (double)far, (unsigned)past[0], (unsigned)past[1], (int)again);
        }}
        return 0;
    }}
    """


def packed(codes):
    """Return the bytes of elements of four bits, the first one lowest."""
    low = [int(code) & 15 for code in codes] + [0]
    return [low[at] | low[at + 1] << 4 for at in range(0, len(codes), 2)]


def printed(synthesis, compiler):
    """Return the saved bytes, and the lines of the steps."""
    lines = printed_by(caller(synthesis), synthesis.bundle, compiler).splitlines()
    (saved,) = [line for line in lines if len(line.split()) == 1]
    return bytes.fromhex(saved), [line.split() for line in lines if line != saved]


def test_neither_memory_holds_both_caches():
    plan = synthesised(MEMORIES).plan

    assert {plan.memory_of(state) for state in plan.states if state.name in ("k", "v")} == {"near", "far"}
    assert all(bank.nbytes > 512 for bank in plan.banks)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_states_in_several_memories_are_those_of_the_simulator_across_saving_and_loading(compiler):
    saved, lines = printed(synthesised(MEMORIES), compiler)

    assert len(lines) == STEPS
    with Simulator(Model.from_arrays({}), graph(PROGRAM), device="cpu").make_executor() as executor:
        for step, line in enumerate(lines):
            executor.step(**{name: stacked[step] for name, stacked in INPUTS.items()})
            for name, texts in (("y", line[:8]), ("far", line[8:9])):
                expected = np.asarray(executor.result(name).array, np.float32)
                found = np.array([float.fromhex(text) for text in texts], np.float32).reshape(expected.shape)
                difference = compare(name, expected, found)
                assert difference.within, (step, difference)
            past = bytes(packed(np.asarray(executor.result("past").array, np.int8))).hex()
            assert (line[9], line[10]) == (past, str(int(executor.result("again").array))), step
    assert len(saved) == 24 + synthesised().plan.state_nbytes + 8 + 4


@pytest.mark.rule("api.bundles.6")
def test_saved_state_is_the_same_bytes_wherever_variables_lie():
    alone, one_after_the_other = printed(synthesised(), "gcc")
    spread, others = printed(synthesised(MEMORIES), "gcc")
    near, _ = printed(synthesised((("near", 4096, "tcm"), ("far", 640, "sram"))), "gcc")

    assert spread == alone == near
    assert others == one_after_the_other


@pytest.mark.skipif(shutil.which("frama-c") is None, reason="Frama-C is not installed")
def test_accesses_to_several_memories_are_proved():
    assert synthesised(MEMORIES).prove(timeout=300).proof.alarms == ()


def test_caches_come_first_in_the_nearest_memory_where_the_device_file_prefers_it():
    """The kernel's results are used more often for their size, so that they lie nearest otherwise."""
    text = """
    dynamic { x: f32[64]; }
    persistent { K(t): f32[64] @table @fixed(t=2); }
    block entry {
      op exp(x) >> a; op neg(a) >> b; op sum_axis(b) >> s; op sub(a, s) >> c; op mul(c, b) >> d;
      cache.write d >> K[0];
      op softmax(d) >> y;
      return y;
    }
    """
    near: list[set[str]] = []
    for prefers in (False, True):
        arch = {
            "version": 2,
            "device": {"type": "cpu", "api": "c"},
            "memories": [{"name": "near", "bytes": 576, "kind": "tcm"}, {"name": "far", "bytes": 4096, "kind": "sram"}],
            "preferences": {"prefer_persistent_kv": prefers, "prefer_fusion": False},
        }
        plan = Synthesizer(arch=arch).synthesize(Model.from_arrays({}), graph(text)).plan
        near.append({state.name for state in plan.states if plan.memory_of(state) == "near"})

    assert near == [set(), {"K"}]
