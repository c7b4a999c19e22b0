"""The order of blocks: each after those that it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.concurrency import consumers, is_concurrent
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Branch
from openinfer.plan.findings import at_node

if TYPE_CHECKING:
    from openinfer.ir.graph import Block
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph


def callees_first(resolved: ResolvedGraph, *, in_line: bool) -> list[str]:
    """Return the blocks that ``entry`` reaches, each after those that it branches to; ``in_line``: consumers too.

    Raises:
        SynthesisError: ``branch-cycle``: a block reaches itself; the message names the blocks on the way.
    """
    order: list[str] = []
    open_blocks: dict[str, None] = {}
    stack: list[tuple[str, bool]] = [("entry", False)]
    while stack:
        name, done = stack.pop()
        if done:
            del open_blocks[name]
            order.append(name)
            continue
        if name in order:
            continue
        open_blocks[name] = None
        stack.append((name, True))
        block = resolved.graph.blocks[name]
        called = _branches(block)
        if in_line and name == "entry" and is_concurrent(resolved.graph):
            called += [(block.nodes[0], consumer.name) for consumer in consumers(resolved.graph)]
        for node, target in reversed(called):
            if target in open_blocks:
                path = list(open_blocks)
                cycle = " -> ".join([*path[path.index(target) :], target])
                message = f"block {target!r} reaches itself ({cycle}): recursion cannot be synthesised"
                raise at_node(
                    "branch-cycle", message, name, node, hint="write a `loop`, or run the program on device cpu"
                )
            stack.append((target, False))
    return order


def _branches(block: Block) -> list[tuple[Node, str]]:
    branches: list[tuple[Node, str]] = []
    for node in walk(block.nodes):
        if isinstance(node.kind, Branch):
            targets = (node.kind.then_block, node.kind.else_block)
            branches += [(node, target) for target in targets if target is not None]
    return branches
