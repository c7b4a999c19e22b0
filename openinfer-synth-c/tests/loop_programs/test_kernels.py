"""Loop programs as C give the bits that the interpreter gives."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.compute.reading import parse_computation
from openinfer.dtypes import F32
from openinfer.errors import SynthesisError
from openinfer.expr.c_renderer import helper_source
from openinfer.ir.types import TensorType
from openinfer.loops import Kernel
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.lower import lowered
from openinfer_synth_c.code import Code
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.library import load_library
from openinfer_synth_c.loop_programs import write_kernel
from openinfer_synth_c.rolled_loops import DEFINITION

COMPUTATIONS = (
    """
def product(a: f32[3, 5], b: f32[5, 4], /, y: f32[3, 4]):
    for i, j in grid(3, 4):
        for r in unordered(5):
            total0 = start(0.0)
            term0 = a[i, r] * b[r, j]
            total0 = total0 + term0
        y[i, j] = total0
""",
    """
def convolution(x: f32[2, 5, 4], w: f32[3, 2, 3, 3], b: f32[3], /, y: f32[3, 3, 2]):
    for o, i, j in grid(3, 3, 2):
        for c, p, q in unordered(2, 3, 3):
            total0 = start(b[o])
            term0 = fill(x[c, 2*i + p - 1, 2*j + q - 1], 0.0) * w[o, c, p, q]
            total0 = total0 + term0
        y[o, i, j] = maximum(total0, 0.0)
""",
    """
def depth_to_space(x: i16[8, 2, 3], /, y: i16[2, 4, 6]):
    for c, i, j in grid(2, 4, 6):
        y[c, i, j] = x[4*c + 2*(i % 2) + j % 2, i // 2, j // 2]
""",
    """
def rolled(x: f32[7], /, y: f32[7]):
    for i in grid(7):
        y[i] = x[(i - 3) % 7] * cast(position((i - 3)//2, i64), f32)
""",
    """
def argmax(x: f32[4, 7], /, y: i64[4]):
    for i in grid(4):
        for j in sequential(7):
            total0 = start()
            total1 = start()
            term0 = x[i, j]
            term1 = position(j, i64)
            total0 = select(gt(term0, total0), term0, total0)
            total1 = select(gt(term0, total0), term1, total1)
        y[i] = total1
""",
    """
def cumsum(x: f64[3, 5], /, y: f64[3, 5]):
    for i in grid(3):
        for t in running_sequential(5):
            total0 = start(f64(0.0))
            term0 = x[i, t]
            total0 = total0 + term0
            y[i, t] = total0
""",
    """
def scatter_add(x: f32[4], at: u8[5], u: f32[5], /, y: f32[4]):
    for i in grid(4):
        y[i] = x[i]
    for j in grid(5):
        p = lookup(cast(at[j], i64), 4, 'places are 0 to 3')
        y[p] = y[p] + u[j]
""",
    """
def embedding(x: f16[7, 2], rows: i32[3], /, y: f16[3, 2]):
    for i, j in grid(3, 2):
        row = lookup(cast(rows[i], i64), 7, 'rows are 0 to 6')
        y[i, j] = x[row, j]
""",
    """
def nothing(x: f32[0, 3], /, y: f32[3]):
    for j in grid(3):
        for i in unordered(0):
            total0 = start(2.0)
            term0 = x[i, j]
            total0 = total0 + term0
        y[j] = total0
""",
)


def bound(name: str, kernel: Kernel, number: int, code: Code) -> Bound:
    buffer = kernel.buffers[number]
    code.line(f"{_item(buffer.dtype.storage)} *const {name} = operands[{number}];", f"(void){name};")
    return Bound(name, TensorType(buffer.dtype, (buffer.size.constant or 0,)), code)


def _item(storage: str) -> str:
    return {"float32": "float", "float64": "double", "float16": "uint16_t"}.get(storage, f"{storage}_t")


def run(kernel: Kernel, arrays: dict[str, np.ndarray], **parameters: int) -> int:
    """Compile a loop program and run it on arrays; return its status."""
    code = Code(depth=1)
    code.line(*(f"const ptrdiff_t {name} = {value};" for name, value in parameters.items()))
    operands = {b.name: bound(f"x{number}", kernel, number, code) for number, b in enumerate(kernel.buffers)}
    write_kernel(code, kernel, operands)
    includes = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint", "string"))
    body = "\n".join(
        ("int run(void *const *operands);", "int run(void *const *operands) {", *code.lines, "return 0; }")
    )
    vectors = "\n".join(code.definitions.values())
    source = (
        f"{includes}\n{DEFINITION}\nenum {{ MODEL_INDEX = 2 }};\n{helper_source(code.helpers)}\n{vectors}\n{body}\n"
    )
    library = load_library({"kernel.c": source})
    pointers = (ctypes.c_void_p * len(kernel.buffers))(*(arrays[b.name].ctypes.data for b in kernel.buffers))
    return int(library["run"](pointers))


def operands_of(kernel: Kernel, rng: np.random.Generator) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for buffer in kernel.buffers:
        size, storage = buffer.size.constant or 0, storage_dtype(buffer.dtype)
        values = rng.standard_normal(size) if buffer.dtype.is_float else rng.integers(0, 4, size)
        arrays[buffer.name] = values.astype(storage)
    return arrays


@pytest.mark.parametrize("text", COMPUTATIONS, ids=[text.split("(")[0].strip() for text in COMPUTATIONS])
def test_c_gives_the_bits_of_the_interpreter(text: str) -> None:
    kernel = lowered(parse_computation(text))
    arrays = operands_of(kernel, np.random.default_rng(3))
    expected = {name: array.copy() for name, array in arrays.items()}
    interpret(kernel, expected)
    assert run(kernel, arrays) == 0
    for name, array in arrays.items():
        assert array.tobytes() == expected[name].tobytes(), name


def test_what_blocks_leave_goes_on_where_they_end() -> None:
    """One variable below the extent is a bound that intervals prove; a sum of blocks and a rest is not."""
    kernel = parse_kernel(
        "def k(x: GLOBAL[f32, 22], y: GLOBAL[f32, 22], *, n):\n"
        "    for i in SERIAL(n//8):\n"
        "        for l in LANES(8):\n"
        "            y[8*i + l] = x[8*i + l]\n"
        "    for j in SERIAL(n//4 - 2*(n//8)):\n"
        "        for l in LANES(4):\n"
        "            y[8*(n//8) + 4*j + l] = x[8*(n//8) + 4*j + l]\n"
        "    for r in SERIAL(n - 4*(n//4)):\n"
        "        y[4*(n//4) + r] = x[4*(n//4) + r]\n"
    )
    code = Code(depth=1)
    write_kernel(code, kernel, {name: Bound(name, TensorType(F32, (22,)), code) for name in ("x", "y")})
    assert "y[n_r] = x[n_r];" in "\n".join(code.lines)
    for n in (3, 7, 16, 22):
        x = np.arange(22, dtype=np.float32) + 1
        arrays = {"x": x, "y": np.zeros(22, np.float32)}
        assert run(kernel, arrays, n_n=n) == 0
        np.testing.assert_array_equal(arrays["y"], np.where(np.arange(22) < n, x, 0))


def test_an_index_out_of_range_is_a_status() -> None:
    kernel = lowered(parse_computation(COMPUTATIONS[7]))
    arrays = {"x": np.zeros(14, np.float16), "rows": np.array([1, -1, 0], np.int32), "y": np.ones(6, np.float16)}
    assert run(kernel, arrays) == 2


def test_a_total_that_stays_is_not_set_to_itself() -> None:
    """A window outside of its image has the least number, above which every total is. Clang warns of ``a = a``."""
    kernel = parse_kernel(
        "def greatest(x: GLOBAL[i64, 7], y: GLOBAL[i64, 1]):\n"
        "    total: i64 = x[0]\n"
        "    total = maximum(total, guarded(x[0], i64(-9223372036854775808), 0 <= -1 < 7))\n"
        "    total = maximum(total, x[1])\n"
        "    y[0] = total\n"
    )
    code = Code()

    write_kernel(code, kernel, {b.name: bound(b.name, kernel, n, code) for n, b in enumerate(kernel.buffers)})

    assert not [line for line in code.lines if "total = total;" in line]
    arrays = {"x": np.array([3, 5, 0, 0, 0, 0, 0]), "y": np.zeros(1, np.int64)}
    assert run(kernel, arrays) == 0
    assert arrays["y"] == 5


def test_private_buffers_and_tests() -> None:
    kernel = parse_kernel(
        "def k(x: GLOBAL[f32, 6], y: GLOBAL[f32, 6]):\n"
        "    t: PRIVATE[f32, 6]\n"
        "    for i in LANES(6):\n"
        "        t[i] = x[5 - i]\n"
        "    for j in SERIAL(9):\n"
        "        if 0 <= j - 2 < 6:\n"
        "            y[j - 2] = t[j - 2]\n"
    )
    x = np.arange(6, dtype=np.float32)
    arrays = {"x": x, "y": np.zeros(6, np.float32)}
    assert run(kernel, arrays) == 0
    np.testing.assert_array_equal(arrays["y"], x[::-1])


@pytest.mark.parametrize(
    "text",
    [
        "def k(y: GLOBAL[f32, 4]):\n    BARRIER()\n",
        "def k(y: GLOBAL[f32, 4]):\n    for i in LOCAL(4):\n        y[i] = 0.0\n",
        "def k(y: GLOBAL[f32, 4]):\n    t: SHARED[f32, 4]\n    y[0] = t[0]\n",
    ],
)
def test_what_has_no_form_in_c_is_refused(text: str) -> None:
    kernel = parse_kernel(text)
    code = Code()
    operands = {"y": Bound("y", TensorType(kernel.buffers[0].dtype, (4,)), code)}
    with pytest.raises(SynthesisError):
        write_kernel(code, kernel, operands)
