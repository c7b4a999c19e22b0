"""Kernels of plugins: by target, chosen, and left out where a plugin fails later."""

import re
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from given_plugins import device, devices, load, operator, ops, plugin

from openinfer.dtypes import F32
from openinfer.errors import PluginError
from openinfer.ir.types import TensorType
from openinfer.ops.calls import OpCall
from openinfer.plugins.crossing import Owner, PluginWarning
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import KernelSpec


def kernels_of(*kernels: object) -> Any:
    @hookimpl
    def openinfer_kernels(target: str) -> Iterator[object]:
        for kernel in kernels:
            if target == "here":
                yield kernel

    return openinfer_kernels


def chooses(choice: Any) -> Any:
    @hookimpl
    def openinfer_select_kernel(candidates: Any, device: str) -> Any:
        return choice(candidates)

    return openinfer_select_kernel


CHEAP = KernelSpec(op="twice", kernel="example:cheap", cost=1.0)
DEAR = KernelSpec(op="twice", kernel="example:dear", cost=2.0)
CALL = OpCall(op="twice", inputs=(TensorType(F32, (2,)),), outputs=(TensorType(F32, (2,)),), settings={})


TWICE = ops(operator("twice", aliases=("double",)))


@pytest.mark.rule("runtime.devices.1", "runtime.operators.4")
def test_kernels_are_requested_by_target_and_carry_their_owner() -> None:
    environment = load(("k", plugin(TWICE, kernels_of(CHEAP, DEAR))))

    found = environment.kernels("here")

    assert found == {"twice": [CHEAP, DEAR]}
    assert {kernel.owner for kernel in found["twice"]} == {Owner("k", "(given in the program)")}
    assert environment.kernels("elsewhere") == {}


def test_a_kernel_may_name_its_operator_by_an_alias() -> None:
    environment = load(("k", plugin(TWICE, kernels_of(replace(CHEAP, op="double")))))

    assert environment.kernels("here") == {"twice": [CHEAP]}


@pytest.mark.rule("runtime.operators.4")
def test_without_a_choice_the_lowest_cost_is_taken() -> None:
    environment = load(("k", plugin(chooses(lambda _: None))))

    assert environment.kernel_choice(CALL, [DEAR, CHEAP], "here") is CHEAP


def test_the_first_plugin_with_a_choice_decides() -> None:
    environment = load(("a", plugin(chooses(lambda candidates: candidates[0]))), ("b", plugin(chooses(lambda _: None))))

    assert environment.kernel_choice(CALL, [DEAR, CHEAP], "here") is DEAR


LATE_FAILURES = {
    "rubbish kernel": (
        plugin(TWICE, kernels_of(CHEAP, "rubbish")),
        "openinfer_kernels",
        "yielded 'rubbish' (str), expected KernelSpec",
    ),
    "kernel for an unknown operator": (
        plugin(TWICE, kernels_of(replace(CHEAP, op="twicee"), DEAR)),
        "openinfer_kernels",
        "yielded kernels for operators that are unknown: 'twicee': did you mean `twice`",
    ),
    "choice raises": (
        plugin(TWICE, chooses(lambda candidates: candidates[5])),
        "openinfer_select_kernel",
        "raised IndexError: tuple index out of range",
    ),
    "choice is not a candidate": (
        plugin(TWICE, chooses(lambda _: CHEAP)),
        "openinfer_select_kernel",
        "expected one of its candidates",
    ),
}


@pytest.mark.rule("runtime.errors.6")
@pytest.mark.parametrize(("module", "hook", "reason"), LATE_FAILURES.values(), ids=list(LATE_FAILURES))
def test_a_plugin_that_fails_later_is_named_and_left_out(module: ModuleType, hook: str, reason: str) -> None:
    environment = load(("late", module), ("good", plugin(kernels_of(DEAR))))

    with pytest.warns(PluginWarning) as caught:
        chosen = environment.kernel_choice(CALL, [environment.kernels("here")["twice"][-1]], "here")

    (text,) = {str(warning.message) for warning in caught}
    assert text.startswith(f"plugin 'late' of distribution (given in the program): hook {hook} ")
    assert reason in text
    assert "or OPENINFER_PLUGINS_BLOCK=late; " in text
    assert chosen == DEAR


@pytest.mark.parametrize(("module", "hook", "reason"), LATE_FAILURES.values(), ids=list(LATE_FAILURES))
def test_what_fails_later_is_an_error_under_strict_loading(module: ModuleType, hook: str, reason: str) -> None:
    environment = load(("late", module), strict=True)

    with pytest.raises(PluginError, match=re.escape(reason)) as caught:
        environment.kernel_choice(CALL, environment.kernels("here").get("twice", [DEAR])[:1] or [DEAR], "here")

    assert (caught.value.plugin, caught.value.hook) == ("late", hook)
    assert caught.value.distribution == "(given in the program)"


def test_kernels_that_fail_for_a_device_of_their_own_are_an_error() -> None:
    environment = load(("late", plugin(devices(device("here")), TWICE, kernels_of("rubbish"))))

    with pytest.raises(PluginError, match="hook openinfer_kernels yielded 'rubbish'"):
        environment.kernels("here")
