"""Drawing a program: each depends on a seed and its number alone."""

from __future__ import annotations

from random import Random

from openinfer.dtypes import F32
from openinfer.ir.types import TensorType
from openinfer.plugins.environment import Environment
from openinfer.testing.random_programs.caches import Caches
from openinfer.testing.random_programs.consumers import hand_over, write_consumer
from openinfer.testing.random_programs.sample import Sample
from openinfer.testing.random_programs.statements import write_statements
from openinfer.testing.random_programs.writer import Writer

STEPS = 3

LENGTHS = (1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 14)
"""Statements of ``entry``, those in loops and blocks not counted."""


def drawn_sample(seed: int, number: int, environment: Environment) -> Sample:
    """Return a program, with a model and inputs for some steps."""
    random = Random(f"{seed}/{number}")  # noqa: S311 - the same programs every time
    writer = Writer(random, environment)
    operators = sorted(environment.ops)
    caches = Caches(writer) if random.random() < 0.13 else None
    consumer = write_consumer(writer) if random.random() < 0.05 else None
    for name in ("two", "one")[: random.choice((0, 0, 0, 1, 2))]:
        with writer.inside(), writer.builder.block(name):
            write_statements(writer, caches, random.choice((1, 2, 3)), operators)
            writer.builder.return_()
        writer.blocks.append(name)
    writer.is_entry = True
    with writer.builder.block("entry"):
        write_statements(writer, caches, random.choice(LENGTHS), operators)
        if consumer is not None:
            hand_over(writer, consumer)
        _write_result(writer)
        writer.builder.return_(*_results(writer))
    return writer.sample(STEPS)


def _write_result(writer: Writer) -> None:
    """Write a volatile variable in entry: a program without results cannot be written out."""
    known = [each for each in writer.visible if not each.is_table]
    source = writer.random.choice(known) if known else writer.input(TensorType(F32, (2,)))
    made = writer.name("y")
    writer.builder.volatile(made, source.type.dtype, source.type.shape)
    writer.builder.op("identity", source.name, outputs=made)
    writer.written.append(made)


def _results(writer: Writer) -> list[str]:
    """Return what the program returns: all that it writes, some of it, or nothing by name."""
    chance = writer.random.random()
    if chance < 0.3:
        return []
    if chance < 0.8:
        return list(writer.written)
    return [name for name in writer.written[:-1] if writer.random.random() < 0.5] + writer.written[-1:]
