"""Kernels that plugins offer: named by path or given, and named when they fail."""

from __future__ import annotations

import shutil
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.errors import PluginError
from openinfer.plugins.environment import Environment
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.plugins.types import API_VERSION, KernelSpec
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

MODEL = oi.Model.from_arrays({})
RELU = graph("dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op relu(x) >> y; return y; }")
CLAMP = graph(
    "dynamic { x: f32[2]; low: f32; } volatile { y: f32[2]; } block entry { op clamp(x, min=low) >> y; return y; }"
)


def offering(target: str, *kernels: KernelSpec) -> Environment:
    module = ModuleType("example_kernels")
    asked = target

    @hookimpl
    def openinfer_kernels(target: str) -> tuple[KernelSpec, ...]:
        return kernels if target == asked else ()

    module.__dict__.update(OPENINFER_API=API_VERSION, openinfer_kernels=openinfer_kernels)
    return load_environment(extra=[("example", module)])


def negate(call: Any, inputs: Any, outputs: Any, workspace: Any) -> Any:
    del call, workspace
    return lambda: np.negative(inputs[0], out=outputs[0])


def emit_negation(site: Any) -> None:
    x = site.input(0)
    with site.code.loops(("for (size_t i = 0; i < 2; ++i)",)):
        site.store.write(site.code, ("i",), f"-{x.at('i')}")


@pytest.fixture
def heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `heavy_part` from which kernels are loaded by name."""
    module = ModuleType("heavy_part")
    module.__dict__.update(negate=negate, emit_negation=emit_negation)
    monkeypatch.setitem(sys.modules, "heavy_part", module)


@pytest.mark.rule("runtime.operators.4")
@pytest.mark.usefixtures("heavy")
@pytest.mark.parametrize("kernel", [negate, "heavy_part:negate"], ids=["given", "named"])
def test_cpu_runs_a_kernel_that_is_given_or_named(kernel: Any) -> None:
    environment = offering("cpu", KernelSpec(op="relu", kernel=kernel, cost=0.0))
    executor = Simulator(MODEL, RELU, environment=environment).make_executor()
    executor.step(x=[1.0, -2.0])
    assert executor.fetch("y").tolist() == [-1.0, 2.0]


@pytest.mark.usefixtures("heavy")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@pytest.mark.parametrize("kernel", [emit_negation, "heavy_part:emit_negation"], ids=["given", "named"])
def test_c_writes_a_kernel_that_is_given_or_named(kernel: Any) -> None:
    environment = offering("c", KernelSpec(op="relu", kernel=kernel, cost=0.0))
    synthesis = Synthesizer("c", environment=environment).synthesize(MODEL, RELU)
    found = synthesis.run({"x": np.array([1.0, -2.0], np.float32)})
    assert found.outputs["y"].tolist() == [-1.0, 2.0]


def test_a_kernel_that_cannot_be_loaded_is_named() -> None:
    environment = offering("cpu", KernelSpec(op="relu", kernel="nosuch:thing", cost=0.0))
    reported = r"op relu\(x: f32\[2\]\) >> y: plugin 'example' of distribution .*: cannot load 'nosuch:thing'"
    with pytest.raises(PluginError, match=reported):
        Simulator(MODEL, RELU, environment=environment).make_executor().step(x=[1.0, 2.0])


def refuses(call: Any) -> bool:
    return call.settings["absent"] > 0


def crashes(call: Any) -> bool:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(("supports", "reason"), [(refuses, "KeyError: 'absent'"), (crashes, "RuntimeError: no idea")])
def test_a_constraint_that_raises_names_operator_and_kernel(supports: Any, reason: str) -> None:
    environment = offering("cpu", KernelSpec(op="relu", kernel="heavy:part", supports=supports, cost=0.0))
    simulator = Simulator(MODEL, environment=environment)
    reported = f"`supports` of the kernel heavy:part of relu raised {reason}"
    with pytest.raises(PluginError, match=reported):
        simulator.validate(RELU)
    with pytest.raises(PluginError, match=reported):
        simulator.make_executor(RELU)


def test_a_constraint_on_a_late_setting_is_evaluated_when_the_setting_is_known() -> None:
    def low_is_zero(call: Any) -> bool:
        return call.settings["min"] == 0.0

    environment = offering("cpu", KernelSpec(op="clamp", kernel=negate, supports=low_is_zero, cost=0.0))
    executor = Simulator(MODEL, CLAMP, environment=environment).make_executor()
    executor.step(x=[1.0, -2.0], low=0.0)
    assert executor.fetch("y").tolist() == [-1.0, 2.0]
    executor.step(x=[1.0, -2.0], low=-1.0)
    assert executor.fetch("y").tolist() == [1.0, -1.0]
