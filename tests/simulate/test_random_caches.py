"""Random programs over tables and growing matrices against a deliberately naive interpreter.

Every statement is drawn with its text and with what it does to plain dictionaries, so that nothing on this side goes
through the parser or the simulator. Accesses may be out of bounds: then both refuse, and both keep what was written
before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openinfer as oi
from openinfer.dsl import graph
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import Fallback
from openinfer.simulate import Simulator

HEADER = """
dynamic { x: i32[2]; t: i32; }
volatile {
  W(l, h): i32[2] @pattern("w.{h}.{l}"); v: i32[2]; s: i32; h: i32[2] @init(3); side: i32[2]; one: i32 @init(1);
  rows: i32[1, 2]; cube: i32[3, 1, 2]; mat: i32[2, 2]; vec: i32[2]; stack: i32[1, 2];
}
persistent {
  K(i, j): i32[2] @table @fixed(i=3) @init(9);
  A(m, n): i32[2, 2] @auto_dim(m, n) @fixed(m=3) @init(7);
  C(l, m): i32[2] @table @auto_dim(m) @init(4);
  n: i32;
}
"""
WORKER = "block worker { await h; op add(h, h) >> h; op add(h, one) >> side; yield h; }"
WEIGHTS = {f"w.{head}.{layer}": np.array([layer, 10 * head - 7], np.int32) for layer in range(7) for head in range(3)}

INDEX, LIMIT = "cache-index", "cache-limit"
Indices = dict[str, int]


class Left(Exception):  # noqa: N818 -- a return, not a mistake
    """The block is left."""


class Refused(Exception):  # noqa: N818 -- what a program may come to
    """An access is refused, with one of some codes."""

    def __init__(self, codes: set[str]) -> None:
        super().__init__(codes)
        self.codes = codes


def refuse_if(*problems: tuple[bool, str]) -> None:
    codes = {code for holds, code in problems if holds}
    if codes:
        raise Refused(codes)


def wrapped(values: list[int]) -> list[int]:
    return [(value + 2**31) % 2**32 - 2**31 for value in values]


@dataclass
class Naive:
    """Memory as plain Python values; a matrix as a dictionary of its cells with its counts."""

    blocks: dict[str, Statement]
    n: int = 0
    K: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    A: dict[tuple[int, int], int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0, 0])
    C: dict[int, dict[int, int]] = field(default_factory=dict)
    count: int = 0
    v: list[int] = field(default_factory=list)
    h: list[int] = field(default_factory=list)
    side: list[int] = field(default_factory=list)
    s: int = 0
    x: list[int] = field(default_factory=list)
    t: int = 0

    def step(self, x: list[int], t: int) -> None:
        self.x, self.t, self.v, self.s, self.h, self.side = x, t, [0, 0], 0, [3, 3], [0, 0]
        self.call("entry")

    def call(self, name: str) -> None:
        with suppress(Left):
            self.blocks[name].run(self, {})

    @property
    def columns(self) -> int:
        return 1 + max((j for _, j in self.K), default=-1)

    def row_sum(self, cells: list[tuple[int, int]]) -> None:
        found = [self.K.get(cell, [9, 9]) for cell in cells]
        self.v = wrapped([sum(each[k] for each in found) for k in range(2)])

    def matrix(self) -> list[list[int]]:
        return [[self.A.get((r, c), 7) for c in range(2 + self.counts[1])] for r in range(2 + self.counts[0])]

    def entry_of_c(self, place: int) -> list[int]:
        return [self.C.get(place, {}).get(m, 4) for m in range(2 + self.count)]

    def grow(self, m: int, n: int) -> None:
        refuse_if((m < 0 or n < 0, INDEX), (m > 3, LIMIT))
        self.counts = [max(self.counts[0], m), max(self.counts[1], n)]

    def single(self, i: int, j: int) -> tuple[int, int]:
        refuse_if((i < 0 or j < 0, INDEX), (i >= 3, LIMIT))
        return i, j

    def touch_c(self, place: int, count: int) -> dict[int, int]:
        refuse_if((place < 0 or count < 0, INDEX))
        self.count = max(self.count, count)
        return self.C.setdefault(place, {})


@dataclass(frozen=True)
class Statement:
    """A statement as text, and what it does."""

    text: str
    run: Callable[[Naive, Indices], None]


@dataclass(frozen=True)
class Place:
    """An integer expression as text, and its value."""

    text: str
    value: Callable[[Naive, Indices], int]


@dataclass(frozen=True)
class Span:
    """A range as text, and its bounds for a size, None where the size alone decides."""

    text: str
    start: Place | None
    end: Place | None

    def cells(self, memory: Naive, indices: Indices, size: int, limit: int | None) -> range:
        start = 0 if self.start is None else self.start.value(memory, indices)
        end = size if self.end is None else self.end.value(memory, indices)
        last = end if end >= 0 else size + end
        refuse_if((start < 0 or last < 0 or last < start, INDEX), (limit is not None and max(last, end) > limit, LIMIT))
        return range(start, last)


T = Place("t", lambda memory, _: memory.t)


def places(names: tuple[str, ...]) -> st.SearchStrategy[Place]:
    """Integer expressions over constants, the dynamic scalar and the indices of the loops around."""
    constants = [Place(str(number), lambda _m, _i, number=number: number) for number in (0, 1, 1, 2)]
    varying = [T, *(Place(f"t{by:+}", lambda memory, _, by=by: memory.t + by) for by in (-1, 1))]
    loops = [Place(name, lambda _, indices, name=name: indices[name]) for name in names]
    shifted = [Place(f"{name}+1", lambda _, indices, name=name: indices[name] + 1) for name in names]
    return st.sampled_from([*constants, *varying, *loops * 3, *shifted])


def spans(names: tuple[str, ...]) -> st.SearchStrategy[Span]:
    """Ranges whose length is known when they are read only."""
    to_t = [Span(f"{start}..t", Place(str(start), lambda _m, _i, start=start: start), T) for start in (0, 1)]
    loops = [Span(f"{name}..t", Place(name, lambda _, indices, name=name: indices[name]), T) for name in names]
    return st.sampled_from([*to_t, Span("t..", T, None), Span("..", None, None), Span("..t", None, T), *loops])


def simple(names: tuple[str, ...], *, in_entry: bool) -> st.SearchStrategy[Statement]:
    """A statement without a body, inside of loops with some indices."""
    kinds = [
        st.builds(write_entry, places(names), places(names)),
        st.builds(read_entry, places(names), places(names)),
        st.builds(read_row, places(names), spans(names)),
        st.builds(read_rows, spans(names), places(names)),
        st.builds(reset_table, st.lists(places(names), max_size=2)),
        *[st.builds(grow_matrix, places(names), places(names))] * 2,
        st.builds(read_stripe, spans(names)),
        st.builds(grow_entry, places(names), places(names)),
        st.builds(bump_entry, places(names), places(names)),
        st.builds(reset_entry, places(names)),
        st.builds(weigh, st.sampled_from([*names, "2"]), st.integers(0, 2)),
        st.builds(count, st.sampled_from(["increment", "decrement"]), st.integers(0, 3)),
        st.sampled_from(
            [READ_ALL, *[BUMP_MATRIX] * 3, *[RESET_MATRIX] * 2, READ_STACK, RESET_STACK, *[HAND_OVER] * in_entry]
        ),
    ]
    return st.one_of(kinds)


def write_entry(i: Place, j: Place) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        cell = memory.single(i.value(memory, indices), j.value(memory, indices))
        memory.K[cell] = list(memory.v)

    return Statement(f"op add(v, x) >> v; cache.write v >> K[{i.text}, {j.text}];", in_order(add_x, run))


def add_x(memory: Naive, _: Indices) -> None:
    memory.v = wrapped([a + b for a, b in zip(memory.v, memory.x, strict=True)])


def in_order(*parts: Callable[[Naive, Indices], None]) -> Callable[[Naive, Indices], None]:
    def run(memory: Naive, indices: Indices) -> None:
        for part in parts:
            part(memory, indices)

    return run


def read_entry(i: Place, j: Place) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        cell = memory.single(i.value(memory, indices), j.value(memory, indices))
        memory.v = list(memory.K.setdefault(cell, [9, 9]))

    return Statement(f"cache.read K[{i.text}, {j.text}] >> v;", run)


def read_row(i: Place, span: Span) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        row, codes = i.value(memory, indices), set[str]()
        codes |= {INDEX} if row < 0 else {LIMIT} if row >= 3 else set()
        try:
            cells = span.cells(memory, indices, memory.columns, None)
        except Refused as refused:
            raise Refused(refused.codes | codes) from None
        if codes:
            raise Refused(codes)
        memory.row_sum([(row, j) for j in cells])

    return Statement(f"cache.read K[{i.text}, {span.text}] >> rows; op sum_axis(rows, axes=[0]) >> v;", run)


def read_rows(span: Span, j: Place) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        column = j.value(memory, indices)
        try:
            cells = span.cells(memory, indices, 3, 3)
        except Refused as refused:
            raise Refused(refused.codes | ({INDEX} if column < 0 else set())) from None
        refuse_if((column < 0, INDEX))
        memory.row_sum([(i, column) for i in cells])

    if span.text == "..":  # the length is known: the table has three rows
        return READ_ALL
    return Statement(f"cache.read K[{span.text}, {j.text}] >> rows; op sum_axis(rows, axes=[0]) >> v;", run)


def reset_table(prefix: list[Place]) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        found = [place.value(memory, indices) for place in prefix]
        refuse_if((any(value < 0 for value in found), INDEX), (bool(found) and found[0] >= 3, LIMIT))
        memory.K = {cell: value for cell, value in memory.K.items() if list(cell[: len(found)]) != found}

    return Statement(f"cache.reset K[{', '.join(place.text for place in prefix)}];", run)


def grow_matrix(m: Place, n: Place) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        memory.grow(m.value(memory, indices), n.value(memory, indices))
        memory.s = sum(map(sum, memory.matrix()))

    return Statement(f"cache.read A[{m.text}, {n.text}] >> mat; op sum_axis(mat, axes=[0, 1]) >> s;", run)


def read_stripe(span: Span) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        rows = memory.matrix()
        cells = span.cells(memory, indices, len(rows), None)
        refuse_if((cells.stop > len(rows), INDEX))
        memory.s = sum(sum(rows[r]) for r in cells)

    return Statement(f"cache.read A[{span.text}, ] >> mat; op sum_axis(mat, axes=[0, 1]) >> s;", run)


def grow_entry(place: Place, m: Place) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        where = place.value(memory, indices)
        memory.touch_c(where, m.value(memory, indices))
        memory.s = sum(memory.entry_of_c(where))

    return Statement(f"cache.read C[{place.text}, {m.text}] >> vec; op sum_axis(vec, axes=[0]) >> s;", run)


def bump_entry(place: Place, m: Place) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        where = place.value(memory, indices)
        entry = memory.touch_c(where, m.value(memory, indices))
        entry |= dict(enumerate(value + 1 for value in memory.entry_of_c(where)))

    access = f"C[{place.text}, {m.text}]"
    return Statement(f"cache.read {access} >> vec; op add(vec, one) >> vec; cache.write vec >> {access};", run)


def reset_entry(place: Place) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        where = place.value(memory, indices)
        refuse_if((where < 0, INDEX))
        memory.C.pop(where, None)

    return Statement(f"cache.reset C[{place.text}];", run)


def weigh(index: str, h: int) -> Statement:
    def run(memory: Naive, indices: Indices) -> None:
        weight = WEIGHTS[f"w.{h}.{indices.get(index, 2) + 1}"].tolist()
        memory.v = wrapped([a - b for a, b in zip(memory.v, weight, strict=True)])

    return Statement(f"op sub(v, W[{index}+1, {h}]) >> v;", run)


def count(what: str, amount: int) -> Statement:
    def run(memory: Naive, _: Indices) -> None:
        memory.n += amount if what == "increment" else -amount

    return Statement(f"cache.{what} {amount} n;", run)


def read_all(memory: Naive, _: Indices) -> None:
    memory.row_sum([(i, j) for i in range(3) for j in range(memory.columns)])


def bump_matrix(memory: Naive, _: Indices) -> None:
    memory.A = {(r, c): v + 1 for r, row in enumerate(memory.matrix()) for c, v in enumerate(row)}


def reset_matrix(memory: Naive, _: Indices) -> None:
    memory.A, memory.counts = {}, [0, 0]


def read_stack(memory: Naive, _: Indices) -> None:
    memory.s = sum(sum(memory.entry_of_c(place)) for place in range(1 + max(memory.C, default=-1)))


def reset_stack(memory: Naive, _: Indices) -> None:
    memory.C, memory.count = {}, 0


def leave(_: Naive, __: Indices) -> None:
    raise Left


def hand_over(memory: Naive, _: Indices) -> None:
    memory.n += 1
    memory.h = wrapped([2 * value for value in memory.h])
    memory.side = wrapped([value + 1 for value in memory.h])


READ_ALL = Statement("cache.read K[] >> cube; op sum_axis(cube, axes=[0, 1]) >> v;", read_all)
BUMP_MATRIX = Statement("cache.read A >> mat; op add(mat, one) >> mat; cache.write mat >> A;", bump_matrix)
RESET_MATRIX = Statement("cache.reset A;", reset_matrix)
READ_STACK = Statement("cache.read C[] >> stack; op sum_axis(stack, axes=[0, 1]) >> s;", read_stack)
RESET_STACK = Statement("cache.reset C;", reset_stack)
LEAVE = Statement("return;", leave)
HAND_OVER = Statement("yield h; cache.increment n; await h;", hand_over)


def sequence(parts: list[Statement]) -> Statement:
    return Statement(" ".join(part.text for part in parts), in_order(*(part.run for part in parts)))


def branch(then: str, otherwise: str) -> Statement:
    """Decided by a persistent scalar."""
    return Statement(f"branch n {then} {otherwise};", lambda memory, _: memory.call(then if memory.n else otherwise))


def loop(name: str, start: tuple[str, int], end: str, body: Statement) -> Statement:
    """From a constant, or from an outer index, to the size N (which is 2), the dynamic scalar, or after that index."""
    outer, first = start

    def run(memory: Naive, indices: Indices) -> None:
        begin = indices[outer] if outer else first
        last = {"N": 2, "t": memory.t}.get(end, begin + 2)
        for turn in range(begin, last):
            body.run(memory, {**indices, name: turn})

    begin = outer or str(first)
    stop = end if end in ("N", "t") else f"{begin}+2"
    return Statement(f"loop {name}s ({name} in {begin}..{stop}) {{ {body.text} }}", run)


def statements(
    depth: int, names: tuple[str, ...], calls: tuple[str, ...], *, in_entry: bool
) -> st.SearchStrategy[Statement]:
    """Statements of a block, or of a loop inside of others."""
    options = [simple(names, in_entry=in_entry)] * 4
    if calls:
        options.append(st.builds(branch, st.sampled_from(calls), st.sampled_from(calls)))
    if names or not in_entry:
        options.append(st.just(LEAVE))
    if depth:
        name = f"k{depth}"
        starts = st.sampled_from([("", 0), ("", 1), *((outer, 0) for outer in names)])
        body = statements(depth - 1, (*names, name), calls, in_entry=in_entry)
        options.append(st.builds(loop, st.just(name), starts, st.sampled_from(["N", "t", "after"]), body))
    return st.lists(st.one_of(options), min_size=2, max_size=6).map(sequence)


programs = st.fixed_dictionaries(
    {
        "entry": statements(2, (), ("first", "second"), in_entry=True),
        "first": statements(2, (), ("second",), in_entry=False),
        "second": statements(1, (), (), in_entry=False),
    }
)


inputs_of_a_step = st.tuples(st.lists(st.integers(-9, 9), min_size=2, max_size=2), st.sampled_from([1, 2, 0, 3, -1]))


def leaving() -> Environment:
    """Return the installed devices, and a `box` that leaves every operator to cpu."""
    known = Environment.default()
    left = Fallback(device="cpu", dtypes=frozenset({"i32"}))
    box = replace(known.devices["cpu"], name="box", expression_dtypes=frozenset[str](), fallback=left)
    return replace(known, devices={**known.devices, "box": box})


@pytest.mark.rule("runtime.caches.16")
@settings(max_examples=120, deadline=None)
@given(blocks=programs, inputs=st.lists(inputs_of_a_step, min_size=2, max_size=4))
def test_random_accesses_agree_with_a_naive_interpreter(
    blocks: dict[str, Statement], inputs: list[tuple[list[int], int]]
) -> None:
    texts = [f"block {name} {{ {body.text} return; }}" for name, body in blocks.items()]
    program = graph("\n".join([HEADER, *texts, WORKER]))
    model = oi.Model.from_arrays(WEIGHTS, sizevars={"N": 2})
    simulator = Simulator(model, program)
    stepped, iterated, naive = simulator.make_executor(), simulator.make_executor(), Naive(blocks)
    elsewhere = Simulator(model, program, device="box", environment=leaving()).make_executor()
    for x, t in inputs:
        codes: set[str] = set()
        try:
            naive.step(x, t)
        except Refused as refused:
            codes = refused.codes
        iterated.insert(x=x, t=t)
        found = [code_of(lambda x=x, t=t: stepped.step(x=x, t=t)), code_of(lambda: list(iterated.iterate()))]
        assert code_of(lambda x=x, t=t: elsewhere.step(x=x, t=t)) == found[0] == found[1]
        assert found[0] in (codes or {""})
        for ex in (stepped, iterated, elsewhere):
            agree(ex, naive)


def code_of(run: Callable[[], object]) -> str:
    """Return the code with which a step fails; ``""`` where it does not."""
    try:
        run()
    except oi.ExecutionError as error:
        return error.code
    return ""


def agree(ex: oi.Executor, naive: Naive) -> None:
    """All that can be fetched is what the naive memory holds."""
    assert (ex.fetch("v").tolist(), ex.fetch("s"), ex.fetch("n")) == (naive.v, naive.s, naive.n)
    assert (ex.fetch("h").tolist(), ex.fetch("side").tolist()) == (naive.h, naive.side)
    columns = range(naive.columns)
    assert ex.fetch("K").tolist() == [[naive.K.get((i, j), [9, 9]) for j in columns] for i in range(3)]
    assert ex.fetch("A").tolist() == naive.matrix()
    assert ex.fetch("C").tolist() == [naive.entry_of_c(place) for place in range(1 + max(naive.C, default=-1))]
