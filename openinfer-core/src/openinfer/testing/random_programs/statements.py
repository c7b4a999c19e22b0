"""Drawing the statements of a block."""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.dtypes import BY_NAME, Kind
from openinfer.ir.types import TensorType
from openinfer.testing.random_programs.caches import Caches
from openinfer.testing.random_programs.operators import write_call
from openinfer.testing.random_programs.varying import write_varying
from openinfer.testing.random_programs.writer import Variable, Writer

DEEPEST = 2
"""Loops inside of one another."""


def write_statements(writer: Writer, caches: Caches | None, count: int, operators: Sequence[str]) -> None:
    """Write some statements where the builder is."""
    for _ in range(count):
        _statement(writer, caches, operators)


def _statement(writer: Writer, caches: Caches | None, operators: Sequence[str]) -> None:
    chance = writer.random.random()
    if caches is not None and chance > 0.5:
        if chance > 0.9 and writer.is_entry and not writer.indices:
            write_varying(writer, caches)
        else:
            caches.write(writer)
    elif chance < 0.09 and len(writer.indices) < DEEPEST:
        _loop(writer, caches, operators)
    elif chance < 0.14 and writer.blocks and (writer.is_entry or chance < 0.12):
        _branch(writer)
    elif chance < 0.20:
        _transfer(writer)
    elif chance < 0.22:
        _region(writer, caches, operators)
    elif chance < 0.25 and writer.is_entry and not writer.indices:
        write_varying(writer, caches)
    else:
        write_call(writer, operators)


def _loop(writer: Writer, caches: Caches | None, operators: Sequence[str]) -> None:
    index = writer.name("i")
    start, end = writer.random.choice(((0, 2), (0, 3), (1, 3), (0, 1), (2, 2), (3, 1), (0, "N"), (0, "t"), (0, "o")))
    if end == "t":
        end = writer.index().name
    elif end == "o":
        end = f"{writer.random.choice(writer.indices)}+1" if writer.indices else 2
    with writer.inside(), writer.builder.loop("turns", index, start, end):
        writer.indices.append(index)
        write_statements(writer, caches, writer.random.choice((1, 2, 2, 3)), operators)
        writer.indices.pop()
        if not writer.is_entry and writer.random.random() < 0.1:
            writer.builder.return_()


def _branch(writer: Writer) -> None:
    then, other = writer.random.choice(writer.blocks), writer.random.choice(writer.blocks)
    if writer.random.random() < 0.3:
        writer.builder.branch(then)
        return
    writer.builder.branch_if(_condition(writer), then, other)


def _condition(writer: Writer) -> str:
    known = [each for each in writer.visible if _decides(each)]
    if known and writer.random.random() < 0.7:
        return writer.random.choice(known).name
    return writer.input(TensorType(BY_NAME[writer.random.choice(("bool", "bool", "i32", "u8"))], ())).name


def _decides(variable: Variable) -> bool:
    kind = variable.type.dtype
    is_whole = kind.kind is Kind.BOOL or (kind.is_integer and not kind.is_packed)
    return variable.type.shape == () and is_whole and not variable.is_table and variable.level == 0


def _transfer(writer: Writer) -> None:
    if not writer.visible:
        return
    source = writer.random.choice(writer.visible)
    target = writer.result(source.type, source.level, taken=[source.name])
    writer.builder.transfer(writer.reference(source), target)


def _region(writer: Writer, caches: Caches | None, operators: Sequence[str]) -> None:
    """Write a scope, a hint or a barrier around or between statements."""
    if writer.random.random() < 0.3:
        writer.builder.barrier()
        return
    hints = writer.random.choice(({}, {"fuse": False}, {"fuse": True}, {"group": "g"}, {"no_reorder": True}))
    with writer.builder.scope("part", hints=hints):
        write_statements(writer, caches, 2, operators)
