"""What a trace event says about a node (runtime specification, section 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from openinfer.simulate.integers import value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.nodes import Node
    from openinfer.ir.values import Ref
    from openinfer.simulate.integers import IntReader
    from openinfer.symbolic import IntExpr

    ReaderOf: TypeAlias = Callable[[IntExpr], int | IntReader]


@dataclass(frozen=True, slots=True)
class Description:
    """The texts of an event."""

    desc: str
    params: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


Describe: TypeAlias = Callable[[], Description]


def describer(node: Node, inputs: Sequence[Ref], reader_of: ReaderOf) -> Describe:
    """Return a function that describes a node as it ran just now.

    Args:
        inputs: what an operator reads, inputs given by name included.
        reader_of: the value of an index expression, or how to read it.
    """
    kind = node.kind
    if isinstance(kind, Op):
        return _operator(kind, node_desc(node), inputs, reader_of)
    if isinstance(kind, Transfer):
        return _transfer(kind, node_desc(node), reader_of)
    fixed = _fixed(node)
    return lambda: fixed


def _operator(op: Op, desc: str, inputs: Sequence[Ref], reader_of: ReaderOf) -> Describe:
    shown = [_shown(ref, reader_of) for ref in inputs]
    written = [_shown(ref, reader_of) for ref in op.inputs]
    if not any(callable(each) for each in shown):
        fixed = Description(desc, tuple(map(_text, shown)), op.outputs)
        return lambda: fixed

    def describe() -> Description:
        head = f"op {op.op}({','.join(map(_text, written))}) >> {', '.join(op.outputs)}"
        return Description(head, tuple(map(_text, shown)), op.outputs)

    return describe


def _transfer(transfer: Transfer, desc: str, reader_of: ReaderOf) -> Describe:
    source = _shown(transfer.src, reader_of)
    if not callable(source):
        fixed = Description(desc, (source,), (transfer.dst,))
        return lambda: fixed

    def describe() -> Description:
        text = source()
        return Description(f"transfer {text} >> {transfer.dst}", (text,), (transfer.dst,))

    return describe


def _shown(ref: Ref, reader_of: ReaderOf) -> str | Callable[[], str]:
    """Return a reference; one whose indices are only known when it runs names them: ``QKV[l=0, h=1]``."""
    readers = [reader_of(index) for index in ref.indices]
    if not any(callable(reader) for reader in readers):
        return f"{ref.name}[{', '.join(map(symbolic.text, ref.indices))}]" if ref.indices else ref_text(ref)
    texts = [symbolic.text(index) for index in ref.indices]

    def show() -> str:
        pairs = zip(texts, readers, strict=True)
        return f"{ref.name}[{', '.join(f'{t}={value_of(r)}' if callable(r) else t for t, r in pairs)}]"

    return show


def _text(shown: str | Callable[[], str]) -> str:
    return shown() if callable(shown) else shown


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
