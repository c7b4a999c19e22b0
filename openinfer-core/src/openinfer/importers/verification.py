"""How far an imported program is from its original."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from openinfer import symbolic
from openinfer.array_types import storage_dtype
from openinfer.errors import ModelImportError, OpenInferError
from openinfer.importers.given_values import given_array
from openinfer.ir.nodes import Op
from openinfer.simulate import Random, Simulator
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.importers.imported import ImportedModel
    from openinfer.plugins.environment import Environment

    Array = npt.NDArray[Any]

TOLERANCE = 1e-4
"""Largest difference, as a share of the largest magnitude of an output, that counts as equal."""

MOST_INTEGER = 7
"""Random integers of inputs are at most this: they are often indices."""


class Original(Protocol):
    """A model as another program runs it."""

    @property
    def runner(self) -> str:
        """What runs it, for people."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by their names in the model."""
        ...

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every value that nodes write, by name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of a comparison.

    Attributes:
        runner: what ran the original.
        steps: how many inputs were compared.
        largest: largest difference of each output, by its name in the model.
        relative: the same as a share of the largest magnitude of the output.
        first: the value that differs first, by its name in the model, and its place in the program; empty where
            all agree, or the runner cannot return what nodes write.
    """

    runner: str
    steps: int
    largest: Mapping[str, float]
    relative: Mapping[str, float]
    tolerance: float
    first: str = ""

    @property
    def agrees(self) -> bool:
        """Whether every output is within the tolerance."""
        return all(share <= self.tolerance for share in self.relative.values())

    def __str__(self) -> str:
        lines = [
            f"{name}: largest difference {self.largest[name]:.3g}, {share:.3g} of the largest magnitude"
            for name, share in self.relative.items()
        ]
        verdict = "agrees" if self.agrees else "DIFFERS"
        head = f"{verdict} with {self.runner} over {self.steps} steps (allowed {self.tolerance:g})"
        return "\n".join([head, *lines, *([f"first: {self.first}"] if self.first else [])])


@dataclass(slots=True)
class _Differences:
    largest: dict[str, float] = field(default_factory=dict[str, float])
    relative: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, ours: Array, theirs: Array) -> bool:
        """Take in a value; return whether it is the largest difference so far."""
        absolute, share = difference(ours, theirs)
        self.largest[name] = max(self.largest.get(name, 0.0), absolute)
        is_worse = share > self.relative.get(name, -1.0)
        self.relative[name] = max(self.relative.get(name, 0.0), share)
        return is_worse


def difference(ours: Array, theirs: Array) -> tuple[float, float]:
    """Return the largest difference of two arrays, and its share of the largest magnitude; inf where shapes differ."""
    if ours.shape != theirs.shape:
        return float("inf"), float("inf")
    if not ours.size:
        return 0.0, 0.0
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    largest = float(np.max(np.where(np.isnan(gap), np.inf, gap)))
    finite = np.abs(b[np.isfinite(b)])
    return largest, largest / max(float(finite.max()) if finite.size else 0.0, 1e-30) if largest else 0.0


def verified(
    imported: ImportedModel,
    original: Original,
    *,
    inputs: Mapping[str, Array] | None = None,
    initial: Mapping[str, Any] | None = None,
    steps: int = 2,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    environment: Environment | None = None,
) -> Verification:
    """Compare a program with its original over several steps.

    Args:
        inputs: values by the names of the model; the others are random, and so are sizes from the second step on.
        initial: what states hold before the first step, by the names of the model; the others hold zeros.
        tolerance: largest difference that counts as equal, as a share of the largest magnitude of an output.

    Raises:
        ModelImportError: the original cannot run on these inputs.
    """
    simulator = Simulator(imported.model, imported.graph, environment=environment)
    found, first = _Differences(), ""
    state = _first_values(imported, initial or {})
    begin = {ours: state[name] for name, ours in imported.report.states.items()}
    history: list[dict[str, Array]] = []
    with simulator.make_executor() as executor:
        executor.restore(begin)
        for step in range(steps):
            given = step_inputs(imported, inputs or {}, step, seed)
            history.append({imported.report.inputs[name]: value for name, value in given.items()})
            given |= state
            executor.step(**history[-1])
            theirs = original.run(given)
            state = {name: theirs[output] for output, name in imported.report.feeds.items()}
            for name, ours in imported.report.outputs.items():
                value = np.asarray(executor.fetch(ours))
                is_worse = found.add(name, value, theirs[name])
                if is_worse and found.relative[name] > tolerance and not first:
                    first = first_difference(imported, simulator, begin, history, original.values(given), tolerance)
    return Verification(
        runner=original.runner,
        steps=steps,
        largest=found.largest,
        relative=found.relative,
        tolerance=tolerance,
        first=first,
    )


def _zeros(imported: ImportedModel) -> dict[str, Array]:
    """Return what states start with, by the names of the model's inputs."""
    return {
        name: np.zeros(
            tuple(symbolic.evaluate(dim, imported.model.sizevars.__getitem__) for dim in dims), storage_dtype(dtype)
        )
        for name, (dtype, dims) in imported.report.starts.items()
    }


def _first_values(imported: ImportedModel, initial: Mapping[str, Any]) -> dict[str, Array]:
    """Return what states hold before the first step, by the names of the model's inputs.

    Raises:
        ModelImportError: a name is not that of a state, or a value does not fit it.
    """
    values, states = _zeros(imported), imported.report.states
    for name, value in initial.items():
        if name not in states:
            what = "is a cache, which starts empty" if name in values else "is not a state"
            message = f"{name!r} {what}; inputs that became states: {', '.join(states) or 'none'}"
            raise ModelImportError(message, code="import-value")
        array = given_array(name, value, imported.report.starts[name][0])
        if array.shape != values[name].shape:
            message = f"the first value of state {name!r} has the shape {list(array.shape)}"
            raise ModelImportError(f"{message}, expected {list(values[name].shape)}", code="import-value")
        values[name] = array
    return values


def step_inputs(imported: ImportedModel, given: Mapping[str, Array], step: int, seed: int) -> dict[str, Array]:
    """Return the inputs of a step: those given, random ones for the others."""
    unknown = set(given) - set(imported.report.inputs)
    if unknown:
        listed = ", ".join(imported.report.inputs) or "none"
        message = f"the model has no input {', '.join(sorted(unknown))}; it has: {listed}"
        raise ModelImportError(message, code="import-value")
    kept = {name for _, dims in imported.report.starts.values() for dim in dims for name in symbolic.names(dim)}
    sizes = _sizes(imported, kept, step)
    found: dict[str, Array] = {}
    for number, (name, ours) in enumerate(imported.report.inputs.items()):
        declared = imported.graph.vars[ours]
        shape = tuple(symbolic.evaluate(dim, sizes.__getitem__) for dim in declared.dims)
        dtype = declared.dtype
        if name in given:
            found[name] = given_array(name, given[name], dtype)
            continue
        values = Random.generate(dtype, shape, _range(dtype), seed=[seed, step, number])
        found[name] = np.asarray(values)
    return found


def _sizes(imported: ImportedModel, kept: Collection[str], step: int) -> dict[str, int]:
    """Return sizes for a step: each another where the program is legal so, else all grown alike; those kept stay."""
    given = imported.model.sizevars
    free = [name for name in given if name not in kept]
    alike = {name: size * (1 if name in kept else step + 1) for name, size in given.items()}
    apart = alike | {name: given[name] * (step + 1 + place) for place, name in enumerate(free)}
    try:
        resolve(imported.graph, imported.model, sizes=apart)
    except OpenInferError:
        return alike
    return apart


def _range(dtype: DType) -> tuple[float, float] | None:
    return (0, min(MOST_INTEGER, dtype.maximum or 0)) if dtype.is_integer else None


def first_difference(
    imported: ImportedModel,
    simulator: Simulator,
    begin: Mapping[str, Array],
    history: Sequence[Mapping[str, Array]],
    theirs: Mapping[str, Array],
    tolerance: float,
) -> str:
    """Return the first statement whose result differs from what the original has under the same name.

    Args:
        begin: what states hold before the first step, by the names of the program.
        history: inputs of all steps, by the names of the program; the last is compared.
        theirs: what nodes of the original write in that step.
    """
    names = {ours: name for name, ours in imported.report.values.items()}
    outputs = {node.index: node.kind.outputs for _, node in imported.graph.nodes() if isinstance(node.kind, Op)}
    with simulator.make_executor() as executor:
        executor.restore(begin)
        for inputs in history[:-1]:
            executor.step(**inputs)
        executor.insert(history[-1])
        for run in executor.iterate():
            for ours in outputs.get(run.event.node_index, ()):
                name = names.get(ours, "")
                if name in theirs:
                    share = difference(np.asarray(run.fetch(ours)), theirs[name])[1]
                    if share > tolerance:
                        return f"{name!r} by {share:.3g}, which `{run.event.node_desc}` writes"
    return ""
