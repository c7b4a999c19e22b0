"""Loops over lanes as C: vectors of C99 and those of GCC and Clang have the bits of the interpreter."""

from __future__ import annotations

import ctypes
import inspect
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BOOL, F32, F64, SINT, UINT, DType, dtype_named
from openinfer.expr import tree
from openinfer.expr.c_renderer import helper_source, item_type
from openinfer.expr.elementary import ELEMENTARY
from openinfer.ir.types import TensorType
from openinfer.loops import Kernel, verify
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.testing.waiting import limit_s
from openinfer_synth_c.code import Code
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.library import load_library
from openinfer_synth_c.loop_programs import write_kernel
from openinfer_synth_c.rolled_loops import DEFINITION

STRICT = [
    *("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-ffp-contract=off"),
    # Random programs name values that they do not use.
    *("-Wno-unused-variable", "-Wno-unused-but-set-variable"),
    *("-c", "-o", "kernels.o", "kernels.c"),
]

INCLUDES = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint", "string"))


def source(kernels: list[Kernel], *, in_vectors: bool) -> str:
    """Return one translation unit with a function ``run_N(operands)`` for each loop program."""
    definitions: dict[str, str] = {}
    helpers: dict[str, None] = {}
    functions: list[str] = []
    for number, kernel in enumerate(kernels):
        code = Code(depth=1, has_vector_types=in_vectors)
        operands = {buffer.name: bound(code, kernel, place) for place, buffer in enumerate(kernel.buffers)}
        write_kernel(code, kernel, operands)
        code.keep_rolled(0)
        definitions.update(code.definitions)
        helpers.update(code.helpers)
        head = f"int run_{number}(void *const *operands)"
        functions.append("\n".join((f"{head};", f"{head} {{", *code.lines, "    return 0;", "}", "")))
    parts = (INCLUDES, DEFINITION, helper_source(helpers), *definitions.values(), *functions)
    return "\n".join(parts)


def bound(code: Code, kernel: Kernel, place: int) -> Bound:
    buffer = kernel.buffers[place]
    const = "" if buffer.name == "y" else "const "
    code.line(f"{const}{item_type(buffer.dtype)} *const x{place} = operands[{place}];", f"(void)x{place};")
    return Bound(f"x{place}", TensorType(buffer.dtype, (buffer.size.constant or 0,)), code)


def values(dtype: DType, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return values with the special ones of the type among them."""
    storage = storage_dtype(dtype)
    if dtype is BOOL:
        return rng.integers(0, 2, size).astype(bool)
    if dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -0.5, 1e-40, 3e38, 88.0]
        drawn = rng.standard_normal(size) * 2.0 ** rng.integers(-20, 20, size)
        with np.errstate(over="ignore"):
            return np.where(rng.random(size) < 0.3, rng.choice(special, size), drawn).astype(storage)
    info = np.iinfo(storage)
    special = [0, 1, 2, 7, 8, 31, 32, info.max, info.min, info.max - 1]
    drawn = rng.integers(info.min, info.max, size, storage, endpoint=True)
    return np.where(rng.random(size) < 0.5, rng.choice(np.array(special, storage), size), drawn).astype(storage)


DOMAINS: dict[str, dict[str, Callable[[np.ndarray], np.ndarray]]] = {
    "requantise_i32": {
        "x0": lambda m: np.maximum(np.abs(m >> 8), 1) << 7,
        "x2": lambda n: n & 31,
        "x3": lambda z: z % 513 - 256,
    }
}
"""What makes operands of functions that are not defined on all numbers: multipliers are positive and exact as f32."""


def assert_bits(kernels: list[Kernel], *, in_vectors: bool) -> None:
    library = load_library({"kernels.c": source(kernels, in_vectors=in_vectors)})
    rng = np.random.default_rng(2)
    for number, kernel in enumerate(kernels):
        verify(kernel)
        arrays = {b.name: values(b.dtype, b.size.constant or 0, rng) for b in kernel.buffers}
        for name, within in DOMAINS.get(kernel.name, {}).items():
            arrays[name] = within(arrays[name])
        expected = {name: array.copy() for name, array in arrays.items()}
        with np.errstate(all="ignore"):
            interpret(kernel, expected)
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays.values()))
        assert library[f"run_{number}"](pointers) == 0
        found, wanted = arrays["y"], expected["y"]
        same = found.view(np.uint8).reshape(found.size, -1) == wanted.view(np.uint8).reshape(found.size, -1)
        good = same.all(1)
        if found.dtype.kind == "f":
            good |= np.isnan(found) & np.isnan(wanted)
        assert good.all(), f"{kernel_text(kernel)}\n{found[~good]}\n{wanted[~good]}"


dialects = pytest.mark.parametrize("in_vectors", [False, True], ids=["c99", "vectors"])

# --- Every function -------------------------------------------------------------------------------------------------

LIBRARY = {"expm1", "log1p", "tan", "power", "rem"}
"""Functions of the C library, whose bits are its own; on f64 also those that have a formula on f32."""


def function_kernels() -> list[Kernel]:
    """Return a loop program for each function on each type: 16 lanes at once, operands by lane or the same for all."""
    found: list[Kernel] = []
    for name, build in vars(tree).items():
        if (
            not inspect.isfunction(build)
            or name.startswith("_")
            or name in ("literal", "substitute", "dataclass", "cast")
        ):
            continue
        count = len(inspect.signature(build).parameters)
        for dtype in (F32, F64, *SINT, *UINT, BOOL):
            if (name in LIBRARY and dtype.is_float) or (name in ELEMENTARY and dtype is F64):
                continue
            operands = [BOOL if name == "select" and not place else dtype for place in range(count)]
            try:
                result = build(*(tree.Input(place, d) for place, d in enumerate(operands))).dtype
            except tree.ExprError:
                continue
            found += [function_kernel(name, operands, result, same) for same in range(count if count > 1 else 0)]
            found.append(function_kernel(name, operands, result, -1))
    return found


def function_kernel(name: str, operands: list[DType], result: DType, same: int) -> Kernel:
    buffers = ", ".join(f"x{place}: GLOBAL[{dtype}, 64]" for place, dtype in enumerate(operands))
    texts = ", ".join(f"x{place}[{'i' if place == same else '16*i + l'}]" for place in range(len(operands)))
    return parse_kernel(
        f"def {name}_{operands[-1]}({buffers}, y: GLOBAL[{result}, 64]):\n"
        f"    for i in SERIAL(4):\n"
        f"        for l in LANES(16):\n"
        f"            y[16*i + l] = {name}({texts})\n"
    )


@dialects
def test_every_function_has_the_bits_of_the_interpreter(in_vectors: bool) -> None:
    kernels = function_kernels()
    assert len(kernels) > 300
    assert_bits(kernels, in_vectors=in_vectors)


CASTS = ("f32", "f64", "i8", "i32", "i64", "u8", "u16", "u32", "bool", "f16", "bf16")


@dialects
def test_every_cast_has_the_bits_of_the_interpreter(in_vectors: bool) -> None:
    kernels = [
        parse_kernel(
            f"def cast_{source}_{target}(x: GLOBAL[{source}, 16], y: GLOBAL[{target}, 16]):\n"
            f"    for l in LANES(16):\n"
            f"        y[l] = cast(x[l], {target})\n"
        )
        for source in CASTS
        for target in CASTS
        if source != target
    ]
    assert_bits(kernels, in_vectors=in_vectors)


@dialects
def test_a_number_between_minus_one_and_zero_is_zero_as_an_integer(in_vectors: bool) -> None:
    kernel = parse_kernel(
        "def back(x: GLOBAL[f32, 16], y: GLOBAL[f32, 16]):\n"
        "    for l in LANES(16):\n"
        "        y[l] = cast(cast(x[l]*0.0 - 0.5, i32), f32)\n"
    )
    assert_bits([kernel], in_vectors=in_vectors)


@dialects
def test_lanes_are_added_to_totals(in_vectors: bool) -> None:
    kernel = parse_kernel(
        "def joined(a: GLOBAL[i8, 32], b: GLOBAL[i8, 32], y: GLOBAL[i32, 2]):\n"
        "    t: i32 = i32(3)\n"
        "    u: i32 = i32(2147483647)\n"
        "    for k in SERIAL(2):\n"
        "        for l in LANES(16):\n"
        "            t = t + cast(a[16*k + l], i32) * cast(b[16*k + l], i32)\n"
        "            u = cast(a[16*k + l], i32) * cast(a[16*k + l], i32) + u\n"
        "    y[0] = t\n"
        "    y[1] = u\n"
    )
    assert_bits([kernel], in_vectors=in_vectors)


# --- Random programs ------------------------------------------------------------------------------------------------


class Drawn:
    """A loop program with random statements: accumulators around a loop, steps of every kind, tests, named values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._dtype = dtype_named(self._random.choice(["f32", "f32", "f64", "i32", "i8", "u16", "i64"]))
        self._lanes = self._random.choice([2, 3, 4, 8, 8, 16])
        self._names: list[str] = []
        self._accumulators = [f"acc{number}" for number in range(self._random.randint(1, 3))]
        self._in_loop = False

    def kernel(self) -> Kernel:
        d, n = self._dtype, self._lanes
        lines = [f"def drawn(x: GLOBAL[{d}, 96], c: CONSTANT[{d}, 48], y: GLOBAL[{d}, 96]):", f"    s: {d} = x[3]"]
        lines += [f"    {name}: PRIVATE[{d}, {n}]" for name in self._accumulators]
        self._names = ["s"]
        lines += [f"    for l in LANES({n}):", *(f"        {a}[l] = {self._leaf()}" for a in self._accumulators)]
        self._in_loop = True
        lines += ["    for k in SERIAL(3):", f"        for m in LANES({n}):"]
        lines += self._body("m", "            ")
        self._in_loop, self._names = False, ["s"]
        lines += [f"    for p in LANES({n}):"]
        lines += self._body("p", "        ", stores=True)
        if self._random.random() < 0.5 and d.is_integer:
            lines += [f"    y[95] = across(maximum, {self._accumulators[0]})"]
        elif self._random.random() < 0.5:
            lines += [f"    y[95] = across(add, {self._accumulators[0]})"]
        return parse_kernel("\n".join(lines) + "\n")

    def _body(self, lane: str, pad: str, *, stores: bool = False) -> list[str]:
        lines: list[str] = []
        for number in range(self._random.randint(1, 4)):
            name = f"t{lane}{number}"
            lines.append(f"{pad}{name}: {self._dtype} = {self._expr(lane)}")
            self._names.append(name)
            if self._random.random() < 0.3:
                lines += [f"{pad}if 0 <= {lane} < {self._lanes - 1}:", f"{pad}    {name} = {self._expr(lane)}"]
            if self._random.random() < 0.3 and self._in_loop:
                lines += [f"{pad}if 0 <= k < 2:", f"{pad}    {name} = {self._expr(lane)}"]
        lines += [f"{pad}{a}[{lane}] = {self._expr(lane)}" for a in self._accumulators]
        if stores:
            step = self._random.choice([1, 1, 2, 5])
            lines.append(f"{pad}y[{step}*{lane} + 1] = {self._expr(lane)}")
            lines += [
                f"{pad}if 0 <= {lane} + 1 < {self._lanes}:",
                f"{pad}    y[{step}*{lane} + 1] = {self._expr(lane)}",
            ]
        return lines

    def _expr(self, lane: str, depth: int = 3) -> str:
        if not depth or self._random.random() < 0.25:
            return self._leaf(lane)
        x, y = self._expr(lane, depth - 1), self._expr(lane, depth - 1)
        forms = [f"{x} + {y}", f"{x} - ({y})", f"({x})*({y})", f"maximum({x}, {y})", f"minimum({x}, {y})", f"neg({x})"]
        forms += [f"select(lt({x}, {y}), {y}, {self._leaf(lane)})", f"absolute({x})"]
        if self._dtype.is_float:
            forms += [f"fma({x}, {y}, {self._leaf(lane)})"] * 3 + [f"({x})/({y})", f"floor({x})", f"sqrt({x})"]
            forms += [f"cast(cast({x}, i32), {self._dtype})", f"select(is_nan({x}), {y}, {x})"]
        else:
            forms += [f"bit_xor({x}, {y})", f"shr({x}, {y})", f"div({x}, {y})", f"cast(cast({x}, f32), {self._dtype})"]
        return self._random.choice(forms)

    def _leaf(self, lane: str = "l") -> str:
        """Return an element, a register or a constant."""
        pick, turn = self._random, " + k" if self._in_loop else ""
        forms = [f"x[{lane} + {pick.randint(0, 9)}{turn}]", f"c[{pick.randint(0, 9)}{turn}]", f"c[2*{lane}{turn}]"]
        forms += [f"x[{pick.randint(1, 9)}*{lane} // 2 + 3{turn}]", f"number({lane}, {self._dtype})"]
        fill = f"{self._dtype}({1.5 if self._dtype.is_float else 1})"
        forms += [f"guarded(x[{lane} - 2], {fill}, 0 <= {lane} - 2 < 96)", fill]
        forms += self._names
        if self._in_loop:
            forms += [
                f"guarded(c[{lane} + 16*k - 16], {fill}, 0 <= k - 1 < 2)",
                *(f"{a}[{lane}]" for a in self._accumulators),
            ]
        return pick.choice(forms)


@dialects
@pytest.mark.parametrize("first", range(0, 120, 60))
def test_random_programs_have_the_bits_of_the_interpreter(first: int, in_vectors: bool) -> None:
    assert_bits([Drawn(seed).kernel() for seed in range(first, first + 60)], in_vectors=in_vectors)


# --- Text -----------------------------------------------------------------------------------------------------------

TILE = """
def tile(x: GLOBAL[f32, 64], w: CONSTANT[f32, 512], y: GLOBAL[f32, 32]):
    acc0: PRIVATE[f32, 16]
    acc1: PRIVATE[f32, 16]
    for a in LANES(16):
        acc0[a] = 0.0
        acc1[a] = 0.0
    for k in SERIAL(32):
        for b in LANES(16):
            w0: f32 = w[16*k + b]
            acc0[b] = fma(x[k], w0, acc0[b])
            acc1[b] = fma(x[k + 32], w0, acc1[b])
    for d in LANES(16):
        y[d] = maximum(acc0[d], 0.0)
        y[d + 16] = maximum(acc1[d], 0.0)
"""


def lines_of(text: str, *, in_vectors: bool) -> str:
    kernel = parse_kernel(text)
    code = Code(has_vector_types=in_vectors)
    operands = {b.name: Bound(b.name, TensorType(b.dtype, (b.size.constant or 0,)), code) for b in kernel.buffers}
    write_kernel(code, kernel, operands)
    return "\n".join(("", *code.lines, ""))


@dialects
def test_tiles_are_written_alike_in_both_dialects(in_vectors: bool) -> None:
    assert (
        lines_of(TILE, in_vectors=in_vectors)
        == """
oi_f32x16 b_acc0, b_acc1;
b_acc0 = b_acc1 = oi_splat_f32x16(0x0p+0f);
for (ptrdiff_t n_k = 0; n_k < 32; ++n_k) {
    const float *const p1 = x + n_k;
    const oi_f32x16 r_w0 = oi_load_f32x16(w + 16 * n_k);
    oi_axpy_f32x16(&b_acc0, p1[0], r_w0);
    oi_axpy_f32x16(&b_acc1, p1[32], r_w0);
}
oi_store_f32x16(y, oi_maximum_f32x16(b_acc0, oi_splat_f32x16(0x0p+0f)));
oi_store_f32x16(y + 16, oi_maximum_f32x16(b_acc1, oi_splat_f32x16(0x0p+0f)));
"""
    )


def test_c99_has_structures_of_lanes_and_a_short_loop_in_each_function() -> None:
    text = source([parse_kernel(TILE)], in_vectors=False)

    assert "typedef struct { float lane[16]; } oi_f32x16;" in text
    assert (
        """
VECTOR_FUNCTION void oi_axpy_f32x16(oi_f32x16 *y, float a, oi_f32x16 x)
{
    ROLLED for (ptrdiff_t l = 0; l < 16; ++l) { y->lane[l] = fmaf(x.lane[l], a, y->lane[l]); }
}
"""
        in text
    )
    assert "vector_size" not in text


PRODUCT = """
def product(x: GLOBAL[f32, 16], w: CONSTANT[f32, 16], y: GLOBAL[f32, 16]):
    total: PRIVATE[f32, 16]
    for a in LANES(16):
        total[a] = x[a]
    for b in LANES(16):
        total[b] = {}
    for c in LANES(16):
        y[c] = total[c]
"""


@dialects
@pytest.mark.parametrize(
    ("value", "statement"),
    [
        ("fma(x[b], w[b], total[b])", "oi_mac_f32x16(&b_total, oi_load_f32x16(x), oi_load_f32x16(w));"),
        ("fma(w[b], x[0], total[b])", "oi_axpy_f32x16(&b_total, x[0], oi_load_f32x16(w));"),
        ("total[b] + x[b] * w[b]", "oi_mac_rounded_f32x16(&b_total, oi_load_f32x16(x), oi_load_f32x16(w));"),
        ("x[0] * w[b] + total[b]", "oi_axpy_rounded_f32x16(&b_total, x[0], oi_load_f32x16(w));"),
    ],
)
def test_a_product_is_added_to_a_vector_in_place(value: str, statement: str, in_vectors: bool) -> None:
    text = PRODUCT.format(value)

    assert statement in lines_of(text, in_vectors=in_vectors).splitlines()
    assert_bits([parse_kernel(text)], in_vectors=in_vectors)


NARROW = """
def product(x: GLOBAL[f16, 1], w: GLOBAL[bf16, 4], y: GLOBAL[f32, 4]):
    total: PRIVATE[f32, 4]
    for a in LANES(4):
        total[a] = 0.0
    for b in LANES(4):
        total[b] = cast(x[0], f32) * cast(w[b], f32) + total[b]
    for c in LANES(4):
        y[c] = total[c]
"""


@dialects
def test_a_product_with_no_form_on_vectors_leaves_nothing_of_the_attempt(in_vectors: bool) -> None:
    """The first factor has a form on vectors, the second, whose elements are widened one by one, has none."""
    text = lines_of(NARROW, in_vectors=in_vectors)

    assert text.count("oi_f32_from_f16(") == 1, text
    assert_bits([parse_kernel(NARROW)], in_vectors=in_vectors)


CHOICE = """
def relu(x: GLOBAL[f32, 16], b: CONSTANT[f32, 1], y: GLOBAL[f32, 16]):
    for l in LANES(16):
        y[l] = select(lt(x[l] + b[0], 0.0), 0.0, x[l] + b[0])
"""


def test_a_comparison_that_chooses_between_vectors_is_part_of_their_function() -> None:
    assert (
        lines_of(CHOICE, in_vectors=True)
        == """
const oi_f32x16 v0_2 = oi_load_f32x16(x) + oi_splat_f32x16(b[0]);
oi_store_f32x16(y, oi_select_lt_f32_f32x16(v0_2, oi_splat_f32x16(0x0p+0f), oi_splat_f32x16(0x0p+0f), v0_2));
"""
    )
    assert_bits([parse_kernel(CHOICE)], in_vectors=True)


SAME_STORES = """
def sums(x: GLOBAL[f32, 48], b: CONSTANT[f32, 1], y: GLOBAL[f32, 48]):
    for l in LANES(16):
        y[l] = maximum(x[l] + b[0], 0.0)
        y[l + 16] = maximum(x[l + 16] + b[0], 0.0)
        y[l + 32] = maximum(x[l + 32] + b[0], 1.0)
"""


def test_a_formula_of_several_stores_is_a_function_of_its_own() -> None:
    lines = lines_of(SAME_STORES, in_vectors=True)

    name = re.findall(r"oi_add_maximum_\w{8}_f32x16", lines)
    assert len(name) == 2
    assert name[0] == name[1]
    assert f"oi_store_f32x16(y, {name[0]}(oi_load_f32x16(x), oi_splat_f32x16(b[0])));" in lines
    assert_bits([parse_kernel(SAME_STORES)], in_vectors=True)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@dialects
def test_compilers_have_nothing_to_warn_of(compiler: str, in_vectors: bool, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    kernels = [parse_kernel(TILE), *(Drawn(seed).kernel() for seed in range(12)), *function_kernels()[::9]]
    (tmp_path / "kernels.c").write_text(source(kernels, in_vectors=in_vectors))
    built = subprocess.run(
        [compiler, *STRICT], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=limit_s(120)
    )
    assert built.returncode == 0, built.stderr[:3000]
