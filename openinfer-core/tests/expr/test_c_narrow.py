"""Low floats and packed types in generated C: every code, against ml_dtypes and plain arithmetic."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from openinfer.dtypes import BF16, BOOL, F8, F16, F32, F64, I8, I64, PACKED_SINT, PACKED_UINT, T1, T2, U8, DType
from openinfer.expr import c_renderer, linearise, tree
from openinfer.float_formats import FORMATS
from openinfer.testing.waiting import limit_s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOW = {
    F8: np.dtype(ml_dtypes.float8_e5m2),
    BF16: np.dtype(ml_dtypes.bfloat16),
    F16: np.dtype(np.float16),
}
PACKED = (*PACKED_SINT, *PACKED_UINT, T1, T2)
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-ffp-contract=off")
SANITISE = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
INCLUDES = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stddef", "stdint"))
COMPUTED = {F32: np.float32, F64: np.float64, I8: np.int8, I64: np.int64, U8: np.uint8, BOOL: np.bool_}

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def map_function(source: DType, target: DType) -> tuple[str, tuple[str, ...]]:
    """Return a function that casts an array element by element."""
    fragment = c_renderer.render(linearise(tree.cast(tree.Input(0, source), target)), {0: "x[i]"})
    text = (
        f"void {source}_{target}(const {c_renderer.c_type(source)} *x, {c_renderer.c_type(target)} *y, size_t count)\n"
        f"{{\nfor (size_t i = 0; i < count; ++i) {{\n{' '.join(fragment.statements)}\n"
        f"y[i] = {fragment.result};\n}}\n}}\n"
    )
    return text, fragment.helpers


CASTS = [
    *((low, wide) for low in LOW for wide in COMPUTED),
    *((wide, low) for low in LOW for wide in (F32, F64, I8, BOOL)),
    *((low, other) for low in LOW for other in LOW if low is not other),
    *((wide, packed) for packed in (*PACKED_SINT, *PACKED_UINT) for wide in (F32, I8, I64, U8)),
]


def packed_functions() -> Iterator[tuple[str, tuple[str, ...]]]:
    for dtype in PACKED:
        kind = c_renderer.c_type(dtype)
        load = c_renderer.load_text(dtype, "x", "i")
        store = c_renderer.store_text(dtype, "y", "i", "value")
        yield f"{kind} load_{dtype}(const uint8_t *x, size_t i) {{ return {load.text}; }}\n", load.helpers
        yield f"void store_{dtype}(uint8_t *y, size_t i, {kind} value) {{ {store.text}; }}\n", store.helpers


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    functions = [*(map_function(*pair) for pair in CASTS), *packed_functions()]
    helpers = c_renderer.helper_source(name for _, names in functions for name in names)
    folder = tmp_path_factory.mktemp("narrow")
    prototypes = "".join(f"{text.split('{')[0].strip()};\n" for text, _ in functions)
    (folder / "narrow.c").write_text(INCLUDES + helpers + prototypes + "".join(text for text, _ in functions))
    command = ["gcc", *FLAGS, *SANITISE, "-shared", "-fPIC", "-o", "narrow.so", "narrow.c", "-lm", "-static-libubsan"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s(120))
    assert built.returncode == 0, built.stderr[:4000]
    return ctypes.CDLL(str(folder / "narrow.so"))


def cast(library: ctypes.CDLL, source: DType, target: DType, x: np.ndarray[Any, Any], kind: Any) -> Any:
    y = np.empty(x.shape, kind)
    getattr(library, f"{source}_{target}")(
        x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(x.size)
    )
    return y


def every_code(dtype: DType) -> np.ndarray[Any, Any]:
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.bits // 8}").view(LOW[dtype])


def floats() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a million floats of all sizes, those halfway between low floats, and all special ones."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1_000_000, dtype=np.uint64).astype(np.uint32)
    codes = [every_code(low).astype(np.float32) for low in LOW]
    finite = [np.unique(found[np.isfinite(found)]) for found in codes]
    halves = [((each[1:].astype(np.float64) + each[:-1]) / 2).astype(np.float32) for each in finite]
    around = [np.nextafter(half, np.float32(side)) for half in halves for side in (-np.inf, np.inf)]
    limits = np.array([61440, 61439.996, 65519.996, 65520, 3.4e38, 1e-45, 0.0, -0.0, np.inf, np.nan], np.float32)
    return np.concatenate([bits.view(np.float32), *codes, *halves, *around, limits, -limits])


@pytest.mark.rule("dtypes.rounding.1")
@pytest.mark.parametrize("low", LOW, ids=str)
def test_every_code_widens_exactly(low: DType, library: ctypes.CDLL) -> None:
    codes = every_code(low)

    found = cast(library, low, F32, codes, np.float32)

    expected = codes.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(found[numbers].view(np.uint32), expected[numbers].view(np.uint32))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.rule("dtypes.rounding.2")
@pytest.mark.parametrize("low", LOW, ids=str)
def test_floats_round_to_nearest_even(low: DType, library: ctypes.CDLL) -> None:
    x = floats()

    found = cast(library, F32, low, x, LOW[low])

    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(LOW[low])
    bits = f"u{low.bits // 8}"
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(found.view(bits)[numbers], expected.view(bits)[numbers])
    quiet = {F8: 0x7E, BF16: 0x7FC0, F16: 0x7E00}[low]
    sign = 1 << (low.bits - 1)
    assert set(found.view(bits)[~numbers].tolist()) == {quiet, quiet | sign}


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in LOW for b in LOW if a is not b], ids=str)
def test_low_floats_become_each_other_through_f32(source: DType, target: DType, library: ctypes.CDLL) -> None:
    codes = every_code(source)

    found = cast(library, source, target, codes, LOW[target])

    with np.errstate(over="ignore", invalid="ignore"):
        expected = codes.astype(np.float32).astype(LOW[target])
    both = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(found[both].view("u1"), expected[both].view("u1"))
    assert np.isnan(found[~both].astype(np.float32)).all()


@pytest.mark.parametrize("low", LOW, ids=str)
def test_low_floats_become_integers_and_bools(low: DType, library: ctypes.CDLL) -> None:
    codes = every_code(low)
    with np.errstate(invalid="ignore"):
        numbers = np.trunc(codes.astype(np.float64))
        nonzero = codes.astype(np.float64) != 0

    bools = cast(library, low, BOOL, codes, np.bool_)
    small = cast(library, low, I8, codes, np.int8)

    np.testing.assert_array_equal(bools, nonzero)
    whole = np.where(np.isnan(numbers), 0.0, np.clip(numbers, -128, 127))
    np.testing.assert_array_equal(small, whole.astype(np.int8))


@pytest.mark.rule("dtypes.rounding.3")
@pytest.mark.parametrize("low", LOW, ids=str)
def test_doubles_next_to_a_half_round_to_their_side(low: DType, library: ctypes.CDLL) -> None:
    form = FORMATS[low.name]
    codes = np.arange((1 << (low.bits - 1)) - (1 << form.fraction), dtype=f"u{low.bits // 8}")
    positive = codes.view(LOW[low]).astype(np.float64)
    finite = np.concatenate([-positive[:0:-1], positive])
    halves = (finite[1:] + finite[:-1]) / 2
    even = np.flatnonzero(finite == 0)[0] % 2  # every other number, zero among them, has an even last bit

    below, tied, above = (
        cast(library, F64, low, x, LOW[low]).astype(np.float64)
        for x in (np.nextafter(halves, -np.inf), halves, np.nextafter(halves, np.inf))
    )

    np.testing.assert_array_equal(below, finite[:-1])
    np.testing.assert_array_equal(above, finite[1:])
    np.testing.assert_array_equal(tied, np.where(np.arange(tied.size) % 2 == even, finite[:-1], finite[1:]))


@pytest.mark.parametrize("packed", [*PACKED_SINT, *PACKED_UINT], ids=str)
def test_integers_wrap_at_the_width_of_packed_types(packed: DType, library: ctypes.CDLL) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    low, span = packed.minimum or 0, 1 << packed.bits

    found = cast(library, I8, packed, x, np.int8)

    assert found.tolist() == [(int(each) - low) % span + low for each in x]


@pytest.mark.parametrize("packed", [*PACKED_SINT, *PACKED_UINT], ids=str)
def test_floats_are_clamped_to_packed_types(packed: DType, library: ctypes.CDLL) -> None:
    x = np.array([-1e30, -9.0, -1.5, -0.5, 0.5, 1.5, 7.9, 15.9, 16.0, 1e30, np.inf, -np.inf, np.nan], np.float32)
    low, high = packed.minimum or 0, packed.maximum or 0

    found = cast(library, F32, packed, x, np.int8)

    assert found.tolist() == [0 if np.isnan(v) else int(min(max(np.trunc(v), low), high)) for v in x.tolist()]


def values_of(dtype: DType) -> list[int]:
    if dtype is T1:
        return [-1, 1]
    return list(range(dtype.minimum or 0, (dtype.maximum or 0) + 1))


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_elements_share_bytes_lowest_bits_first(dtype: DType, library: ctypes.CDLL) -> None:
    load, store = getattr(library, f"load_{dtype}"), getattr(library, f"store_{dtype}")
    load.restype = ctypes.c_uint8 if dtype.minimum == 0 else ctypes.c_int8
    drawn = random.Random(0).choices(values_of(dtype), k=37)
    memory = (ctypes.c_uint8 * 40)(*random.Random(1).choices(range(256), k=40))

    for index, value in random.Random(2).sample(list(enumerate(drawn)), 37):
        store(memory, ctypes.c_size_t(index), value)

    assert [load(memory, ctypes.c_size_t(index)) for index in range(37)] == drawn
    stream = int.from_bytes(bytes(memory), "little")
    codes = [stream >> index * dtype.bits & (1 << dtype.bits) - 1 for index in range(37)]
    expected = [int(value > 0) if dtype is T1 else value % (1 << dtype.bits) for value in drawn]
    assert codes == expected


def test_stored_bytes_are_those_of_the_container(library: ctypes.CDLL) -> None:
    memory = (ctypes.c_uint8 * 4)()
    for index, value in enumerate([-8, -3, 0, 7, 6, -1, -7, 3]):
        library.store_i4(memory, ctypes.c_size_t(index), value)

    assert bytes(memory).hex() == "d870f639"


@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("count", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("march", ["", "-march=native"])
def test_gcc_keeps_the_rounding_of_doubles_that_become_floats_and_doubles_again(
    tmp_path: Path, level: str, count: int, march: str
) -> None:
    chain = tree.cast(tree.cast(tree.Input(0, F64), F32), F64)
    rows = [c_renderer.render(linearise(chain), {0: f"x[{i}]"}, f"t{i}_") for i in range(count)]
    lines = [line for i, row in enumerate(rows) for line in (*row.statements, f"y[{i}] = {row.result};")]
    text = f"void there_and_back(const double *restrict x, double *restrict y)\n{{\n{' '.join(lines)}\n}}\n"
    helpers = c_renderer.helper_source(rows[0].helpers)
    (tmp_path / "chain.c").write_text(f"{INCLUDES}{helpers}{text.split('{')[0]};\n{text}")
    flags = ["-std=c99", level, "-Wall", "-Wextra", "-Wpedantic", "-Werror", *march.split(), "-shared", "-fPIC"]
    command = ["gcc", *flags, "-o", "chain.so", "chain.c"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=limit_s(60))
    assert built.returncode == 0, built.stderr[:4000]
    x = 33554435.0 + 2.0 * np.arange(count)
    y = np.zeros(count)
    library = ctypes.CDLL(str(tmp_path / "chain.so"))
    library.there_and_back(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
    np.testing.assert_array_equal(y, x.astype(np.float32).astype(np.float64))
