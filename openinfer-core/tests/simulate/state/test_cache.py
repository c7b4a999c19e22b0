"""`openinfer.simulate.state.cache` against tables kept in dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.dtypes import I32
from openinfer.errors import CacheIndexError, CacheLimitError, ExecutionError
from openinfer.ir.graph import MemoryKind, VarDecl
from openinfer.ir.types import TensorType
from openinfer.simulate.state import entries
from openinfer.simulate.state.cache import Cache, overlaps

FILL = -3


class Naive:
    """Entries of shape [2] in a dictionary, sizes found by going over all of them."""

    def __init__(self, fixed: dict[str, int]) -> None:
        self.fixed = fixed
        self.cells: dict[tuple[int, int], list[int]] = {}

    def sizes(self) -> list[int]:
        return [
            self.fixed.get(name, max((index[axis] + 1 for index in self.cells), default=0))
            for axis, name in enumerate("ij")
        ]

    def resolved(self, slots: list[Any]) -> list[Any]:
        out: list[Any] = []
        for name, slot, size in zip("ij", [*slots, (None, None), (None, None)], self.sizes(), strict=False):
            limit = self.fixed.get(name, 10**9)
            if isinstance(slot, int):
                if slot < 0:
                    raise CacheIndexError("index")
                if slot >= limit:
                    raise CacheLimitError("limit")
                out.append(slot)
                continue
            start, end = slot[0] or 0, size if slot[1] is None else slot[1]
            end = end + size if end < 0 else end
            if start < 0 or end < start:
                raise CacheIndexError("range")
            if end > limit:
                raise CacheLimitError("limit")
            out.append(range(start, end))
        return out

    def read(self, slots: list[Any]) -> Any:
        places = self.resolved(slots)
        if all(isinstance(each, int) for each in places):
            return self.cells.setdefault(tuple(places), [FILL, FILL])
        return self.gather(places, ())

    def gather(self, places: list[Any], index: tuple[int, ...]) -> Any:
        if len(index) == 2:
            return list(self.cells.get(index, [FILL, FILL]))
        place = places[len(index)]
        if isinstance(place, int):
            return self.gather(places, (*index, place))
        return [self.gather(places, (*index, each)) for each in place]

    def write(self, slots: list[int], value: int) -> None:
        self.cells[tuple(self.resolved(slots))] = [value, value + 1]

    def reset(self, slots: list[int]) -> None:
        prefix = self.resolved(slots)[: len(slots)]
        self.cells = {index: cell for index, cell in self.cells.items() if list(index[: len(slots)]) != prefix}

    def load(self, sizes: list[int], value: int) -> None:
        self.cells = {(i, j): [value, value + 1] for i in range(sizes[0]) for j in range(sizes[1])}


positions = st.one_of(st.integers(-2, 6), st.sampled_from([9, 40]))
bounds = st.tuples(st.none() | st.integers(-1, 5), st.none() | st.integers(-7, 8))
reads = st.tuples(st.just("read"), st.lists(positions | bounds, max_size=2))
writes = st.tuples(st.just("write"), st.tuples(positions, positions).map(list))
resets = st.tuples(st.just("reset"), st.lists(positions, max_size=2))
loads = st.tuples(st.just("load"), st.tuples(st.integers(0, 3), st.integers(0, 3)).map(list))


@pytest.mark.rule("runtime.caches.16")
@settings(max_examples=200, deadline=None)
@given(
    actions=st.lists(st.one_of(reads, writes, writes, resets, loads), max_size=25),
    fixed=st.sampled_from([{}, {"i": 4}, {"j": 3}, {"i": 4, "j": 3}]),
    loose=st.sampled_from([0, 1 << 20]),
)
def test_tables_agree_with_dictionaries(actions: list[Any], fixed: dict[str, int], loose: int) -> None:
    decl = VarDecl(
        name="K", kind=MemoryKind.PERSISTENT, dtype=I32, formals=("i", "j"), table=True, fixed=tuple(fixed.items())
    )
    before, entries.LOOSE_BYTES = entries.LOOSE_BYTES, loose
    try:
        cache, naive = Cache(decl, TensorType(I32, (2,)), np.array(FILL, np.int32)), Naive(fixed)
        for number, (verb, slots) in enumerate(actions):
            assert _act(cache, verb, slots, number) == _act(naive, verb, slots, number)
            assert list(cache.sizes) == naive.sizes()
            assert list(cache.entries.indices()) == sorted(naive.cells)
    finally:
        entries.LOOSE_BYTES = before


def _act(table: Any, verb: str, slots: list[Any], number: int) -> Any:
    try:
        if verb == "reset":
            return table.reset(slots)
        if verb == "load":
            pair = np.array([number, number + 1], np.int32)
            return table.load(slots, number) if isinstance(table, Naive) else table.load([], np.tile(pair, (*slots, 1)))
        if verb == "read":
            found = table.read(slots)
            return found.array.tolist() if isinstance(table, Cache) else found
        return table.write(slots, number if isinstance(table, Naive) else np.array([number, number + 1], np.int32))
    except ExecutionError as error:
        return type(error)


def test_reads_of_one_row_are_views_however_long() -> None:
    decl = VarDecl(name="K", kind=MemoryKind.PERSISTENT, dtype=I32, formals=("l", "t"), table=True, fixed=(("l", 3),))
    cache = Cache(decl, TensorType(I32, (2,)), np.array(0, np.int32))
    for t in range(100):
        for layer in range(3):
            cache.write((layer, t), np.array([layer, t], np.int32))
        found = cache.read((1, (0, t + 1))).array
        assert found.flags.c_contiguous
        assert np.shares_memory(found, cache.entries.view(((0, 3), (0, t + 1))))
        assert found[:, 1].tolist() == list(range(t + 1))


def test_loading_what_has_fewer_entries_keeps_the_memory() -> None:
    decl = VarDecl(name="K", kind=MemoryKind.PERSISTENT, dtype=I32, formals=("t",), table=True)
    cache = Cache(decl, TensorType(I32, (2,)), np.array(0, np.int32))
    for t in range(100):
        cache.write([t], np.array([t, t], np.int32))
    before = cache.entries
    assert isinstance(before, entries.DenseEntries)
    array = before.array
    cache.load([], np.full((60, 2), 7, np.int32))
    assert cache.entries is before
    assert before.array is array
    assert array[60:].tolist() == [[0, 0]] * (len(array) - 60)


def test_a_bounded_table_makes_room_up_to_its_bound() -> None:
    decl = VarDecl(name="K", kind=MemoryKind.PERSISTENT, dtype=I32, formals=("t",), table=True, fixed=(("t", 100),))
    cache = Cache(decl, TensorType(I32, (2,)), np.array(0, np.int32))
    for t in range(100):
        cache.write([t], np.array([t, t], np.int32))
    assert isinstance(cache.entries, entries.DenseEntries)
    assert cache.entries.array.shape == (100, 2)


def test_appending_moves_the_array_a_logarithmic_number_of_times() -> None:
    decl = VarDecl(name="K", kind=MemoryKind.PERSISTENT, dtype=I32, formals=("t",), table=True)
    cache = Cache(decl, TensorType(I32, (2,)), np.array(0, np.int32))
    arrays: dict[int, Any] = {}
    for t in range(4096):
        cache.write((t,), np.array([t, t], np.int32))
        assert isinstance(cache.entries, entries.DenseEntries)
        array = cache.entries.array
        arrays[id(array)] = array  # kept, so that no other can have its identity
    assert len(arrays) <= 14


@pytest.mark.parametrize(
    ("region", "index", "expected"),
    [
        ((1, (0, 3)), (1, 2), True),
        ((1, (0, 3)), (1, 3), False),
        ((1, (0, 3)), (0, 2), False),
        ((), (), True),
        (((2, 2),), (2,), False),
    ],
)
def test_regions_overlap_entries_inside_them(region: Any, index: Any, expected: bool) -> None:
    assert overlaps(region, index) is expected
