"""Whether a computation means something: variables are bound, types agree, and every access lies within its tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute.builder import ComputationError
from openinfer.compute.stage import Read, places_of
from openinfer.dtypes import BOOL, I64
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute.stage import Computation, Stage, Tensor
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr


def verify(computation: Computation) -> None:
    """Check a computation.

    Raises:
        ComputationError: names the stage and what is wrong: a name that is used twice, an unknown tensor or variable,
            types or numbers of indices that do not agree, a place that may lie outside of its tensor, a read of what no
            stage has written, a place that is written several times, or an output that no stage writes.
    """
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
        self._place("stores to", target, stage.at)
        if stage.value.dtype is not target.dtype:
            raise ComputationError(f"the value is {stage.value.dtype}, {target.name} holds {target.dtype}")
        self._expressions()
        if not stage.is_sequential:
            self._written_once()

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
        for name in names:
            if names.count(name) > 1:
                raise ComputationError(f"two variables are called {name}")
        used = (index for element in stage.elements for index in places_of(element))
        for index in (*stage.at, *used):
            for var in sorted(index.variables() - set(bound), key=lambda var: var.name):
                raise ComputationError(f"the variable {var.name} in {index} is not bound")
        outside = set(folded) if stage.fold is not None and not stage.fold.running else set[object]()
        for index in stage.at:
            if index.variables() & outside:
                raise ComputationError(f"stores to {index}, which uses a folded axis: only a running fold may")

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
            if not index.is_within(0, extent):
                place = f"{tensor.name} at {index} along dim {dim}"
                raise ComputationError(f"{what} {place}, which may lie outside of 0 to {extent} (exclusive)")

    def _expressions(self) -> None:
        stage = self.stage
        totals = () if stage.fold is None else stage.fold.totals
        types = [total.term.dtype for total in totals]
        self._inputs(stage.value, types)
        for total, dtype in zip(totals, types, strict=True):
            self._inputs(total.term, [])
            self._inputs(total.combine, [*types, *types])
            if total.start is not None:
                self._inputs(total.start, [])
            if total.combine.dtype is not dtype or (total.start is not None and total.start.dtype is not dtype):
                raise ComputationError(f"a total is {dtype}, its combination {total.combine.dtype}")
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
            known = totals[~number : ~number + 1] if number < 0 else self._element_types()[number : number + 1]
            if not known:
                raise ComputationError(f"an expression uses input {number}, which the stage does not have")
            if known[0] is not instruction.dtype:
                raise ComputationError(f"an expression uses input {number} as {instruction.dtype}, it is {known[0]}")

    def _element_types(self) -> list[DType]:
        return [element.dtype for element in self.stage.elements]

    def _written_once(self) -> None:
        """Refuse axes along which one place would be written again and again."""
        used = {var for index in self.stage.at for var in index.variables()}
        for axis in self.stage.axes:
            if axis not in used and axis.extent != 1:
                raise ComputationError(f"stores to one place for every {axis.name}: fold over it, or store along it")
