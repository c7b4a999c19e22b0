"""Sums in strict order: term by term in row-major order, rounded after each product and each addition."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import openinfer as oi

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="generated C needs a C compiler")

F32 = np.float32


def _values(*shape: int, seed: int) -> np.ndarray:
    """Magnitudes that differ widely, so that almost any other order of a sum gives other bits."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) * np.exp(4 * random.standard_normal(shape))).astype(F32)


def _sum(terms: np.ndarray) -> np.ndarray:
    """Return the sums along the last axis, one addition after the other."""
    total = np.zeros(terms.shape[:-1], F32)
    for k in range(terms.shape[-1]):
        total = total + terms[..., k]
    return total


A, B, X = _values(5, 67, seed=1), _values(67, 33, seed=2), _values(4, 130, seed=3)
IMAGE, WINDOW = _values(1, 3, 9, 9, seed=4), _values(8, 3, 3, 3, seed=5)


def _product() -> np.ndarray:
    return _sum(A[:, None, :] * B.T[None])


def _convolution() -> np.ndarray:
    patches = np.lib.stride_tricks.sliding_window_view(IMAGE, (3, 3), axis=(2, 3))
    terms = patches[:, None].transpose(0, 1, 3, 4, 2, 5, 6) * WINDOW[None, :, None, None]
    return _sum(terms.reshape(1, 8, 7, 7, 27))


CASES = {
    "matmul": ("a: f32[5, 67]", "b: f32[67, 33]", "matmul(a, b)", {"a": A, "b": B}, _product),
    "sum_axis": ("a: f32[4, 130]", "b: f32[1]", "sum_axis(a, axes=[1])", {"a": X}, lambda: _sum(X)),
    "conv2d": ("a: f32[1, 3, 9, 9]", "b: f32[8, 3, 3, 3]", "conv2d(a, b)", {"a": IMAGE, "b": WINDOW}, _convolution),
}


def _program(case: str, hint: str = "") -> tuple[str, dict[str, np.ndarray], np.ndarray]:
    first, second, call, given, oracle = CASES[case]
    declared = f"{second};" if "b" in given else ""
    text = f"dynamic {{ {first}; {declared} }} block entry {{ op {call} >> y{hint}; return y; }}"
    expected = oracle()
    shape = ", ".join(map(str, expected.shape))
    return text.replace("block", f"volatile {{ y: f32[{shape}]; }} block", 1), given, expected


def _ran(text: str, given: dict[str, np.ndarray], *, strict: bool, arch: str) -> np.ndarray:
    synthesizer = oi.Synthesizer("c", arch=arch, strict_order=strict)
    return synthesizer.synthesize(oi.Model.from_arrays({}), text).run(given).outputs["y"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("arch", ["generic", "host"])
def test_sums_have_the_bits_of_one_addition_after_the_other(case: str, arch: str) -> None:
    text, given, expected = _program(case)
    assert _ran(text, given, strict=True, arch=arch).tobytes() == expected.tobytes()


@pytest.mark.parametrize("case", ["matmul", "sum_axis"])
def test_the_order_is_free_otherwise(case: str) -> None:
    text, given, expected = _program(case)
    found = _ran(text, given, strict=False, arch="x86-64-v3")
    assert found.tobytes() != expected.tobytes()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max()))


@pytest.mark.parametrize(("hint", "strict", "same"), [("true", False, True), ("false", True, False)])
def test_a_hint_decides_for_one_statement(hint: str, strict: bool, same: bool) -> None:
    text, given, expected = _program("matmul", f" with {{ strict_order = {hint} }}")
    found = _ran(text, given, strict=strict, arch="x86-64-v3")
    assert (found.tobytes() == expected.tobytes()) == same


def test_blocks_hand_the_hint_on_to_their_statements() -> None:
    text, given, expected = _program("sum_axis")
    inherited = text.replace("block entry {", "block entry with { strict_order = true } {")
    assert _ran(inherited, given, strict=False, arch="x86-64-v3").tobytes() == expected.tobytes()


def test_device_c_follows_the_hint() -> None:
    text, given, expected = _program("matmul", " with { strict_order = true }")
    with oi.Simulator(oi.Model.from_arrays({}), text, device="c").make_executor() as executor:
        executor.insert(**given)
        executor.step()
        assert executor.fetch("y").tobytes() == expected.tobytes()


def test_caches_of_varying_length_are_summed_in_order() -> None:
    text = """
    dynamic { x: f32[4]; }
    volatile { y: f32[4]; }
    persistent { K(t): f32[4] @table @fixed(t=64); n: i32; }
    block entry {
      cache.write x >> K[n];
      cache.increment n;
      cache.read K[0..n] >> all;
      op sum_axis(all, axes=[0]) >> y;
      return y;
    }
    """
    rows = _values(40, 4, seed=6)
    synthesis = oi.Synthesizer("c", arch="host", strict_order=True).synthesize(oi.Model.from_arrays({}), text)
    found = synthesis.run({"x": rows}, steps=40).outputs["y"]
    expected = np.stack([_sum(rows[: n + 1].T) for n in range(40)])
    assert found.tobytes() == expected.tobytes()
