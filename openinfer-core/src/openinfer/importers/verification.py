"""How far an imported program is from its original."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer import symbolic
from openinfer.array_types import storage_dtype
from openinfer.errors import ModelImportError, OpenInferError
from openinfer.importers.given_values import given_array
from openinfer.importers.large_floats import reach_of_large_floats
from openinfer.importers.output_comparison import OutputComparison
from openinfer.importers.step_executors import StepExecutors
from openinfer.importers.step_inputs import MASKS, StepInputs, step_inputs
from openinfer.importers.step_sizes import StepPrograms, is_largest, usual_steps
from openinfer.importers.verification_report import Verification
from openinfer.ir.nodes import Op
from openinfer.ir.types import TensorType
from openinfer.plugins.environment import Environment
from openinfer.random_inputs import Specials
from openinfer.simulate import Executor, Snapshot
from openinfer.synth.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from openinfer.importers.imported import ImportedModel
    from openinfer.importers.large_floats import Reach
    from openinfer.importers.original import Original
    from openinfer.random_inputs import Interval
    from openinfer.tolerances import Tolerance

    Array = npt.NDArray[Any]


def verified(
    imported: ImportedModel,
    original: Original,
    *,
    inputs: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    steps: int | None = None,
    seed: int = 0,
    limits: Mapping[str, int] | None = None,
    budget: int | None = None,
    tolerances: Mapping[str, Tolerance] | None = None,
    environment: Environment | None = None,
) -> Verification:
    """Compare a program with its original over several steps, and one more with special floats among the inputs.

    Args:
        inputs: values by the names of the model, or functions of the type and the number of a step; the others are
            random, and so are sizes from the second step on.
        initial: what states hold before the first step, by the names of the model, or functions of the type; the others
            hold zeros.
        steps: None for one at every kind of sizes, at least two.
        limits: how large sizes of steps may be, and how far indices of caches may grow.
        budget: bytes that the values of a step may have at other sizes than the least; None: those of
            `openinfer.importers.step_sizes.BUDGET`.
        tolerances: by element type, or under ``""`` for all floats, in place of those that follow from the program:
            absolute, or relative to the largest magnitude of an output; of integers, in steps.

    Raises:
        ModelImportError: the original cannot run on these inputs.
    """
    offered = environment or Environment.default()
    steps = usual_steps(imported) if steps is None else steps
    programs = StepPrograms(imported, offered, limits=limits, budget=budget)
    drawing = _Drawing(imported, original, inputs or {}, seed, programs, offered)
    state = _first_values(imported, initial or {})
    begin = {ours: state[name] for name, ours in imported.report.states.items()}
    comparison = OutputComparison(imported, original, tolerances or {}, programs.at_least(), offered)
    with StepExecutors(imported, limits or {}, offered, begin) as executors:
        compared = _Compared(imported, original, executors, drawing, comparison, state)
        for step in range(steps):
            compared.step(step)
        if drawing.can_be_special:
            compared.special_step(steps, seed)
    for sizes, nbytes in programs.too_large.items():
        needed = -(-nbytes >> 20)
        comparison.note(f"not compared at {sizes}: values take {needed} MiB there, which --budget {needed} allows")
    return Verification(
        runner=original.runner,
        steps=steps,
        with_specials=compared.with_specials,
        inputs=compared.texts,
        outputs=comparison.differences,
        notes=comparison.notes,
        first=compared.first,
    )


class _Compared:
    """The steps that are compared, one after the other.

    Attributes:
        first: the statement whose result differs first; empty while all agree.
        texts: what was drawn for each input of the latest step.
        with_specials: whether the latest step has special floats.
    """

    def __init__(
        self,
        imported: ImportedModel,
        original: Original,
        executors: StepExecutors,
        drawing: _Drawing,
        comparison: OutputComparison,
        state: Mapping[str, Array],
    ) -> None:
        self._imported, self._original, self._executors = imported, original, executors
        self._drawing, self._comparison = drawing, comparison
        self._state = state
        self._history: list[dict[str, Array]] = []
        self.first, self.texts, self.with_specials = "", dict[str, str](), False

    def step(self, step: int) -> None:
        """Compare a step of usual values.

        Raises:
            OpenInferError: the program or the original cannot run on these inputs.
        """
        drawn, theirs = self._drawing.step(step, self._state, special=False)
        self._add(drawn, theirs, self._outputs_of(drawn, self._executors.at(drawn.program)), None)

    def special_step(self, step: int, seed: int) -> None:
        """Compare a step with special floats among the inputs, unless one of both cannot run on these."""
        try:
            drawn, theirs = self._drawing.step(step, self._state, special=True)
            executor = self._executors.at(drawn.program)
            before = executor.snapshot()
            outputs = self._outputs_of(drawn, executor)
            run = partial(_run_both, self._imported, self._original, executor, before, self._state)
            reach = reach_of_large_floats(run, drawn, share=self._comparison.share(), seed=seed)
        except OpenInferError as error:
            self._comparison.note(f"no step with special values among the inputs is compared: {error}")
            return
        self.with_specials = True
        self._add(drawn, theirs, outputs, reach)

    def _outputs_of(self, drawn: Mapping[str, Array], executor: Executor) -> dict[str, Any]:
        """Run the program on the inputs of a step."""
        report = self._imported.report
        self._history.append({report.inputs[name]: value for name, value in drawn.items()})
        executor.step(**self._history[-1])
        values = executor.outputs()
        return {name: values[ours] for name, ours in report.outputs.items()}

    def _add(
        self,
        drawn: StepInputs,
        theirs: Mapping[str, Array],
        outputs: Mapping[str, Any],
        reach: Mapping[str, Reach] | None,
    ) -> None:
        inputs = {**drawn, **self._state}
        is_beyond = self._comparison.add(outputs, theirs, inputs, reach=reach)
        if is_beyond and not self.first:
            written_values, tolerance = self._original.values(inputs), self._comparison.tolerance
            self.first = first_difference(
                self._imported, self._executors.first(), self._history, written_values, tolerance
            )
        self.texts = drawn.texts
        self._state = {name: theirs[output] for output, name in self._imported.report.feeds.items()}


def _run_both(
    imported: ImportedModel,
    original: Original,
    executor: Executor,
    before: Snapshot,
    state: Mapping[str, Array],
    inputs: Mapping[str, Array],
) -> list[Mapping[str, Array]]:
    """Return the outputs of a step of the program and of the original, from the same state."""
    executor.restore(before)
    executor.step(**{imported.report.inputs[name]: value for name, value in inputs.items()})
    values = executor.outputs()
    outputs = {name: np.asarray(values[ours]) for name, ours in imported.report.outputs.items()}
    return [outputs, original.run({**inputs, **state})]


class _Drawing:
    """Draws the inputs of steps that are not given, and runs the original on them."""

    def __init__(
        self,
        imported: ImportedModel,
        original: Original,
        inputs: Mapping[str, Any],
        seed: int,
        programs: StepPrograms,
        environment: Environment,
    ) -> None:
        self._imported = imported
        self._original = original
        self._inputs = inputs
        self._seed = seed
        self._programs = programs
        self._environment = environment
        self._masks: tuple[Interval | None, ...] = (None, *MASKS)
        self.can_be_special = False

    def step(self, step: int, state: Mapping[str, Array], *, special: bool) -> tuple[StepInputs, Mapping[str, Array]]:
        """Return the inputs of a step and the outputs of the original; of small sizes where it fails on the largest.

        Tables of positions bound sizes by the values of indices, which no shape rule knows.

        Raises:
            ModelImportError: the original cannot run on these inputs.
            ValidationError: the program does not go with the sizes of the step.
        """
        try:
            return self._ran(step, state, special=special)
        except ModelImportError:
            if not is_largest(step):
                raise
            return self._ran(step - 1, state, special=special)

    def _ran(self, step: int, state: Mapping[str, Array], *, special: bool) -> tuple[StepInputs, Mapping[str, Array]]:
        """Return the inputs of a step and the outputs of the original.

        Wide integers are often masks or lengths. Where the original fails on them, or yields what is not finite, they
        are drawn from less, in this step and in those after it.

        Raises:
            ModelImportError: the original cannot run on these inputs.
            ValidationError: the program does not go with the sizes of the step.
        """
        failure: ModelImportError | None = None
        ran: list[tuple[StepInputs, Mapping[str, Array], Interval | None]] = []
        for masks in self._masks:
            drawn = step_inputs(
                self._imported,
                self._inputs,
                step,
                self._seed,
                special=Specials.ALL if special else Specials.NONE,
                masks=masks,
                programs=self._programs,
                environment=self._environment,
            )
            try:
                ran.append((drawn, self._original.run({**drawn, **state}), masks))
            except ModelImportError as error:
                failure = failure or error
            if not drawn.wide or (ran and self._is_finite(ran[-1][1])):
                break
        if failure is not None and not ran:
            raise failure
        drawn, theirs, masks = next((each for each in ran if self._is_finite(each[1])), ran[0])
        self._masks, self.can_be_special = (masks,), drawn.can_be_special
        return drawn, theirs

    def _is_finite(self, outputs: Mapping[str, Array]) -> bool:
        arrays = [np.asarray(outputs[name]) for name in self._imported.report.outputs]
        floats = [array.astype(np.float64) for array in arrays if array.dtype.kind not in "biu"]
        return all(bool(np.isfinite(array).all()) for array in floats)


def _starts(imported: ImportedModel) -> dict[str, Array]:
    """Return what states start with, by the names of the model's inputs: what the program says, else zeros."""
    starts: dict[str, Array] = {}
    for name, (dtype, dims) in imported.report.starts.items():
        shape = tuple(symbolic.evaluate(dim, imported.model.sizevars.__getitem__) for dim in dims)
        starts[name] = np.zeros(shape, storage_dtype(dtype))
        declared = imported.graph.vars.get(imported.report.states.get(name, ""))
        if declared is None:
            continue
        tensor = declared.ref or declared.name
        if declared.init is not None:
            starts[name] += starts[name].dtype.type(declared.init)
        elif tensor in imported.model.tensors:
            starts[name] = np.array(imported.model.tensor_store().values(tensor))
    return starts


def _first_values(imported: ImportedModel, initial: Mapping[str, Any]) -> dict[str, Array]:
    """Return what states hold before the first step, by the names of the model's inputs.

    Raises:
        ModelImportError: a name is not that of a state, or a value does not fit it.
    """
    values, states = _starts(imported), imported.report.states
    for name, value in initial.items():
        if name not in states:
            what = "is a cache, which starts empty" if name in values else "is not a state"
            message = f"{name!r} {what}; inputs that became states: {', '.join(states) or 'none'}"
            raise ModelImportError(message, code="import-value")
        dtype = imported.report.starts[name][0]
        wanted = TensorType(dtype, values[name].shape)
        array = given_array(name, value(wanted) if callable(value) else value, dtype)
        if not array.ndim:
            array = np.full(values[name].shape, array)
        if array.shape != values[name].shape:
            message = f"the first value of state {name!r} has the shape {list(array.shape)}"
            raise ModelImportError(f"{message}, expected {list(values[name].shape)}", code="import-value")
        values[name] = array
    return values


def first_difference(
    imported: ImportedModel,
    executor: Executor,
    history: Sequence[Mapping[str, Array]],
    theirs: Mapping[str, Array],
    tolerance: Callable[[str], Tolerance],
) -> str:
    """Return the first statement whose result differs from what the original has under the same name.

    Args:
        executor: one of the program before its first step; it is closed.
        history: inputs of all steps, by the names of the program; the last is compared.
        theirs: what nodes of the original write in that step.
        tolerance: returns what is allowed of a variable.
    """
    names = {ours: name for name, ours in imported.report.values.items()}
    outputs = {node.index: node.kind.outputs for _, node in imported.graph.nodes() if isinstance(node.kind, Op)}
    with executor:
        for inputs in history[:-1]:
            executor.step(**inputs)
        executor.insert(history[-1])
        for run in executor.iterate():
            for ours in outputs.get(run.event.node_index, ()):
                name = names.get(ours, "")
                if name in theirs:
                    difference = compare(name, theirs[name], np.asarray(run.fetch(ours)), tolerance(ours))
                    if not difference.within:
                        return f"{name!r} by {difference.relative:.3g}, which `{run.event.node_desc}` writes"
    return ""
