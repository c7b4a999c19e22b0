"""Quantisation as C, under the sanitisers: containers with quant payloads, and the operators around them."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from generated_c import STRICT, needs_gcc, run_sanitised

from openinfer.arch import DeviceArch
from openinfer.dsl import graph
from openinfer.dtypes import dtype_named
from openinfer.model import Model, ModelLoader
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare
from openinfer.testing.waiting import limit_s
from openinfer_oinf import OinfWriter, QuantParams, QuantScale, QuantZeroPoint

if TYPE_CHECKING:
    from collections.abc import Mapping

RANDOM = np.random.default_rng(8)
SCALES = RANDOM.random(6).astype(np.float32) + np.float32(0.1)

pytestmark = needs_gcc


@pytest.fixture
def model(tmp_path: Path) -> Model:
    zeros = QuantZeroPoint.per_channel(1, [-3, 0, 1, 2, -8, 7])
    symmetric = QuantParams("symmetric", QuantScale.per_channel(1, SCALES))
    with OinfWriter(tmp_path / "m.oinf") as writer:
        writer.declare("w", "i4", (10, 6), quant=QuantParams("asymmetric", QuantScale.per_channel(1, SCALES), zeros))
        for layer in range(2):
            writer.declare(f"L.{layer}", "i8", (6, 6), quant=symmetric)
        writer.write("w", RANDOM.integers(-8, 8, (10, 6)).astype(np.int8))
        for layer in range(2):
            writer.write(f"L.{layer}", RANDOM.integers(-128, 128, (6, 6)).astype(np.int8))
    return ModelLoader.open(tmp_path / "m.oinf")


def assert_c_agrees(model: Model, text: str, *, arch: str | DeviceArch | None = None, **inputs: np.ndarray) -> None:
    synthesis = Synthesizer("c", arch=arch).synthesize(model, graph(text))
    found = run_sanitised(synthesis, inputs)
    executor = Simulator(model, graph(text), device="cpu").make_executor()
    executor.step(**inputs)

    assert found
    for name, array in found.items():
        difference = compare(name, np.asarray(executor.fetch(name), array.dtype).reshape(array.shape), array)
        assert difference.within, difference


def test_programs_over_quantised_containers(model: Model) -> None:
    text = """
    dynamic { x: f32[3, 10]; }
    constant { w: i4[10, 6]; reals: bf16[10, 6] @ref("w"); W(l): i8[6, 6] @pattern("L.{l}"); }
    constant { F(l): f32[6, 6] @pattern("L.{l}"); }
    volatile { y: f32[3, 6]; z: bf16[10, 6]; f: f32[3, 6]; }
    block entry {
      op qmatmul(x, w) >> y;
      loop layers (l in 0..2) { op qmatmul(y, W[l]) >> y; }
      op matmul(y, F[1]) >> f;
      transfer reals >> z;
      return y, z, f;
    }
    """
    assert_c_agrees(model, text, x=RANDOM.standard_normal((3, 10)).astype(np.float32) / 100)


@pytest.mark.parametrize("dtype", ["i8", "u4", "i2", "t1"])
def test_packed_weights(dtype: str) -> None:
    """Two tiles of columns; with zero points by groups, and without them by more rows than one sum of codes has."""
    values = {"i8": (-128, 127), "u4": (0, 15), "i2": (-2, 1)}
    low, high = values.get(dtype, (-1, 1))
    drawn = RANDOM.integers(low, high, (70, 4104), endpoint=True)
    kind = np.uint8 if dtype == "u4" else np.int8
    text = f"""
    dynamic {{
      x: f16[2, 70]; w: {dtype}[70, 4104]; s: f32[7, 4104]; z: {dtype}[7, 4104];
      o: f32[3, 5]; d: {dtype}[5, 3]; c: f32; p: f32[4104];
    }}
    volatile {{ y: f16[2, 4104]; u: f16[2, 4104]; t: f32[3, 3]; }}
    block entry {{
      op qmatmul(x, w, s, z, group_size=10) >> y;
      op qmatmul(x, w, p) >> u;
      op qmatmul(o, d, c) >> t;
      return y, u, t;
    }}
    """
    signs = np.where(drawn == 0, 1, drawn) if dtype == "t1" else drawn
    assert_c_agrees(
        Model.from_arrays({}),
        text,
        x=RANDOM.standard_normal((2, 70)).astype(np.float16),
        w=signs.astype(kind),
        s=RANDOM.random((7, 4104), np.float32) / 100,
        z=signs[:7].astype(kind),
        o=RANDOM.standard_normal((3, 5)).astype(np.float32),
        d=signs[:5, :3].astype(kind),
        c=np.float32(0.5),
        p=RANDOM.random(4104, np.float32) / 100,
    )


@pytest.mark.parametrize(
    ("dtype", "arch"),
    [("i8", "generic"), ("u8", "x86-64-v3"), ("i4", "x86-64-v3"), ("u4", "generic"), ("t2", "generic")],
)
def test_constants_of_few_bits_are_read_as_words(tmp_path: Path, dtype: str, arch: str) -> None:
    """Columns that fill no register, rows in groups, [N, K], zero points, several rows of x, and K of no whole word."""
    kind = dtype_named(dtype)
    low, high = kind.minimum or 0, kind.maximum or 0
    store = np.uint8 if low == 0 else np.int8
    shapes = {"w": (64, 37), "z": (2, 37), "turned": (21, 64), "odd": (19, 5)}
    with OinfWriter(tmp_path / "m.oinf") as writer:
        for name, shape in shapes.items():
            writer.declare(name, dtype, shape)
        for name, shape in shapes.items():
            writer.write(name, RANDOM.integers(low, high, shape, endpoint=True).astype(store))
    text = f"""
    dynamic {{ x: f32[1, 64]; rows: f16[5, 64]; o: f32[2, 19]; s: f32[2, 37]; c: f32[21]; one: f32; }}
    constant {{ w: {dtype}[64, 37]; z: {dtype}[2, 37]; turned: {dtype}[21, 64]; odd: {dtype}[19, 5]; }}
    volatile {{ a: f32[1, 37]; b: f16[5, 37]; d: f32[1, 21]; e: f32[2, 5]; }}
    block entry {{
      op qmatmul(x, w, s, z, group_size=32) >> a;
      op qmatmul(rows, w, s, group_size=32) >> b;
      op qmatmul(x, turned, c, trans_w=true) >> d;
      op qmatmul(o, odd, one) >> e;
      return a, b, d, e;
    }}
    """
    assert_c_agrees(
        ModelLoader.open(tmp_path / "m.oinf"),
        text,
        arch=arch,
        x=RANDOM.standard_normal((1, 64)).astype(np.float32),
        rows=RANDOM.standard_normal((5, 64)).astype(np.float16) / 16,
        o=RANDOM.standard_normal((2, 19)).astype(np.float32),
        s=RANDOM.random((2, 37), np.float32),
        c=RANDOM.random(21, np.float32),
        one=np.float32(0.5),
    )


LAYERS = """
dynamic { x: f32[1, 3, 9, 7]; row: f32[2, 24]; }
constant {
  first: i8[20, 3, 3, 3]; second: i8[9, 20, 1, 1]; depthwise: i8[20, 1, 3, 3]; m: f32[1, 20, 1, 1] @init(0.002);
  gray: i8[20, 1, 3, 4]; signed: i8[3, 1, 3, 3];
  w: i8[24, 37]; four: i4[24, 5]; odd: i8[9, 6]; z: u8 @init(77); zi: i8 @init(-3); zw: i8[37] @init(2);
}
volatile { a: i32[1, 9, 5, 4]; b: i32[1, 20, 5, 4]; c: i32[2, 37]; d: i32[2, 5]; e: i32[2, 37]; f: i32[2, 6]; }
volatile { g: i32[1, 20, 5, 4]; h: i32[1, 3, 9, 7]; }
block entry {
  op round(x) >> whole;
  op cast(whole, to=i8) >> image;
  op narrow(image, axis=1, start=1, length=1) >> plane;
  op conv_integer(plane, gray, padding=[1, 1, 1, 2], stride=2) >> g;
  op conv_integer(image, signed, padding=1, groups=3) >> h;
  op conv_integer(image, first, padding=1, stride=2) >> total;
  op cast(total, to=f32) >> reals;
  op mul(reals, m) >> scaled;
  op round(scaled, mode="half_even") >> rounded;
  op cast(rounded, to=u8) >> hidden;
  op conv_integer(hidden, second) >> a;
  op conv_integer(hidden, depthwise, padding=1, groups=20) >> b;
  op round(row) >> whole_row;
  op cast(whole_row, to=u8) >> codes;
  op cast(whole_row, to=i8) >> signs;
  op matmul_integer(codes, w, z) >> c;
  op matmul_integer(signs, four, zi) >> d;
  op matmul_integer(codes, w, z, zw) >> e;
  op narrow(codes, axis=1, start=0, length=9) >> part;
  op matmul_integer(part, odd) >> f;
  return a, b, c, d, e, f, g, h;
}
"""


@pytest.fixture
def layers(tmp_path: Path) -> Model:
    shapes = {
        "first": (20, 3, 3, 3),
        "second": (9, 20, 1, 1),
        "depthwise": (20, 1, 3, 3),
        "gray": (20, 1, 3, 4),
        "signed": (3, 1, 3, 3),
        "w": (24, 37),
        "four": (24, 5),
        "odd": (9, 6),
    }
    with OinfWriter(tmp_path / "layers.oinf") as writer:
        for name, shape in shapes.items():
            writer.declare(name, "i4" if name == "four" else "i8", shape)
        for name, shape in shapes.items():
            low = -8 if name == "four" else -128
            writer.write(name, RANDOM.integers(low, -low, shape).astype(np.int8))
    return ModelLoader.open(tmp_path / "layers.oinf")


@pytest.mark.parametrize(("lanes", "dialect"), [(4, "vector"), (4, "c99"), (16, "vector")])
def test_dot_products_of_bytes_without_the_instruction(layers: Model, lanes: int, dialect: str) -> None:
    arch = {
        "version": 2,
        "device": {"type": "cpu", "api": "c", "name": "dot products"},
        "target": {"lanes": lanes, "registers": 16, "dot4": True, "dialect": dialect, "flags": []},
    }
    x = 40 * RANDOM.standard_normal((1, 3, 9, 7)).astype(np.float32)
    row = 90 * RANDOM.standard_normal((2, 24)).astype(np.float32)
    assert_c_agrees(layers, LAYERS, arch=DeviceArch.load(arch), x=x, row=row)


DEPTHWISE = """
dynamic { x: f32[1, 8, 6, 6]; } constant { w: i8[8, 1, 3, 3]; } volatile { y: f32[1, 8, 6, 6]; }
block entry {
  op cast(x, to=u8) >> bytes;
  op conv_integer(bytes, w, padding=1, groups=8) >> total;
  op cast(total, to=f32) >> y;
  return y;
}
"""


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86-64")
@pytest.mark.parametrize("flags", [(), ("-mavx2",), ("-mavx512vl", "-mavx512vbmi")])
def test_clang_has_nothing_to_warn_of_in_words_of_bytes(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Each set of instructions leaves other functions without a use, and `bytes` is a name of the program."""
    arch: dict[str, Any] = {
        "version": 2,
        "device": {"type": "cpu", "api": "c", "name": "words"},
        "target": {"lanes": 8, "dot4": True, "dialect": "vector", "flags": []},
    }
    model = Model.from_arrays({"w": np.arange(72, dtype=np.int8).reshape(8, 1, 3, 3)})
    files = Synthesizer("c", arch=DeviceArch.load(arch)).synthesize(model, graph(DEPTHWISE)).bundle.files
    for name in ("model.c", "model.h"):
        (tmp_path / name).write_bytes(files[name])
    assert b"word_u8x8" in files["model.c"]

    command = ["clang", *STRICT, "-O3", *flags, "-fsyntax-only", "model.c"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=limit_s(120))
    assert built.returncode == 0, built.stderr[:3000]


ROUNDED = """
dynamic { x: f32[5, 16]; s: f32[16]; }
block entry {
  assign u8s: u8[5, 16]; assign i8s: i8[5, 16]; assign u16s: u16[5, 16]; assign i16s: i16[5, 16];
  op round(x, mode="half_even") >> a;  op cast(a, to=u8) >> u8s;
  op round(x, mode="half_even") >> b;  op cast(b, to=i8) >> i8s;
  op mul(x, s) >> c; op round(c, mode="half_even") >> d; op cast(d, to=u16) >> u16s;
  op mul(x, s) >> e; op round(e, mode="half_even") >> f; op cast(f, to=i16) >> i16s;
  return u8s, i8s, u16s, i16s;
}
"""


SPECIAL = [np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 2.0**23 + 1, 1e-40, -0.0]
NEAR = [limit + d for limit in (0, 255, -128, 127, 65535, -32768, 32767) for d in (-1.5, -0.5, 0.49999, 0.5, 1.5)]
REALS = np.resize(np.array([*SPECIAL, *NEAR, *(RANDOM.integers(-600, 600, 35) / 2)], np.float32), (5, 16))


@pytest.mark.parametrize("dialect", ["vector", "c99"])
def test_reals_are_rounded_to_the_nearest_integer_of_few_bits(dialect: str) -> None:
    """Halves go to even ones, what is out of range to the nearest limit, NaN to 0."""
    arch = {
        "version": 2,
        "device": {"type": "cpu", "api": "c", "name": "roundings"},
        "target": {"lanes": 8, "dialect": dialect, "flags": []},
    }
    synthesis = Synthesizer("c", arch=DeviceArch.load(arch)).synthesize(Model.from_arrays({}), graph(ROUNDED))
    outputs = run_sanitised(synthesis, {"x": REALS, "s": np.ones(16, np.float32)})

    rounded = {"vector": " round_u8_f32x8(", "c99": "oi_round_u8_f32("}[dialect]
    assert rounded in synthesis.bundle.files["model.c"].decode()
    assert_rounded(outputs)


def test_reals_are_rounded_by_the_instructions_of_this_machine() -> None:
    synthesis = Synthesizer("c", arch="host").synthesize(Model.from_arrays({}), graph(ROUNDED))
    inputs = {"x": REALS, "s": np.ones(16, np.float32)}
    assert_rounded(synthesis.target.build_and_run(synthesis.plan, synthesis.bundle, inputs).outputs)


def assert_rounded(outputs: Mapping[str, np.ndarray]) -> None:
    for name, kind in (("u8s", np.uint8), ("i8s", np.int8), ("u16s", np.uint16), ("i16s", np.int16)):
        limits = np.iinfo(kind)
        expected = np.clip(np.nan_to_num(np.rint(REALS), nan=0.0), limits.min, limits.max).astype(kind)
        assert (outputs[name].reshape(5, 16) == expected).all(), name


def test_dot_products_of_bytes_on_this_machine(layers: Model) -> None:
    """By the instruction where the processor has it, with the flags that users compile with."""
    synthesis = Synthesizer("c", arch="host").synthesize(layers, graph(LAYERS))
    x = 40 * RANDOM.standard_normal((1, 3, 9, 7)).astype(np.float32)
    row = 90 * RANDOM.standard_normal((2, 24)).astype(np.float32)
    found = synthesis.target.build_and_run(synthesis.plan, synthesis.bundle, {"x": x, "row": row}).outputs
    executor = Simulator(layers, graph(LAYERS), device="cpu").make_executor()
    executor.step(x=x, row=row)

    assert found
    for name, array in found.items():
        assert (array == np.asarray(executor.fetch(name)).reshape(array.shape)).all(), name


@pytest.mark.parametrize("dtype", ["i8", "u4", "t1"])
def test_transposed_packed_weights(dtype: str) -> None:
    """Zero points for all, for each column, for each group, and none; two blocks of columns; f64."""
    low, high = {"i8": (-128, 127), "u4": (0, 15)}.get(dtype, (-1, 1))
    drawn = RANDOM.integers(low, high, (260, 64), endpoint=True)
    signs = np.where(drawn == 0, 1, drawn).astype(np.uint8 if dtype == "u4" else np.int8)
    text = f"""
    dynamic {{
      x: f32[2, 64]; wide: f64[2, 64]; w: {dtype}[260, 64];
      one: f32; column: f32[260]; group: f32[260, 2];
      z: {dtype}; zc: {dtype}[260]; zg: {dtype}[260, 2];
    }}
    volatile {{ a: f64[2, 260]; b: f32[2, 260]; c: f32[2, 260]; d: f32[2, 260]; }}
    block entry {{
      op qmatmul(wide, w, one, z, trans_w=true) >> a;
      op qmatmul(x, w, column, zc, trans_w=true) >> b;
      op qmatmul(x, w, group, zg, group_size=32, trans_w=true) >> c;
      op qmatmul(x, w, one, trans_w=true) >> d;
      return a, b, c, d;
    }}
    """
    x = RANDOM.standard_normal((2, 64)) / 100
    assert_c_agrees(
        Model.from_arrays({}),
        text,
        x=x.astype(np.float32),
        wide=x,
        w=signs,
        one=np.float32(0.5),
        column=RANDOM.random(260, np.float32),
        group=RANDOM.random((260, 2), np.float32),
        z=signs[0, 0],
        zc=signs[:, 1].copy(),
        zg=signs[:, 2:4].copy(),
    )


def test_quantisation_and_products_of_integers() -> None:
    text = """
    dynamic { x: f32[4, 6]; s: f32[4, 3]; a: u8[3, 4]; az: u8; i: i8[1, 2, 5, 5]; k: i8[3, 2, 2, 2]; kz: i8[3]; }
    volatile {
      q: i4[4, 6]; r: f32[4, 6]; dy: u8[4, 6]; ds: f32; dz: u8; m: i32[3, 6]; v: i32[1, 3, 4, 4]; l: u8[3, 6];
    }
    block entry {
      op quantize_linear(x, s, block_size=2) >> q;
      op dequantize_linear(q, s, block_size=2) >> r;
      op dynamic_quantize_linear(x) >> dy, ds, dz;
      op matmul_integer(a, dy, az, dz) >> m;
      op conv_integer(i, k, w_zero=kz) >> v;
      op qlinear_matmul(a, ds, az, dy, ds, dz, ds, az) >> l;
      return q, r, dy, ds, dz, m, v, l;
    }
    """
    assert_c_agrees(
        Model.from_arrays({}),
        text,
        x=RANDOM.standard_normal((4, 6)).astype(np.float32),
        s=RANDOM.random((4, 3), np.float32) + np.float32(0.1),
        a=RANDOM.integers(0, 256, (3, 4)).astype(np.uint8),
        az=np.uint8(128),
        i=RANDOM.integers(-128, 128, (1, 2, 5, 5)).astype(np.int8),
        k=RANDOM.integers(-128, 128, (3, 2, 2, 2)).astype(np.int8),
        kz=np.array([0, 5, -128], np.int8),
    )


def test_compilers_have_nothing_to_warn_of_in_products_with_a_byte_that_stays() -> None:
    """The element that several sums have in common is read before its products with the others."""
    text = """
    dynamic { turns: i32; }
    volatile { a: i8[2, 1, 4, 4] @init(-3); sums: i32[2, 2, 1, 1]; }
    block entry { loop again (i in 0..turns) { op conv_integer(a, a) >> sums; } return sums; }
    """
    assert_c_agrees(Model.from_arrays({}), text, turns=np.int32(2))
