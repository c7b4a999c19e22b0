"""Calls on threads of the platform header, as C: a task for each, which the block that starts it joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.plan.steps import BarrierStep, CallStep
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.names import Names


def write_start(code: Code, names: Names, step: CallStep) -> None:
    """Append the start of a task."""
    number = code.tasks.setdefault(step.procedure, len(code.tasks))
    task = f"tasks[{number}]"
    code.line(
        f"{task}.block = {names.blocks[step.procedure]};",
        *(f"{task}.{name} = {name};" for name in ("model", "inputs", "outputs")),
        f"openinfer_start(&{task}.thread, model_run_task, &{task});",
    )


def write_join(code: Code, step: BarrierStep) -> None:
    """Append the wait for tasks, and the return of the first status that is an error."""
    # A plugin's pass may have left a call out.
    found = [code.tasks[name] for name in step.joins if name in code.tasks]
    code.line(*(f"openinfer_join(&tasks[{number}].thread);" for number in found))
    for number in found:
        with code.braces(f"if (tasks[{number}].status != MODEL_OK)"):
            code.line(f"return tasks[{number}].status;")
