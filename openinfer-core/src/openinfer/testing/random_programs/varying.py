"""Drawing values whose shapes are known only at run time: read from caches, cut off inputs, and computed on."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.dtypes import BY_NAME, DType
from openinfer.ir.types import TensorType
from openinfer.testing.random_programs.caches import Caches
from openinfer.testing.random_programs.writer import Writer

UNARY = ("neg", "abs", "square", "relu", "identity", "tanh")
BINARY = ("add", "sub", "mul", "max", "min", "and", "xor")
MOST_ROWS = 6
"""Rows that are declared of a result at most: more may come."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A value with a run-time number of rows of one shape; ``count`` are the rows of its declaration, if it has one."""

    name: str
    dtype: DType
    row: tuple[int, ...]
    count: int | None


def write_varying(writer: Writer, caches: Caches | None) -> None:
    """Write statements that make rows, and some that compute with them."""
    rows = _cut(writer) if caches is None or writer.random.random() < 0.3 else _read(writer, caches)
    for _ in range(writer.random.choice((0, 1, 1, 2, 3))):
        rows = _computed(writer, rows)


def _made(writer: Writer, dtype: DType, row: tuple[int, ...], count: int | None) -> Rows:
    """Return rows for a result: a volatile variable, or a temporary of the type that its statement yields."""
    name = writer.name("r")
    if count is not None:
        writer.builder.volatile(name, dtype, (count, *row))
    writer.written.append(name)
    return Rows(name, dtype, row, count)


def _declared(writer: Writer) -> int | None:
    return writer.random.randrange(MOST_ROWS) if writer.random.random() < 0.5 else None


def _end(writer: Writer) -> str:
    index = writer.index().name
    return writer.random.choice((index, index, f"{index}+1", f"{index}*2"))


def _read(writer: Writer, caches: Caches) -> Rows:
    if caches.matrix is not None and writer.random.random() < 0.4:
        kind = caches.matrix.type
        table = "" if caches.rows is None else f"{writer.index().name}, "
        whole = f"[{table}0.., 0..]" if table else ""
        slots, row = writer.random.choice(((whole, kind.shape[1:]), (f"[{table}{writer.index().name}, ]", ())))
        # Its columns may grow as well.
        made = _made(writer, kind.dtype, row, None)
        writer.builder.cache_read(f"{caches.matrix.name}{slots}", made.name)
        return made
    table, end = caches.table, _end(writer)
    start = writer.random.choice(("0", "0", "0", "1", writer.index().name))
    singles = [str(writer.random.randrange(2)) for _ in table.bounded[1:]]
    made = _made(writer, table.entry.dtype, table.entry.shape, _declared(writer))
    writer.builder.cache_read(f"{table.name}[{', '.join([*singles, f'{start}..{end}'])}]", made.name)
    return made


def _cut(writer: Writer) -> Rows:
    """Cut rows off an input at a run-time place."""
    known = [each for each in writer.visible if each.type.shape and not each.is_table and each.level == 0]
    drawn = TensorType(BY_NAME[writer.random.choice(("f32", "i32", "u8"))], (writer.random.randrange(1, 7), 2))
    source = writer.random.choice(known) if known and writer.random.random() < 0.6 else writer.input(drawn)
    place, length = writer.builder.expr(_end(writer)), source.type.shape[0]
    starts, ends = writer.random.choice((([place], [length]), ([0], [place])))
    made = _made(writer, source.type.dtype, source.type.shape[1:], None)
    writer.builder.op("slice", source.name, outputs=made.name, settings={"starts": starts, "ends": ends, "axes": [0]})
    return made


def _computed(writer: Writer, rows: Rows) -> Rows:
    """Write a statement on rows; return rows that it makes, or the same where it makes none."""
    chance, builder = writer.random.random(), writer.builder
    unary, binary = (_legal(writer, names, rows.dtype) for names in (UNARY, BINARY))
    if chance < 0.35 and unary:
        made = _made(writer, rows.dtype, rows.row, rows.count)
        builder.op(writer.random.choice(unary), rows.name, outputs=made.name)
    elif chance < 0.6 and binary:
        other = writer.random.choice((rows.name, writer.given(TensorType(rows.dtype, rows.row))))
        second = other if isinstance(other, str) else writer.reference(other)
        made = _made(writer, rows.dtype, rows.row, rows.count)
        builder.op(writer.random.choice(binary), rows.name, second, outputs=made.name)
    elif chance < 0.7 and _legal(writer, ("concat",), rows.dtype):
        made = _made(writer, rows.dtype, rows.row, None if rows.count is None else 2 * rows.count)
        builder.op("concat", rows.name, rows.name, outputs=made.name, settings={"axis": 0})
    elif chance < 0.85 and len(_legal(writer, ("add", "sum_axis"), rows.dtype)) == 2 and rows.count is not None:
        kind = TensorType(rows.dtype, rows.row)
        builder.op("sum_axis", rows.name, outputs=writer.result(kind, 3, taken=[]), settings={"axes": [0]})
        return rows
    elif chance < 0.9:
        made = _made(writer, rows.dtype, rows.row, rows.count)
        builder.transfer(rows.name, made.name)
    else:
        return rows
    return made


def _legal(writer: Writer, names: tuple[str, ...], dtype: DType) -> list[str]:
    """Return the operators that take an element type."""
    return [name for name in names if dtype.name in writer.environment.op(name).dtypes]
