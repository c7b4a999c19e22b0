"""The least graph that is wrong in the same way: ever smaller ones are tried."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx
from random_programs.examining import Finding, Plan
from random_programs.shrinking import narrowed, plainer

from random_onnx.drawing import DrawnGraph
from random_onnx.examining import examine_graphs
from random_onnx.graphs import Array, OnnxGraph, Source
from random_onnx.tally import OnnxTally
from random_onnx.tracing import InvalidError, RefusedError, traced

LONGEST_S = 30.0
"""Time that shrinking may take."""


def shrunk(drawn: DrawnGraph, finding: Finding, plan: Plan) -> OnnxGraph:
    """Return the least graph found for which the finding has the same kind."""
    narrow = narrowed(plan, finding)
    until = time.monotonic() + LONGEST_S
    best, is_better = drawn, True
    while is_better and time.monotonic() < until:
        is_better = False
        for smaller in _smaller(best):
            if time.monotonic() > until:
                break
            candidate = _wrong_alike(smaller, best, finding, narrow)
            if candidate is not None:
                best, is_better = candidate, True
                break
    return best.graph


def _wrong_alike(graph: OnnxGraph, before: DrawnGraph, finding: Finding, plan: Plan) -> DrawnGraph | None:
    try:
        trace = traced(graph, before.trace.runtime, before.trace.environment)
    except (InvalidError, RefusedError):
        return None
    drawn = DrawnGraph(graph, trace, before.is_refused)
    try:
        findings = examine_graphs({finding.number: drawn}, plan, OnnxTally())
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return drawn if any(other.kind == finding.kind for other in findings) else None


def _smaller(drawn: DrawnGraph) -> Iterator[OnnxGraph]:
    """Yield graphs with less in them, those with much less first."""
    graph = drawn.graph
    for output in graph.outputs if len(graph.outputs) > 1 else ():
        yield _needed(graph, (output,))
    for node in graph.nodes:
        yield from _cut(graph, node, {name: variants[0] for name, variants in drawn.trace.values.items()})
    for number, node in enumerate(graph.nodes):
        for attribute in node.attribute:
            plain = onnx.NodeProto()
            plain.CopyFrom(node)
            plain.attribute.remove(attribute)
            yield replace(graph, nodes=(*graph.nodes[:number], plain, *graph.nodes[number + 1 :]))
    yield from _cropped(graph)
    for name, source in graph.sources.items():
        for array in plainer(source.array) if source.array.dtype.kind == "f" else ():
            yield replace(graph, sources={**graph.sources, name: replace(source, array=array)})


def _needed(graph: OnnxGraph, outputs: tuple[str, ...]) -> OnnxGraph:
    """Return what outputs depend on."""
    wanted, nodes = set(outputs), list[onnx.NodeProto]()
    for node in reversed(graph.nodes):
        if wanted & set(node.output):
            nodes.insert(0, node)
            wanted |= set(node.input)
    sources = {name: source for name, source in graph.sources.items() if name in wanted}
    return replace(graph, outputs=outputs, nodes=tuple(nodes), sources=sources)


def _cut(graph: OnnxGraph, node: onnx.NodeProto, values: Mapping[str, Array]) -> Iterator[OnnxGraph]:
    """Yield the graph with inputs in place of a node, of the values that it has, and without it."""
    written = [name for name in node.output if name]
    outputs = tuple(name for name in graph.outputs if name not in written)
    if not outputs:
        return
    nodes = tuple(other for other in graph.nodes if other is not node)
    sources = {**graph.sources, **{name: Source(values[name], is_known=False) for name in written}}
    yield _needed(replace(graph, nodes=nodes, sources=sources), outputs)


def _cropped(graph: OnnxGraph) -> Iterator[OnnxGraph]:
    """Yield graphs in which all axes of one extent are shorter."""
    extents = {extent for source in graph.sources.values() for extent in source.array.shape}
    for extent in sorted(extents, reverse=True):
        for less in sorted({0, 1, 2, extent // 2, extent - 1} & set(range(extent))):
            sources = {
                name: replace(source, array=_first(source.array, extent, less))
                for name, source in graph.sources.items()
            }
            yield replace(graph, sources=sources)


def _first(array: Array, extent: int, less: int) -> Array:
    kept = tuple(slice(0, less) if size == extent else slice(None) for size in array.shape)
    return np.ascontiguousarray(array[kept]).reshape(array[kept].shape)
