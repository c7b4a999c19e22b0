"""Steps that are refused for their sizes: before they change anything where that is certain, else where they are."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi

MODEL = oi.Model.from_arrays({}, sizevars={"T": 3, "U": 3})

CERTAIN = "cache.increment n; op neg(x) >> y; {statement} cache.increment n; return y;"

STATEMENTS = {
    "an operator": ("op narrow(x, axis=0, start=1, length=T-1) >> w;", "", {(0, 0): False, (1, 0): True}),
    "two sizes": ("op add(x, u) >> w;", "", {(2, 3): False, (3, 1): True, (0, 2): False}),
    "a transfer": ("assign w: f32[U, 2]; transfer x >> w;", "", {(2, 3): False, (0, 0): True}),
    "an assign": ("assign w: f32[T+U-2];", "", {(1, 0): False, (1, 1): True}),
    "a loop": ("loop l (i in 0..U) { op add(x, u) >> w; op neg(w) >> v; }", "", {(3, 2): False, (3, 0): True}),
    "a loop of a loop": (
        "loop l (i in 1..U) { loop m (j in U..T) { op select(x, axis=0, index=1) >> w; } }",
        "",
        {(1, 0): True, (1, 2): True, (3, 2): True, (0, 2): True, (1, 1): True},
    ),
    "a block": (
        "branch other;",
        "block other { loop l (i in U..3) { op select(x, axis=0, index=T-1) >> w; } }",
        {(0, 2): False, (0, 3): True},
    ),
    "a consumer": (
        "op neg(u) >> h; yield h; await h;",
        "block worker { await h; op add(h, x) >> w; yield h; }",
        {(2, 3): False, (3, 3): True},
    ),
    "an unused declaration": ("", "", {(4, 4): False, (4, 3): True}),
}
"""A statement, other blocks, and whether steps of some sizes T and U have an end."""

PROGRAM = """
dynamic {{ x: f32[T, 2]; u: f32[U, 2]; go: bool @init(false); stop: bool @init(false); }}
volatile {{ unused: f32[7-T-U+{spare}]; h: f32[U, 2]; }}
persistent {{ n: i32; }}
block entry {{ {entry} }}
{blocks}
"""


@pytest.fixture(params=["cpu", "c", "vulkan"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "vulkan":
        request.getfixturevalue("vulkan")
    if request.param == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
    return request.param


def stepped(executor: oi.Executor, sizes: tuple[int, int], *, go: bool = False) -> str | None:
    """Return the code of the error that a step of these sizes T and U ends with, if it does."""
    x, u = (np.ones((size, 2), np.float32) for size in sizes)
    try:
        executor.step(x=x, u=u, go=go, stop=not go)
    except oi.ExecutionError as error:
        return error.code
    return None


@pytest.mark.rule("runtime.sizes.7")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_step_that_certainly_does_not_fit_changes_nothing(statement: str, device: str) -> None:
    written, blocks, steps = STATEMENTS[statement]
    spare = 0 if statement == "an unused declaration" else 100
    text = PROGRAM.format(entry=CERTAIN.format(statement=written), blocks=blocks, spare=spare)
    count = 0
    with oi.Simulator(MODEL, text, device=device).make_executor() as executor:
        for sizes, ends in (*steps.items(), ((2, 2), True), *steps.items()):
            code = stepped(executor, sizes)
            count += 2 * ends
            assert (code, executor.fetch("n")) == (None if ends else "insert-mismatch", count), sizes


LATER = {
    "a branch": (
        "branch go other nothing;",
        "block other { op narrow(x, axis=0, start=1, length=2) >> w; op neg(w) >> v; } block nothing { return; }",
    ),
    "a loop as long as memory says": (
        "op cast(go, to=i64) >> k; loop l (i in 0..k) { op select(x, axis=0, index=2) >> w; }",
        "",
    ),
    "what follows a loop that returns": (
        "op cast(stop, to=i64) >> k; loop l (i in 0..k) { return y; } op select(x, axis=0, index=2) >> w;",
        "",
    ),
    "rows that are counted": (
        "branch go other nothing;",
        "block other { op nonzero(x) >> places; op select(places, axis=0, index=4) >> w; } block nothing { return; }",
    ),
    "what has no type": (
        "branch go other no;",
        "block other { op narrow(x, axis=0, start=1, length=2) >> w; cache.write w >> K[0..2]; } block no { return; }",
    ),
}
"""A program that needs three rows where ``go`` is true."""


@pytest.mark.rule("runtime.sizes.8")
@pytest.mark.parametrize("statement", LATER)
def test_a_step_is_refused_where_it_reaches_what_does_not_fit(statement: str, device: str) -> None:
    written, blocks = LATER[statement]
    entry = f"cache.increment n; op neg(x) >> y; {written} cache.increment n; return y;"
    text = PROGRAM.format(entry=entry, blocks=blocks, spare=100).replace("n: i32;", "n: i32; K(t): f32[2] @table;")
    returns = statement.startswith("what follows")
    with oi.Simulator(MODEL, text, device=device, limits={"t": 8}).make_executor() as executor:
        count = 0
        for rows in (3, 2, 0, 3, 2):
            for go in (False, True):
                code = stepped(executor, (rows, 3), go=go)
                count += 1 if (go and rows < 3) or (returns and not go) else 2
                assert (code, executor.fetch("n")) == ("shape-mismatch" if go and rows < 3 else None, count)


@pytest.mark.rule("runtime.sizes.8")
def test_a_write_to_a_cache_is_refused_where_it_is_reached(device: str) -> None:
    entry = "cache.increment n; op neg(x) >> y; cache.write y >> K[0..U]; cache.increment n; return y;"
    text = PROGRAM.format(entry=entry, blocks="", spare=100).replace("n: i32;", "n: i32; K(t): f32[2] @table;")
    with oi.Simulator(MODEL, text, device=device, limits={"t": 8}).make_executor() as executor:
        codes = [stepped(executor, sizes) for sizes in ((3, 3), (2, 3), (0, 0), (0, 1))]
        assert codes == [None, "shape-mismatch", None, "shape-mismatch"]
        assert executor.fetch("n") == 2 + 1 + 2 + 1


@pytest.mark.rule("runtime.sizes.8")
def test_what_memory_gives_a_shape_is_refused_where_it_is_reached(device: str) -> None:
    entry = (
        "cache.read n >> at; cache.write x >> K[at..at+T]; cache.read K[at..at+T] >> rows; cache.increment n;"
        " op narrow(rows, axis=1, start=0, length=T) >> w; cache.increment n; op neg(x) >> y; return y;"
    )
    text = PROGRAM.format(entry=entry, blocks="", spare=100)
    text = text.replace("n: i32;", "n: i32; K(t): f32[2] @table;").replace(
        "h: f32[U, 2];", "h: f32[U, 2]; rows: f32[T, 2];"
    )
    with oi.Simulator(MODEL, text, device=device, limits={"t": 64}).make_executor() as executor:
        codes = [stepped(executor, sizes) for sizes in ((2, 3), (3, 3), (0, 0), (4, 1))]
        assert codes == [None, "shape-mismatch", None, "shape-mismatch"]
        assert executor.fetch("n") == 2 + 1 + 2 + 1
