"""Passes of plugins rewrite plans; errors name the plugin whose result is not a program on the plan's values."""

# ruff: noqa: ARG005

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

import openinfer as oi
from openinfer.affine import Index, Var
from openinfer.errors import PluginError
from openinfer.ir.types import TensorType
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.stages import Watch
from openinfer.plan.steps import CallStep, ComputeStep, CopyStep, Procedure, ValueRef
from openinfer.plugin import PassSpec, SynthTargetSpec, hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.synth import Bundle, Synthesizer

PROGRAM = """
dynamic { x: f32[4]; }
volatile { h: f32[4]; y: f32[4]; z: f32[2]; }
block entry {
  op neg(x) >> h;
  barrier;
  op abs(h) >> y;
  op slice(x, starts=[0], ends=[2]) >> z;
  return y, z;
}
"""

Rewrite = Callable[[tuple[Procedure, ...], tuple[TensorType, ...]], Any]


class Silent:
    """A target that writes nothing."""

    epilogues = False

    def emit(self, plan: ExecutionPlan) -> Bundle:
        return Bundle({"plan.txt": plan.report().encode()})

    def build_and_run(self, *_: Any, **__: Any) -> None: ...


def plan_with(rewrite: Rewrite, stage: str = "plan", watch: Watch | None = None) -> ExecutionPlan:
    module = ModuleType("rewriting")
    module.OPENINFER_API = 1
    module.rewrite = rewrite
    module.Silent = Silent
    spec = PassSpec(name="rewrite", stage=stage, run="rewriting:rewrite")
    target = SynthTargetSpec(
        name="silent", summary="writes nothing", target="rewriting:Silent", expression_dtypes=None, computations=True
    )
    module.openinfer_passes = hookimpl(specname="openinfer_passes")(lambda stage: [spec] if stage == spec.stage else [])
    module.openinfer_synth_targets = hookimpl(specname="openinfer_synth_targets")(lambda: [target])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "rewriting", module)
        environment = load_environment(extra=[("rewriting", module)])
        return Synthesizer("silent", environment=environment).plan(oi.Model.from_arrays({}), PROGRAM, watch=watch)


def of_entry(procedures: tuple[Procedure, ...], change: Callable[[list[Any]], list[Any]]) -> tuple[Procedure, ...]:
    return (*procedures[:-1], replace(procedures[-1], steps=tuple(change(list(procedures[-1].steps)))))


def computed(plan: ExecutionPlan) -> list[str]:
    return [step.op for step in plan.procedures[-1].steps if isinstance(step, ComputeStep)]


def test_passes_run_at_the_stage_that_they_name() -> None:
    def order(stage: str) -> list[str]:
        names: list[str] = []
        plan_with(lambda procedures, types: procedures, stage, lambda name, text: names.append(name))
        return names

    assert order("lowered") == ["lower", "initialise", "rewrite", "constants", "fuse", "arrange", "place"]
    assert order("plan") == ["lower", "initialise", "constants", "fuse", "rewrite", "arrange", "place"]


def test_a_watcher_sees_the_program_after_each_pass() -> None:
    seen: dict[str, str] = {}

    def backwards(procedures: tuple[Procedure, ...], types: tuple[TensorType, ...]) -> tuple[Procedure, ...]:
        first = [step for step in procedures[-1].steps if isinstance(step, ComputeStep) and step.op == "slice"]
        return of_entry(procedures, lambda steps: [*first, *(step for step in steps if step not in first)])

    plan_with(backwards, "plan", lambda name, text: seen.__setitem__(name, text()))

    assert seen["lower"].splitlines()[:3] == ["block entry", "  neg x >> h  (line 5)", "  barrier  (line 6)"]
    assert seen["fuse"].splitlines()[1].startswith("  neg x >> h")
    assert seen["rewrite"].splitlines()[1] == "  slice x >> z  (line 8)"


def test_a_pass_may_reorder_steps() -> None:
    def rewrite(procedures: tuple[Procedure, ...], types: tuple[TensorType, ...]) -> tuple[Procedure, ...]:
        first = [step for step in procedures[-1].steps if isinstance(step, ComputeStep) and step.op == "slice"]
        return of_entry(procedures, lambda steps: [*first, *(step for step in steps if step not in first)])

    assert computed(plan_with(lambda procedures, types: procedures)) == ["neg", "abs", "slice"]
    assert computed(plan_with(rewrite)) == ["slice", "neg", "abs"]


def without(op: str) -> Rewrite:
    return lambda procedures, types: of_entry(
        procedures, lambda steps: [step for step in steps if getattr(step, "op", "") != op]
    )


def with_step(make: Callable[[ComputeStep], object]) -> Rewrite:
    def rewrite(procedures: tuple[Procedure, ...], types: tuple[TensorType, ...]) -> tuple[Procedure, ...]:
        first = next(step for step in procedures[-1].steps if isinstance(step, ComputeStep))
        return of_entry(procedures, lambda steps: [make(first), *steps])

    return rewrite


WRONG = {
    "another type": (lambda procedures, types: None, r"it is None \(NoneType\), expected tuple\[Procedure, ...\]"),
    "nothing": (lambda procedures, types: (), "the last one is not 'entry'"),
    "a missing write": (without("neg"), "read value 1 before it is written"),
    "a missing result": (without("slice"), "before it is written"),
    "another value": (
        with_step(lambda step: CopyStep(origin=step.origin, source=ValueRef(0), output=99)),
        "a value that is none of the 4 of the plan",
    ),
    "another shape": (with_step(lambda step: replace(step, outputs=(3,))), r"takes f32\[4\] where value 3 is f32\[2\]"),
    "a call of nothing": (
        with_step(lambda step: CallStep(origin=step.origin, procedure="nowhere")),
        "a call of 'nowhere', which does not precede its caller",
    ),
    "a length of no step": (
        with_step(lambda step: CopyStep(origin=step.origin, source=ValueRef(0), output=1, count=Index.of(Var("n")))),
        r"an entry of an entry of an entry of terms of Index is .*, expected Symbol or Let",
    ),
}


@pytest.mark.parametrize(("rewrite", "said"), WRONG.values(), ids=WRONG)
def test_a_result_that_is_not_a_program_is_an_error_that_names_the_plugin(rewrite: Rewrite, said: str) -> None:
    with pytest.raises(PluginError, match=said) as caught:
        plan_with(rewrite)

    assert caught.value.plugin == "rewriting"


def test_what_a_pass_raises_names_the_plugin() -> None:
    def rewrite(procedures: tuple[Procedure, ...], types: tuple[TensorType, ...]) -> tuple[Procedure, ...]:
        raise RuntimeError("no idea")

    with pytest.raises(PluginError, match="pass rewrite raised RuntimeError: no idea"):
        plan_with(rewrite)
