"""How far the results of a node are defined: by the statements that it becomes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from openinfer.errors import ModelImportError
from openinfer.importers.imported import ImportedModel, ImportOptions
from openinfer.importers.onnx_files.loading import imported
from openinfer.importers.onnx_files.reading import model_of as source_of
from openinfer.ir.resolved import ResolvedGraph
from openinfer.ops.precision import ELEMENTWISE_ULPS, OTHER_ULPS
from openinfer.ops.schema import Elementwise
from openinfer.plugins.environment import Environment
from openinfer.testing.precision import FLAT
from openinfer.testing.random_programs.levels import levels_of
from openinfer.testing.random_programs.precision import CARRIED, EXACT, SIGNS
from openinfer.testing.values import FORMATS
from openinfer.validate import resolve
from random_onnx.graphs import Array, Source, fractions, model_of

FORMAT_OF = {"float16": FORMATS["f16"], "float32": FORMATS["f32"], "float64": FORMATS["f64"]}

RUNTIME = "ONNX Runtime"
"""What notes of an import name where its results are others, such as places of Resize: these are not compared."""

THEIRS = 4.0
"""How many times as far onnxruntime may be off as the conformance kit allows: it approximates functions."""


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """How far a result is defined.

    Attributes:
        is_exact: whether all but the signs of zeros are, which ONNX leaves open.
        ulps: units in the last place that floats may be off.
        reach: magnitudes in whose units cancellation is judged: a number, or one for each element; infinite for
            results that may be anything.
        sums: whether results also change with inputs that are rounded otherwise, as those of sums do.
    """

    is_exact: bool
    ulps: float = 0.0
    reach: Array | float = 0.0
    sums: bool = False

    def rounded(self, array: Array, number: int, random: np.random.Generator) -> Array:
        """Return a variant with what is not defined changed at random: integers by one step, floats by their bound."""
        if np.isscalar(self.reach) and not np.isfinite(self.reach):
            return anything(array, number, random)
        if array.dtype.kind == "b":
            return array
        if array.dtype.kind in "iu":
            return array if self.is_exact else _stepped(array, random)
        signs = random.choice([-1.0, 1.0], array.shape)
        with np.errstate(all="ignore"):
            flipped = np.where(array == 0, np.copysign(0.0, signs), array)
            if self.is_exact:
                return flipped.astype(array.dtype)
            size = np.maximum(np.abs(flipped.astype(np.float64)), self.reach)
            least = FORMAT_OF[array.dtype.name].least
            moved = self.ulps * np.maximum(size * FORMAT_OF[array.dtype.name].epsilon, least)
            moved = moved * (0.5 + fractions(random, array) / 2)
            return np.asarray(flipped.astype(np.float64) + signs * moved).astype(array.dtype)


def anything(like: Array, number: int, random: np.random.Generator) -> Array:
    """Return other elements of the same type, in one variant at least such that no result of them is compared."""
    if like.dtype.kind == "f":
        # Some of these pass any threshold, and none decides what follows.
        half = float(np.finfo(like.dtype).max) / 2
        return np.full(like.shape, (np.nan, 1.0, half, -half)[number % 4], like.dtype)
    if like.dtype.kind == "b":
        return np.asarray(like if number % 2 else ~like)
    if number:
        return np.asarray(random.integers(0, 100, like.shape)).astype(like.dtype)
    limits = np.iinfo(like.dtype)
    # Arrays, not Python's integers: NumPy 2.5 takes those for C longs, which the greatest u64 is not.
    least, greatest = np.array([limits.min, limits.max], like.dtype)
    return np.asarray(np.where(like > 0, least, greatest))


def _stepped(array: Array, random: np.random.Generator) -> Array:
    limits = np.iinfo(array.dtype)
    step = random.integers(-1, 2, array.shape)
    is_outside = ((array == limits.min) & (step < 0)) | ((array == limits.max) & (step > 0))
    return np.asarray(array + np.where(is_outside, 0, step).astype(array.dtype)).astype(array.dtype)


def precision_of(
    opset: int,
    node: onnx.NodeProto,
    inputs: Mapping[str, Array],
    known: Collection[str],
    results: Mapping[str, Array],
    environment: Environment,
) -> Mapping[str, Precision]:
    """Return how far the results of a node are defined.

    The node is imported with inputs alone, of which the importer may fix some, so that nothing is computed at import.
    One that is refused so is imported as it is.

    Args:
        inputs: what the node reads, by name.
        known: names of initialisers.
        results: what it writes, by name.

    Raises:
        ModelImportError: it cannot be imported.
    """
    made = _imported(opset, node, inputs, (), results, environment)
    if isinstance(made, ModelImportError):
        made = _imported(opset, node, inputs, known, results, environment)
    if isinstance(made, ModelImportError):
        raise made
    if any(RUNTIME in note for note in made.report.notes):
        return {output: Precision(is_exact=False, reach=math.inf) for output in made.report.outputs}
    program = resolve(made.graph, made.model, environment=environment)
    levels = levels_of(program, environment)
    precisions: dict[str, Precision] = {}
    for output, name in made.report.outputs.items():
        level, array = levels.get(name, EXACT), results[output]
        if (
            not _interpolates(node)
            and level <= SIGNS
            and (array.dtype.kind != "f" or not (made.report.folded or _rounds_twice(program, environment)))
        ):
            precisions[output] = Precision(is_exact=True)
        else:
            precisions[output] = _inexact(program, list(inputs.values()), array, environment)
    return precisions


def _interpolates(node: onnx.NodeProto) -> bool:
    """Whether onnxruntime adds products with weights, although the program may copy where all but one of them are 0."""
    modes = {attribute.name: attribute.s for attribute in node.attribute}
    return node.op_type in ("Resize", "Upsample") and modes.get("mode", b"nearest") != b"nearest"


def _imported(
    opset: int,
    node: onnx.NodeProto,
    inputs: Mapping[str, Array],
    known: Collection[str],
    results: Mapping[str, Array],
    environment: Environment,
) -> ImportedModel | ModelImportError:
    sources = {name: Source(array, name in known) for name, array in inputs.items()}
    try:
        return import_with_values(model_of(opset, [node], sources, results), inputs, environment)
    except ModelImportError as error:
        return error


def _rounds_twice(program: ResolvedGraph, environment: Environment) -> bool:
    """Whether a node becomes several operators that compute: ONNX does not say what is rounded on the way."""
    return sum(environment.op(op.op).category not in CARRIED for op in program.ops.values()) > 1


def _inexact(program: ResolvedGraph, inputs: Sequence[Array], result: Array, environment: Environment) -> Precision:
    floats = [np.abs(array.astype(np.float64)) for array in inputs if array.dtype.kind == "f"]
    operators = [environment.op(op.op) for op in program.ops.values()]
    # A node that is computed at import has none, and may be a sum.
    if operators and all(isinstance(schema.definition, Elementwise) for schema in operators):
        sizes = [np.minimum(np.where(np.isfinite(array), array, FLAT), FLAT) for array in floats]
        try:
            reach = np.broadcast_to(np.max(np.broadcast_arrays(*sizes), axis=0), result.shape)
        except ValueError:
            reach = FLAT
        return Precision(False, THEIRS * ELEMENTWISE_ULPS * len(operators), reach)
    is_open = any(_may_overflow(array) for array in inputs if array.dtype.kind == "f")
    greatest = max((float(array.max(initial=0.0)) for array in floats), default=1.0)
    return Precision(False, THEIRS * OTHER_ULPS, math.inf if is_open else greatest, sums=True)


def _may_overflow(array: Array) -> bool:
    """Whether sums of products may overflow on the way, or meet what is not finite: then their order decides."""
    with np.errstate(all="ignore"):
        greatest = float(np.abs(array.astype(np.float64)).max(initial=0.0))
        limit = math.sqrt(float(np.finfo(array.dtype).max) / max(array.size, 1))
    return not greatest <= limit


def import_with_values(model: onnx.ModelProto, inputs: Mapping[str, Array], environment: Environment) -> ImportedModel:
    """Import a model; inputs whose values the importer needs are fixed one after another, as far as they are there.

    Raises:
        ModelImportError: it cannot be imported.
    """
    source, fixed = source_of(model, None, "drawn"), dict[str, Array]()
    while True:
        try:
            return imported(source, ImportOptions(values=dict(fixed)), environment)
        except ModelImportError as error:
            more = {name: inputs[name] for name in error.inputs if name in inputs and name not in fixed}
            if not more:
                raise
            fixed |= more
