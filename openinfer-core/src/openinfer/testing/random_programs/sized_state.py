"""Drawing statements on persistent memory that as many entries are written of as a step has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openinfer.testing.random_programs.changing_sizes import SizeWriter, Value

RING = 4
"""Entries of a ring."""


@dataclass(frozen=True, slots=True)
class State:
    """The persistent variables of a program.

    Attributes:
        marks: a counter of statements that were reached.
        place: a temporary with the entries that earlier steps have written.
        size: how many a step writes.
    """

    counter: str
    table: str
    total: str
    ring: str
    marks: str
    place: str
    size: str


def declare_state(writer: SizeWriter) -> State:
    """Declare persistent variables: two counters, a table that grows, a plain one and a ring."""
    names = [writer.name(start) for start in ("n", "K", "p", "R", "m", "at")]
    counter, table, total, ring, marks, offset = names
    builder = writer.builder
    builder.persistent(counter, writer.random.choice(("i32", "i64")))
    builder.persistent(table, "f32", [4], formals=["t"], table=True)
    builder.persistent(total, "f32", [4])
    builder.persistent(ring, "f32", [4], formals=["r"], table=True, fixed={"r": RING})
    builder.persistent(marks, "i32")
    return State(counter, table, total, ring, marks, offset, writer.random.choice(("T", "T", "U")))


def read_before(writer: SizeWriter, state: State) -> list[str]:
    """Write statements that read what earlier steps left, those that were refused included; return what was read."""
    accesses = [state.marks, state.counter, state.total, f"{state.ring}[0..{RING}]"]
    names = [writer.name("before") for _ in accesses]
    for access, name in zip(accesses, names, strict=True):
        writer.builder.cache_read(access, name)
    entries = writer.name("before")
    writer.builder.cache_read(f"{state.table}[0..{names[1]}]", entries)
    return [*names, entries]


def mark(writer: SizeWriter, state: State) -> None:
    """Write a statement that counts how often it is reached."""
    writer.builder.cache_increment(state.marks, 1)


def write_state(writer: SizeWriter, state: State) -> None:
    """Write statements that store what a step has and read what there is."""
    writer.builder.cache_read(state.counter, state.place)
    place, size = state.place, state.size
    rows = _rows(writer, (size, "4"))
    writer.builder.cache_write(rows, f"{state.table}[{place}..{place}+{size}]")
    for write in writer.random.sample(_DRAWN, writer.random.choice((1, 2, 3))):
        write(writer, state)
    if writer.chance(0.9):
        writer.builder.cache_increment(state.counter, size)


def _rows(writer: SizeWriter, dims: tuple[str, ...]) -> str:
    names = [value.name for value in writer.values if value.dims == dims and value.dtype == "f32"]
    return writer.random.choice(names) if names else writer.input("f32", dims).name


def _read(writer: SizeWriter, state: State) -> None:
    """Read the entries that are there."""
    name, rows = writer.name("y"), writer.open_dim()
    own = f"{state.place}+{state.size}"
    writer.builder.cache_read(f"{state.table}[0..{writer.random.choice((own, own, state.place))}]", name)
    writer.values.append(Value(name, "f32", (rows, "4")))


def _read_own(writer: SizeWriter, state: State) -> None:
    name = writer.result("f32", (state.size, "4"))
    writer.builder.cache_read(f"{state.table}[{state.place}..{state.place}+{state.size}]", name)


def _attend(writer: SizeWriter, state: State) -> None:
    """Let the rows of a step see those that are there, with rotated positions at times."""
    queries = _rows(writer, (state.size, "4"))
    if writer.chance(0.4):
        places, turned = writer.name("y"), writer.name("y")
        writer.builder.assign(places, "i64", [state.size])
        bounds = {"start": state.place, "limit": f"{state.place}+{state.size}"}
        settings = {name: writer.builder.expr(bound) for name, bound in bounds.items()}
        writer.builder.op("range", outputs=places, settings=settings)
        writer.builder.op("rope", queries, places, outputs=turned)
        queries = turned
    name, rows = writer.name("y"), writer.open_dim()
    writer.builder.cache_read(f"{state.table}[0..{state.place}+{state.size}]", name)
    writer.values.append(Value(name, "f32", (rows, "4")))
    made = writer.result("f32", (state.size, "4"))
    writer.builder.op("sdpa", queries, name, name, outputs=made, settings={"causal": writer.chance(0.6)})


def _total(writer: SizeWriter, state: State) -> None:
    """Add the sum of the rows of a step to what is kept."""
    builder, before, own, after = writer.builder, writer.name("y"), writer.name("y"), writer.result("f32", ("4",))
    builder.cache_read(state.total, before)
    builder.op("sum_axis", _rows(writer, (state.size, "4")), outputs=own, settings={"axes": [0]})
    builder.op("add", before, own, outputs=after)
    builder.cache_write(after, state.total)


def _ring(writer: SizeWriter, state: State) -> None:
    """Store a row where its number of entries comes round, and read the entries before and from there."""
    builder = writer.builder
    at = f"{state.place}%{RING}"
    builder.cache_write(_rows(writer, ("4",)), f"{state.ring}[{at}]")
    for part in (f"0..{at}", f"{at}..{RING}"):
        name = writer.name("y")
        builder.cache_read(f"{state.ring}[{part}]", name)
        writer.values.append(Value(name, "f32", (writer.open_dim(), "4")))


def _each(writer: SizeWriter, state: State) -> None:
    """Store the rows of a step one by one."""
    index, row = writer.name("i"), writer.name("y")
    rows = _rows(writer, (state.size, "4"))
    with writer.builder.loop("rows", index, 0, state.size):
        writer.builder.op("select", rows, outputs=row, settings={"axis": 0, "index": writer.builder.expr(index)})
        writer.builder.cache_write(row, f"{state.table}[{state.place}+{index}]")


_DRAWN: tuple[Callable[[SizeWriter, State], None], ...] = (
    _read,
    _read,
    _read_own,
    _attend,
    _attend,
    _total,
    _ring,
    _each,
)
