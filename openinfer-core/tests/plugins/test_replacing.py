"""Who has a name: what this repository publishes loads first, and gives a name up only to a plugin that says so."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import openinfer as oi
from openinfer.dsl import read_program
from openinfer.expr import tree
from openinfer.ops.schema import Elementwise, InputSpec, OpSchema
from openinfer.plugins import discovery, types
from openinfer.plugins.environment import Environment, PluginInfo, Status
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.plugins.offers import KINDS
from openinfer.validate import program_findings

NAMES = ("probe", "backend", "target", "run", "open", "load", "runner", "observer", "command", "document")


def operator(name: str, **changes: Any) -> OpSchema:
    return OpSchema(
        name=name,
        summary="x",
        category="test",
        inputs=(InputSpec(name="x"),),
        dtypes=frozenset({"f32"}),
        infer=lambda inputs, *_: (inputs[0],),
        definition=Elementwise(lambda inputs, *_: tree.neg(inputs[0])),
        **changes,
    )


def made(kind: type[Any], **changes: Any) -> Any:
    """Return a description whose other fields are the plainest."""
    if kind is OpSchema:
        return operator(**changes)
    fields: dict[str, Any] = {"summary": "x", "expression_dtypes": frozenset({"f32"}), "stage": "plan"}
    fields |= {"synth_target": "board_target", "text": "x"}
    fields |= {"suffixes": (".x",), "magic": b"", **dict.fromkeys(NAMES, "example:part")}
    known = {name: value for name, value in fields.items() if name in kind.__dataclass_fields__}
    return kind(**{**known, **changes})


def plugin(hook: str, *offers: object, **further: Callable[..., Any]) -> ModuleType:
    module = ModuleType("example")
    module.OPENINFER_API = types.API_VERSION
    for name, function in {hook: lambda: offers, **further}.items():
        setattr(module, name, hookimpl(function))
    return module


def key(kind: Any) -> str:
    return "board_target:one" if kind.type is types.ProfileSpec else "one"


TARGET = ("target", plugin("openinfer_synth_targets", made(types.SynthTargetSpec, name="board_target")))
"""What the profiles are for."""


def load(*plugins: tuple[str, object], **switches: Any) -> Environment:
    return load_environment(**{"autoload": False, "extra": plugins, **switches})


def info(environment: Environment, name: str) -> PluginInfo:
    (found,) = (found for found in environment.plugins if found.name == name)
    return found


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_every_kind_of_offer_is_replaced_by_whoever_says_so(kind: Any, order: tuple[str, str]) -> None:
    first = made(kind.type, name="one")
    second = made(kind.type, name="one", replaces="first")
    plugins = {"first": plugin(kind.hook, first), "second": plugin(kind.hook, second)}

    environment = load(TARGET, *((name, plugins[name]) for name in order))

    assert {info(environment, name).status for name in order} == {Status.OK}
    assert getattr(environment, kind.field)[key(kind)].replaces == "first"
    assert environment.providers[kind.noun, key(kind)] == "second"
    assert environment.owner(kind.noun, key(kind)).plugin == "second"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_names_are_replaced_on_request_only(kind: Any) -> None:
    first, second = (made(kind.type, name="one") for _ in range(2))

    environment = load(TARGET, ("first", plugin(kind.hook, first)), ("second", plugin(kind.hook, second)))

    assert info(environment, "second").status is Status.DUPLICATE
    assert "or declare replaces='first'" in info(environment, "second").reason
    offered = getattr(environment, kind.field)[key(kind)]
    assert offered is first or environment.providers[kind.noun, key(kind)] == "first"


@pytest.mark.parametrize(("noun", "name", "offer"), [("op", "relu", operator), ("command", "plugins", None)])
def test_what_core_offers_can_be_replaced(noun: str, name: str, offer: Any) -> None:
    make = offer or (lambda name, **changes: made(types.CommandSpec, name=name, **changes))
    hook = "openinfer_ops" if noun == "op" else "openinfer_commands"

    environment = load(("theirs", plugin(hook, make(name, replaces="core"))))

    assert environment.providers[noun, name] == "theirs"


KERNEL = types.KernelSpec(op="relu", kernel="example:kernel")


def with_kernels(spec: types.DeviceSpec | types.SynthTargetSpec) -> ModuleType:
    hook = "openinfer_devices" if isinstance(spec, types.DeviceSpec) else "openinfer_synth_targets"

    def kernels(target: str) -> list[types.KernelSpec]:
        return [KERNEL] if target == spec.name else []

    return plugin(hook, spec, openinfer_kernels=kernels)


@pytest.mark.parametrize("kind", [types.DeviceSpec, types.SynthTargetSpec])
def test_kernels_of_a_device_or_target_that_is_replaced_are_left_out(kind: Any) -> None:
    official = with_kernels(made(kind, name="one"))
    theirs = with_kernels(made(kind, name="one", replaces="official"))

    environment = load(("official", official), ("theirs", theirs))

    assert [kernel.owner.plugin for kernel in environment.kernels("one")["relu"]] == ["theirs"]


def entry(name: str, distribution: str, module: object) -> Any:
    dist = SimpleNamespace(metadata={"Name": distribution, "Version": "1"})
    return SimpleNamespace(name=name, value="example", dist=dist, load=lambda: module)


def test_what_this_repository_publishes_loads_first(monkeypatch: pytest.MonkeyPatch) -> None:
    device = plugin("openinfer_devices", made(types.DeviceSpec, name="cpu"))
    official = plugin("openinfer_devices", made(types.DeviceSpec, name="cpu", summary="official"))
    empty = [plugin("openinfer_devices") for _ in range(4)]
    entries = [
        entry("a_device", "another-dist", device),
        entry("vulkan", "openinfer_backend_vulkan", empty[0]),
        entry("z", "openinfer-core", empty[1]),
        entry("cpu", "OpenInfer.Backend-CPU", official),
        entry("c", "openinfer-synth-c", empty[2]),
        entry("oinf", "openinfer-oinf", empty[3]),
    ]
    monkeypatch.setattr(discovery, "entry_points", lambda **_: entries)

    environment = load_environment()

    assert [found.name for found in environment.plugins] == ["z", "oinf", "cpu", "c", "vulkan", "a_device"]
    assert info(environment, "a_device").status is Status.DUPLICATE
    assert environment.device("cpu").summary == "official"
    assert environment.owner("device", "cpu").distribution == "openinfer-backend-cpu"


def raising() -> list[object]:
    raise RuntimeError("no")


BROKEN = plugin("openinfer_ops", operator("theirs", aliases=("of_them",)), openinfer_devices=raising)


@pytest.mark.parametrize("name", ["theirs", "of_them"])
def test_an_unknown_operator_names_the_plugin_that_offers_it_but_did_not_load(name: str) -> None:
    environment = load(("a", plugin("openinfer_ops")), ("broken", BROKEN), ("silent", object()))

    with pytest.raises(oi.OpenInferError, match=f"unknown operator '{name}'") as caught:
        environment.op(name)

    reported = "; these plugins offer it, but did not load: broken (failed); `openinfer plugins` says why"
    assert str(caught.value).endswith(reported)


def test_what_is_unknown_names_the_plugins_that_did_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [entry(name, "d", plugin("openinfer_ops", operator("theirs"))) for name in ("one", "two")]
    monkeypatch.setattr(discovery, "entry_points", lambda **_: found)
    environment = load_environment(block=["one", "two"])

    reported = r"may offer it, but did not load: one \(blocked\), two \(blocked\)"
    for ask in (environment.op, environment.device, environment.target, environment.runner):
        with pytest.raises(oi.OpenInferError, match=reported):
            ask("theirs")


def test_of_what_this_repository_publishes_only_what_could_offer_it_is_named() -> None:
    environment = load_environment(block=["core", "cpu", "c"])

    with pytest.raises(oi.OpenInferError, match=r"may offer it, but did not load: core \(blocked\);"):
        environment.op("relu")
    if any(found.name == "cpu" for found in environment.plugins):
        with pytest.raises(oi.OpenInferError, match=r"did not load: core \(blocked\), cpu \(blocked\);"):
            environment.device("cpu")


def test_without_plugins_that_did_not_load_none_is_named() -> None:
    with pytest.raises(oi.OpenInferError, match=r"unknown operator 'theirs'$"):
        Environment().op("theirs")


@pytest.mark.parametrize("declared", [False, True])
def test_an_attribute_that_a_plugin_declares_is_known_without_a_model_too(declared: bool) -> None:
    offers = [made(types.AttributeSpec, name="layout")] if declared else []
    environment = load(("theirs", plugin("openinfer_attributes", *offers)))
    reading = read_program("dynamic { x: f32 @layout; } block entry { return; }")

    found = [finding.code for finding in program_findings(reading, environment=environment)]

    assert ("unknown-attr" in found) == (not declared)


def test_a_description_keeps_what_its_plugin_yielded() -> None:
    own = operator("theirs")

    found = load(("theirs", plugin("openinfer_ops", own))).op("theirs")

    assert replace(found, infer=own.infer, definition=own.definition) == own
