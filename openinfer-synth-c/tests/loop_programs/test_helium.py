"""Functions on vectors with Arm's instructions for microcontrollers, and their plain C, have the interpreter's bits."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.array_types import storage_dtype
from openinfer.expr.c_renderer import helper_source
from openinfer.ir.types import TensorType
from openinfer.loops import Kernel
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.verify import verify
from openinfer.testing.waiting import limit_s
from openinfer_synth_c.code import Code
from openinfer_synth_c.elements import Bound, item_type
from openinfer_synth_c.loop_programs import write_kernel
from openinfer_synth_c.rolled_loops import DEFINITION

ANY = "dynamic { x: f32[4]; } volatile { y: f32[4]; } block entry { op relu(x) >> y; return y; }"
"""A program whose bundle has the start-up code and the linker script of the board."""

TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm")
STRICT = ("-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-Wno-unused-variable")
BOARD = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-nostartfiles", "--specs=nosys.specs")
PLATFORM = "#include <stddef.h>\nvoid openinfer_board_write(const char *text, size_t count);\n"
INCLUDES = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint", "string"))


def in_lanes(buffers: str, value: str) -> Kernel:
    """Return a loop program that stores a value of four lanes, twice: one body for each is a formula of its own."""
    result = buffers.rsplit("[", 1)[1].split(",")[0]
    return parse_kernel(
        f"def f({buffers}):\n    for i in SERIAL(2):\n        for l in LANES(4):\n"
        f"            y[16*i + l] = {value.replace('@', '16*i + l')}\n"
        f"            y[16*i + l + 4] = {value.replace('@', '16*i + l + 4')}\n"
        f"        for m in LANES(4):\n"
        f"            y[16*i + m + 8] = {value.replace('@', '16*i + m + 8')}\n"
        f"        for n in SERIAL(4):\n"
        f"            y[16*i + n + 12] = cast(0.0, {result})\n"
    )


FLOATS = "a: GLOBAL[f32, 32], b: GLOBAL[f32, 32], y: GLOBAL[f32, 32]"
INTEGERS = "a: GLOBAL[i32, 32], b: GLOBAL[i32, 32], y: GLOBAL[i32, 32]"
BYTES = "a: GLOBAL[i8, 32], b: GLOBAL[i8, 32], y: GLOBAL[i32, 32]"
CODES = "a: GLOBAL[i32, 32], b: GLOBAL[f32, 32], y: GLOBAL[i8, 32]"
ROUNDED = "cast(to_bits(cast(bit_and(a[@], i32(65535)), f32) * 0.01 + 12582912.0), i32)"
JOINED = (
    "def joined(a: GLOBAL[i8, 32], b: GLOBAL[i8, 32], y: GLOBAL[i32, 1]):\n    t: i32 = i32(7)\n"
    "    for k in SERIAL(2):\n        for l in LANES(16):\n"
    "            t = t + cast(a[16*k + l], i32) * cast(b[16*k + l], i32)\n"
    "    y[0] = t\n"
)
ACROSS = (
    "def across(a: GLOBAL[f32, 32], b: GLOBAL[f32, 32], y: GLOBAL[f32, 1]):\n    t: PRIVATE[f32, 4]\n"
    "    for l in LANES(4):\n        t[l] = a[l]\n"
    "    for k in SERIAL(3):\n        for m in LANES(4):\n            t[m] = fma(b[4*k], a[4*k + m], t[m])\n"
    "    y[0] = across(add, t)\n"
)
KERNELS = [
    *(in_lanes(FLOATS, f"select({test}(a[@], b[@]), a[@], b[@])") for test in ("lt", "le", "gt", "ge", "eq", "ne")),
    *(in_lanes(FLOATS, f"{function}(a[@], b[@])") for function in ("minimum", "maximum")),
    *(in_lanes(INTEGERS, f"{function}(a[@], b[@])") for function in ("minimum", "maximum")),
    in_lanes(FLOATS, "fma(a[@], b[@], a[0])"),
    in_lanes(INTEGERS, "select(lt(a[@], b[@]), clip8(a[@]), shr(b[@], i32(5)))"),
    in_lanes(BYTES, "cast(a[@], i32) * cast(b[@], i32)"),
    in_lanes(CODES, f"cast(clip8(shr(shl({ROUNDED}, i32(10)), i32(10)) + i32(-3)), i8)"),
    parse_kernel(JOINED),
    parse_kernel(ACROSS),
]


def arrays_of(kernel: Kernel) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(5)
    # No subnormal numbers: Helium has them as zeros.
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1.5, 1e-30], np.float32)
    arrays: dict[str, np.ndarray] = {}
    for buffer in kernel.buffers:
        size, dtype = buffer.size.constant or 0, storage_dtype(buffer.dtype)
        if buffer.name == "y":
            arrays["y"] = np.zeros(size, dtype)
        elif dtype.kind == "f":
            drawn = numbers.normal(size=size).astype(np.float32)
            arrays[buffer.name] = np.where(numbers.random(size) < 0.6, numbers.choice(special, size), drawn)
        else:
            info = np.iinfo(dtype)
            arrays[buffer.name] = numbers.integers(info.min, info.max, size, dtype, endpoint=True)
    return arrays


def expected_of(kernel: Kernel) -> np.ndarray:
    arrays = arrays_of(kernel)
    verify(kernel)
    with np.errstate(all="ignore"):
        interpret(kernel, arrays)
    return arrays["y"]


def source() -> str:
    """Return a program that logs the results of all kernels, byte by byte in hexadecimal, each on a line."""
    definitions: dict[str, str] = {}
    helpers: dict[str, None] = {}
    functions: list[str] = []
    calls: list[str] = []
    for number, kernel in enumerate(KERNELS):
        code = Code(depth=1, has_vector_types=True, has_helium=True)
        operands: dict[str, Bound] = {}
        for buffer in kernel.buffers:
            kind, size = item_type(buffer.dtype), buffer.size.constant or 0
            given = ", ".join(map(str, arrays_of(kernel)[buffer.name].tobytes()))
            const = "" if buffer.name == "y" else "const "
            functions.append(
                f"static {const}union {{ uint8_t bytes[{size * buffer.dtype.bits // 8}]; {kind} items[{size}]; }}"
            )
            functions.append(f"of_{buffer.name}{number} = {{{{{given}}}}};")
            operands[buffer.name] = Bound(f"x_{buffer.name}", TensorType(buffer.dtype, (size,)), code)
            code.line(
                f"{const}{kind} *const x_{buffer.name} = of_{buffer.name}{number}.items;", f"(void)x_{buffer.name};"
            )
        write_kernel(code, kernel, operands)
        code.keep_rolled(0)
        definitions.update(code.definitions)
        helpers.update(code.helpers)
        functions.append("\n".join((f"static void run_{number}(void) {{", *code.lines, "}")))
        calls.append(f"run_{number}(); said(of_y{number}.bytes, sizeof of_y{number}.bytes);")
    said = (
        "static void log_text(const char *text) { openinfer_board_write(text, strlen(text)); }\n"
        'static void said(const uint8_t *bytes, size_t count) {\n    log_text("y ");\n'
        "    for (size_t at = 0; at < count; ++at) {\n        const char text[] = "
        '{"0123456789abcdef"[bytes[at] >> 4], "0123456789abcdef"[bytes[at] & 15], 0};\n        log_text(text);\n'
        '    }\n    log_text("\\n");\n}\n'
    )
    main = "int main(void) { " + " ".join(calls) + " return 0; }\n"
    parts = (INCLUDES, PLATFORM, DEFINITION, helper_source(helpers), *definitions.values(), said, *functions, main)
    return "\n".join(parts)


def run(command: list[str], folder: Path) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=limit_s(120))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def assert_bits(log: str) -> None:
    results = re.findall(r"^y ([0-9a-f]+)\r?$", log, re.MULTILINE)
    assert len(results) == len(KERNELS)
    for kernel, result in zip(KERNELS, results, strict=True):
        expected = expected_of(kernel)
        y = np.frombuffer(bytes.fromhex(result), expected.dtype)
        same = (y.view(np.uint8) == expected.view(np.uint8)).reshape(y.size, -1).all(1)
        if y.dtype.kind == "f":
            same |= np.isnan(y) & np.isnan(expected)
        assert same.all(), (kernel.body, y, expected)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="not installed: gcc")
def test_plain_c_has_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    log = "#include <stdio.h>\nvoid openinfer_board_write(const char *text, size_t n) { fwrite(text, 1, n, stdout); }\n"
    (tmp_path / "kernels.c").write_text(source() + log)

    run(["gcc", *STRICT, "-O1", "-o", "kernels", "kernels.c", "-lm"], tmp_path)
    assert_bits(run(["./kernels"], tmp_path))


@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"not installed: {' or '.join(TOOLS)}")
def test_instructions_have_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    synthesis = oi.Synthesizer("c", arch="cortex-m55").synthesize(oi.Model.from_arrays({}), ANY)
    synthesis.emit(tmp_path / "board")
    (tmp_path / "kernels.c").write_text(source())

    command = ["arm-none-eabi-gcc", *STRICT, *BOARD, "-T", "board/board.ld"]
    run([*command, "-o", "kernels.elf", "board/board.c", "kernels.c", "-lm"], tmp_path)
    emulator = ["qemu-system-arm", "-M", "mps3-an547", "-semihosting", "-nographic", "-kernel", "kernels.elf"]
    assert_bits(run(emulator, tmp_path))
