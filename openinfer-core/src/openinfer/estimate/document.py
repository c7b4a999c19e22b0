"""The JSON document of a plan with its estimate: that of ``plan.json``, and what each step costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.dims import is_size
from openinfer.plan.document import plan_json
from openinfer.schedule.text import schedule_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.estimate.steps import PlanEstimate, StageChoice, StepEstimate
    from openinfer.plan.execution_plan import ExecutionPlan


_COUNTS = ("times", "operations", "macs", "read_nbytes", "written_nbytes", "live_nbytes")


def plan_document(plan: ExecutionPlan, found: PlanEstimate) -> dict[str, Any]:
    """Return `openinfer.plan.document.plan_json` with ``totals``, and ``estimate`` in every step.

    Numbers are those of the largest sizes; ``expressions`` has what differs from step to step, as text.
    """
    document = plan_json(plan)
    largest = found.at(plan.given_sizes)
    estimates = iter(zip(largest.steps, found.steps, strict=True))
    for block in document["blocks"]:
        _add(block["steps"], estimates)
    totals = {
        "operations": largest.operations,
        "macs": largest.macs,
        "cycles": largest.cycles or None,
        "moved_nbytes": largest.moved_nbytes,
        "live_nbytes": largest.live_nbytes,
        "expressions": _expressions(found, ("operations", "macs", "moved_nbytes", "live_nbytes")),
        "proved": found.proved,
        "guarded": found.guarded,
        "arena_nbytes": plan.arena_nbytes,
        "weights_nbytes": plan.weights_nbytes,
    }
    return {**document, "totals": totals}


def _expressions(counts: object, names: Sequence[str]) -> dict[str, str]:
    """Return the attributes of some names that are expressions of sizes."""
    return {name: str(value) for name in names if is_size(value := getattr(counts, name))}


def _add(steps: list[dict[str, Any]], estimates: Iterator[tuple[StepEstimate, StepEstimate]]) -> None:
    for step in steps:
        largest, of_sizes = next(estimates)
        step["estimate"] = {**_estimate(largest), "expressions": _expressions(of_sizes, _COUNTS)}
        _add(step.get("body", []), estimates)


def _estimate(found: StepEstimate) -> dict[str, Any]:
    return {
        "number": found.number,
        "times": found.times,
        "operations": found.operations,
        "macs": found.macs,
        "read_nbytes": found.read_nbytes,
        "written_nbytes": found.written_nbytes,
        "live_nbytes": found.live_nbytes,
        "weight_nbytes": found.weight_nbytes,
        "proved": found.proved,
        "guarded": found.guarded,
        "needs_guards": found.needs_guards,
        "cycles": found.counted_cycles,
        "choices": [_choice(choice) for choice in found.choices],
    }


def _choice(choice: StageChoice) -> dict[str, Any]:
    return {
        "tensor": choice.tensor,
        "schedule": schedule_text(choice.schedule),
        "cycles": choice.cycles,
        "runner_up": None if choice.runner_up is None else schedule_text(choice.runner_up),
        "runner_up_cycles": choice.runner_up_cycles,
    }
