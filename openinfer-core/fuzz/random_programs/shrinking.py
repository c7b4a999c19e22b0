"""The least program that is wrong in the same way: ever smaller ones are tried."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from openinfer.errors import OpenInferError
from openinfer.ir.graph import Graph, MemoryKind, walk
from openinfer.ir.nodes import Branch, Loop, Node, Op, Return
from openinfer.ir.values import Attrs
from openinfer.simulate import Simulator
from openinfer.symbolic import Const, IntExpr, evaluate
from openinfer.testing.random_programs.sample import Array, Sample
from random_programs.examining import Finding, Plan, examine
from random_programs.rewriting import (
    fixed_sizes,
    in_line,
    numbers_of,
    with_extents,
    with_nodes,
    with_vars,
    without_nodes,
    without_unused,
)
from random_programs.tally import Tally

LONGEST = 90.0
"""Seconds that shrinking may take."""


def shrunk(sample: Sample, finding: Finding, plan: Plan) -> Sample:
    """Return the least program found for which the finding has the same kind."""
    narrow = narrowed(plan, finding)
    until = time.monotonic() + LONGEST
    best, is_better = sample, True
    while is_better and time.monotonic() < until:
        is_better = False
        for smaller in _smaller(best, plan):
            if time.monotonic() > until:
                break
            if _is_wrong_alike(smaller, finding, narrow):
                best, is_better = smaller, True
                break
    return best


def narrowed(plan: Plan, finding: Finding) -> Plan:
    """Return the plan with the places alone that a finding is about."""
    builds = tuple(build for build in plan.builds if finding.kind.startswith(f"c, {build}:"))
    if not builds and finding.kind.startswith("c:"):
        builds = plan.builds[:1]
    devices, targets = (
        tuple(name for name in names if finding.kind.startswith(f"{name}:")) for names in (plan.devices, plan.targets)
    )
    elsewhere = bool(builds or devices or targets)
    return replace(plan, builds=builds, devices=devices, targets=targets, thorough=not elsewhere)


def _is_wrong_alike(sample: Sample, finding: Finding, plan: Plan) -> bool:
    found = examine({finding.number: sample}, plan, Tally())
    return any(each.kind == finding.kind for each in found)


def _smaller(sample: Sample, plan: Plan) -> Iterator[Sample]:
    """Yield samples with less in them, those with much less first."""
    for step in range(len(sample.steps) if len(sample.steps) > 1 else 0):
        yield replace(sample, steps=(sample.steps[step],))
    for step in range(len(sample.steps) if len(sample.steps) > 2 else 0):
        yield replace(sample, steps=(*sample.steps[:step], *sample.steps[step + 1 :]))
    for graph in _smaller_graphs(sample.graph):
        yield _without_unused(sample, graph)
    yield from _cut(sample, plan)
    yield from _with_smaller_sizes(sample) if sample.limits else _with_smaller_extents(sample)
    yield from _with_plainer_values(sample)


def _smaller_graphs(graph: Graph) -> Iterator[Graph]:
    numbers = numbers_of(graph)
    size = len(numbers) // 2
    while size:
        for start in range(0, len(numbers), size):
            yield without_nodes(graph, numbers[start : start + size])
        size //= 2
    for _, node in graph.nodes():
        if isinstance(node.kind, Loop | Branch):
            yield in_line(graph, node.index)
            yield in_line(graph, node.index, other=True)
        yield from _smaller_node(graph, node)
    plain = with_nodes(graph, lambda node: (replace(node, hints=Attrs(), scope=()),))
    if plain != graph:
        yield plain


def _smaller_node(graph: Graph, node: Node) -> Iterator[Graph]:
    kind = node.kind
    if isinstance(kind, Return):
        for name in kind.names if len(kind.names) > 1 else ():
            yield _with(graph, node, replace(kind, names=tuple(each for each in kind.names if each != name)))
    if isinstance(kind, Op):
        for name in kind.settings:
            rest = {key: value for key, value in kind.settings.items() if key != name}
            yield _with(graph, node, replace(kind, settings=Attrs(rest)))


def _with(graph: Graph, node: Node, kind: Op | Return) -> Graph:
    return with_nodes(graph, lambda other: (replace(other, kind=kind) if other.index == node.index else other,))


def _without_unused(sample: Sample, graph: Graph) -> Sample:
    """Return the sample with another graph, and without tensors and inputs that it does not name."""
    kept = without_unused(graph)
    steps = tuple({name: a for name, a in inputs.items() if name in kept.vars} for inputs in sample.steps)
    stored = {each.ref or each.name for each in kept.vars.values()}
    tensors = {name: a for name, a in sample.tensors.items() if name in stored or name.partition(".")[0] in stored}
    named = set(re.findall(r"\w+", kept.to_dsl()))
    limits = {name: most for name, most in sample.limits.items() if name.partition(".")[0] in named}
    return replace(sample, graph=kept, steps=steps, tensors=tensors, limits=limits)


def _cut(sample: Sample, plan: Plan) -> Iterator[Sample]:
    """Yield samples in which the result of an operator is an input instead, of the value that it has on cpu."""
    written = [name for block in sample.graph.blocks.values() for n in walk(block.nodes) for name in _outputs(n)]
    values = _values(sample, plan)
    for _, node in sample.graph.nodes():
        names = _outputs(node)
        if not names or any(written.count(name) > 1 or any(name not in step for step in values) for name in names):
            continue
        declared = [
            replace(each, kind=MemoryKind.DYNAMIC, init=None, ref=None) if each.name in names else each
            for each in sample.graph.vars.values()
        ]
        steps = tuple(
            {**inputs, **{name: found[name] for name in names}}
            for inputs, found in zip(sample.steps, values, strict=True)
        )
        graph = with_vars(without_nodes(sample.graph, [node.index]), declared)
        yield _without_unused(replace(sample, steps=steps), graph)


def _outputs(node: Node) -> tuple[str, ...]:
    return node.kind.outputs if isinstance(node.kind, Op) else ()


def _values(sample: Sample, plan: Plan) -> Sequence[Mapping[str, Array]]:
    """Return the volatile variables after each step on cpu; nothing for a program that does not run."""
    found: list[Mapping[str, Array]] = []
    try:
        with Simulator(sample.model(), sample.graph, environment=plan.environment).make_executor() as executor:
            names = [name for name in executor.written() if sample.graph.vars[name].kind is MemoryKind.VOLATILE]
            for inputs in sample.steps:
                executor.step(**inputs)
                found.append({name: executor.fetch_raw(name).array for name in names})
    except OpenInferError:
        return [{} for _ in sample.steps]
    return found


def _with_smaller_sizes(sample: Sample) -> Iterator[Sample]:
    """Yield samples in which one step has a smaller size."""
    for number, inputs in enumerate(sample.steps):
        sizes = sample.sizes_of_step(inputs)
        for name in sample.limits.keys() & sizes.keys():
            for less in sorted({0, 1, 2, sizes[name] - 1} & set(range(sizes[name]))):
                smaller = {**sizes, name: less}
                with suppress(ValueError):  # An extent would be negative.
                    changed = {key: _cropped_array(sample, key, array, smaller) for key, array in inputs.items()}
                    yield replace(sample, steps=(*sample.steps[:number], changed, *sample.steps[number + 1 :]))


def _cropped_array(sample: Sample, name: str, array: Array, sizes: Mapping[str, int]) -> Array:
    """Return an input with the extents that it has by other sizes, which are not greater."""
    shape = tuple(evaluate(dim, sizes.__getitem__) for dim in sample.graph.vars[name].dims)
    return np.ascontiguousarray(array[tuple(slice(0, extent) for extent in shape)]).reshape(shape)


def _with_smaller_extents(sample: Sample) -> Iterator[Sample]:
    fixed = fixed_sizes(sample.graph, sample.sizes)
    if fixed != sample.graph:
        yield replace(sample, graph=fixed)
    extents = {dim.value for each in fixed.vars.values() for dim in each.dims if isinstance(dim, Const)}
    for extent in sorted(extents, reverse=True):
        for less in sorted({0, 1, 2, extent // 2, extent - 1} & set(range(extent))):
            for values in ({}, {extent: less}):
                yield _cropped(sample, with_extents(fixed, partial(_replaced, extent, less), values))


def _replaced(extent: int, less: int, dim: IntExpr) -> IntExpr:
    return Const(less) if isinstance(dim, Const) and dim.value == extent else dim


def _cropped(sample: Sample, graph: Graph) -> Sample:
    """Return the sample with another graph, whose shapes are smaller, and with arrays of these."""
    shapes = {
        each.ref or each.name: tuple(evaluate(dim, lambda name: sample.sizes[name]) for dim in each.dims)
        for each in graph.vars.values()
    }

    def crop(name: str, array: Array) -> Array:
        shape = shapes.get(name) or shapes.get(name.partition(".")[0])
        if shape is None or len(shape) != array.ndim:
            return array
        return np.ascontiguousarray(array[tuple(slice(0, extent) for extent in shape)]).reshape(shape)

    steps = tuple({name: crop(name, array) for name, array in inputs.items()} for inputs in sample.steps)
    tensors = {name: crop(name, array) for name, array in sample.tensors.items()}
    return replace(sample, graph=graph, steps=steps, tensors=tensors)


def _with_plainer_values(sample: Sample) -> Iterator[Sample]:
    for name, array in sample.tensors.items():
        for plain in plainer(array):
            yield replace(sample, tensors={**sample.tensors, name: plain})
    for number, inputs in enumerate(sample.steps):
        for name, array in inputs.items():
            for plain in plainer(array):
                changed = {**inputs, name: plain}
                yield replace(sample, steps=(*sample.steps[:number], changed, *sample.steps[number + 1 :]))


def plainer(array: Array) -> Iterator[Array]:
    """Yield arrays of ones, and with the first or last half of what is not one made one."""
    one = np.ones_like(array)
    others = np.flatnonzero((array != one).reshape(-1))
    if not others.size:
        return
    yield one
    for part in (others[: others.size // 2], others[others.size // 2 :]) if others.size > 1 else ():
        changed = array.copy()
        changed.reshape(-1)[part] = 1
        yield changed
