"""How many open roundings each variable has after a step: found by following the statements."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from openinfer.ir.graph import walk
from openinfer.ir.nodes import Await, Branch, CacheRead, CacheReset, CacheWrite, Loop, Node, Op, Return, Transfer
from openinfer.ir.resolved import ResolvedGraph, RuntimeScalar
from openinfer.ops.calls import OpCall
from openinfer.plugins.environment import Environment
from openinfer.testing.random_programs.precision import EXACT, UNKNOWN, level_of

Levels = dict[str, int]

ROUNDS = UNKNOWN + 2
"""Iterations after which nothing changes any more."""


def levels_of(
    program: ResolvedGraph, environment: Environment, *, gpu: bool = False, open_ops: AbstractSet[int] = frozenset()
) -> Mapping[str, int]:
    """Return the level of every variable (`openinfer.testing.random_programs.precision`) at the end of any step.

    Args:
        open_ops: numbers of the statements whose results are unknown (`openinfer.testing.random_programs.extremes`).
    """
    follower = _Follower(program, environment, gpu=gpu, open_ops=open_ops)
    levels: Levels = {}
    for _ in range(ROUNDS):
        before = dict(levels)
        follower.block("entry", levels, 0)
        follower.consumers(levels)
        levels = _joined(before, levels)
        if levels == before:
            break
    return levels


class _Follower:
    def __init__(
        self, program: ResolvedGraph, environment: Environment, *, gpu: bool, open_ops: AbstractSet[int]
    ) -> None:
        self._program = program
        self._environment = environment
        self._gpu = gpu
        self._open_ops = open_ops
        self._at_returns: Levels = {}

    def consumers(self, levels: Levels) -> None:
        """Follow the blocks that run concurrently with entry, of which each variable has one writer."""
        for block in self._program.graph.blocks.values():
            if block.name != "entry" and any(isinstance(node.kind, Await) for node in block.walk()):
                after = dict(levels)
                self.block(block.name, after, 0)
                levels.update(_joined(levels, after))

    def block(self, name: str, levels: Levels, depth: int) -> None:
        """Follow a block, which ends after its last statement or at any return."""
        if depth < 8:
            outer, self._at_returns = self._at_returns, {}
            self._nodes(self._program.graph.blocks[name].nodes, levels, depth)
            levels.update(_joined(levels, self._at_returns))
            self._at_returns = outer

    def _nodes(self, nodes: tuple[Node, ...], levels: Levels, depth: int) -> None:
        for node in nodes:
            kind = node.kind
            if isinstance(kind, Return):
                # What follows it never runs.
                self._at_returns = _joined(self._at_returns, levels)
                return
            if isinstance(kind, Op):
                self._op(node, kind, levels)
            elif isinstance(kind, Transfer):
                levels[kind.dst] = levels.get(kind.src.name, EXACT)
            elif isinstance(kind, CacheRead):
                levels[kind.dst] = levels.get(kind.src.base, EXACT)
            elif isinstance(kind, CacheWrite):
                levels[kind.dst.base] = max(levels.get(kind.dst.base, EXACT), levels.get(kind.src.name, EXACT))
            elif isinstance(kind, CacheReset):
                continue
            elif isinstance(kind, Branch):
                self._branch(kind, levels, depth)
            elif isinstance(kind, Loop):
                self._loop(kind, levels, depth)

    def _op(self, node: Node, kind: Op, levels: Levels) -> None:
        resolved = self._program.ops[node.index]
        names = [each.name for each in resolved.inputs if each is not None]
        names += [each.name for each in resolved.runtime_settings.values() if isinstance(each, RuntimeScalar)]
        call = OpCall(
            op=resolved.op, inputs=resolved.input_types, outputs=resolved.output_types, settings=resolved.settings
        )
        given = [levels.get(name, EXACT) for name in names]
        level = level_of(self._environment.op(resolved.op), call, given, gpu=self._gpu)
        level = UNKNOWN if node.index in self._open_ops else level
        levels.update(dict.fromkeys(kind.outputs, level))

    def _branch(self, kind: Branch, levels: Levels, depth: int) -> None:
        taken = dict(levels)
        self.block(kind.then_block, taken, depth + 1)
        other = dict(levels)
        if kind.else_block is not None:
            self.block(kind.else_block, other, depth + 1)
            levels.update(_joined(taken, other))
        else:
            levels.update(taken)
        if kind.cond is not None and levels.get(kind.cond, EXACT) > EXACT:
            levels.update(dict.fromkeys(levels, UNKNOWN))

    def _loop(self, kind: Loop, levels: Levels, depth: int) -> None:
        for _ in range(ROUNDS):
            before = dict(levels)
            self._nodes(kind.body, levels, depth)
            levels.update(_joined(before, levels))
            if levels == before:
                break


def _joined(left: Levels, right: Levels) -> Levels:
    return {name: max(left.get(name, EXACT), right.get(name, EXACT)) for name in {**left, **right}}


def operators_of(program: ResolvedGraph) -> set[str]:
    """Return the names of the operators in a program."""
    nodes = (node for block in program.graph.blocks.values() for node in walk(block.nodes))
    return {program.ops[node.index].op for node in nodes if node.index in program.ops}
