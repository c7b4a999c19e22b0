"""Large operands of products are fetched a block ahead, every line of each, and never from outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from openinfer.arch import TargetInfo
from openinfer.loops import For, Kernel, Prefetch, Statement, verify
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower.prefetches import with_prefetches

LINE = 16
"""Elements of f32 in a line of a cache."""

MACHINE = TargetInfo(vector_nbytes=64, l1_nbytes=1024, l2_nbytes=8192)
"""Operands of more than 1 KiB are fetched ahead."""


def text_of_product(blocks: int, tiles: int, terms: int, vectors: int, rest: int = 0) -> str:
    """Return a product of ``tiles`` rows with weights in blocks of ``vectors`` registers; ``rest`` elements follow."""
    block = terms * vectors * LINE
    sums = "".join(
        f"                    t{v}[l] = t{v}[l] + w[{block}*b + {vectors * LINE}*k + l + {LINE * v}]*x[{terms}*t + k]\n"
        for v in range(vectors)
    )
    totals = "".join(f"            t{v}: PRIVATE[f32, {LINE}]\n" for v in range(vectors))
    zeros = "".join(f"                t{v}[l] = 0.0\n" for v in range(vectors))
    columns = blocks * vectors * LINE
    stores = "".join(
        f"                y[{columns}*t + {vectors * LINE}*b + l + {LINE * v}] = t{v}[l]\n" for v in range(vectors)
    )
    return (
        f"def f(x: GLOBAL[f32, {tiles * terms}], w: GLOBAL[f32, {blocks * block + rest}], "
        f"y: GLOBAL[f32, {tiles * columns}]):\n"
        f"    for b in SERIAL({blocks}):\n"
        f"        for t in SERIAL({tiles}):\n{totals}"
        f"            for l in LANES({LINE}):\n{zeros}"
        f"            for k in SERIAL({terms}):\n"
        f"                for l in LANES({LINE}):\n{sums}"
        f"            for l in LANES({LINE}):\n{stores}"
    )


def prefetched(kernel: Kernel) -> dict[int, set[int]]:
    """Return the elements of ``w`` that are fetched ahead in each iteration of the loop over blocks."""
    fetched: dict[int, set[int]] = {}
    for loops, prefetch in _prefetches(kernel.body, ()):
        assert prefetch.buffer.name == "w"
        for place in product(*(range(loop.var.extent) for loop in loops if isinstance(loop.var.extent, int))):
            values = {loop.var.name: at for loop, at in zip(loops, place, strict=True)}
            fetched.setdefault(values["b"], set()).add(prefetch.address.evaluate(values))
    return fetched


def _prefetches(body: Sequence[Statement], loops: tuple[For, ...]) -> Iterator[tuple[tuple[For, ...], Prefetch]]:
    for statement in body:
        if isinstance(statement, Prefetch):
            yield loops, statement
        elif isinstance(statement, For):
            yield from _prefetches(statement.body, (*loops, statement))


@pytest.mark.parametrize(
    ("blocks", "tiles", "terms", "vectors", "rest"),
    [(3, 7, 32, 3, 0), (2, 2, 24, 2, 0), (4, 14, 16, 2, 16), (2, 2, 8, 4, 0), (5, 3, 7, 3, 5)],
)
def test_every_line_of_the_next_block_is_fetched(blocks: int, tiles: int, terms: int, vectors: int, rest: int) -> None:
    kernel = parse_kernel(text_of_product(blocks, tiles, terms, vectors, rest))
    changed = with_prefetches(kernel, MACHINE)

    verify(changed)
    assert parse_kernel(kernel_text(changed)) == changed
    size = terms * vectors * LINE
    for block, elements in prefetched(changed).items():
        following = (block + 1) % blocks
        lines = range(following * size // LINE, (following + 1) * size // LINE)
        assert {element // LINE for element in elements} == set(lines)
    assert len(prefetched(changed)) == blocks


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("one tile reads every block once", text_of_product(8, 1, 32, 3)),
        ("the weights stay in the second cache", text_of_product(2, 7, 8, 1)),
        ("there is one block", text_of_product(1, 7, 32, 3)),
        ("more lines than the memory keeps up with", text_of_product(2, 2, 16, 16)),
        (
            "blocks lie in one another",
            text_of_product(3, 7, 32, 1).replace("w[512*b + 16*k + l + 0]", "w[16*b + 48*k + l]"),
        ),
    ],
)
def test_programs_that_gain_nothing_stay(why: str, text: str) -> None:
    kernel = parse_kernel(text)
    assert with_prefetches(kernel, MACHINE) is kernel or with_prefetches(kernel, MACHINE) == kernel, why


@pytest.mark.parametrize("target", [None, TargetInfo(vector_nbytes=4, fpu="none", l2_nbytes=8192)])
def test_machines_without_caches_fetch_nothing_ahead(target: TargetInfo | None) -> None:
    kernel = parse_kernel(text_of_product(3, 7, 32, 3))
    assert with_prefetches(kernel, target) == kernel
