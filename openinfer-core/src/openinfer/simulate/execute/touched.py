"""The values that a node reads and writes, as names that can be fetched right after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import ExecutionError
from openinfer.ir.nodes import Assign, Await, CacheDecrement, CacheIncrement, CacheRead, CacheWrite, Op, Transfer, Yield

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from openinfer.events import TraceEvent
    from openinfer.ir.nodes import Node
    from openinfer.simulate.values import Tensor


def fetchable(shown: str) -> str:
    """Return a reference of an event as `Executor.fetch` takes it: ``W[0, 1]`` for ``W[l=0, h=1]``."""
    name, bracket, rest = shown.partition("[")
    if not bracket:
        return name
    return f"{name}[{', '.join(part.rpartition('=')[2].strip() for part in rest.rstrip(']').split(','))}]"


def inputs_of(event: TraceEvent, node: Node) -> tuple[str, ...]:
    """Return what a node read, caches apart."""
    reads = isinstance(node.kind, Op | Transfer | CacheWrite)
    return tuple(map(fetchable, event.params)) if reads else ()


def outputs_of(event: TraceEvent, node: Node) -> tuple[str, ...]:
    """Return what holds the values that a node wrote; for a ``cache.write`` that is its source."""
    match node.kind:
        case Op() | Assign() | Transfer() | CacheRead():
            return event.output
        case CacheWrite():
            return tuple(map(fetchable, event.params))
        case CacheIncrement(target) | CacheDecrement(target):
            return (target,)
        case _:
            return ()


def may_change_anything(node: Node) -> bool:
    """Whether variables can change that the statement does not name: consumers run and are merged here."""
    return isinstance(node.kind, Yield | Await)


def fetched(fetch: Callable[[str], Tensor], names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
    """Yield the values of those names that have one; ``fetch`` is `Executor.fetch_raw`."""
    for name in names:
        try:
            yield name, fetch(name)
        except ExecutionError:
            continue
