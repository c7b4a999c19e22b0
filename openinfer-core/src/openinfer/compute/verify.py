"""Verification of computations: variables are bound, types agree, and every access is within its tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, is_identifier, is_mixed_radix
from openinfer.compute.builder import ComputationError
from openinfer.compute.stage import Read, expressions_of, places_of, variables_of
from openinfer.dims import Let
from openinfer.dtypes import BOOL, I64
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute.stage import Computation, Stage, Tensor
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr


LARGEST_EXTENT = 2**63 - 1
"""Indices are 64-bit integers in every language that loop programs are printed in."""


def verify(computation: Computation) -> None:
    """Check a computation.

    Raises:
        ComputationError: names the stage and what is wrong: a name that is not an identifier or is used twice, an
            extent below 0 or above `LARGEST_EXTENT`, an unknown tensor or variable, a folded axis outside of its fold,
            types or numbers of indices that do not agree, a place that may lie outside of its tensor, a read of what no
            stage has written, a place that is written several times, a fold of nothing without a start, or an output
            that stages do not write or write in part only.
    """
    _check_name(computation.name)
    for tensor in (*computation.inputs, *computation.outputs, *computation.temporaries):
        _check_name(tensor.name)
        for extent in tensor.shape:
            _check_extent(tensor.name, extent.constant)
    names = [tensor.name for tensor in (*computation.inputs, *computation.outputs, *computation.temporaries)]
    for name in names:
        if names.count(name) > 1:
            raise ComputationError(f"{computation.name}: two tensors are called {name}")
    written = {tensor.name for tensor in computation.inputs}
    for number, stage in enumerate(computation.stages):
        try:
            _StageCheck(computation, stage, frozenset(written)).check()
        except ComputationError as error:
            raise ComputationError(f"{computation.name}, stage {number} ({stage.tensor}): {error}") from None
        written.add(stage.tensor)
    missing = [tensor.name for tensor in computation.outputs if tensor.name not in written]
    if missing:
        raise ComputationError(f"{computation.name}: no stage writes {', '.join(missing)}")
    for tensor in (*computation.outputs, *computation.temporaries):
        _check_filled(computation, tensor)


def _check_name(name: str) -> None:
    if not is_identifier(name):
        raise ComputationError(f"the name {name!r} is not an identifier of letters, digits and _")


def _check_extent(what: str, extent: int | None) -> None:
    if extent is not None and not 0 <= extent <= LARGEST_EXTENT:
        raise ComputationError(f"{what} has the extent {extent}, expected 0 to {LARGEST_EXTENT}")


def _check_filled(computation: Computation, tensor: Tensor) -> None:
    """Refuse a tensor of which fewer elements are stored than it has: what the others hold is undefined."""
    stored = [_places(stage) for stage in computation.stages if stage.tensor == tensor.name]
    sizes = [extent.constant for extent in tensor.shape]
    counted = [size for size in sizes if size is not None]
    counts = [count for count in stored if count is not None]
    if not stored or len(counted) < len(sizes) or len(counts) < len(stored):
        return
    if sum(counts) < prod(counted):
        message = f"{tensor.name} has {prod(counted)} elements, stages store {sum(counts)}"
        raise ComputationError(f"{computation.name}: {message}: store every element")


def _places(stage: Stage) -> int | None:
    """Return how many elements a stage stores for certain; None: it depends on parameters."""
    if stage.stores_at_lookups:
        return 0
    folded = stage.fold.axes if stage.fold is not None and stage.fold.running else ()
    extents = [var.extent for var in (*stage.axes, *folded)]
    counted = [extent for extent in extents if isinstance(extent, int)]
    return prod(counted) if len(counted) == len(extents) else None


@dataclass(frozen=True, slots=True)
class _StageCheck:
    computation: Computation
    stage: Stage
    written: frozenset[str]

    def check(self) -> None:
        stage = self.stage
        target = self._tensor(stage.tensor)
        if stage.tensor in {tensor.name for tensor in self.computation.inputs}:
            raise ComputationError(f"{stage.tensor} is an input, which is never written")
        self._variables()
        for element in stage.elements:
            if isinstance(element, Read):
                self._read(element)
            elif element.dtype.is_packed:
                raise ComputationError(f"the position {element.at} is {element.dtype}: read it as i64 and cast it")
        self._place("stores to", target, stage.at)
        if stage.value.dtype is not target.dtype:
            raise ComputationError(f"the value is {stage.value.dtype}, {target.name} holds {target.dtype}")
        self._expressions()
        self._lookups_in_order()
        self._fold()
        if not stage.is_sequential:
            self._written_once(target)

    def _tensor(self, name: str) -> Tensor:
        try:
            return self.computation.tensor(name)
        except KeyError:
            raise ComputationError(f"there is no tensor {name}") from None

    def _variables(self) -> None:
        stage = self.stage
        folded = () if stage.fold is None else stage.fold.axes
        bound = [*stage.axes, *folded, *(lookup.var for lookup in stage.lookups), *self.computation.parameters]
        names = [var.name for var in bound]
        for var in bound:
            if not isinstance(var, Let):
                _check_name(var.name)
            _check_extent(var.name, var.extent if isinstance(var.extent, int) else None)
            if names.count(var.name) > 1:
                raise ComputationError(f"two variables are called {var.name}")
        used = (index for element in stage.elements for index in places_of(element))
        for index in (*stage.at, *used):
            for var in sorted(index.variables() - set(bound), key=lambda var: var.name):
                raise ComputationError(f"the variable {var.name} in {index} is not bound")
        if stage.fold is None or stage.fold.running:
            return
        inside = {*folded, *(lookup.var for lookup in stage.folded_lookups)}
        for index in stage.at:
            if index.variables() & inside:
                raise ComputationError(f"stores to {index}, which uses a folded axis: only a running fold may")

    def _lookups_in_order(self) -> None:
        looked_up = [lookup.var for lookup in self.stage.lookups]
        for number, lookup in enumerate(self.stage.lookups):
            later = variables_of(lookup.value, self.stage.elements) & set(looked_up[number:])
            for var in sorted(later, key=lambda var: var.name):
                raise ComputationError(
                    f"the index {lookup.var.name} is computed with {var.name}, which is not known yet"
                )

    def _fold(self) -> None:
        """Refuse folded axes outside of the terms, and folds that say nothing of their first total."""
        stage, fold = self.stage, self.stage.fold
        if fold is None:
            return
        inside = {*fold.axes, *(lookup.var for lookup in stage.folded_lookups)}
        starts = [total.start for total in fold.totals if total.start is not None]
        if 0 < len(starts) < len(fold.totals):
            raise ComputationError("some totals have a start and others begin with their first term")
        if not starts and any(axis.extent == 0 for axis in fold.axes) and all(axis.extent != 0 for axis in stage.axes):
            raise ComputationError("a fold over no terms needs a start")
        terms = {id(expr) for total in fold.totals for expr in (total.term, total.combine)}
        if fold.running:
            terms |= {id(expr) for expr in expressions_of(stage)} - set(map(id, starts))
        free = terms | {id(lookup.value) for lookup in stage.lookups}
        for expr in expressions_of(stage):
            if id(expr) in free:
                continue
            for var in sorted(variables_of(expr, stage.elements) & inside, key=lambda var: var.name):
                raise ComputationError(f"{var.name} is a folded axis, which only terms may use (or a running fold)")

    def _read(self, read: Read) -> None:
        tensor = self._tensor(read.tensor)
        if read.dtype is not tensor.dtype:
            raise ComputationError(f"reads {tensor.name} as {read.dtype}, it holds {tensor.dtype}")
        if read.tensor == self.stage.tensor and read.at != self.stage.at:
            raise ComputationError(f"reads {tensor.name}, which it writes, at another place than it stores to")
        if read.tensor not in self.written:
            raise ComputationError(f"reads {tensor.name}, which no stage before it writes")
        if read.fill is None:
            self._place("reads", tensor, read.at)
        elif len(read.at) != len(tensor.shape):
            raise ComputationError(f"{tensor.name} has {len(tensor.shape)} dims, found {len(read.at)} indices")

    def _place(self, what: str, tensor: Tensor, at: Sequence[Index]) -> None:
        if len(at) != len(tensor.shape):
            raise ComputationError(f"{tensor.name} has {len(tensor.shape)} dims, found {len(at)} indices")
        used = {var for index in at for var in index.variables()}
        if any(var.extent == 0 for var in (*self.stage.axes, *used)):
            return
        for dim, (index, extent) in enumerate(zip(at, tensor.shape, strict=True)):
            if not index.is_within(0, extent) and not index.is_within(0, extent, self.stage.axes):
                where = f"{tensor.name} at {index} along dim {dim}"
                raise ComputationError(f"{what} {where}, which may lie outside of 0 to {extent} (exclusive)")

    def _expressions(self) -> None:
        stage = self.stage
        totals = () if stage.fold is None else stage.fold.totals
        types = [total.dtype for total in totals]
        self._inputs(stage.value, types)
        for total in totals:
            self._inputs(total.term, [])
            self._inputs(total.combine, [*types, *(total.term.dtype for total in totals)])
            if total.start is not None:
                self._inputs(total.start, [])
            first = total.term if total.start is None else total.start
            if total.dtype is not first.dtype:
                raise ComputationError(f"a total starts as {first.dtype}, its combination is {total.dtype}")
        for lookup in stage.lookups:
            self._inputs(lookup.value, [])
            if lookup.value.dtype is not I64:
                raise ComputationError(f"the index {lookup.var.name} is computed as {lookup.value.dtype}, expected i64")
        for check in stage.checks:
            self._inputs(check.refused, types)
            if check.refused.dtype is not BOOL:
                raise ComputationError(f"a check is {check.refused.dtype}, expected bool")

    def _inputs(self, expr: Expr, totals: Sequence[DType]) -> None:
        for instruction in linearise(expr).instructions:
            if instruction.function != "input":
                continue
            number = instruction.index
            types = totals[~number : ~number + 1] if number < 0 else self._element_types()[number : number + 1]
            if not types:
                raise ComputationError(f"an expression uses input {number}, which the stage does not have")
            if types[0] is not instruction.dtype:
                raise ComputationError(f"an expression uses input {number} as {instruction.dtype}, it is {types[0]}")

    def _element_types(self) -> list[DType]:
        return [element.dtype for element in self.stage.elements]

    def _written_once(self, target: Tensor) -> None:
        """Refuse axes along which one place would be written again and again."""
        stage = self.stage
        if any(axis.extent == 0 for axis in stage.axes):
            return
        # Parameters have one value: they move all places alike.
        used = {var for index in stage.at for var in index.variables() if var.extent is not None}
        for axis in stage.axes:
            if axis not in used and axis.extent != 1:
                raise ComputationError(f"stores to one place for every {axis.name}: fold over it, or store along it")
        if any(var.extent == 0 for var in used):
            return
        address, size = Index(), Index.of(1)
        for index, extent in zip(stage.at, target.shape, strict=True):
            address, size = address * extent + index, size * extent
        count = _places(stage)
        is_crowded = size.constant is not None and count is not None and count > size.constant
        if is_crowded or is_mixed_radix(address, used) is False:
            raise ComputationError(f"may store to one place of {target.name} several times")
