"""Random programs against a deliberately naive interpreter: control flow, transfers, persistent memory."""

from __future__ import annotations

import operator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openinfer as oi
from openinfer.dsl import graph
from openinfer.ir.nodes import (
    Branch,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Loop,
    Node,
    Op,
    Return,
    Single,
    Transfer,
)
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import Fallback
from openinfer.simulate import Simulator
from openinfer.symbolic import evaluate

VARIABLES = ("a", "b", "c")
PERSISTENT = ("p", "q")
BLOCKS = ("first", "second")
HEADER = """
dynamic { a: i32[2]; flag: bool; }
volatile { b: i32[2] @init(3); c: i32[2]; rows: i32[1, 2]; }
volatile { W(i): i32[2] @pattern("w{i}"); zero: i32; one: i32 @init(1); }
persistent { p: i32[2] @init(1); q: i32[2]; n: i32; K(i): i32[2] @table @init(9); }
"""
WEIGHTS = {f"w{i}": np.array([i, 10 * i - 7], np.int32) for i in range(4)}
OPERATORS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}

variable, persistent = st.sampled_from(VARIABLES), st.sampled_from(PERSISTENT)


def simple(index: str | None) -> st.SearchStrategy[str]:
    """Return statements without a body; ``index`` is the innermost loop index."""
    table = "W[2]" if index is None else f"W[{index}]"
    value = st.sampled_from([*VARIABLES, table])
    place = st.sampled_from(["0", "1", "3"] if index is None else [index, f"{index}+1", "2"])
    return st.one_of(
        st.builds("op {}({}, {}) >> {};".format, st.sampled_from(sorted(OPERATORS)), value, value, variable),
        st.builds("transfer {} >> {};".format, value, variable),
        st.builds("cache.read {} >> {};".format, persistent, variable),
        st.builds("cache.write {} >> {};".format, value, persistent),
        st.builds("cache.reset {};".format, persistent),
        st.builds("cache.increment {} n;".format, st.integers(0, 5)),
        st.builds("cache.write {} >> K[{}];".format, value, place),
        st.builds("cache.read K[{}] >> {};".format, place, variable),
        st.builds("cache.read K[{0}..{0}+1] >> rows; op sum_axis(rows, axes=[0]) >> {1};".format, place, variable),
        st.builds("cache.reset K[{}];".format, place),
        st.just("return;"),
    )


def statements(depth: int, index: str | None, callable_blocks: tuple[str, ...]) -> st.SearchStrategy[str]:
    options = [simple(index)] * 3
    if callable_blocks:
        target = st.sampled_from(callable_blocks)
        options.append(st.builds("branch {};".format, target))
        options.append(st.builds("branch {} {} {};".format, st.sampled_from(["zero", "one", "flag"]), target, target))
    if depth:
        name = f"i{depth}"
        bound = st.integers(0, 3)
        body = statements(depth - 1, name, callable_blocks)
        options.append(st.builds(f"loop l ({name} in {{}}..{{}}) {{{{ {{}} }}}}".format, bound, bound, body))
    return st.lists(st.one_of(options), max_size=5).map(" ".join)


programs = st.builds(
    "{}block entry {{ {} return a, b; }}\nblock first {{ {} }}\nblock second {{ {} }}\n".format,
    st.just(HEADER),
    statements(2, None, BLOCKS),
    statements(2, None, ("second",)),
    statements(1, None, ()),
)


class Left(Exception):  # noqa: N818 -- a return, not a mistake
    """The block is left."""


@dataclass
class Naive:
    """Runs a graph by walking its nodes, on lists of Python integers."""

    program: Any
    memory: dict[str, Any] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)

    def step(self, a: list[int]) -> None:
        self.memory.setdefault("p", [1, 1])
        self.memory.setdefault("q", [0, 0])
        self.memory.setdefault("n", 0)
        self.memory.setdefault("K", {})
        self.memory |= {"a": list(a), "b": [3, 3], "c": [0, 0], "zero": 0, "one": 1, "flag": a[0] > 0}
        self.block("entry")

    def block(self, name: str) -> None:
        with suppress(Left):
            self.nodes(self.program.blocks[name].nodes, {})

    def nodes(self, nodes: tuple[Node, ...], indices: dict[str, int]) -> None:
        for node in nodes:
            self.seen.append(node.index)
            if not isinstance(node.kind, Loop):
                self.node(node.kind, indices)
                continue
            for turn in range(node.kind.start.value, node.kind.end.value):
                self.nodes(node.kind.body, {**indices, node.kind.index: turn})

    def value(self, ref: Any, indices: dict[str, int]) -> list[int]:
        if not ref.indices:
            return list(self.memory[ref.name])
        (index,) = ref.indices
        number = index.value if hasattr(index, "value") else indices[index.name]
        return [int(v) for v in WEIGHTS[f"w{number}"]]

    def place(self, slot: Any, indices: dict[str, int]) -> int:
        """Return an index such as ``3``, ``i1`` or ``i1+1``; of a range, its start."""
        expr = slot.index if isinstance(slot, Single) else slot.start
        offset = 0
        if hasattr(expr, "left"):
            expr, offset = expr.left, expr.right.value
        return offset + (expr.value if hasattr(expr, "value") else indices[expr.name])

    def table(self, kind: Any, indices: dict[str, int]) -> None:
        cells = self.memory["K"]
        match kind:
            case CacheRead(src, "rows"):
                self.memory["rows"] = list(cells.get(self.place(src.slots[0], indices), [9, 9]))
            case CacheRead(src, dst):
                self.memory[dst] = list(cells.setdefault(self.place(src.slots[0], indices), [9, 9]))
            case CacheWrite(src, dst):
                cells[self.place(dst.slots[0], indices)] = self.value(src, indices)
            case CacheReset(target):
                cells.pop(self.place(target.slots[0], indices), None)

    def node(self, kind: Any, indices: dict[str, int]) -> None:
        match kind:
            case CacheRead(access) | CacheWrite(_, access) | CacheReset(access) if access.base == "K":
                self.table(kind, indices)
            case Op("sum_axis", _, (out,)):
                self.memory[out] = list(self.memory["rows"])
            case Op(name, (left, right), (out,)):
                pairs = zip(self.value(left, indices), self.value(right, indices), strict=True)
                self.memory[out] = [(OPERATORS[name](x, y) + 2**31) % 2**32 - 2**31 for x, y in pairs]
            case Transfer(src, dst):
                self.memory[dst] = self.value(src, indices)
            case CacheRead(src, dst):
                self.memory[dst] = list(self.memory[src.base])
            case CacheWrite(src, dst):
                self.memory[dst.base] = self.value(src, indices)
            case CacheReset(target):
                self.memory[target.base] = [1, 1] if target.base == "p" else [0, 0]
            case CacheIncrement(target, amount):
                self.memory[target] += evaluate(amount, self.memory.__getitem__)
            case Branch(then, cond, otherwise):
                self.block(then if cond is None or self.memory[cond] else otherwise or then)
            case Return():
                raise Left
            case _:
                raise AssertionError(kind)


def leaving() -> Environment:
    """Return the installed devices, and a `box` that leaves every operator to cpu."""
    known = Environment.default()
    left = Fallback(device="cpu", dtypes=frozenset({"i32"}))
    box = replace(known.devices["cpu"], name="box", expression_dtypes=frozenset[str](), fallback=left)
    return replace(known, devices={**known.devices, "box": box})


@pytest.mark.rule("runtime.control.1", "runtime.control.7", "runtime.determinism.5")
@settings(max_examples=60, deadline=None)
@given(text=programs, inputs=st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=2), min_size=1, max_size=3))
def test_random_programs_agree_with_a_naive_interpreter(text: str, inputs: list[list[int]]) -> None:
    program = graph(text)
    simulator = Simulator(oi.Model.from_arrays(WEIGHTS), program)
    stepped, iterated, naive = simulator.make_executor(), simulator.make_executor(), Naive(program)
    elsewhere = Simulator(oi.Model.from_arrays(WEIGHTS), program, device="box", environment=leaving()).make_executor()
    for a in inputs:
        naive.seen.clear()
        naive.step(a)
        stepped.step(a=a, flag=a[0] > 0)
        elsewhere.step(a=a, flag=a[0] > 0)
        iterated.insert(a=a, flag=a[0] > 0)
        assert [run.event.node_index for run in iterated.iterate()] == naive.seen
        for name in (*VARIABLES, *PERSISTENT):
            expected = naive.memory[name]
            assert stepped.fetch(name).tolist() == iterated.fetch(name).tolist() == expected
            assert elsewhere.fetch(name).tolist() == expected
        rows = [naive.memory["K"].get(i, [9, 9]) for i in range(1 + max(naive.memory["K"], default=-1))]
        assert stepped.fetch("K").tolist() == iterated.fetch("K").tolist() == elsewhere.fetch("K").tolist() == rows
        assert stepped.fetch("n") == iterated.fetch("n") == naive.memory["n"]
