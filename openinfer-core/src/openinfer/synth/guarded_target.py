"""Synth targets of plugins, with every call guarded and what they return checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.plugins.crossing import crossing, fault, shown, wrong
from openinfer.plugins.types import load_object
from openinfer.synth.bundle import Bundle
from openinfer.synth.proof import Proof
from openinfer.synth.target import RunResult

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.types import SynthTargetSpec
    from openinfer.synth.proof import Prover
    from openinfer.synth.target import Array, SynthTarget


def opened_target(spec: SynthTargetSpec, owner: Owner) -> SynthTarget:
    """Return a synth target.

    Raises:
        PluginError: it cannot be made, or a method is missing.
    """
    make = load_object(spec.target, owner)
    with crossing(owner, f"making synth target {spec.name}"):
        target: SynthTarget = make()
    if not owner.is_foreign:
        return target
    with crossing(owner, f"reading the methods of synth target {spec.name}"):
        proves = callable(getattr(target, "prove", None))
    return (GuardedProver if proves else GuardedTarget)(spec, owner, target)


class GuardedTarget:
    """Stands for the target of a third party: an `openinfer.synth.SynthTarget`.

    Raises:
        PluginError: a method is missing.
    """

    def __init__(self, spec: SynthTargetSpec, owner: Owner, target: SynthTarget) -> None:
        self._owner, self._what, self._target = owner, f"synth target {spec.name}", target
        with crossing(owner, f"reading the methods of {self._what}"):
            epilogues: Any = self._target.epilogues
            overlaps: Any = getattr(self._target, "overlaps", False)
            banks: Any = getattr(self._target, "banks", False)
            arrangements: Any = getattr(self._target, "arrangements", True)
            options: Any = getattr(self._target, "options", frozenset[str]())
            missing = [name for name in ("emit", "build_and_run") if not callable(getattr(self._target, name, None))]
        flags = {"epilogues": epilogues, "overlaps": overlaps, "banks": banks, "arrangements": arrangements}
        for name, found in flags.items():
            if not isinstance(found, bool):
                raise fault(owner, f"{name} of {self._what} is {shown(found)}, expected a bool")
        if not isinstance(options, frozenset):
            raise fault(owner, f"options of {self._what} is {shown(options)}, expected a frozenset of names")
        if missing:
            raise fault(owner, f"{self._what} ({type(self._target).__name__}) has no method {', '.join(missing)}")
        self.epilogues = epilogues
        self.overlaps = overlaps
        self.banks = banks
        self.arrangements = arrangements
        self.options: frozenset[str] = options

    def emit(self, plan: ExecutionPlan) -> Bundle:
        """Return the source files; see `openinfer.synth.SynthTarget.emit`."""
        with crossing(self._owner, f"emit of {self._what}"):
            bundle: Any = self._target.emit(plan)
        if not _is_bundle(bundle):
            raise fault(self._owner, f"emit of {self._what} {wrong(bundle, 'a Bundle of bytes')}")
        return bundle

    def build_and_run(
        self,
        plan: ExecutionPlan,
        bundle: Bundle,
        inputs: Mapping[str, Array],
        *,
        steps: int | None = None,
        repeat: int = 1,
        timeout: float = 60.0,
        initial: Mapping[str, Array] | None = None,
    ) -> RunResult:
        """Compile and run the program; see `openinfer.synth.SynthTarget.build_and_run`."""
        with crossing(self._owner, f"build_and_run of {self._what}"):
            # Targets that were written before there were first values run without them.
            begin: dict[str, Any] = {"initial": initial} if initial else {}
            result: Any = self._target.build_and_run(
                plan, bundle, inputs, steps=steps, repeat=repeat, timeout=timeout, **begin
            )
            is_right = type(result) is RunResult and _are_arrays(result.outputs) and isinstance(result.micros, float)
        if not is_right:
            raise fault(self._owner, f"build_and_run of {self._what} {wrong(result, 'a RunResult of arrays')}")
        return result


class GuardedProver(GuardedTarget):
    """Stands for the target of a third party that has an analyser: an `openinfer.synth.Prover` too."""

    def prove(self, plan: ExecutionPlan, *, timeout: float = 60.0) -> tuple[Proof, Bundle]:
        """Return what the analyser says, and the bundle; see `openinfer.synth.Prover.prove`."""
        prover = cast("Prover", self._target)
        with crossing(self._owner, f"prove of {self._what}"):
            found: Any = prover.prove(plan, timeout=timeout)
        match found:
            case (Proof() as proof, Bundle() as bundle) if _is_bundle(bundle):
                return proof, bundle
            case _:
                raise fault(self._owner, f"prove of {self._what} {wrong(found, 'a Proof and a Bundle of bytes')}")


def _is_bundle(found: Any) -> bool:
    return isinstance(found, Bundle) and all(type(data) is bytes for data in found.files.values())


def _are_arrays(found: Any) -> bool:
    values = cast("Mapping[object, object]", found).values() if isinstance(found, Mapping) else (None,)
    return all(isinstance(value, np.ndarray) for value in values)
