"""Every profile's source compiles without a warning with its compiler, and has the instructions that it claims."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer_synth_c.compiler_flags import compiler_flags
from openinfer_synth_c.profiles import PROFILES

STUBS = Path(__file__).parent / "stub_headers" / "libc"

TEXT = """
dynamic { x: i8[1, 16, 6, 6]; a: f32[8, 32]; }
volatile { y: i8[1, 8]; z: f32[8, 32]; }
constant {
  conv: i8[8, 16, 3, 3]; bias: i32[8, 1, 1]; scale: f32[8, 1, 1]; one: f32 @init(1.0); zero: i8 @init(3);
  full: i8[288, 8]; w: f32[32, 32];
}
block entry {
  op conv_integer(x, conv, padding=1) >> total;
  op add(total, bias) >> biased;
  op cast(biased, to=f32) >> real;
  op mul(real, scale) >> scaled;
  assign h: i8[1, 8, 6, 6];
  op quantize_linear(scaled, one, zero_point=zero) >> h;
  op reshape(h, shape=[1, 288]) >> flat;
  op matmul_integer(flat, full) >> sums;
  op cast(sums, to=f32) >> reals;
  op quantize_linear(reals, one, zero_point=zero) >> y;
  op matmul(a, w) >> z;
  return y, z;
}
"""


@pytest.fixture(scope="module")
def model() -> oi.Model:
    numbers = np.random.default_rng(1)
    codes = {name: numbers.integers(-127, 128, shape).astype(np.int8) for name, shape in SHAPES.items()}
    floats = {"scale": np.full((8, 1, 1), 0.001, np.float32), "w": np.ones((32, 32), np.float32)}
    return oi.Model.from_arrays({**codes, **floats, "bias": np.ones((8, 1, 1), np.int32)})


SHAPES = {"conv": (8, 16, 3, 3), "full": (288, 8)}


@dataclass(frozen=True)
class Expected:
    """The compiler of a profile, and patterns of instructions that its source has or has not."""

    compiler: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


ARM, RISC_V, HERE = "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", "cc"
EXPECTED = {
    "generic": Expected(HERE, lacks=("vfmadd",)),
    "x86-64-v3": Expected(HERE, has=(r"vfmadd\w*ps.*%ymm",)),
    "x86-64-v4": Expected(HERE, has=(r"vfmadd\w*ps.*%zmm",)),
    "cortex-a": Expected("aarch64-linux-gnu-gcc", has=(r"\bfmla\b.*4s", r"\bsdot\b")),
    "cortex-m0plus": Expected(ARM, has=(r"\bmuls\b",), lacks=("vfma", "smlad")),
    "cortex-m3": Expected(ARM, has=(r"\bmla\b",), lacks=("vfma", "smlad")),
    "cortex-m4": Expected(ARM, has=(r"\bsmlad\b", r"vfma\.f32", r"\bsxtb16\b")),
    "cortex-m7": Expected(ARM, has=(r"\bsmlad\b", r"vfma\.f32")),
    "cortex-m33": Expected(ARM, has=(r"\bsmlad\b", r"vfma\.f32")),
    "cortex-m55": Expected(ARM, has=(r"\bvmladava\.s8\b", r"\bvcvt\.f32\.s32\s+q", r"\bvfma\.f32\s+q")),
    "rv32imc": Expected(RISC_V, has=(r"\bmul\b",), lacks=(r"\bfmadd", r"\bamo")),
    "rv32imac": Expected(RISC_V, has=(r"\bmul\b",), lacks=(r"\bfmadd",)),
    "esp32-c3": Expected(RISC_V, has=(r"\bmul\b",), lacks=(r"\bfmadd", r"\bamo")),
}
ON_ONE_MACHINE = {"host", "mock"}


def test_every_profile_is_compiled_here() -> None:
    assert set(EXPECTED) == set(PROFILES) - ON_ONE_MACHINE


@pytest.mark.parametrize("name", EXPECTED)
def test_a_profile_compiles_and_has_the_instructions_that_it_claims(name: str, model: oi.Model, tmp_path: Path) -> None:
    expected = EXPECTED[name]
    if shutil.which(expected.compiler) is None:
        pytest.skip(f"{expected.compiler} is not installed")
    if (
        expected.compiler == HERE
        and "x86_64" not in subprocess.run([HERE, "-dumpmachine"], capture_output=True, text=True, check=True).stdout
    ):
        pytest.skip("the compiler here is not for x86-64")
    synthesis = oi.Synthesizer("c", arch=name).synthesize(model, TEXT)
    synthesis.emit(tmp_path / "out")
    # A compiler of RISC-V comes without a C library.
    library = ["-ffreestanding", "-isystem", str(STUBS)] if expected.compiler == RISC_V else []
    command = [expected.compiler, *compiler_flags(synthesis.plan), *library, "-S", "-o", "-", "out/model.c"]

    compiled = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    assert (compiled.returncode, compiled.stderr) == (0, "")
    for pattern in expected.has:
        assert re.search(pattern, compiled.stdout), pattern
    for pattern in expected.lacks:
        assert not re.search(pattern, compiled.stdout), pattern
