"""Random programs on i32, where every result is exact: simulator and generated C agree in every element."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
from generated_c import COMPILERS, SANITISED, needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.plan.accesses import mask
from openinfer.plan.liveness import Liveness
from openinfer.plan.values import ArenaMemory, OutputMemory
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer_synth_c import compiler_flags, library
from openinfer_synth_c.native import native_flags

STEP_FLAGS = tuple(flag for flag in library.FLAGS if flag not in ("-fPIC", "-shared"))
"""Flags of device c, as they are for a program."""

SQUARES = ["a", "b", "x", "t", "u", "v"]


class Writer:
    """Writes a program: squares of 4 by 4, a row `r`, bools `p` and `q`, blocks that call later blocks only.

    ``idle`` of all loops never run.
    """

    def __init__(self, seed, idle=0.0):
        self.random = random.Random(seed)
        self.idle = idle
        self.loops = 0

    def program(self):
        blocks = "\n".join(f"block {name} {{ {self.statements(name, 5)} return; }}" for name in ("one", "two"))
        return f"""
        dynamic {{ x: i32[4, 4]; p: bool; }}
        volatile {{ a: i32[4, 4] @init(3); b: i32[4, 4]; r: i32[4]; q: bool; w(l): i32[4, 4] @pattern("w.{{l}}"); }}
        block entry {{
          assign t: i32[4, 4]; assign u: i32[4, 4]; assign v: i32[4, 4];
          {self.statements("entry", 14)}
          return {", ".join(SQUARES)}, r;
        }}
        {blocks}
        """

    def statements(self, block, count, loops=()):
        return " ".join(self.statement(block, loops) for _ in range(count))

    def statement(self, block, loops):
        choice = self.random.random()
        if choice < 0.5:
            op = self.random.choice(["add", "sub", "mul", "add(r)", "relu"])
            return self.elementwise(op)
        if choice < 0.62:
            return f"op matmul({self.square(loops)}, {self.square(loops)}) >> {self.target()};"
        if choice < 0.7:
            return f"op transpose({self.square()}) >> {self.target()};"
        if choice < 0.78:
            return f"op {self.random.choice(['sum_axis', 'max_axis'])}({self.square()}, axes=1) >> r;"
        if choice < 0.84:
            return f"transfer {self.square(loops)} >> {self.target()};"
        if choice < 0.94 and len(loops) < 2:
            return self.loop(block, loops)
        return self.branch(block)

    def square(self, loops=()):
        if loops and self.random.random() < 0.4:
            return f"w[{self.random.choice(loops)}]"
        return self.random.choice(SQUARES)

    def target(self):
        return self.random.choice(SQUARES)

    def elementwise(self, op):
        if op == "relu":
            return f"op relu({self.square()}) >> {self.target()};"
        second = "r" if op == "add(r)" else self.square()
        return f"op {op[:3]}({self.square()}, {second}) >> {self.target()};"

    def loop(self, block, loops):
        self.loops += 1
        index = f"i{self.loops}"
        leave = "return;" if self.random.random() < 0.15 and block != "entry" else ""
        bounds = "2..2" if self.random.random() < self.idle else self.random.choice(["0..2", "1..3", "0..3", "2..2"])
        start, end = bounds.split("..")
        body = self.statements(block, 4, (*loops, index))
        return f"loop turns ({index} in {start}..{end}) {{ {body} {leave} }}"

    def branch(self, block):
        deeper = {"entry": ["one", "two"], "one": ["two"], "two": []}[block]
        if not deeper:
            return f"op add({self.square()}, r) >> {self.target()};"
        if self.random.random() < 0.3:
            return f"branch {self.random.choice(deeper)};"
        return f"branch {self.random.choice('pq')} {self.random.choice(deeper)} {self.random.choice(deeper)};"


def weights(seed):
    generator = np.random.default_rng(seed)
    return Model.from_arrays({f"w.{n}": generator.integers(-9, 9, (4, 4)).astype(np.int32) for n in range(3)})


@pytest.mark.parametrize("seed", range(150))
def test_no_result_and_no_intermediate_value_is_read_before_it_is_written(seed):
    program = Writer(seed, idle=0.7).program()

    plan = Synthesizer("c").synthesize(weights(seed), graph(program)).plan

    outputs = mask(port.value for port in plan.outputs)
    blank = mask(v.number for v in plan.values if isinstance(v.memory, ArenaMemory | OutputMemory))
    assert Liveness(plan.procedures, outputs).at_start & blank == 0


@needs_gcc
@pytest.mark.parametrize("seed", range(12))
def test_a_random_program_gives_the_same_everywhere(seed):
    assert_same(seed, (SANITISED,))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("seed", range(12, 18))
def test_a_random_program_gives_the_same_at_every_level_of_optimisation(seed, compiler, monkeypatch):
    monkeypatch.setenv("CC", compiler)

    assert_same(
        seed, (("-std=c99", "-O0"), compiler_flags.FLAGS, (*STEP_FLAGS, *native_flags((shutil.which(compiler),))))
    )


def assert_same(seed, levels):
    program = graph(Writer(seed, idle=0.3).program())
    generator = np.random.default_rng(seed)
    model = weights(seed)
    inputs = {"x": generator.integers(-(2**31), 2**31, (4, 4)).astype(np.int32), "p": np.array(seed % 2 == 0)}
    synthesis = Synthesizer("c").synthesize(model, program)

    executor = Simulator(model, program, device="cpu").make_executor()
    executor.step(**inputs)
    expected = executor.outputs()
    for flags in levels:
        found = run_sanitised(synthesis, inputs, flags=flags)
        assert set(found) == {*SQUARES, "r"}
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=f"{name} with {flags}")
