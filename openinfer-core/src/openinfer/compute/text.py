"""The text of a computation, which reads back to an equal one. Its syntax is Python's, its words are these:

    def matmul(a: f32[3, 5], b: f32[5, 4], /, y: f32[3, 4]):      # inputs, then outputs; `*, n` are parameters
        for i0, i1 in grid(3, 4):                                 # a stage: the places of its axes
            for i2 in unordered(5):                               # a fold; `sequential` in order, `running` a scan
                total0 = start(0.0)                               # or start(): the first term
                term0 = a[i0, i2] * b[i2, i1]
                total0 = total0 + term0
            y[i0, i1] = total0

``fill(x[i0 - 1], 0.0)`` is an element with a value outside of the tensor, ``fill(x[i0], 0.0, 0 <= i0 - i1 < 3)`` one
that is read only where a condition holds, ``position(i0, i64)`` the value of an index,
``p = lookup(cast(idx[i0], i64), 7, 'rule')`` an index that is computed, ``check(refused, 'rule')`` an error.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

from openinfer.compute.stage import Order, Read
from openinfer.expr.linear import linearise
from openinfer.expr.text import literal_text, program_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.affine import Var
    from openinfer.compute.stage import Computation, Element, Fold, Stage, Tensor
    from openinfer.expr.tree import Expr

_INDENT = "    "


@lru_cache(maxsize=1024)
def computation_text(computation: Computation) -> str:
    """Return the text of a computation, with a line end after the last line."""
    inputs = [f"{tensor.name}: {_type_text(tensor)}" for tensor in computation.inputs]
    outputs = [f"{tensor.name}: {_type_text(tensor)}" for tensor in computation.outputs]
    parameters = ["*", *(var.name for var in computation.parameters)] if computation.parameters else []
    slash = ["/"] if inputs else []
    lines = [f"def {computation.name}({', '.join([*inputs, *slash, *outputs, *parameters])}):"]
    lines += [f"{_INDENT}{tensor.name}: {_type_text(tensor)}" for tensor in computation.temporaries]
    for stage in computation.stages:
        lines += [_INDENT + line for line in stage_lines(stage)]
    if len(lines) == 1:
        lines.append(f"{_INDENT}pass")
    return "\n".join(lines) + "\n"


def _type_text(tensor: Tensor) -> str:
    extents = ", ".join(map(str, tensor.shape)) or "()"
    return f"{tensor.dtype}[{extents}]"


def stage_lines(stage: Stage) -> Iterator[str]:
    """Yield the lines of a stage, without indentation."""
    text = _StageText(stage)
    yield f"for {_targets(stage.axes)} in grid({_extents(stage.axes)}):"
    fold = stage.fold
    if fold is None:
        yield from (_INDENT + line for line in (*text.lookups(inside=False), *text.stored()))
        return
    yield from (_INDENT + line for line in text.lookups(inside=False))
    kind = "running_" if fold.running else ""
    order = "unordered" if fold.order is Order.ANY else "sequential"
    yield f"{_INDENT}for {_targets(fold.axes)} in {kind}{order}({_extents(fold.axes)}):"
    yield from (2 * _INDENT + line for line in (*text.lookups(inside=True), *text.folded(fold)))
    pad = 2 * _INDENT if fold.running else _INDENT
    yield from (pad + line for line in text.stored())


def _targets(axes: tuple[Var, ...]) -> str:
    return ", ".join(axis.name for axis in axes) or "()"


def _extents(axes: tuple[Var, ...]) -> str:
    return ", ".join(str(axis.extent) for axis in axes)


class _StageText:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._inputs = {number: _element_text(element) for number, element in enumerate(stage.elements)}
        totals = 0 if stage.fold is None else len(stage.fold.totals)
        self._inputs |= {~number: f"total{number}" for number in range(totals)}
        self._inputs |= {~(totals + number): f"term{number}" for number in range(totals)}
        self._names = count()

    def lookups(self, *, inside: bool) -> Iterator[str]:
        """Yield the lookups that need the folded axes, or those that do not."""
        folded = self._stage.folded_lookups
        for lookup in self._stage.lookups:
            if (lookup in folded) == inside:
                lines, value = self._expression(lookup.value)
                yield from lines
                yield f"{lookup.var.name} = lookup({value}, {lookup.var.extent}, {lookup.rule!r})"

    def folded(self, fold: Fold) -> Iterator[str]:
        for number, total in enumerate(fold.totals):
            lines, start = ((), "") if total.start is None else self._expression(total.start)
            yield from lines
            yield f"total{number} = start({start})"
        for number, total in enumerate(fold.totals):
            yield from self._assigned(f"term{number}", total.term)
        for number, total in enumerate(fold.totals):
            yield from self._assigned(f"total{number}", total.combine)

    def stored(self) -> Iterator[str]:
        for check in self._stage.checks:
            lines, refused = self._expression(check.refused)
            yield from lines
            yield f"check({refused}, {check.rule!r})"
        yield from self._assigned(f"{self._stage.tensor}[{_at_text(self._stage.at)}]", self._stage.value)

    def _assigned(self, target: str, expr: Expr) -> Iterator[str]:
        lines, value = self._expression(expr)
        yield from lines
        yield f"{target} = {value}"

    def _expression(self, expr: Expr) -> tuple[tuple[str, ...], str]:
        return program_text(linearise(expr), self._inputs, lambda: f"v{next(self._names)}")


def _element_text(element: Element) -> str:
    if not isinstance(element, Read):
        return f"position({element.at}, {element.dtype})"
    entry = f"{element.tensor}[{_at_text(element.at)}]"
    if element.fill is None:
        return entry
    return f"fill({', '.join([entry, literal_text(element.dtype, element.fill.value), *map(str, element.guards)])})"


def _at_text(at: tuple[object, ...]) -> str:
    return ", ".join(map(str, at)) or "()"
