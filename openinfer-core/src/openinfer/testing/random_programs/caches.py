"""Drawing statements on persistent memory: plain variables, counters, tables, and matrices that grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openinfer.dtypes import BY_NAME
from openinfer.ir.graph import MemoryKind
from openinfer.ir.types import TensorType
from openinfer.testing.random_programs.writer import Variable, Writer

TYPES = ("f32", "i32", "f16", "i8", "u4", "bool", "t2", "f64", "bitset", "i64")
ENTRIES = 4
"""Entries of a table with a bound; drawn indices are below it."""

UNBOUNDED = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, the types of an entry, and whether each index is bounded."""

    name: str
    entry: TensorType
    bounded: tuple[bool, ...]


class Caches:
    """The persistent variables of a program."""

    def __init__(self, writer: Writer) -> None:
        random = writer.random
        self.plain = self._plain(writer)
        self.counter = writer.name("n")
        writer.builder.persistent(self.counter, random.choice(("i32", "i64", "u8", "f32", "i8")))
        self.table = self._table(writer)
        self.rows = random.choice((None, None, ENTRIES, UNBOUNDED))
        """Bound of the index of a table of matrices; None: there is one matrix."""
        self.matrix = self._matrix(writer) if random.random() < 0.5 else None

    def _plain(self, writer: Writer) -> Variable:
        kind = TensorType(BY_NAME[writer.random.choice(TYPES)], writer.random.choice(((), (3,), (2, 3), (0, 2))))
        init = writer.initial(kind.dtype) if writer.random.random() < 0.5 else None
        variable = Variable(writer.name("p"), kind, MemoryKind.PERSISTENT)
        writer.builder.persistent(variable.name, kind.dtype, kind.shape, init=init)
        return variable

    def _table(self, writer: Writer) -> Table:
        kind = TensorType(BY_NAME[writer.random.choice(TYPES)], writer.random.choice(((), (3,), (2, 2), (5,))))
        formals = ["l", "r"][: writer.random.choice((1, 2))]
        bounded = tuple(writer.random.random() < 0.5 for _ in formals)
        fixed = {formal: ENTRIES for formal, is_bounded in zip(formals, bounded, strict=True) if is_bounded}
        init = writer.initial(kind.dtype) if writer.random.random() < 0.5 else None
        name = writer.name("K")
        writer.builder.persistent(name, kind.dtype, kind.shape, formals=formals, table=True, fixed=fixed, init=init)
        return Table(name, kind, bounded)

    def _matrix(self, writer: Writer) -> Variable:
        kind = TensorType(
            BY_NAME[writer.random.choice(("f32", "i32", "i4", "bf16"))], writer.random.choice(((2, 2), (1, 3)))
        )
        init = writer.initial(kind.dtype) if writer.random.random() < 0.5 else None
        variable = Variable(writer.name("A"), kind, MemoryKind.PERSISTENT)
        writer.builder.persistent(
            variable.name,
            kind.dtype,
            kind.shape,
            formals=["i", "j"] if self.rows is None else ["l", "i", "j"],
            table=self.rows is not None,
            auto_dim=["i", "j"],
            fixed={"l": ENTRIES} if self.rows == ENTRIES else {},
            init=init,
        )
        return variable

    def write(self, writer: Writer) -> None:
        """Write a statement, or some that belong together."""
        drawn: Sequence[Callable[[Writer], None]] = (
            *(self._use_plain, self._use_plain, self._count, self._store, self._store, self._load, self._load),
            *(self._load_range, self._load_range, self._store_range, self._reset, self._grow, self._row),
        )
        writer.random.choice(drawn)(writer)

    def _source(self, writer: Writer, kind: TensorType) -> str:
        known = writer.fitting(kind)
        found = writer.random.choice(known) if known and writer.random.random() < 0.8 else writer.given(kind)
        return writer.reference(found)

    def _use_plain(self, writer: Writer) -> None:
        if writer.random.random() < 0.5:
            writer.builder.cache_write(self._source(writer, self.plain.type), self.plain.name)
        else:
            writer.builder.cache_read(self.plain.name, writer.result(self.plain.type, 0, taken=[]))

    def _count(self, writer: Writer) -> None:
        change = writer.random.choice((writer.builder.cache_increment, writer.builder.cache_decrement))
        change(self.counter, writer.random.choice((1, 1, 2, 7)))

    def _index(self, writer: Writer) -> str:
        chance = writer.random.random()
        if writer.indices and chance < 0.5:
            return writer.random.choice(writer.indices)
        if chance < 0.7:
            return writer.index().name
        return str(writer.random.randrange(ENTRIES)) if chance < 0.95 else f"{writer.index().name}+1"

    def _entry(self, writer: Writer) -> str:
        return f"{self.table.name}[{', '.join(self._index(writer) for _ in self.table.bounded)}]"

    def _store(self, writer: Writer) -> None:
        writer.builder.cache_write(self._source(writer, self.table.entry), self._entry(writer))

    def _load(self, writer: Writer) -> None:
        writer.builder.cache_read(self._entry(writer), writer.result(self.table.entry, 0, taken=[]))

    def _range(self, writer: Writer) -> tuple[str, tuple[int, ...]]:
        """Return slots that end with a range, and the extents of what they select."""
        start = writer.random.randrange(3)
        count = writer.random.randrange(ENTRIES + 1 - start)
        single = [self._index(writer) for _ in self.table.bounded[1:]]
        return ", ".join([*single, f"{start}..{start + count}"]), (count,)

    def _load_range(self, writer: Writer) -> None:
        slots, extents = self._range(writer)
        kind = TensorType(self.table.entry.dtype, (*extents, *self.table.entry.shape))
        writer.builder.cache_read(f"{self.table.name}[{slots}]", writer.result(kind, 0, taken=[]))

    def _load_all(self, writer: Writer) -> None:
        """Read all entries that are there; without a bound only the run decides how many."""
        made = writer.name("g")
        kind = self.table.entry
        writer.builder.volatile(made, kind.dtype, (*(ENTRIES for _ in self.table.bounded), *kind.shape))
        writer.builder.cache_read(f"{self.table.name}[{', '.join('0..' for _ in self.table.bounded)}]", made)
        writer.written.append(made)

    def _store_range(self, writer: Writer) -> None:
        """Write the entries of a range, which is often empty and begins where only the run decides; then read all."""
        count = writer.random.choice((0, 0, 1, 2))
        start = self._index(writer)
        slots = [self._index(writer) for _ in self.table.bounded]
        slots[writer.random.randrange(len(slots))] = f"{start}..{start}+{count}"
        kind = TensorType(self.table.entry.dtype, (count, *self.table.entry.shape))
        writer.builder.cache_write(self._source(writer, kind), f"{self.table.name}[{', '.join(slots)}]")
        self._load_all(writer)

    def _reset(self, writer: Writer) -> None:
        choices = [self.plain.name, self.counter, self.table.name, f"{self.table.name}[{self._index(writer)}]"]
        choices += [] if self.matrix is None else [self.matrix.name]
        writer.builder.cache_reset(writer.random.choice(choices))

    def _grow(self, writer: Writer) -> None:
        """Let a matrix grow, then write back what was read of it."""
        if self.matrix is None:
            self._count(writer)
            return
        made = writer.name("g")
        writer.builder.volatile(made, self.matrix.type.dtype, self.matrix.type.shape)
        row = [] if self.rows is None else [self._index(writer)]
        counts = ", ".join([*row, self._index(writer), self._index(writer)])
        writer.builder.cache_read(f"{self.matrix.name}[{counts}]", made)
        writer.written.append(made)
        writer.builder.op("neg", made, outputs=made)
        if writer.random.random() < 0.5:
            writer.builder.cache_write(made, f"{self.matrix.name}[{row[0]}]" if row else self.matrix.name)

    def _row(self, writer: Writer) -> None:
        """Read a row of a matrix, whose length is known when it runs."""
        if self.matrix is None:
            self._load(writer)
            return
        made = writer.name("g")
        writer.builder.volatile(made, self.matrix.type.dtype, self.matrix.type.shape[1:])
        slots = [] if self.rows is None else [self._index(writer)]
        slots.append(str(writer.random.randrange(self.matrix.type.shape[0])))
        writer.builder.cache_read(f"{self.matrix.name}[{', '.join(slots)}, ]", made)
        writer.written.append(made)
