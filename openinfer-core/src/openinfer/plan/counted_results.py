"""Results with as many rows as an operator counts: memory for the most rows, and an extent that the count gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dims import product
from openinfer.ops.counting import COUNT, counted_places
from openinfer.plan.setting_ranges import length_range
from openinfer.plan.steps import CopyStep, PlaceStep, Register, SetStep, ValueRef

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.ir.resolved import ResolvedOp
    from openinfer.ir.types import TensorType
    from openinfer.plan.calls import Operation
    from openinfer.plan.draft import Draft
    from openinfer.plan.persistent import PersistentLowering
    from openinfer.plan.steps import Step
    from openinfer.plugins.environment import Environment


@dataclass(frozen=True, slots=True)
class CountedResults:
    """Plans where operators write results that they count, and what statements take of them.

    Attributes:
        written_once: variables that one statement of the program writes: a count that nothing else changes is the size
            of its results by name as well, so that ``reshape(places, shape=[n])`` needs no test.
    """

    environment: Environment
    draft: Draft
    persistent: PersistentLowering
    written_once: frozenset[str]

    def places(self, op: ResolvedOp) -> frozenset[int]:
        """Return the positions of counted results."""
        return counted_places(self.environment.op(op.op))

    def written(self, op: ResolvedOp, outputs: Sequence[int], kinds: Sequence[TensorType]) -> list[int]:
        """Return the values that an operator writes: outputs of its statement, and values of the plan alone.

        The latter take results that the statement leaves out, and counted ones.

        Args:
            kinds: types of all results, with the most rows.
        """
        counted, values = self.places(op), list[int]()
        for number, kind in enumerate(kinds):
            is_own = number >= len(outputs) or number in counted
            name = f"{op.outputs[0]}.{op.op}.{number}"
            values.append(self.draft.intermediate(name, kind) if is_own else outputs[number])
        return values

    def taken(self, op: ResolvedOp, outputs: Sequence[int], written: Sequence[int], at: Operation) -> Iterator[Step]:
        """Yield the steps that give outputs of a statement the rows that its operator counted."""
        places = [number for number in sorted(self.places(op)) if number < len(outputs)]
        if not places:
            return
        count, most = written[COUNT], self.draft.values[written[places[0]]].type.shape[0]
        is_named = len(outputs) > COUNT and self._is_set_here(count)
        name = self.draft.values[count].name
        rows = Register(self.draft.register(name if is_named else f"{op.outputs[places[0]]}.0", most=most))
        if is_named:
            self.draft.counts[count] = rows
        # The count is at most the room: the bound is for analysers of generated source to see.
        value = self.draft.read(ValueRef(count), self.draft.values[count].name)
        yield PlaceStep(origin=at.origin, register=rows.number, value=value, range=length_range(most))
        for number in places:
            yield from self._rows(outputs[number], written[number], rows, at)

    def _is_set_here(self, value: int) -> bool:
        """Return whether a value is a temporary that nothing but one statement writes."""
        variable = self.draft.values[value].variable
        return variable is not None and variable.inferred and variable.name in self.written_once

    def _rows(self, output: int, source: int, rows: Register, at: Operation) -> Iterator[Step]:
        room = self.draft.values[source].type.shape
        rest = (self.persistent.extents_of(ValueRef(source)) or room)[1:]
        constants = (None, *(extent if isinstance(extent, int) else None for extent in rest))
        first = rows if self._is_set_here(output) else None
        registers = (first, *(e if isinstance(e, int) or self.draft.is_given(e) else None for e in rest))
        extents = self.persistent.varies(output, constants, room, at.node, at.origin.block, registers)
        changed = [
            (extent.number, self.draft.size(own))
            for extent, own in zip(extents, (rows, *rest), strict=True)
            if isinstance(extent, Register) and extent != own
        ]
        if changed:
            yield SetStep(origin=at.origin, values=tuple(changed))
        elements = product(map(self.draft.size, extents))
        yield CopyStep(origin=at.origin, source=ValueRef(source), output=output, count=elements)
