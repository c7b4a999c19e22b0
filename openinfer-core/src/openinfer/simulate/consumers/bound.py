"""Consumer blocks bound to memory of their own (``specification: runtime.consumers``)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.concurrency import reached_blocks
from openinfer.simulate.compile.compiler import compile_graph
from openinfer.simulate.compile.placement import OtherDevices
from openinfer.simulate.state.overlay import OverlayMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.concurrency import Consumer
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.simulate.compile.placement import Placements
    from openinfer.simulate.consumers.sharing import Sharing
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.program.items import Code
    from openinfer.simulate.state.memory import Memory


@dataclass(frozen=True, slots=True, eq=False)
class BoundConsumer:
    """A consumer that is ready to run.

    Attributes:
        memory: where it works; ``memory.copied`` are the variables that it has copies of.
        code: the consumer's block.
        backend: what it works with: its own, or that of ``entry`` where the device has no other.
        parallel: whether it may run in a thread of its own: the device allows it, and what it works on changes nobody
            else's memory in passing.
    """

    consumer: Consumer
    memory: OverlayMemory
    code: Code
    backend: DeviceBackend
    parallel: bool


def bind_consumers(
    resolved: ResolvedGraph,
    sharing: Sharing | None,
    memory: Memory,
    backend: DeviceBackend,
    binder: Binder,
    placements: Placements,
) -> Mapping[str, BoundConsumer]:
    """Return the consumers of a program by name, each bound to memory of its own.

    Raises:
        ExecutionError: an operator cannot be bound on the device.
    """
    if sharing is None:
        return {}
    with ExitStack() as opened:
        bound = {
            consumer.name: _bound(consumer, resolved, sharing, memory, backend, binder, placements, opened)
            for consumer in sharing.consumers
        }
        opened.pop_all()
    return bound


def _bound(
    consumer: Consumer,
    resolved: ResolvedGraph,
    sharing: Sharing,
    memory: Memory,
    backend: DeviceBackend,
    binder: Binder,
    placements: Placements,
    opened: ExitStack,
) -> BoundConsumer:
    concurrent = backend.concurrent_backend()
    if concurrent is not None:
        opened.callback(concurrent.close)
    used, bound = (backend, binder) if concurrent is None else (concurrent, binder.on(concurrent))
    own = OverlayMemory(memory, used, copied=consumer.requirements & sharing.copied, private=sharing.private)
    others, blocks = OtherDevices(placements, own), reached_blocks(resolved.graph, consumer.name)
    codes = compile_graph(resolved, own, used, bound, others, blocks)
    # Reading a cache may make an entry and so grow it.
    used_by_both = (consumer.uses.reads | consumer.uses.writes) & sharing.common
    grows = any(memory.is_cache(name) for name in used_by_both.intersection(memory.variables))
    parallel = concurrent is not None and not grows
    return BoundConsumer(consumer, own, codes[consumer.name], used, parallel)
