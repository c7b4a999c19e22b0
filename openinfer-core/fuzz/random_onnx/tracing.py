"""What onnxruntime computes of a graph, node by node, and how far that is defined.

Each value is computed several times: once as it is, and with what rounding leaves open changed at random after every
node whose result is not defined to the last bit. By how much these variants differ is how far another implementation
may be off. Nodes run one by one, so that the optimisations of onnxruntime move no rounding, and a node that it refuses
is known.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx

from openinfer.errors import ModelImportError
from openinfer.plugins.environment import Environment
from random_onnx.graphs import Array, OnnxGraph, Source, check, fractions, model_of
from random_onnx.known_differences import unreliable
from random_onnx.precision import Precision, anything, precision_of
from random_onnx.runtime import RefusedError, Runtime

VARIANTS = 4
"""Runs with other roundings."""

INPUT_ULPS = 8.0
"""By how much inputs of sums are changed: a sum in another order is one of inputs that are rounded otherwise."""

MOST_ELEMENTS = 4096
"""Elements of a result; graphs with larger ones are not drawn."""

Variants: TypeAlias = "tuple[Array, ...]"
"""A value as it is computed, and with other roundings."""


class InvalidError(Exception):
    """A node that is not valid ONNX, or whose results are not plain tensors."""


@dataclass(frozen=True, slots=True)
class TracedNode:
    """A node that onnxruntime has run.

    Attributes:
        results: what it writes, by name.
        refusal: why OpenInfer does not import the node alone, if so.
        differences: reasons for which elements of its results are not compared.
    """

    results: Mapping[str, Variants]
    refusal: ModelImportError | None = None
    differences: tuple[str, ...] = ()


@dataclass(slots=True)
class Trace:
    """The values of a graph.

    Attributes:
        opset: version of ONNX's operators.
        values: variants by name.
        known: names of initialisers.
    """

    opset: int
    runtime: Runtime
    environment: Environment
    values: dict[str, Variants] = field(default_factory=dict[str, Variants])
    known: set[str] = field(default_factory=set[str])

    def add_source(self, name: str, source: Source) -> None:
        """Add an input or initialiser, which is exact."""
        self.values[name] = (source.array,) * (VARIANTS + 1)
        if source.is_known:
            self.known.add(name)

    def add(self, node: onnx.NodeProto) -> TracedNode:
        """Run a node, and add its results to the values.

        Raises:
            InvalidError: it is not valid ONNX.
            RefusedError: onnxruntime does not run it.
        """
        traced = self.run(node)
        self.values |= traced.results
        return traced

    def run(self, node: onnx.NodeProto) -> TracedNode:
        """Run a node; raises as `add`."""
        names = [name for name in dict.fromkeys(node.input) if name]
        sources = {name: Source(self.values[name][0], name in self.known) for name in names}
        wanted = [name for name in node.output if name]
        model = model_of(self.opset, [node], sources, dict.fromkeys(wanted))
        runs = [
            {name: self.values[name][number] for name in names if name not in self.known}
            for number in range(VARIANTS + 1)
        ]
        results = self._results(model, runs, wanted)
        inputs = [self.values[name][0] if name else None for name in node.input]
        made = {name: variants[0] for name, variants in results.items()}
        _check(model_of(self.opset, [node], sources, made))
        arrays = {name: source.array for name, source in sources.items()}
        try:
            precision = precision_of(self.opset, node, arrays, self.known, made, self.environment)
        except ModelImportError as error:
            return TracedNode(results, error)
        if any(output.sums for output in precision.values()):
            results = self._results(model, [runs[0], *map(_rounded_otherwise, runs[1:])], wanted)
        reasons: list[str] = []
        for name, variants in results.items():
            blurred = _blurred(variants, name, precision.get(name))
            mask, why = unreliable(node, self.opset, inputs, made[name], wanted.index(name))
            reasons += why
            results[name] = _scattered(blurred, mask, name)
        return TracedNode(results, None, tuple(reasons))

    def _results(
        self, model: onnx.ModelProto, runs: Sequence[Mapping[str, Array]], names: Sequence[str]
    ) -> dict[str, Variants]:
        outputs = self.runtime.run(model.SerializeToString(), runs)
        return {name: _tensors([run[place] for run in outputs]) for place, name in enumerate(names)}


def _rounded_otherwise(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return inputs in which floats are off by some units in the last place, at random."""
    changed = dict(inputs)
    for name, array in inputs.items():
        if array.dtype.kind == "f":
            random = np.random.default_rng(zlib.crc32(f"input/{name}".encode()))
            step = INPUT_ULPS * float(np.finfo(array.dtype).eps) * (2 * fractions(random, array) - 1)
            with np.errstate(all="ignore"):
                changed[name] = np.asarray(array.astype(np.float64) * (1 + step)).astype(array.dtype)
    return changed


def traced(graph: OnnxGraph, runtime: Runtime, environment: Environment) -> Trace:
    """Return the values of a graph; raises as `Trace.add`."""
    trace = Trace(graph.opset, runtime, environment)
    for name, source in graph.sources.items():
        trace.add_source(name, source)
    for node in graph.nodes:
        trace.add(node)
    return trace


def _check(model: onnx.ModelProto) -> None:
    try:
        check(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise InvalidError(str(error)) from error


def _tensors(runs: Sequence[Any]) -> Variants:
    """Return the variants of an output, of which those of another shape are left out."""
    arrays: list[Array] = [array for array in runs if isinstance(array, np.ndarray)]
    if len(arrays) < len(runs) or not all(array.dtype.kind in "biuf" for array in arrays):
        raise InvalidError("a result is not a tensor of numbers")
    if runs[0].size > MOST_ELEMENTS:
        raise InvalidError("a result has too many elements")
    if any(array.shape != runs[0].shape for array in runs):
        raise InvalidError("the shape of a result depends on rounding")
    return tuple(runs)


def _blurred(variants: Variants, name: str, precision: Precision | None) -> Variants:
    """Return variants with random roundings of a node added."""
    if precision is None:
        return variants
    random = np.random.default_rng(zlib.crc32(name.encode()))
    first, *others = variants
    return (first, *(precision.rounded(array, number, random) for number, array in enumerate(others)))


def _scattered(variants: Variants, mask: Array | None, name: str) -> Variants:
    """Return variants with anything in place of elements that are unreliable."""
    if mask is None or not mask.any():
        return variants
    random = np.random.default_rng(zlib.crc32(f"any/{name}".encode()))
    first, *others = variants
    with np.errstate(all="ignore"):
        changed = [
            np.where(mask, anything(first, number, random), array).astype(first.dtype)
            for number, array in enumerate(others)
        ]
    return (first, *changed)


__all__ = ["InvalidError", "RefusedError", "Trace", "TracedNode", "Variants", "traced"]
