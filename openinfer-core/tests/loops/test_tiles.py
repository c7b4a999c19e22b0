"""Tiles of matrix units: their text, what they compute, and what the verifier refuses of them."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.loops import LoopProgramError, verify
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text

PRODUCT = """def product(x: GLOBAL[f16, 64], w: GLOBAL[f16, 64], y: GLOBAL[f32, 96]):
    for group in LOCAL(2):
        for lane in LOCAL(4):
            a: TILES[f16, LEFT, 4, 8, 2, 4]
            b: TILES[f16, RIGHT, 8, 8, 1, 4]
            c: TILES[f32, TOTAL, 4, 8, 1, 4]
            a[1] = TILE(x, 32*group, 8)
            b[0] = TILE(w, 0, 8)
            c[0] = TILE(0.5)
            c[0] = TILE_FMA(a[1], b[0])
            TILE_STORE(y, 48*group, 12, c[0])
"""


def changed(old: str, new: str) -> str:
    assert old in PRODUCT
    return PRODUCT.replace(old, new)


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-8, 8, 64).astype(np.float16) for _ in range(2))
    return {"x": x, "w": w, "y": np.zeros(96, np.float32)}


def test_the_text_reads_back() -> None:
    text = changed("TILE(w, 0, 8)", "TILE(w, 0, 8, TRANSPOSED)")
    kernel = parse_kernel(text)

    assert kernel_text(kernel) == text
    assert parse_kernel(kernel_text(kernel)) == kernel


@pytest.mark.parametrize("is_transposed", [False, True])
def test_each_subgroup_multiplies_its_tiles(is_transposed: bool) -> None:
    kernel = parse_kernel(changed("TILE(w, 0, 8)", "TILE(w, 0, 8, TRANSPOSED)") if is_transposed else PRODUCT)
    found = arrays()

    interpret(kernel, found)

    w = found["w"].reshape(8, 8).astype(np.float32)
    expected = found["x"].reshape(8, 8).astype(np.float32) @ (w.T if is_transposed else w) + 0.5
    rows = found["y"].reshape(8, 12)
    assert np.array_equal(rows[:, :8], expected)
    assert not rows[:, 8:].any()


def test_every_element_of_a_tile_is_an_access() -> None:
    assert verify(parse_kernel(PRODUCT)).proved == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TILE(x, 32*group, 8)", "TILE(x, 32*group + 1, 8)", "may lie outside of 64 elements"),
        ("TILE(x, 32*group, 8)", "TILE(x, 8*lane, 8)", "threads that hold a together have different lane"),
        ("a[1] = TILE", "a[2] = TILE", r"a\[2\] may lie outside of 2 tiles"),
        ("TILE_FMA(a[1], b[0])", "TILE_FMA(b[0], a[1])", "c is not a total of products of b and a"),
        ("TILES[f16, RIGHT, 8, 8, 1, 4]", "TILES[f16, RIGHT, 4, 8, 1, 4]", "c is not a total of products of a and b"),
        ("w: GLOBAL[f16, 64]", "w: GLOBAL[f32, 64]", "b holds f16, w f32"),
        ("y: GLOBAL[f32, 96]", "y: CONSTANT[f32, 96]", "y is constant and is written"),
        ("TILE_STORE(y, 48*group, 12, c[0])", "TILE_STORE(y, 8*group, 12, c[0])", "may write one element"),
        ("TILES[f32, TOTAL, 4, 8, 1, 4]", "TILES[f32, TOTAL, 4, 8, 1, 3]", "tiles of 3 threads"),
        ("c[0] = TILE(0.5)", "if 0 <= lane < 1:\n                c[0] = TILE(0.5)", "different lane"),
    ],
)
def test_what_the_verifier_refuses(old: str, new: str, message: str) -> None:
    with pytest.raises(LoopProgramError, match=message):
        verify(parse_kernel(changed(old, new)))


def test_threads_that_read_what_their_subgroup_stores_wait_for_it() -> None:
    read = "            z: PRIVATE[f32, 1]\n            z[0] = y[48*group + lane]\n"

    with pytest.raises(LoopProgramError, match="write y"):
        verify(parse_kernel(PRODUCT + read))
    verify(parse_kernel(PRODUCT + "            BARRIER()\n" + read))


@pytest.mark.parametrize("text", ["TILE()", "TILE(x, 0, group)", "TILE(x, 0, 8, SIDEWAYS)", "TILE_FMA(a[1], y[0])"])
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(LoopProgramError, match="line 7: expected"):
        parse_kernel(changed("TILE(x, 32*group, 8)", text))
