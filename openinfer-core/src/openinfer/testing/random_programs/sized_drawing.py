"""Drawing a program whose sizes change from step to step: each depends on a seed and its number alone."""

from __future__ import annotations

from itertools import count
from random import Random

from openinfer.plugins.environment import Environment
from openinfer.testing.random_programs.changing_sizes import SizeWriter
from openinfer.testing.random_programs.sample import Sample
from openinfer.testing.random_programs.sized_state import State, declare_state, mark, read_before, write_state
from openinfer.testing.random_programs.sized_statements import UNARY, write_op

LENGTHS = (1, 1, 2, 2, 3, 4, 5, 7, 10)
"""Statements of ``entry``, those on persistent memory and those in loops not counted."""

MOST_RESULTS = 6


def drawn_sized_sample(seed: int, number: int, environment: Environment) -> Sample:
    """Return a program, with a model and inputs for some steps of different sizes."""
    for attempt in count():
        # The same programs every time.
        sample = _drawn(SizeWriter(Random(f"sizes/{seed}/{number}/{attempt}")))  # noqa: S311
        if sample.fits(environment):
            return sample
    raise AssertionError


def _drawn(writer: SizeWriter) -> Sample:
    # Every size is an extent of an input by itself, which gives it to the step.
    writer.input("f32", ("T", "4"))
    writer.input("f32", ("U",))
    state = declare_state(writer) if writer.chance(0.4) else None
    handed = _write_consumer(writer) if writer.chance(0.12) else None
    for _ in range(writer.random.choice((0, 0, 0, 1, 2))):
        _write_block(writer, state)
    with writer.builder.block("entry"):
        before = [] if state is None else read_before(writer, state)
        length = writer.random.choice(LENGTHS)
        place = writer.random.randrange(length + 1)
        for number_of_statement in range(length + 1):
            if number_of_statement == place and state is not None:
                write_state(writer, state)
            if number_of_statement < length:
                write_op(writer)
            if state is not None and writer.chance(0.2):
                mark(writer, state)
        if handed is not None:
            _hand_over(writer, handed)
        writer.builder.return_(*before, *_results(writer))
    return writer.sample()


def _write_block(writer: SizeWriter, state: State | None) -> None:
    """Write a block that entry, and blocks after it, may branch to."""
    name = writer.name("block")
    with writer.builder.block(name), writer.inside():
        for _ in range(writer.random.choice((0, 1, 1, 2, 3))):
            if state is not None and writer.chance(0.5):
                mark(writer, state)
            write_op(writer)
    writer.blocks.append(name)


def _results(writer: SizeWriter) -> list[str]:
    made = [value.name for value in writer.values if not value.name.startswith("x")]
    if not made:
        write_op(writer)
        return _results(writer)
    length = min(len(made), writer.random.randrange(1, MOST_RESULTS))
    return [*writer.random.sample(made[:-1], length - 1), made[-1]]


def _write_consumer(writer: SizeWriter) -> tuple[str, str]:
    """Write a block that runs concurrently with entry; return what it is handed, and what it alone writes."""
    size = writer.random.choice(("T", "U"))
    handed, own = writer.name("h"), writer.name("v")
    for name in (handed, own):
        writer.builder.volatile(name, "f32", [size, 4])
    with writer.builder.block("worker"):
        writer.builder.await_(handed)
        writer.builder.op(writer.random.choice(UNARY["f32"]), handed, outputs=own)
        if writer.chance(0.5):
            writer.builder.op("mul", handed, own, outputs=handed)
        writer.builder.yield_(handed)
    return handed, own


def _hand_over(writer: SizeWriter, names: tuple[str, str]) -> None:
    """Write statements of entry that hand a variable over, and take it back."""
    handed, own = names
    meanwhile, after = writer.name("y"), writer.result("f32", ())
    writer.builder.op("fill", handed, outputs=handed, settings={"value": 2})
    writer.builder.yield_(handed)
    writer.builder.op("neg", "x1", outputs=meanwhile)
    writer.builder.await_(handed)
    writer.builder.op("sum_axis", own, outputs=after)
