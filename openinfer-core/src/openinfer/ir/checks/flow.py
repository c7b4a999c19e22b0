"""Warnings about the flow of control: ends of blocks, statements and blocks that are never reached, endless calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import Severity
from openinfer.ir.nodes import Branch, Loop, Return, Yield

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Block
    from openinfer.ir.nodes import Node


def check_flow(blocks: list[Block], consumers: frozenset[str], findings: Findings) -> None:
    """Warn about odd flow of control."""
    for block in blocks:
        if block.name not in consumers and not findings.doubts.may_miss("return", "yield", "await", block=block.name):
            _check_end(block, findings)
        _check_unreachable_statements(block, block.nodes, findings)
    by_name = {block.name: block for block in blocks}
    if not findings.doubts.may_miss("branch", "await") and _all_targets_exist(by_name):
        _check_unreachable_blocks(by_name, consumers, findings)
    if not findings.doubts.may_miss("return"):
        _check_cycles(by_name, findings)


def _check_end(block: Block, findings: Findings) -> None:
    if not block.nodes or not isinstance(block.nodes[-1].kind, Return | Yield):
        findings.of_block(
            block, "no-return", f"block `{block.name}` does not end with `return`", severity=Severity.WARNING
        )


def _check_unreachable_statements(block: Block, nodes: tuple[Node, ...], findings: Findings) -> None:
    ended = False
    for node in nodes:
        if ended:
            message = "this statement is never reached: `return` comes before it"
            findings.of_node(block, node, "unreachable", message, severity=Severity.WARNING)
            break
        ended = isinstance(node.kind, Return)
    for node in nodes:
        if isinstance(node.kind, Loop):
            _check_unreachable_statements(block, node.kind.body, findings)


def _all_targets_exist(blocks: Mapping[str, Block]) -> bool:
    """Whether the target of every branch exists: a misspelt name may mean any block."""
    branches = (node.kind for block in blocks.values() for node in block.walk() if isinstance(node.kind, Branch))
    return all(target is None or target in blocks for kind in branches for target in (kind.then_block, kind.else_block))


def _check_unreachable_blocks(blocks: Mapping[str, Block], consumers: frozenset[str], findings: Findings) -> None:
    reached: set[str] = set()
    waiting = [name for name in ("entry", *sorted(consumers)) if name in blocks]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for node in blocks[name].walk():
            if isinstance(node.kind, Branch):
                targets = (node.kind.then_block, node.kind.else_block)
                waiting += [target for target in targets if target is not None and target in blocks]
    for block in blocks.values():
        if block.name not in reached and "entry" in blocks:
            message = f"no branch leads to block `{block.name}`"
            findings.of_block(block, "unreachable", message, severity=Severity.WARNING)


def _check_cycles(blocks: Mapping[str, Block], findings: Findings) -> None:
    """Warn about blocks that call themselves without any condition, which only ends at the limit of frames."""
    calls = {name: list(_unconditional(block)) for name, block in blocks.items()}
    done: set[str] = set()
    for name in blocks:
        path: dict[str, None] = {}
        waiting: list[tuple[str, Node | None]] = [(name, None)]
        while waiting:
            current, _ = waiting.pop()
            if current == "":
                done.add(path.popitem()[0])
                continue
            if current in done:
                continue
            path[current] = None
            waiting.append(("", None))
            for target, node in calls.get(current, ()):
                if target in path:
                    message = f"block `{current}` calls `{target}` again without a condition: this never ends"
                    findings.of_node(blocks[current], node, "branch-cycle", message, severity=Severity.WARNING)
                elif target not in done:
                    waiting.append((target, node))


def _unconditional(block: Block) -> list[tuple[str, Node]]:
    """Return the blocks that a block surely calls, if it is run."""
    targets: list[tuple[str, Node]] = []
    for node in block.nodes:
        if isinstance(node.kind, Return):
            break
        if isinstance(node.kind, Branch) and node.kind.else_block in (None, node.kind.then_block):
            targets.append((node.kind.then_block, node))
    return targets
