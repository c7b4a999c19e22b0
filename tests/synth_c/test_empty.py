"""Values without elements in generated C: it compiles without a warning and gives what cpu gives."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from generated_c import SANITISED, STRICT, needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

COMPILERS = [
    pytest.param(name, flags, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name, flags in (("gcc", SANITISED), ("clang", (*STRICT, "-O2")))
]

PROGRAMS = {
    "split": """dynamic { x: f32[3, 4]; } volatile { y: f32[3, 4]; }
        block entry { assign a: f32[3, 0]; assign b: f32[3, 4]; op split(x, axis=1, sizes=[0, 4]) >> a, b;
          op concat(b, a, axis=1) >> y; return y; }""",
    "split and return": """dynamic { x: f32[3]; } volatile { a: f32[0]; b: f32[3]; }
        block entry { op split(x, axis=0, sizes=[0, 3]) >> a, b; return a, b; }""",
    "matmul": """dynamic { x: f32[3, 2]; } volatile { y: f32[3, 5]; }
        block entry { assign a: f32[3, 0]; assign b: f32[0, 5]; op slice(x, starts=[0], ends=[0], axes=[1]) >> a;
          op fill(b, value=1) >> b; op matmul(a, b) >> y; return y; }""",
    "matmul to nothing": """dynamic { x: f32[3, 2]; v: f32[2, 0]; } volatile { y: f32[0]; }
        block entry { assign a: f32[3, 0]; op matmul(x, v) >> a; op sum_axis(a, axes=0) >> y; return y; }""",
    "conv2d to nothing": """dynamic { x: f32[1, 3, 8, 8]; k: f32[0, 3, 3, 3]; } volatile { y: f32[1, 0, 3, 3]; }
        block entry { op conv2d(x, k, stride=2) >> y; return y; }""",
    "a sum of bytes to nothing": """dynamic { x: u8[0, 3, 3]; }
        constant { k: u8[2, 3, 5] @init(1); } volatile { y: u32[2, 0, 5]; n: u32[2, 5]; }
        block entry { op conv1d(k, x, padding=1, acc=u32) >> y; op sum_axis(y, axes=1) >> n; return y, n; }""",
    "a product of groups to nothing": """dynamic { x: f32[2, 32]; s: f32[2, 0]; } volatile { y: f32[2, 0]; n: f32[2]; }
        constant { q: u8[32, 0] @init(1); }
        block entry { op qmatmul(x, q, group_size=16, scale=s) >> y; op sum_axis(y, axes=1) >> n; return y, n; }""",
    "sums": """dynamic { x: f32[0, 4]; } volatile { y: f32[4]; z: f32; }
        block entry { assign a: f32[0, 4]; op relu(x) >> a; op sum_axis(a, axes=0) >> y;
          op sum_axis(a, axes=[0, 1]) >> z; return y, z; }""",
    "softmax": """dynamic { x: f32[0, 4]; } volatile { y: f32[0, 4]; n: f32; }
        block entry { assign a: f32[0, 4]; op softmax(x, axis=-1) >> a; op sum_axis(a, axes=[0, 1]) >> n;
          transfer a >> y; return y, n; }""",
    "topk": """dynamic { x: f32[3, 4]; } volatile { y: f32[3]; i: i64[3, 0]; }
        block entry { assign a: f32[3, 0]; op topk(x, k=0) >> a, i; op sum_axis(a, axes=1) >> y; return y, i; }""",
    "gather": """dynamic { x: f32[3, 4]; n: i64[0]; } volatile { y: f32[4]; }
        block entry { assign a: f32[0, 4]; op gather(x, n, axis=0) >> a; op sum_axis(a, axes=0) >> y; return y; }""",
    "a range of a cache": """dynamic { x: bool[0, 4]; } volatile { y: bool[0, 4]; }
        persistent { K(l, r): bool[4] @table @fixed(r=2); }
        block entry { cache.write x >> K[2..2+0, 0]; op identity(x) >> y; return y; }""",
    "default": """dynamic { x: f32[0] @init(2.0); } volatile { y: f32; z: f32[0]; }
        block entry { assign a: f32[0]; op add(x, x) >> a; op sum_axis(a, axes=0) >> y;
          transfer a >> z; return y, z; }""",
    "packed": """dynamic { x: i4[0] @init(2); } volatile { y: i4[0]; }
        block entry { assign a: i4[0]; op add(x, x) >> a; op add(a, x) >> y; return y; }""",
    "loop": """dynamic { x: f32[0, 2]; } volatile { w(l): f32[2, 2] @pattern("w.{l}"); y: f32[2]; }
        block entry { assign a: f32[0, 2]; transfer x >> a;
          loop layers (l in 0..2) { op matmul(a, w[l]) >> a; } op sum_axis(a, axes=0) >> y; return y; }""",
    "branch": """dynamic { x: f32[0]; go: bool; } volatile { y: f32[0] @init(1.0); }
        block entry { branch go one two; return y; }
        block one { op add(x, y) >> y; return; } block two { op mul(x, y) >> y; return; }""",
    "empty model tensor": """volatile { w: f32[0, 3]; y: f32[3]; }
        block entry { assign a: f32[0, 3]; op relu(w) >> a; op sum_axis(a, axes=0) >> y; return y; }""",
}


DTYPES = {"f32": np.float32, "i64": np.int64, "bool": np.bool_, "u8": np.uint8}


def drawn(name):
    arrays = {f"w.{n}": np.ones((2, 2), np.float32) for n in range(2)} | {"w": np.zeros((0, 3), np.float32)}
    model, program = Model.from_arrays(arrays), graph(PROGRAMS[name])
    synthesis = Synthesizer("c").synthesize(model, program)
    needed = [port for port in synthesis.plan.inputs if port.default is None]
    inputs = {
        port.name: np.arange(port.type.count).reshape(port.type.shape).astype(DTYPES[str(port.type.dtype)])
        for port in needed
    }
    with Simulator(model, program, device="cpu").make_executor() as executor:
        executor.step(**inputs)
        return model, program, synthesis, inputs, executor.outputs()


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name], np.float64), np.asarray(array, np.float64), strict=True)


@pytest.mark.parametrize(("compiler", "flags"), COMPILERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_without_elements(name, compiler, flags, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    _, _, synthesis, inputs, expected = drawn(name)

    found = run_sanitised(synthesis, inputs, flags=flags)

    assert_same(found, expected)


@needs_gcc
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_without_elements_on_the_device(name):
    model, program, _, inputs, expected = drawn(name)

    with Simulator(model, program, device="c").make_executor() as executor:
        executor.step(**inputs)
        whole = executor.outputs()
        executor.insert(inputs)
        list(executor.iterate())

        assert_same(whole, expected)
        assert_same(executor.outputs(), expected)


def test_nothing_is_moved_where_a_value_without_elements_is_stored():
    bundle = Synthesizer("c").synthesize(Model.from_arrays({}), graph(PROGRAMS["a range of a cache"])).bundle

    assert b"memmove" not in bundle.files["model.c"]
