"""Drawing a block that runs concurrently with entry, and what entry does meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.testing.random_programs.data import drawn_values
from openinfer.testing.random_programs.writer import Writer

UNARY = ("neg", "abs", "square", "relu", "identity")


@dataclass(frozen=True, slots=True)
class Consumer:
    """The variables of a block that waits: the one that it is handed, and one that it alone writes."""

    handed: str
    own: str
    type: TensorType


def write_consumer(writer: Writer) -> Consumer:
    """Write the block and declare its variables, which nothing else uses."""
    dtype = writer.random.choice(("f32", "i32", "i8", "f16"))
    kind = TensorType(BY_NAME[dtype], writer.random.choice(((), (3,), (2, 4))))
    given, handed, own = writer.name("x"), writer.name("h"), writer.name("w")
    writer.builder.dynamic(given, kind.dtype, kind.shape)
    writer.inputs[given] = lambda: drawn_values(kind, writer.random, calm=writer.calm)
    writer.builder.volatile(handed, kind.dtype, kind.shape)
    writer.builder.volatile(own, kind.dtype, kind.shape)
    with writer.builder.block("worker"):
        writer.builder.await_(handed)
        writer.builder.op("add", handed, given, outputs=own)
        if writer.random.random() < 0.6:
            writer.builder.op(writer.random.choice(UNARY), handed, outputs=handed)
        if writer.random.random() < 0.4:
            with writer.builder.loop("turns", writer.name("i"), 0, 2):
                writer.builder.op(writer.random.choice(UNARY), own, outputs=own)
        writer.builder.yield_(handed)
    writer.written += [handed, own]
    return Consumer(handed, own, kind)


def hand_over(writer: Writer, consumer: Consumer) -> None:
    """Write statements of entry that hand the variable over and take it back."""
    if writer.random.random() < 0.5:
        writer.builder.op("fill", consumer.handed, outputs=consumer.handed, settings={"value": 2})
    writer.builder.yield_(consumer.handed)
    meanwhile = writer.name("y")
    writer.builder.volatile(meanwhile, consumer.type.dtype, consumer.type.shape)
    writer.written.append(meanwhile)
    writer.builder.op(writer.random.choice(UNARY), meanwhile, outputs=meanwhile)
    writer.builder.await_(consumer.handed)
    writer.builder.op("sub", consumer.own, consumer.handed, outputs=meanwhile)
