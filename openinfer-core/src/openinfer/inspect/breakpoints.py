"""Where and why an inspected program stops, as plain data.

Operators, lines and blocks stop a program before a statement runs; writes, values and conditions after it has run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from openinfer.diagnostics import near_or_known
from openinfer.errors import ExecutionError
from openinfer.inspect import conditions
from openinfer.inspect.non_finite import INFINITY, NAN
from openinfer.ir.concurrency import consumers, reached_blocks
from openinfer.ir.nodes import Loop, Op
from openinfer.ir.uses import writes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from openinfer.inspect.conditions import Expression
    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph

CODE = "bad-breakpoint"


@dataclass(frozen=True, slots=True)
class OperatorBreakpoint:
    """Before every node with this operator: its name as written, or its canonical one."""

    op: str

    def __str__(self) -> str:
        return f"op {self.op}"


@dataclass(frozen=True, slots=True)
class LineBreakpoint:
    """Before every statement that begins on this line of the text (from 1)."""

    line: int

    def __str__(self) -> str:
        return f"line {self.line}"


@dataclass(frozen=True, slots=True)
class BlockBreakpoint:
    """Before the first statement of every run of this block."""

    block: str

    def __str__(self) -> str:
        return f"block {self.block}"


@dataclass(frozen=True, slots=True)
class WriteBreakpoint:
    """After every statement that has written this variable."""

    variable: str

    def __str__(self) -> str:
        return f"write {self.variable}"


@dataclass(frozen=True, slots=True)
class NonFiniteBreakpoint:
    """Where NaN or infinities first appear.

    That is after a statement that has one in an output and none in its inputs, and after the first statement that reads
    one from outside the step: a constant (once), an input (once a step), or memory that had it before.
    """

    nan: bool = True
    infinity: bool = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it looks for: ``"NaN"``, ``"infinity"``."""
        return tuple(kind for kind, wanted in ((NAN, self.nan), (INFINITY, self.infinity)) if wanted)

    def __str__(self) -> str:
        if self.nan and self.infinity:
            return "non-finite"
        return "nan" if self.nan else "inf"


@dataclass(frozen=True, slots=True)
class RangeBreakpoint:
    """After a statement that has written an element below ``low`` or above ``high`` (NaN is neither).

    Attributes:
        variable: the only one that is checked; None for all.
    """

    low: float = -math.inf
    high: float = math.inf
    variable: str | None = None

    def __str__(self) -> str:
        where = "" if self.variable is None else f" {self.variable}"
        return f"range {self.low:g}..{self.high:g}{where}"


@dataclass(frozen=True, slots=True)
class ConditionBreakpoint:
    """After the statement that makes a condition true, such as ``max(abs(x)) > 10``; see `conditions`.

    A condition that has no value at a moment, because of a temporary that is not there, counts as false.

    Raises:
        ExecutionError: ``bad-condition``, the text is none.
    """

    text: str
    expression: Expression = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "expression", conditions.parse(self.text))

    def __str__(self) -> str:
        return f"if {self.text}"


Breakpoint: TypeAlias = (
    OperatorBreakpoint
    | LineBreakpoint
    | BlockBreakpoint
    | WriteBreakpoint
    | NonFiniteBreakpoint
    | RangeBreakpoint
    | ConditionBreakpoint
)


def check_breakpoint(breakpoint_: Breakpoint, program: ResolvedGraph) -> None:
    """Check that a program can come to a breakpoint.

    Raises:
        ExecutionError: ``bad-breakpoint``: there is no such operator, line, block or variable in blocks that can run.
    """
    match breakpoint_:
        case OperatorBreakpoint(op):
            _check_operator(op, program)
        case LineBreakpoint(line):
            _check_line(line, program)
        case BlockBreakpoint(block):
            _check_block(block, program.graph)
        case WriteBreakpoint(variable):
            what = f"statement that writes `{variable}`"
            _check_name(variable, program)
            _check_statements(program, lambda node: variable in writes(node), what)
        case RangeBreakpoint(low, high, variable):
            if not low <= high:
                raise ExecutionError(f"expected a range from low to high, found {low:g}..{high:g}", code=CODE)
            if variable is not None:
                _check_name(variable, program)
        case ConditionBreakpoint():
            check_names(breakpoint_.expression, program)
        case NonFiniteBreakpoint():
            pass


def check_names(expression: Expression, program: ResolvedGraph) -> None:
    """Check that every name in an expression is a variable, prefix table, temporary or loop index.

    Raises:
        ExecutionError: ``unknown-variable``.
    """
    indices = {node.kind.index for _, node in program.graph.nodes() if isinstance(node.kind, Loop)}
    for access in conditions.accesses(expression):
        if access.name not in indices:
            _check_name(access.name, program)


def blocks_that_run(graph: Graph) -> frozenset[str]:
    """Return the blocks that ``entry`` and the consumers are, and those that they call."""
    roots = ["entry", *(each.name for each in consumers(graph))]
    return frozenset(name for root in roots for name in reached_blocks(graph, root))


def _check_operator(op: str, program: ResolvedGraph) -> None:
    def fits(node: Node) -> bool:
        return isinstance(node.kind, Op) and op in (node.kind.op, program.ops[node.index].op)

    names = {each.op for each in program.ops.values()}
    _check_statements(program, fits, f"operator `{op}`", near_or_known(op, sorted(names)))


def _check_line(line: int, program: ResolvedGraph) -> None:
    lines = sorted({node.span.line for _, node in program.graph.nodes() if node.span is not None})
    if not lines:
        raise ExecutionError("the program has no lines: it does not come from a text", code=CODE)
    near = min(lines, key=lambda each: abs(each - line))
    what = f"statement that begins on line {line}"
    _check_statements(program, lambda node: node.span is not None and node.span.line == line, what, f"line {near} has")


def _check_block(block: str, graph: Graph) -> None:
    if block not in graph.blocks:
        raise ExecutionError(f"there is no block `{block}`: {near_or_known(block, graph.blocks)}", code=CODE)
    if block not in blocks_that_run(graph):
        raise _never_run(f"block `{block}`", [block])


def _check_statements(program: ResolvedGraph, fits: Callable[[Node], bool], what: str, hint: str = "") -> None:
    blocks = {block.name for block, node in program.graph.nodes() if fits(node)}
    if not blocks:
        raise ExecutionError(f"there is no {what}" + (f": {hint}" if hint else ""), code=CODE)
    if not blocks & blocks_that_run(program.graph):
        raise _never_run(what, blocks)


def _check_name(name: str, program: ResolvedGraph) -> None:
    known = [*program.variables, *program.tables]
    if name not in known:
        hint = near_or_known(name, known, "variables")
        raise ExecutionError(f"unknown variable `{name}`: {hint}", code="unknown-variable")


def _never_run(what: str, blocks: Iterable[str]) -> ExecutionError:
    listed = ", ".join(f"`{name}`" for name in sorted(blocks))
    return ExecutionError(f"{what} is in {listed} only, which nothing calls: a step does not come there", code=CODE)
