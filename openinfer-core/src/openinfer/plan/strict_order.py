"""Steps whose sums are sequential, by the hint `strict_order` or for a whole program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.compute.strict_order import in_strict_order
from openinfer.ir.values import BoolValue
from openinfer.plan.steps import ComputeStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.compute import Computation
    from openinfer.ir.values import AttrValue
    from openinfer.plan.steps import Step


@dataclass(frozen=True, slots=True)
class StrictOrder:
    """Makes the sums of steps sequential where a hint, or ``default`` without one, says so.

    Steps that share a computation share its sequential form, so that later passes recognise equal steps by identity.
    """

    default: bool
    _known: dict[int, tuple[Computation, Computation]] = field(
        default_factory=dict[int, "tuple[Computation, Computation]"], repr=False
    )

    def steps(self, steps: Iterable[Step], hints: Mapping[str, AttrValue]) -> Iterator[Step]:
        """Yield the steps of a statement, for which ``hints`` hold."""
        hint = hints.get("strict_order")
        if not (hint.value if isinstance(hint, BoolValue) else self.default):
            yield from steps
            return
        for step in steps:
            yield replace(step, computation=self._strict(step.computation)) if isinstance(step, ComputeStep) else step

    def _strict(self, computation: Computation) -> Computation:
        key = id(computation)
        if key not in self._known:
            # The first of the pair is kept alive: another computation would otherwise get its identity.
            self._known[key] = (computation, in_strict_order(computation))
        return self._known[key][1]
