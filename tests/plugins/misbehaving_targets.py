"""Synth targets, and passes over their plans, that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from misbehaving import PARTS, Act, Spot, module, overriding, parts
from misbehaving_operators import MODEL, PROGRAM, emit_program, operator

import openinfer as oi
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


def with_target(target: Any) -> ModuleType:
    parts(Target=target)
    spec = types.SynthTargetSpec(
        name="their_target", summary="theirs", target=f"{PARTS}:Target", expression_dtypes=frozenset({"f32"})
    )
    return module(synth_targets=lambda: [spec], ops=lambda: [operator()])


def written(environment: Environment, folder: Path) -> object:
    return emit_program(environment, folder, "their_target")


def target_spot(
    method: str, use: Callable[[Environment, Path], object] = written, make: Callable[[Act], Any] = lambda act: act
) -> Spot:
    return Spot(lambda act: with_target(overriding(Target, method, make)(act)), use)


TARGETS = {
    "making a target": Spot(with_target, written),
    "epilogues": Spot(lambda act: with_target(type("Theirs", (Target,), {"epilogues": property(act)})), written),
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


def with_pass(act: Act) -> ModuleType:
    parts(rewrite=act)
    spec = types.PassSpec(name="their_pass", stage="plan", run=f"{PARTS}:rewrite")
    return module(passes=lambda stage: [spec] if stage == "plan" else [], ops=lambda: [operator()])


PASSES = {"a pass": Spot(with_pass, emit_program)}
