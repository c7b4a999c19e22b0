"""Synth targets, and passes over their plans, that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from misbehaving import PARTS, Act, Spot, module, overriding, parts, value_spot
from misbehaving_operators import MODEL, PROGRAM, emit_program, operator

import openinfer as oi
from openinfer.plan.steps import Procedure
from openinfer.plugins import types
from openinfer.plugins.environment import Environment
from openinfer.synth import Bundle, Synthesizer
from openinfer.synth.target import RunResult


class Target:
    """Writes a file that says nothing."""

    epilogues = False

    def emit(self, *_: object) -> Bundle:
        return Bundle({"main.c": b""})

    def build_and_run(self, *_: object, **__: object) -> RunResult:
        return RunResult({"y": np.zeros(2, np.float32)}, 0.0)


def with_target(target: Any, profiles: Any = None) -> ModuleType:
    parts(Target=target, profiles=profiles)
    spec = types.SynthTargetSpec(
        name="their_target",
        summary="theirs",
        target=f"{PARTS}:Target",
        expression_dtypes=frozenset({"f32"}),
        profiles=f"{PARTS}:profiles" if profiles is not None else None,
    )
    return module(synth_targets=lambda: [spec], ops=lambda: [operator()])


def written(environment: Environment, folder: Path) -> object:
    return emit_program(environment, folder, "their_target")


def target_spot(
    method: str, use: Callable[[Environment, Path], object] = written, make: Callable[[Act], Any] = lambda act: act
) -> Spot:
    return Spot(lambda act: with_target(overriding(Target, method, make)(act)), use)


def for_their_chip(environment: Environment, _: Path) -> object:
    return Synthesizer("their_target", arch="their_chip", environment=environment)


class Names(dict[str, Any]):
    """Profiles by name."""


def named_by(act: Act) -> Any:
    return type("Theirs", (Names,), {"keys": act})(their_chip=dict)


def proved(environment: Environment, _: Path) -> object:
    return Synthesizer("their_target", environment=environment).synthesize(MODEL, oi.graph(PROGRAM)).prove()


TARGETS = {
    "making a target": Spot(with_target, written),
    "epilogues": Spot(lambda act: with_target(type("Theirs", (Target,), {"epilogues": property(act)})), written),
    **{
        name: Spot(lambda act, name=name: with_target(type("Theirs", (Target,), {name: property(act)})), written)
        for name in ("overlaps", "banks", "options")
    },
    "prove": target_spot("prove", proved),
    "profiles": Spot(lambda act: with_target(Target, named_by(act)), for_their_chip),
    "a profile": Spot(lambda act: with_target(Target, {"their_chip": act}), for_their_chip),
    "name of a profile": Spot(lambda act: with_target(Target, {"their_chip": dict, 7: act}), for_their_chip),
    "emit": target_spot("emit"),
    "content of a bundle": target_spot("emit", make=lambda act: lambda *_: Bundle({"main.c": act()})),
    "name in a bundle": target_spot("emit", make=lambda act: lambda *_: Bundle({act(): b""})),
    "build_and_run": target_spot(
        "build_and_run",
        lambda environment, _: (
            Synthesizer("their_target", environment=environment)
            .synthesize(MODEL, oi.graph(PROGRAM))
            .run({"x": np.zeros(2, np.float32)})
        ),
    ),
}


def with_pass(act: Any, stage: str = "plan") -> ModuleType:
    parts(rewrite=act)
    spec = types.PassSpec(name="their_pass", stage=stage, run=f"{PARTS}:rewrite")
    return module(passes=lambda: [spec], ops=lambda: [operator()])


def pass_spot(change: Callable[[Procedure, Any], object]) -> Spot:
    """Return the spot of a pass that returns what ``change`` makes of the last procedure and what misbehaves."""
    return value_spot(
        lambda value: with_pass(lambda procedures, _: (*procedures[:-1], change(procedures[-1], value))), emit_program
    )


def in_each_step(procedure: Procedure, **fields: Any) -> Procedure:
    steps = (replace(s, **fields) if all(hasattr(s, name) for name in fields) else s for s in procedure.steps)
    return replace(procedure, steps=tuple(steps))


PASSES = {
    "a pass": Spot(with_pass, emit_program),
    "a pass before fusion": Spot(lambda act: with_pass(act, "lowered"), emit_program),
    "a procedure of a pass": pass_spot(lambda _, value: value),
    "name of a procedure of a pass": pass_spot(lambda procedure, value: replace(procedure, name=value)),
    "steps of a pass": pass_spot(lambda procedure, value: replace(procedure, steps=value)),
    "a step of a pass": pass_spot(lambda procedure, value: replace(procedure, steps=(*procedure.steps, value))),
    "outputs of steps of a pass": pass_spot(lambda procedure, value: in_each_step(procedure, outputs=value)),
    "an output of steps of a pass": pass_spot(lambda procedure, value: in_each_step(procedure, outputs=(value,))),
    "an input of steps of a pass": pass_spot(lambda procedure, value: in_each_step(procedure, inputs=(value,))),
    "computation of steps of a pass": pass_spot(lambda procedure, value: in_each_step(procedure, computation=value)),
    "origin of steps of a pass": pass_spot(lambda procedure, value: in_each_step(procedure, origin=value)),
}
