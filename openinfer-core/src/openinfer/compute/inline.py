"""Inlining: a computation evaluates what it read from a tensor, which then need not be stored."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.compute.elementwise import is_broadcast, is_pointwise
from openinfer.compute.stage import Check, Lookup, Read, Total
from openinfer.compute.substitution import moved
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.compute.stage import Computation, Element, Stage
    from openinfer.expr.tree import Expr


def inlined(producer: Computation, consumer: Computation, tensor: str) -> Computation | None:
    """Return the consumer with the expression of the producer wherever it read ``tensor``, the producer's result.

    Tensors of one name are one operand of both. Each part keeps its roundings, so that results have the same bits.
    None: the producer is not a mere expression; more elements would be evaluated than it has; an element is read under
    a condition; or a fold would read operands in another order than they lie in.
    """
    if len(producer.stages) != 1 or len(producer.outputs) != 1 or not is_pointwise(producer.stages[0]):
        return None
    (made,) = producer.stages
    work = 0
    stages: list[Stage] = []
    for stage in consumer.stages:
        reads = [number for number, element in enumerate(stage.elements) if _reads(element, tensor)]
        if not reads:
            stages.append(stage)
            continue
        is_guarded = any(isinstance(e, Read) and e.tensor == tensor and e.fill is not None for e in stage.elements)
        if is_guarded or (stage.fold is not None and not _keeps_places(producer)):
            return None
        counts = [_evaluations(stage, number) for number in reads]
        if None in counts:
            return None
        work += sum(count for count in counts if count is not None)
        stages.append(_with_producer(stage, reads, made))
    if made.elements and work > (_count(made.axes) or 0):
        return None
    inputs = dict.fromkeys((*producer.inputs, *(read for read in consumer.inputs if read.name != tensor)))
    return replace(consumer, inputs=tuple(inputs), stages=tuple(stages))


def _reads(element: Element, tensor: str) -> bool:
    return isinstance(element, Read) and element.tensor == tensor


def _keeps_places(producer: Computation) -> bool:
    """Whether the expression reads every operand at the (broadcast) place that it stores to."""
    (stage,) = producer.stages
    reads = (element for element in stage.elements if isinstance(element, Read))
    return all(is_broadcast(read, producer.tensor(read.tensor), stage.at) for read in reads)


def _evaluations(stage: Stage, number: int) -> int | None:
    """Return how often an element of a stage is evaluated; None: it is known at run time only."""
    fold = stage.fold
    if fold is None:
        return _count(stage.axes)
    inside = [*(total.term for total in fold.totals), *(lookup.value for lookup in stage.folded_lookups)]
    is_folded = fold.running or any(number in linearise(expr).inputs for expr in inside)
    return _count(stage.all_axes) if is_folded else _count(stage.axes)


def _count(axes: Sequence[Var]) -> int | None:
    """Return the number of places of axes; None: it is known at run time only."""
    counts = [axis.extent for axis in axes if isinstance(axis.extent, int)]
    return prod(counts) if len(counts) == len(axes) else None


def _with_producer(stage: Stage, reads: Sequence[int], made: Stage) -> Stage:
    """Return a stage that evaluates the expression of ``made`` in place of the elements ``reads``."""
    elements: dict[Element, int] = {}
    replaced: dict[int, Expr] = {}
    for number, element in enumerate(stage.elements):
        if number not in reads:
            replaced[number] = tree.Input(elements.setdefault(element, len(elements)), element.dtype)
    for number in reads:
        read = stage.elements[number]
        if not isinstance(read, Read):
            raise TypeError(f"element {number} of the stage is not a read")
        values = {var: at for index, at in zip(made.at, read.at, strict=True) for var in index.variables()}
        inner: dict[int, Expr] = {}
        for position, element in enumerate(made.elements):
            here = moved(element, values)
            inner[position] = tree.Input(elements.setdefault(here, len(elements)), here.dtype)
        replaced[number] = tree.substitute(made.value, inner)
    return _rewritten(replace(stage, elements=tuple(elements)), replaced)


def _rewritten(stage: Stage, replaced: dict[int, Expr]) -> Stage:
    """Return a stage with elements in its expressions replaced."""

    def change(expr: Expr) -> Expr:
        return tree.substitute(expr, replaced)

    fold = stage.fold
    if fold is not None:
        totals = (Total(t.start and change(t.start), change(t.term), change(t.combine)) for t in fold.totals)
        fold = replace(fold, totals=tuple(totals))
    return replace(
        stage,
        value=change(stage.value),
        fold=fold,
        lookups=tuple(Lookup(lookup.var, change(lookup.value), lookup.rule) for lookup in stage.lookups),
        checks=tuple(Check(change(check.refused), check.rule) for check in stage.checks),
    )
