"""Products with packed weights in generated C, compared with sums in f64."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
RANGES = {"i8": (-128, 127), "i4": (-8, 7), "u4": (0, 15), "i2": (-2, 1), "u2": (0, 3), "t2": (-1, 1)}


def weights(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if dtype == "t1":
        return random.choice(np.array([-1, 1], np.int8), shape)
    low, high = RANGES[dtype]
    return random.integers(low, high, shape, endpoint=True).astype(np.uint8 if low == 0 else np.int8)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("infinite", [False, True], ids=["finite", "some scales infinite"])
@pytest.mark.parametrize("dtype", [*RANGES, "t1"])
def test_products_with_packed_weights(dtype: str, infinite: bool) -> None:
    """Tiles with a rest of columns and of rows, rows that end inside a word or a byte, groups, w transposed."""
    whole_words, bytes_alone, parts_of_bytes = ((37, 4256), 0, False), ((60, 24), 30, False), ((33, 19), 11, False)
    cases = [whole_words, bytes_alone, parts_of_bytes, ((16, 36), 12, True)]
    random = np.random.default_rng(0)
    declared: list[str] = []
    statements: list[str] = []
    given: dict[str, np.ndarray] = {}
    expected: list[np.ndarray] = []
    for n, (shape, group, turned) in enumerate(cases):
        depth, columns = reversed(shape) if turned else shape
        table = (columns,) if not group else (columns, depth // group) if turned else (depth // group, columns)
        x, w = random.standard_normal((2, 3, depth)).astype(np.float32), weights(dtype, shape, random)
        scale, zero = random.random(table, np.float32), weights(dtype, table, random)
        if infinite:
            scale.reshape(-1)[::5] = np.inf
        bias = np.ones(columns, np.float32)
        axis = 1 if turned else 0
        factor, offset = (np.repeat(t, group, axis) if group else t for t in (scale.astype(np.float64), zero))
        real, plain = (w.astype(np.float64) - offset) * factor, w * factor
        expected += [x @ (r.T if turned else r) + b for r, b in ((real, bias), (plain, 0))]
        dims = ", ".join(map(str, table))
        declared += [
            f"x{n}: f32[2,3,{depth}]; w{n}: {dtype}[{shape[0]},{shape[1]}]; s{n}: f32[{dims}];",
            f"z{n}: {dtype}[{dims}]; b{n}: f32[{columns}];",
        ]
        settings = f"group_size={group}, trans_w={str(turned).lower()}"
        statements += [
            f"op qmatmul(x{n}, w{n}, s{n}, z{n}, b{n}, {settings}) >> y{2 * n};",
            f"op qmatmul(x{n}, w{n}, s{n}, {settings}) >> y{2 * n + 1};",
        ]
        given |= {f"x{n}": x, f"w{n}": w, f"s{n}": scale, f"z{n}": zero, f"b{n}": bias}
    results = [f"y{n}: f32[2,3,{value.shape[-1]}];" for n, value in enumerate(expected)]
    text = f"""
        dynamic {{ {" ".join(declared)} }} volatile {{ {" ".join(results)} }}
        block entry {{ {" ".join(statements)} return; }}
    """
    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(**given)
        for n, value in enumerate(expected):
            np.testing.assert_allclose(
                executor.fetch(f"y{n}"), value, rtol=1e-4, atol=1e-5 * abs(value[np.isfinite(value)]).max()
            )


@pytest.mark.parametrize("dtype", [*RANGES, "t1"])
def test_transposed_weights_are_read_by_words(dtype: str) -> None:
    """Blocks of columns with a rest, groups that lie in one stretch of x and in several, a rest of x."""
    random = np.random.default_rng(2)
    for columns, depth, group in ((300, 96, 32), (3, 8256, 0), (3, 8224, 32), (2, 224, 224)):
        size = group or depth
        x, w = random.standard_normal((2, depth)).astype(np.float32), weights(dtype, (columns, depth), random)
        table = (columns, depth // size) if group else (columns,)
        scale, zero = random.random(table, np.float32), weights(dtype, table, random)
        dims = ", ".join(map(str, table))
        text = f"""
            dynamic {{ x: f32[2,{depth}]; w: {dtype}[{columns},{depth}]; s: f32[{dims}]; z: {dtype}[{dims}]; }}
            volatile {{ y: f32[2,{columns}]; plain: f32[2,{columns}]; }}
            block entry {{
              op qmatmul(x, w, s, z, group_size={group}, trans_w=true) >> y;
              op qmatmul(x, w, s, group_size={group}, trans_w=true) >> plain;
              return;
            }}
        """
        factor, offset = (np.repeat(each.reshape(columns, -1).astype(np.float64), size, 1) for each in (scale, zero))
        with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
            executor.step(x=x, w=w, s=scale, z=zero)
            for name, real in (("y", (w - offset) * factor), ("plain", w * factor)):
                bound = 1e-6 * (abs(x.astype(np.float64)) @ abs(real).T).max()
                np.testing.assert_allclose(executor.fetch(name), x @ real.T, rtol=0, atol=bound)


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["i4", "i2", "t2"])
def test_columns_of_no_weight_are_exactly_nothing(dtype: str) -> None:
    """However the weights are read; and what is infinite or nearly so in x counts as it does weight by weight."""
    greatest = float(np.finfo(np.float32).max)
    x = np.random.default_rng(1).standard_normal((6, 37)).astype(np.float32)
    x[1, 3], x[2, 5], x[3, 7], x[4, [8, 9]], x[5, 36] = np.inf, -np.inf, np.nan, (greatest, -greatest), greatest
    w = np.zeros((37, 64), np.int8)
    w[:, 32:48], w[:, 48:] = -1, RANGES[dtype][0]
    text = f"""
        dynamic {{ x: f32[6,37]; w: {dtype}[37,64]; s: f32[64]; }} volatile {{ y: f32[6,64]; }}
        block entry {{ op qmatmul(x, w, s) >> y; return; }}
    """
    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(x=x, w=w, s=np.full(64, 0.5, np.float32))
        found = executor.fetch("y")
    expected = (x.astype(np.float64) @ w * 0.5).astype(np.float32)
    assert not found[[0, 4, 5], :32].any()
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[1:4], expected[1:4])
    np.testing.assert_allclose(found[5, 32:48], expected[5, 32:48], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["i4", "i2", "t2", "t1"])
def test_long_sums_of_one_sign_keep_their_digits(dtype: str) -> None:
    """Codes of weights add up to much more than the weights do, whose signs cancel each other out."""
    random = np.random.default_rng(2)
    x, w = random.random((3, 4098), np.float32), weights(dtype, (4098, 16), random)
    text = f"""
        dynamic {{ x: f32[3,4098]; w: {dtype}[4098,16]; s: f32[16]; }} volatile {{ y: f32[3,16]; }}
        block entry {{ op qmatmul(x, w, s) >> y; return; }}
    """
    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(x=x, w=w, s=np.ones(16, np.float32))
        found = executor.fetch("y")
    expected = x.astype(np.float64) @ w
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * abs(expected).max())
