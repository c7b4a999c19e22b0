"""What a trace event says about a node (``specification: runtime.traces``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic
from openinfer.ir.nodes import (
    Assign,
    Await,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Op,
    Transfer,
)
from openinfer.ir.text import access_text, node_desc, ref_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.nodes import Node
    from openinfer.ir.values import Ref
    from openinfer.simulate.program.integers import IntReader
    from openinfer.symbolic import IntExpr

    ReaderOf: TypeAlias = Callable[[IntExpr], int | IntReader]
    Shown: TypeAlias = str | Callable[[tuple[int, ...]], str]
    """A reference as text, or its text for the values that are watched."""


@dataclass(frozen=True, slots=True)
class Description:
    """The texts of an event."""

    desc: str
    params: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Describe:
    """How to describe a node: by values that are read when it runs, so that texts can be made later.

    Attributes:
        watched: how to read the values.
        text: the description for some values.
    """

    watched: tuple[IntReader, ...]
    text: Callable[[tuple[int, ...]], Description]


def always(description: Description) -> Describe:
    """Return the description of a node whose texts never change."""
    return Describe((), lambda _: description)


def describer(node: Node, inputs: Sequence[Ref], reader_of: ReaderOf) -> Describe:
    """Return how to describe a node.

    Args:
        inputs: what an operator reads, inputs given by name included.
        reader_of: the value of an index expression, or how to read it.
    """
    kind = node.kind
    watched: list[IntReader] = []
    if isinstance(kind, Op):
        shown = {ref: _shown(ref, reader_of, watched) for ref in (*inputs, *kind.inputs)}
        if watched:
            return Describe(tuple(watched), partial(_operator, kind, tuple(inputs), shown))
        return always(Description(node_desc(node), tuple(_text(shown[ref], ()) for ref in inputs), kind.outputs))
    if isinstance(kind, Transfer):
        source = _shown(kind.src, reader_of, watched)
        return Describe(tuple(watched), lambda values: _transfer(kind, _text(source, values)))
    return always(_fixed(node))


def _operator(op: Op, inputs: tuple[Ref, ...], shown: Mapping[Ref, Shown], values: tuple[int, ...]) -> Description:
    texts = {ref: _text(text, values) for ref, text in shown.items()}
    head = f"op {op.op}({','.join(texts[ref] for ref in op.inputs)}) >> {', '.join(op.outputs)}"
    return Description(head, tuple(texts[ref] for ref in inputs), op.outputs)


def _transfer(transfer: Transfer, source: str) -> Description:
    return Description(f"transfer {source} >> {transfer.dst}", (source,), (transfer.dst,))


def _shown(ref: Ref, reader_of: ReaderOf, watched: list[IntReader]) -> Shown:
    """Return the text of a reference, with the names of indices that are known at run time only: ``QKV[l=0, h=1]``."""
    readers = [reader_of(index) for index in ref.indices]
    if not any(callable(reader) for reader in readers):
        return f"{ref.name}[{', '.join(map(symbolic.text, ref.indices))}]" if ref.indices else ref_text(ref)
    places: list[tuple[str, int | None]] = []
    for index, reader in zip(ref.indices, readers, strict=True):
        places.append((symbolic.text(index), len(watched) if callable(reader) else None))
        if callable(reader):
            watched.append(reader)
    return lambda values: f"{ref.name}[{', '.join(t if n is None else f'{t}={values[n]}' for t, n in places)}]"


def _text(shown: Shown, values: tuple[int, ...]) -> str:
    return shown(values) if callable(shown) else shown


def _fixed(node: Node) -> Description:
    kind, desc = node.kind, node_desc(node)
    match kind:
        case Assign(name):
            return Description(desc, (), (name,))
        case CacheRead(src, dst):
            return Description(desc, (access_text(src),), (dst,))
        case CacheWrite(src, dst):
            return Description(desc, (ref_text(src),), (access_text(dst),))
        case CacheIncrement(target) | CacheDecrement(target):
            return Description(desc, (target,), ())
        case CacheReset(target):
            return Description(desc, (access_text(target),), ())
        case Await(names):
            return Description(desc, names, ())
        case Dep(after, before):
            return Description(desc, (after,), (before,))
        case _:
            return Description(desc)
