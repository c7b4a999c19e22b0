"""Steps whose operands are all constants: what they compute becomes data, and they leave the program.

Equal programs give equal data on every machine: sums add term by term in row-major order, elementary functions of f32
are the formulas of `openinfer.expr.elementary`, and everything else that is computed is exact or rounded once (IEEE).
A step stays where that cannot be had: functions of a mathematical library (`LIBRARY`), results of arithmetic that are
NaN, whose sign and payload are the processor's, and packed types. So do steps that may take long
(`openinfer.compute.evaluate.is_soon_known`), and steps that refuse their operands, which is an error of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.compute.evaluate import RefusedError, evaluate, is_soon_known
from openinfer.compute.stage import expressions_of
from openinfer.expr.elementary import ELEMENTARY, spelled_out
from openinfer.expr.linear import linearise
from openinfer.expr.tree import Input, Literal
from openinfer.ir.resolved import Filled, Storage
from openinfer.plan.accesses import mask, members, reads, walk, writes
from openinfer.plan.failing import may_fail
from openinfer.plan.steps import ComputeStep, CopyStep, FillStep, LoopStep, Procedure, ValueRef
from openinfer.plan.weights import bytes_of, stored_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.compute import Computation, Stage
    from openinfer.ir.types import TensorType
    from openinfer.model import Model
    from openinfer.plan.draft import Draft, DraftValue
    from openinfer.plan.steps import Operand, Step

Array: TypeAlias = npt.NDArray[Any]

LIBRARY = frozenset({"exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "erf", "power"})
"""Functions computed by a library, whose last bits depend on it."""

MOST_GROWTH = 1 << 18
"""Bytes up to which results that elementary functions or sums lead to may be larger than the data that they replace."""

LEAST_NBYTES = 8
"""Bytes up to which a result of constants always becomes data: a step that computes a scalar is longer."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A step whose operands are all constants.

    Attributes:
        roots: data of the model that its result comes from, as bits; the constants that the program begins with.
        costly: whether elementary functions or sums lead to its result.
        ops: the operators that lead to its result, in order.
    """

    step: ComputeStep | CopyStep | FillStep
    roots: int
    costly: bool
    ops: tuple[str, ...]


def with_constants(draft: Draft, procedures: Sequence[Procedure], wanted: int, model: Model) -> tuple[Procedure, ...]:
    """Return the program without steps whose results are data now: values of ``draft`` take it.

    A result becomes data where it is a scalar, or no larger than the constants that it replaces, those that nothing
    else reads, or where it is costly to compute and not more than `MOST_GROWTH` bytes. Other steps stay, such as those
    that expand a scalar, and their operands may then become data too.

    Args:
        wanted: values that are read when the program has ended, as bits; they are written by steps in any case.
    """
    foldable = _known_steps(draft.values, procedures)
    if not foldable:
        return tuple(procedures)
    folding = _Folding(draft, foldable, model)
    folded = folding.folded(procedures, wanted)
    return tuple(Procedure(p.name, tuple(_left(p.steps, folded))) for p in procedures) if folded else tuple(procedures)


def _known_steps(values: Sequence[DraftValue], procedures: Sequence[Procedure]) -> dict[int, _Known]:
    """Return the steps that compute constants, by the value that they write, operands before results."""
    steps = [step for procedure in procedures for step in walk(procedure.steps)]
    once = more = 0
    for step in steps:
        written = writes(step)
        more |= once & written
        once |= written
    roots = mask(number for number, value in enumerate(values) if _is_data(value)) & ~once
    changing = more | mask(number for number, value in enumerate(values) if value.is_state or _is_given(value))
    candidates = [step for step in steps if writes(step) and not writes(step) & changing]
    foldable: dict[int, _Known] = {}
    constant = roots
    while True:
        left: list[Step] = []
        for step in candidates:
            if reads(step) & ~constant:
                left.append(step)
            elif isinstance(step, ComputeStep | CopyStep | FillStep) and _is_foldable(step):
                constant |= writes(step)
                foldable |= dict.fromkeys(members(writes(step)), _of(step, foldable, roots))
        if len(left) == len(candidates):
            return foldable
        candidates = left


def _is_data(value: DraftValue) -> bool:
    variable = value.variable
    stays = (Storage.CONSTANT, Storage.VOLATILE, Storage.TEMPORARY)
    return variable is not None and variable.storage in stays and variable.initial is not None


def _is_given(value: DraftValue) -> bool:
    """Return whether a value is an input, which begins with what the caller gives."""
    return value.variable is not None and value.variable.storage is Storage.DYNAMIC


def _of(step: ComputeStep | CopyStep | FillStep, foldable: Mapping[int, _Known], roots: int) -> _Known:
    before = {id(foldable[value]): foldable[value] for value in members(reads(step)) if value in foldable}
    every = reads(step) & roots
    for source in before.values():
        every |= source.roots
    costly = isinstance(step, ComputeStep) and any(map(_is_costly, step.computation.stages))
    name = {ComputeStep: getattr(step, "op", ""), CopyStep: "copy", FillStep: "fill"}[type(step)]
    ops = (*(op for source in before.values() for op in source.ops), name)
    return _Known(step, every, costly or any(source.costly for source in before.values()), tuple(dict.fromkeys(ops)))


def _is_costly(stage: Stage) -> bool:
    return stage.fold is not None or not ELEMENTARY.isdisjoint(_functions_of_floats(stage))


def _functions_of_floats(stage: Stage) -> Iterator[str]:
    for expr in expressions_of(stage):
        yield from (i.function for i in linearise(expr).instructions if i.dtype.is_float)


def _is_foldable(step: Step) -> bool:
    """Whether what a step computes is the same on every machine, and soon known."""
    if isinstance(step, FillStep):
        return True
    if isinstance(step, CopyStep):
        return isinstance(step.source, ValueRef) and step.count is None
    if not isinstance(step, ComputeStep) or not all(isinstance(operand, ValueRef) for operand in step.inputs):
        return False
    computation = step.computation
    tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
    if computation.parameters or any(tensor.dtype.is_packed for tensor in tensors):
        return False
    return all(map(is_soon_known, computation.stages)) and not any(
        function in LIBRARY for stage in _spelled_out(computation).stages for function in _functions_of_floats(stage)
    )


def _spelled_out(computation: Computation) -> Computation:
    """Return a computation with elementary functions of f32 replaced by their formulas."""
    return replace(computation, stages=tuple(map(_stage_spelled_out, computation.stages)))


def _stage_spelled_out(stage: Stage) -> Stage:
    fold = stage.fold
    if fold is not None:
        totals = (
            replace(
                total,
                start=None if total.start is None else spelled_out(total.start),
                term=spelled_out(total.term),
                combine=spelled_out(total.combine),
            )
            for total in fold.totals
        )
        fold = replace(fold, totals=tuple(totals))
    return replace(
        stage,
        value=spelled_out(stage.value),
        fold=fold,
        lookups=tuple(replace(lookup, value=spelled_out(lookup.value)) for lookup in stage.lookups),
        checks=tuple(replace(check, refused=spelled_out(check.refused)) for check in stage.checks),
    )


class _Folding:
    """Decides which known steps become data, and evaluates them."""

    def __init__(self, draft: Draft, foldable: Mapping[int, _Known], model: Model) -> None:
        self._draft = draft
        self._known = foldable
        self._model = model
        self._arrays: dict[int, Array | None] = {}

    def folded(self, procedures: Sequence[Procedure], wanted: int) -> dict[int, tuple[Step, ...]]:
        """Return what takes the place of steps, by their identity: copies of data, or nothing."""
        steps = {id(constant.step): constant for constant in self._known.values()}
        needed = wanted
        for procedure in procedures:
            for step in walk(procedure.steps):
                if id(step) not in steps:
                    needed |= reads(step)
        spare = {root: self._nbytes(root) for constant in steps.values() for root in members(constant.roots)}
        changed: dict[int, tuple[Step, ...]] = {}
        for number, constant in reversed(steps.items()):
            outputs = writes(constant.step) & needed
            if not outputs and not self._is_refused(constant.step):
                changed[number] = ()
            elif (
                outputs
                and not _is_handed_on(constant.step, wanted)
                and self._becomes_data(constant, outputs, needed, spare)
            ):
                changed[number] = self._with_data(constant, outputs, wanted)
            else:
                needed |= reads(constant.step)
        return changed

    def _is_refused(self, step: ComputeStep | CopyStep | FillStep) -> bool:
        """Whether a step whose result nobody reads may refuse its operands, which is an error of the run."""
        if not isinstance(step, ComputeStep) or not may_fail(step):
            return False
        return any(self._array(value) is None for value in step.outputs)

    def _becomes_data(self, constant: _Known, outputs: int, needed: int, spare: dict[int, int]) -> bool:
        """Whether a result is data from now on; ``spare`` has the bytes of constants that no data has replaced yet."""
        if isinstance(constant.step, FillStep):
            return False
        nbytes = sum(map(self._nbytes, members(outputs)))
        replaced = list(members(constant.roots & ~needed))
        room = sum(spare[root] for root in replaced)
        least = LEAST_NBYTES if constant.roots else 0
        if nbytes > max(room, least) and not (constant.costly and nbytes <= MOST_GROWTH):
            return False
        if any(self._array(value) is None for value in members(outputs)):
            return False
        for root in replaced:
            taken = min(nbytes, spare[root])
            spare[root], nbytes = spare[root] - taken, nbytes - taken
        return True

    def _with_data(self, constant: _Known, outputs: int, wanted: int) -> tuple[Step, ...]:
        copied: list[Step] = []
        for value in members(outputs):
            drafted = self._draft.values[value]
            array = self._array(value)
            if array is None:
                raise ValueError(f"{drafted.name} is not known")
            data = bytes_of(array)
            if wanted >> value & 1:
                # Memory of the caller is written by a step.
                number = self._draft.intermediate(f"{drafted.name}.constant", drafted.type)
                copied.append(CopyStep(origin=constant.step.origin, source=ValueRef(number), output=value))
                value, drafted = number, self._draft.values[number]
            self._draft.values[value] = replace(drafted, data=data, ops=constant.ops)
        return tuple(copied)

    def _nbytes(self, value: int) -> int:
        return self._draft.values[value].type.nbytes

    def _array(self, value: int) -> Array | None:
        """Return a constant as an array in storage form; None: it is known only when the program runs."""
        for source in self._in_order(value):
            step = self._known.get(source)
            self._arrays |= {source: self._root(source)} if step is None else self._results(step.step)
        return self._arrays[value]

    def _in_order(self, value: int) -> Iterator[int]:
        """Yield the values that are to be computed for one, operands before results."""
        left = [value]
        while left:
            source = left[-1]
            step = self._known.get(source)
            before = [] if step is None else [v for v in members(reads(step.step)) if v not in self._arrays]
            if before and source not in self._arrays:
                left += before
                continue
            left.pop()
            if source not in self._arrays:
                yield source

    def _root(self, value: int) -> Array:
        variable = self._draft.values[value].variable
        if variable is None or variable.initial is None:
            raise ValueError(f"{self._draft.values[value].name} is not data")
        return _shaped(stored_array(self._model, variable.type, variable.initial), variable.type)

    def _results(self, step: ComputeStep | CopyStep | FillStep) -> dict[int, Array | None]:
        values = self._draft.values
        match step:
            case FillStep(output=output, value=value):
                type_ = values[output].type
                return {output: _shaped(stored_array(self._model, type_, Filled(value)), type_)}
            case CopyStep(source=source, output=output):
                array = self._array(_number(source))
                return {output: None if array is None else _shaped(array, values[output].type)}
            case _:
                return dict(zip(step.outputs, self._computed(step), strict=True))

    def _computed(self, step: ComputeStep) -> Sequence[Array | None]:
        arrays = [array for array in map(self._array, map(_number, step.inputs)) if array is not None]
        nothing = [None] * len(step.outputs)
        if len(arrays) != len(step.inputs):
            return nothing
        try:
            results = evaluate(_spelled_out(step.computation), arrays)
        except RefusedError:
            return nothing
        return nothing if _is_arithmetic(step.computation) and any(map(_has_nan, results)) else results


def _is_handed_on(step: Step, wanted: int) -> bool:
    """Whether a step copies a constant to memory of the caller, which some step has to do."""
    return isinstance(step, CopyStep) and bool(writes(step) & wanted)


def _number(operand: Operand) -> int:
    if not isinstance(operand, ValueRef):
        raise TypeError(f"{operand} is not a value")
    return operand.value


def _shaped(array: Array, type: TensorType) -> Array:
    """Return data in storage form as an array of a type; elements of packed types share bytes, in one dimension."""
    return array if type.dtype.is_packed else array.reshape(type.shape)


def _is_arithmetic(computation: Computation) -> bool:
    return any(stage.fold is not None or not isinstance(stage.value, Input | Literal) for stage in computation.stages)


def _has_nan(array: Array) -> bool:
    return array.dtype.kind in "fV" and bool(np.isnan(array).any())


def _left(steps: Sequence[Step], folded: Mapping[int, tuple[Step, ...]]) -> Iterator[Step]:
    for step in steps:
        for made in folded.get(id(step), (step,)):
            yield replace(made, body=tuple(_left(made.body, folded))) if isinstance(made, LoopStep) else made
