"""Runs of a program over samples, watched: what layers read and what they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer import dsl, symbolic
from openinfer.errors import CalibrationError
from openinfer.ir.graph import MemoryKind
from openinfer.quantization.rewriting import after, before
from openinfer.simulate import Simulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from openinfer.events import Scope, TraceEvent
    from openinfer.ir.graph import Graph
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment
    from openinfer.quantization.layers import Layer
    from openinfer.quantization.rewriting import Edit
    from openinfer.simulate import Executor

    Array = npt.NDArray[Any]
    Run = tuple[int, Mapping[str, int], Array]
    """Number of a layer, indices of the loops around it, and the copied value."""

READ, MADE = "calibration_read_", "calibration_made_"
"""Names of the watched copies, before the number of the layer."""


def watches(layers: Sequence[Layer]) -> list[Edit]:
    """Return edits that copy what each layer reads, and what it makes."""
    edits: list[Edit] = []
    for layer in layers:
        if layer.node.span is not None:
            edits.append(before(layer.node.span, [f"transfer {layer.source} >> {READ}{layer.number};"]))
            edits.append(after(layer.node.span, [f"transfer {layer.output} >> {MADE}{layer.number};"]))
    return edits


def observed(
    text: str, model: Model, samples: Sequence[Mapping[str, Array]], prefix: str, environment: Environment
) -> Iterator[Iterator[Run]]:
    """Yield the runs of layers of each sample; those that the caller leaves are run before the next sample.

    Args:
        text: the program with copies.
        prefix: `READ` or `MADE`.
    """
    simulator = Simulator(model, dsl.graph(text), environment=environment)
    with simulator.make_executor() as executor:
        for sample in samples:
            executor.insert(sample)
            runs = _runs(executor, prefix)
            yield runs
            for _ in runs:
                pass


def _runs(executor: Executor, prefix: str) -> Iterator[Run]:
    for node in executor.iterate():
        event = node.event
        if event.kind == "Transfer" and event.output and event.output[0].startswith(prefix):
            name = event.output[0]
            yield int(name.removeprefix(prefix)), _indices(event), np.asarray(node.fetch(name))


def _indices(event: TraceEvent) -> Mapping[str, int]:
    """Return the values of the loop indices around a statement."""
    found: dict[str, int] = {}
    scope: Scope | None = event.scope
    turn = event.turn
    while scope is not None:
        if scope.kind == "loop" and turn is not None:
            found.setdefault(scope.counter, turn)
        turn, scope = scope.turn, scope.parent
    return found


def entry_of(layer: Layer, indices: Mapping[str, int], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return which entry of a prefix table is the weight of a layer in a run of it.

    Raises:
        CalibrationError: an index depends on what only the running program knows.
    """
    values = {**sizes, **indices}
    try:
        return tuple(symbolic.evaluate(index, values.__getitem__) for index in layer.weight.indices)
    except KeyError as error:
        message = f"which entry of `{layer.weight.name}` is read depends on {error}: exclude it"
        raise CalibrationError(message) from error


def samples_of(graph: Graph, data: Mapping[str, Array], sizes: Mapping[str, int]) -> list[dict[str, Array]]:
    """Return the inputs of each sample, from arrays whose first axis counts samples.

    An input of one image may have its extent 1 or leave it out.

    Raises:
        CalibrationError: an input has no array, an array no input, or arrays do not fit.
    """
    inputs = {decl.name: decl for decl in graph.vars.values() if decl.kind is MemoryKind.DYNAMIC}
    missing = [name for name, decl in inputs.items() if name not in data and decl.init is None]
    if missing:
        given = ", ".join(data) or "none"
        raise CalibrationError(f"the samples have no array for input `{missing[0]}`; their arrays are {given}")
    unknown = [name for name in data if name not in inputs]
    if unknown:
        raise CalibrationError(f"the program has no input `{unknown[0]}` for the samples; it has {', '.join(inputs)}")
    found: dict[str, Array] = {}
    for name, decl in inputs.items():
        if name in data:
            shape = tuple(symbolic.evaluate(dim, sizes.__getitem__) for dim in decl.dims)
            found[name] = _by_sample(name, np.asarray(data[name]), shape)
    counts = {name: len(array) for name, array in found.items()}
    if not counts or min(counts.values()) == 0 or len(set(counts.values())) > 1:
        raise CalibrationError(f"expected an equal number of samples of every input, at least one; found {counts}")
    return [{name: array[number] for name, array in found.items()} for number in range(min(counts.values()))]


def _by_sample(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    if array.ndim == len(shape) and shape[:1] == (1,):
        array = array[:, None]
    if array.ndim != len(shape) + 1:
        message = f"samples of `{name}` have shape {list(array.shape)}, expected [samples, {str(list(shape))[1:]}"
        raise CalibrationError(message)
    return array
