"""A plan as text: an `openinfer.synth.SynthTarget`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from openinfer.plugin import Bundle, SynthesisError

if TYPE_CHECKING:
    from openinfer.plugin import ExecutionPlan


class ListingTarget:
    """Writes one file, which is for reading only."""

    epilogues = False

    def emit(self, plan: ExecutionPlan) -> Bundle:
        """Return the listing."""
        return Bundle({"listing.txt": f"{plan.report()}\n\n{plan.memory_map()}\n".encode()})

    def build_and_run(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: there is nothing to run."""
        raise SynthesisError("the target listing writes text, which cannot be run")
