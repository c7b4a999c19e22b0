"""What `openinfer trace` shows: where it is, the program, values, tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.cli.run_report import output_lines
from openinfer.cli.stepping_words import WHERE, WORDS
from openinfer.cli.terminal import table
from openinfer.diagnostics import printable
from openinfer.errors import ExecutionError
from openinfer.inspect.conditions import Access, parse
from openinfer.inspect.statistics import operator_times
from openinfer.inspect.watches import shown
from openinfer.simulate.execute.touched import fetchable, fetched, outputs_of
from openinfer.validate.numbers import number_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.diagnostics import Source, Span
    from openinfer.events import TraceEvent
    from openinfer.inspect import Inspector, Stop
    from openinfer.inspect.evaluation import Values
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedVar
    from openinfer.simulate import Executor

AROUND = 4
"""Lines that are listed before and after one."""

MOST_LEVELS = 20
"""Blocks and loops that are shown, innermost ones."""

MOST_CHANGES = 10
"""Changes of watch expressions that are shown at a stop, the latest ones."""

MOST_ELEMENTS = 10_000
"""Elements of a value that are shown at most."""


def stop_lines(stop: Stop, executor: Executor) -> Iterator[str]:
    """Yield what has run, why it stopped, what has changed, and what runs next."""
    if stop.event is not None and stop.node is not None:
        yield f"ran   {_place(stop.node.span)}{stop.event.node_desc}{_duration(stop.event)}"
        if stop.failure is not None:
            yield f"      failed, and with it block {stop.event.track}; it is raised at the await: {stop.failure}"
        names = dict.fromkeys(map(fetchable, outputs_of(stop.event, stop.node)))
        for name, tensor in fetched(executor.fetch_raw, names):
            yield from (f"      {line}" for line in output_lines(name, tensor))
    for hit in stop.hits:
        yield f"break {hit}"
    if len(stop.changes) > MOST_CHANGES:
        yield f"watch ... {len(stop.changes) - MOST_CHANGES} earlier changes"
    for change in stop.changes[-MOST_CHANGES:]:
        yield f"watch {change}"
    if stop.interrupted:
        yield "interrupted"
    if stop.next is not None:
        yield f"next  {_place(stop.next.node.span)}[{stop.next.block}] {stop.next.desc}"


def _place(span: Span | None) -> str:
    return "" if span is None else f"{span.line}: "


def _duration(event: TraceEvent) -> str:
    return f"  ({event.duration_ns / 1000:.1f} us)" if event.duration_ns else ""


def listing(inspector: Inspector, node: Node | None, line: int | None) -> Iterator[str]:
    """Yield lines of the program around one: ``=>`` marks the next statement, ``*`` lines with a breakpoint.

    Raises:
        ExecutionError: the program does not come from a text.
    """
    source = _source(inspector, node)
    if source is None:
        raise ExecutionError("the program does not come from a text: there is nothing to list", code="bad-command")
    text = source.text.splitlines()
    here = node.span.line if node is not None and node.span is not None else None
    middle = min(max(line or here or 1, 1), max(len(text), 1))
    stops = {getattr(each, "line", None) for each in inspector.breakpoints.values()}
    for number in range(max(middle - AROUND, 1), min(middle + AROUND, len(text)) + 1):
        mark = "=>" if number == here else "  "
        point = "*" if number in stops else " "
        yield f"{mark}{point}{number:4}  {text[number - 1]}".rstrip()


def _source(inspector: Inspector, node: Node | None) -> Source | None:
    nodes = [node] if node is not None else [each for _, each in inspector.executor.program.graph.nodes()]
    return next((each.span.source for each in nodes if each.span is not None), None)


def stack_lines(inspector: Inspector) -> Iterator[str]:
    """Yield the blocks and loops that are being run, outermost first, with the lines that opened them."""
    found = inspector.levels()
    if len(found) > MOST_LEVELS:
        yield f"... {len(found) - MOST_LEVELS} more"
    for level in found[-MOST_LEVELS:]:
        span = None if level.opener is None else level.opener.span
        yield f"{level}" + ("" if span is None else f", entered from line {span.line}")


def value_lines(values: Values, text: str, *, whole: bool = False) -> Iterator[str]:
    """Yield what an expression is worth: type, elements and statistics, or all elements.

    Raises:
        ExecutionError: it is not an expression, or has no value at this moment.
    """
    expression = parse(text)
    if not isinstance(expression, Access):
        yield f"{text} = {shown(values.evaluate(expression))}"
        return
    tensor = values.tensor(expression)
    yield from output_lines(text, tensor)
    if not whole:
        return
    import numpy as np

    if math.prod(tensor.shape) > MOST_ELEMENTS:
        yield f"more than {MOST_ELEMENTS} elements: `save` writes them to a file"
        return
    with np.printoptions(threshold=MOST_ELEMENTS, linewidth=120):
        yield from str(tensor.array).splitlines()


def variable_lines(executor: Executor) -> Iterator[str]:
    """Yield every variable of the text that holds a value, declared ones first; tables of weights by what they are."""
    program = executor.program
    numbers = number_names(program.graph)
    named = [variable for name, variable in program.variables.items() if name not in numbers]
    for variable in sorted(named, key=_is_temporary):
        for name, tensor in fetched(executor.fetch_raw, (variable.name,)):
            for line in output_lines(name, tensor):
                yield f"{variable.storage.value:10} {line}"
    for prefix in program.tables.values():
        yield f"{prefix.storage.value:10} {prefix.name}[{', '.join(prefix.formals)}]: {prefix.type}, of the model"


def _is_temporary(variable: ResolvedVar) -> bool:
    return variable.decl is None


def point_lines(inspector: Inspector) -> Iterator[str]:
    """Yield breakpoints and watch expressions by number."""
    points = [(number, f"break {each}") for number, each in inspector.breakpoints.items()]
    points += [(number, f"watch {watch.text} = {value}") for number, (watch, value) in inspector.watches.items()]
    yield from (f"{number:3}  {text}" for number, text in sorted(points))
    if not points:
        yield "no breakpoints and no watches"


def operator_lines(events: Sequence[TraceEvent]) -> list[str]:
    """Return a table of operators: how often, how long in all, which share."""
    times = operator_times(events)
    rows = [(t.op, str(t.count), f"{t.total_ns / 1e6:.3f}", f"{100 * t.share:.1f}") for t in times]
    return table(("operator", "runs", "total ms", "%"), rows).splitlines() if rows else ["no operator has run"]


def live_lines(executor: Executor) -> list[str]:
    """Return a table of the bytes that hold values, by kind of memory."""
    live = executor.live_bytes()
    rows = [(kind, f"{count:,}") for kind, count in [*live.items(), ("in all", sum(live.values()))]]
    return table(("memory", "bytes"), rows).splitlines()


def help_lines() -> list[str]:
    """Return the commands, and the places to break at."""
    rows = [(each.short, f"{each.name} {each.usage}".strip(), each.summary) for each in WORDS]
    where = [("", f"break {name}", summary) for name, summary in WHERE]
    return [*table(("", "command", ""), [*rows, *where]).splitlines(), "An empty line repeats the last step."]


def printed(lines: Iterable[str]) -> str:
    """Return lines as text for a terminal, control characters as escapes."""
    return "\n".join(map(printable, lines))
