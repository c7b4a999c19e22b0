"""Loading plugins one by one: states, reasons, and that a broken plugin takes nothing else with it."""

from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import pytest
from given_plugins import device, devices, info, load, operator, ops, plugin

from openinfer.dtypes import I4, I8, U4
from openinfer.errors import DeviceError, PluginError
from openinfer.expr import tree
from openinfer.ops.schema import Composite, Elementwise, InputSpec
from openinfer.plugins import switches
from openinfer.plugins.environment import Environment, Status
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import default_environment, load_environment
from openinfer.plugins.types import API_VERSION, CommandSpec, DeviceSpec, ObserverSpec, PassSpec, load_object

GOOD = plugin(devices(device("good_device")))


def test_a_good_plugin_is_ok_and_its_objects_carry_its_name() -> None:
    environment = load(("good", GOOD))

    assert info(environment, "good").status is Status.OK
    assert info(environment, "good").reason == ""
    assert environment.device("good_device").summary == "a device"
    assert environment.providers["device", "good_device"] == "good"


def test_core_is_a_plugin_with_its_distribution_and_loads_first() -> None:
    first = load(("good", GOOD)).plugins[0]

    assert (first.name, first.distribution, first.status) == ("core", "openinfer-core", Status.OK)
    assert first.version == "0.2.0"


@hookimpl
def raises_at_once() -> tuple[object, ...]:
    raise RuntimeError("out of order")


@hookimpl
def raises_half_way() -> Iterator[DeviceSpec]:
    yield device("half")
    raise RuntimeError("the second device is gone")


@hookimpl
def exits() -> tuple[object, ...]:
    raise SystemExit("bye")


@hookimpl
def never_ends() -> Iterator[DeviceSpec]:
    while True:
        yield device("again")


@hookimpl
def returns_text() -> str:
    return "cpu"


@hookimpl
def returns_number() -> int:
    return 3


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no text for this")


BROKEN_DEVICE_HOOKS = {
    "raises at once": (raises_at_once, "hook openinfer_devices raised RuntimeError: out of order"),
    "raises half-way": (raises_half_way, "raised RuntimeError: the second device is gone"),
    "exits": (exits, "raised SystemExit: bye"),
    "never ends": (never_ends, "yielded more than 100000 objects"),
    "returns text": (returns_text, "expected an iterable of descriptions, found 'cpu'"),
    "returns a number": (returns_number, "expected an iterable of descriptions, found 3"),
    "yields rubbish half-way": (devices(device("half"), "rubbish"), "yielded 'rubbish' (str), expected DeviceSpec"),
    "yields what cannot be shown": (
        devices(device("half"), Unshowable()),
        "yielded an object of type Unshowable that cannot be shown (Unshowable), expected DeviceSpec",
    ),
    "yields a description of something else": (
        devices(CommandSpec(name="x", summary="", command="a:b")),
        "expected DeviceSpec",
    ),
    "names no device": (devices(device("half"), device("")), "name is '', expected an identifier"),
    "names a device by a number": (devices(device(3)), "name is 3, expected str"),
    "names a device by an escape sequence": (devices(device("\x1b[2J")), "expected an identifier"),
    "writes a heavy part without colon": (
        devices(device("half", probe="example.probe")),
        "probe is 'example.probe', expected 'module:attribute'",
    ),
    "writes types as a list": (devices(device("half", expression_dtypes=["f32"])), "expected frozenset[str]"),
}


@pytest.mark.rule("api.plugins.1")
@pytest.mark.parametrize(("hook", "reason"), BROKEN_DEVICE_HOOKS.values(), ids=list(BROKEN_DEVICE_HOOKS))
def test_a_broken_hook_fails_its_plugin_and_nothing_of_it_stays(hook: Any, reason: str) -> None:
    broken = plugin(ops(operator("stays_out")), openinfer_devices=hook)
    broken.openinfer_devices.__name__ = "openinfer_devices"

    environment = load(("broken", broken), ("good", GOOD))

    assert info(environment, "broken").status is Status.FAILED
    assert reason in info(environment, "broken").reason
    assert list(environment.devices) == ["good_device"]
    assert "stays_out" not in environment.ops
    assert "broken" not in environment.providers.values()


def test_an_operator_for_an_element_type_that_does_not_exist_fails_its_plugin() -> None:
    misspelt = ops(operator("misspelt", dtypes=frozenset({"f32", "float32"})))
    of_input = ops(operator("of_input", inputs=(InputSpec(name="x", dtypes=frozenset({"f34"})),)))
    environment = load(
        ("misspelt", plugin(misspelt)),
        ("of_input", plugin(of_input)),
    )

    assert info(environment, "misspelt").status is Status.FAILED
    reason = info(environment, "misspelt").reason
    assert "OpSchema 'misspelt': dtypes names 'float32', which is not an element type" in reason
    assert "dtypes names 'f34', which is not an element type: did you mean" in info(environment, "of_input").reason
    assert not {"misspelt", "of_input"} & set(environment.ops)


def composite(decompose: Any, **changes: Any) -> Any:
    return ops(operator("theirs", definition=Composite(decompose), **changes))


def test_a_decomposition_is_checked_when_its_plugin_loads() -> None:
    environment = load(
        ("right", plugin(ops(operator("ours", definition=Composite(lambda s, i, _: (s.op("neg", i[0]),)))))),
        ("misspelt", plugin(composite(lambda s, i, _: (s.op("soft_max", i[0]),)))),
        ("shapeless", plugin(composite(lambda s, i, _: (s.op("sum", i[0]),)))),
        ("another", plugin(composite(lambda s, i, _: (s.op("ours", i[0]),)))),
    )

    assert info(environment, "right").reason == ""
    assert info(environment, "another").reason == ""
    misspelt, shapeless = (info(environment, name).reason for name in ("misspelt", "shapeless"))
    assert (
        "its decomposition calls 'soft_max', which is not an operator: did you mean `softmax` or `log_softmax`?"
        in misspelt
    )
    assert "OpSchema 'theirs' for f32: the decomposition of theirs yields f32[], expected f32[2,2]" in shapeless


def test_an_expression_that_computes_in_a_packed_type_or_low_float_is_refused_when_its_plugin_loads() -> None:
    def nibbles(build: Any, dtype: str = "i4") -> Any:
        return plugin(ops(operator("theirs", dtypes=frozenset({dtype}), definition=Elementwise(build))))

    environment = load(
        ("added", nibbles(lambda inputs, *_: tree.Apply("neg", (inputs[0],), I4))),
        ("within", nibbles(lambda inputs, *_: tree.cast(tree.cast(tree.cast(inputs[0], U4), I8), I4))),
        ("cast", nibbles(lambda inputs, *_: tree.cast(tree.neg(tree.cast(inputs[0], I8)), I4))),
    )

    assert (
        "the expression of theirs has a neg of i4: cast the input first, such as to i8"
        in info(environment, "added").reason
    )
    assert "has a cast to u4 within: only its result may be u4" in info(environment, "within").reason
    assert info(environment, "cast").reason == ""


@hookimpl
def openinfer_observers() -> tuple[ObserverSpec, ...]:
    return (ObserverSpec(name="watching", summary="s", observer="example:Watching"),)


@pytest.mark.parametrize("off", [[], ["watching"], ["watching", "first"]])
def test_passes_and_observers_can_be_switched_off(off: list[str]) -> None:
    environment = load(("busy", plugin(openinfer_observers, passes(("first", "plan"), ("second", "plan")))), off=off)

    assert info(environment, "busy").reason == ""
    assert {*environment.observers, *environment.passes} == {"watching", "first", "second"} - {*off}


def test_a_switch_for_a_pass_that_does_not_exist_is_reported_and_an_error_where_loading_is_strict() -> None:
    said = "'firsst', which is not a pass or observer: did you mean `first`"
    busy = ("busy", plugin(passes(("first", "plan"), ("second", "plan"))))
    off = frozenset({"firsst", "second"})

    environment = load(busy, off=off)

    assert {*environment.passes} == {"first"}
    problems = switches.unmatched(switches.Switches(off=off), environment)
    assert list(problems) == ["firsst"]
    assert said in problems["firsst"]
    with pytest.raises(PluginError, match=said):
        load(busy, off=off, strict=True)


@pytest.mark.parametrize("is_generator", [False, True])
def test_an_async_hook_is_named(is_generator: bool) -> None:
    async def returns() -> tuple[object, ...]:
        return ()

    async def yields() -> AsyncIterator[object]:
        yield device("never")

    environment = load(("late", plugin(openinfer_devices=hookimpl(yields if is_generator else returns))))

    assert "openinfer_devices is an async function" in info(environment, "late").reason


def passes(*pairs: tuple[str, str]) -> Any:
    @hookimpl
    def openinfer_passes() -> Iterator[PassSpec]:
        for name, stage in pairs:
            yield PassSpec(name=name, stage=stage, run="json:loads")

    return openinfer_passes


def test_a_hook_that_leaves_the_stage_out_offers_each_of_its_passes_once() -> None:
    environment = load(("tidy", plugin(passes(("first", "lowered"), ("second", "plan")))))

    assert info(environment, "tidy").reason == ""
    assert {name: spec.stage for name, spec in environment.passes.items()} == {"first": "lowered", "second": "plan"}


def test_two_passes_of_one_name_are_a_duplicate_and_an_unknown_stage_is_refused() -> None:
    twice = load(("twice", plugin(passes(("same", "lowered"), ("same", "plan")))))
    late = load(("late", plugin(passes(("last", "emitted")))))

    assert info(twice, "twice").status is Status.DUPLICATE
    assert "stage is 'emitted', expected one of lowered, plan" in info(late, "late").reason


def test_the_reason_says_where_the_plugin_raised() -> None:
    environment = load(("broken", plugin(openinfer_devices=raises_half_way)))

    line = raises_half_way.__code__.co_firstlineno + 3
    assert f"{__file__}:{line}" in info(environment, "broken").reason


def misnamed() -> Any:
    @hookimpl
    def openinfer_device() -> tuple[object, ...]:
        return ()

    return openinfer_device


def undecorated() -> Any:
    def openinfer_devices() -> tuple[object, ...]:
        return ()

    return openinfer_devices


def extra_arguments() -> Any:
    @hookimpl
    def openinfer_kernels(target: str, device: int, *, queue: str) -> tuple[object, ...]:
        return ()

    return openinfer_kernels


BROKEN_MODULES = {
    "misspelt hook": (plugin(misnamed()), "there is no hook openinfer_device: did you mean `openinfer_devices`"),
    "hook without marker": (plugin(undecorated()), "openinfer_devices is not decorated with @hookimpl"),
    "API version missing": (plugin(api=None), "does not set OPENINFER_API = 1"),
    "API version is text": (plugin(api="1"), "OPENINFER_API is '1', expected a whole number"),
    "API version is zero": (plugin(api=0), "OPENINFER_API is 0"),
}


def test_what_an_entry_point_names_need_not_be_a_module() -> None:
    class Moody:
        @property
        def OPENINFER_API(self) -> int:  # noqa: N802
            raise OSError("not today")

    environment = load(("number", 3), ("unhashable", {}), ("moody", Moody()), ("good", GOOD))

    assert info(environment, "number").reason == "int does not set OPENINFER_API = 1"
    assert info(environment, "unhashable").reason == "dict does not set OPENINFER_API = 1"
    assert "reading OPENINFER_API raised OSError: not today" in info(environment, "moody").reason
    assert info(environment, "good").status is Status.OK


def test_one_module_under_two_names_is_a_duplicate() -> None:
    second = info(load(("good", GOOD), ("again", GOOD)), "again")

    assert second.status is Status.DUPLICATE
    assert second.reason == "example_plugin is loaded already, as plugin 'good'"


@pytest.mark.parametrize(("module", "reason"), BROKEN_MODULES.values(), ids=list(BROKEN_MODULES))
def test_a_broken_module_is_failed(module: ModuleType, reason: str) -> None:
    environment = load(("broken", module), ("good", GOOD))

    assert info(environment, "broken").status is Status.FAILED
    assert reason in info(environment, "broken").reason
    assert info(environment, "good").status is Status.OK


def test_a_wrong_signature_is_shown_as_written_with_the_wrong_arguments() -> None:
    environment = load(("broken", plugin(extra_arguments())))

    assert info(environment, "broken").status is Status.FAILED
    assert info(environment, "broken").reason == (
        "openinfer_kernels(target, device, *, queue) takes arguments `device`, `queue`, which the hook does not have; "
        "it is openinfer_kernels(target)"
    )


def test_an_import_error_is_failed_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, entry("absent", "no_such_module.plugin"), entry("core", "openinfer.builtin"))

    environment = load_environment()

    assert info(environment, "absent").status is Status.FAILED
    assert info(environment, "absent").reason.startswith(
        "import of no_such_module.plugin raised ModuleNotFoundError: No module named 'no_such_module'"
    )
    assert info(environment, "core").status is Status.OK


def test_newer_hooks_are_incompatible() -> None:
    found = info(load(("newer", plugin(devices(device("d")), api=API_VERSION + 1))), "newer")

    assert found.status is Status.INCOMPATIBLE
    assert (
        found.reason == f"needs plugin API {API_VERSION + 1}, this OpenInfer has {API_VERSION}: upgrade openinfer-core"
    )


@pytest.mark.rule("api.plugins.2")
def test_a_second_object_of_a_name_is_a_duplicate_that_names_both_distributions() -> None:
    newcomer = plugin(devices(device("other"), device("good_device", summary="newcomer")))

    environment = load(("good", GOOD), ("newcomer", newcomer))

    found = info(environment, "newcomer")
    assert found.status is Status.DUPLICATE
    assert "device 'good_device' of distribution (given in the program)" in found.reason
    assert "plugin 'good' of distribution (given in the program)" in found.reason
    assert list(environment.devices) == ["good_device"]
    assert environment.device("good_device").summary == "a device"


def test_one_plugin_cannot_offer_a_name_twice_either() -> None:
    environment = load(("twice", plugin(devices(device("d"), device("d", replaces="twice")))))

    assert info(environment, "twice").status is Status.DUPLICATE


def commands(*specs: CommandSpec) -> Any:
    @hookimpl
    def openinfer_commands() -> tuple[CommandSpec, ...]:
        return specs

    return openinfer_commands


def test_a_built_in_command_is_core_s() -> None:
    environment = load(("thief", plugin(commands(CommandSpec(name="plugins", summary="theirs", command="a:b")))))

    assert info(environment, "thief").status is Status.DUPLICATE
    assert "already provided by plugin 'core' of distribution openinfer-core" in info(environment, "thief").reason
    assert load_object(environment.commands["plugins"].command).name == "plugins"


def test_aliases_of_operators_collide_with_names_and_aliases() -> None:
    first = plugin(ops(operator("first_op", aliases=("first_alias",))))
    by_name = plugin(ops(operator("first_alias")))
    by_alias = plugin(ops(operator("third_op", aliases=("first_alias",))))

    environment = load(("first", first), ("by_name", by_name), ("by_alias", by_alias))

    assert info(environment, "by_name").status is Status.DUPLICATE
    assert info(environment, "by_alias").status is Status.DUPLICATE
    assert environment.op("first_alias").name == "first_op"


@pytest.mark.rule("api.plugins.2")
@pytest.mark.parametrize("order", [("good", "newcomer"), ("newcomer", "good")])
def test_a_newcomer_that_declares_it_replaces_whatever_the_order(order: tuple[str, str]) -> None:
    newcomer = plugin(devices(device("good_device", summary="newcomer", replaces="good")))
    plugins = {"good": GOOD, "newcomer": newcomer}

    environment = load(*((name, plugins[name]) for name in order))

    assert {p.status for p in environment.plugins if p.name in plugins} == {Status.OK}
    assert environment.device("good_device").summary == "newcomer"
    assert environment.providers["device", "good_device"] == "newcomer"


def test_a_replaced_operator_loses_its_aliases_too() -> None:
    first = plugin(ops(operator("first_op", aliases=("first_alias",))))
    second = plugin(ops(operator("first_op", replaces="first")))

    environment = load(("first", first), ("second", second))

    assert environment.providers["op", "first_op"] == "second"
    assert "first_alias" not in environment.op_aliases


def test_replacing_another_plugin_than_the_owner_is_a_duplicate() -> None:
    newcomer = plugin(devices(device("good_device", replaces="somebody")))

    assert info(load(("good", GOOD), ("newcomer", newcomer)), "newcomer").status is Status.DUPLICATE


def entry(name: str, value: str, distribution: str = "example-dist", loaded: list[str] | None = None) -> Any:
    from openinfer.plugins.discovery import Candidate

    def import_it() -> object:
        if loaded is not None:
            loaded.append(name)
        return __import__("importlib").import_module(value)

    return Candidate(name=name, distribution=distribution, version="1", value=value, load=import_it)


def installed(monkeypatch: pytest.MonkeyPatch, *candidates: Any) -> None:
    monkeypatch.setattr("openinfer.plugins.discovery.installed", lambda: list(candidates))


def test_two_plugins_of_one_name_name_both_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(
        monkeypatch, entry("core", "openinfer.builtin", "first-dist"), entry("core", "openinfer.builtin", "other")
    )

    first, second = load_environment().plugins

    assert (first.status, second.status) == (Status.OK, Status.DUPLICATE)
    assert "distribution other is already taken by distribution first-dist" in second.reason


@pytest.mark.parametrize(
    ("switches", "blocked"),
    [
        ({"block": ["one"]}, {"one"}),
        ({"block": ["dist-two"]}, {"two"}),
        ({"allow": ["two"]}, {"one"}),
        ({"allow": ["dist-one"]}, {"two"}),
        ({"allow": []}, {"one", "two"}),
        ({"autoload": False}, {"one", "two"}),
        ({"autoload": False, "allow": ["one"]}, {"two"}),
        ({"allow": ["one"], "block": ["one"]}, {"one", "two"}),
        ({}, set()),
    ],
)
def test_blocked_plugins_are_listed_with_the_switch_and_never_imported(
    monkeypatch: pytest.MonkeyPatch, switches: dict[str, Any], blocked: set[str]
) -> None:
    loaded: list[str] = []
    installed(monkeypatch, entry("one", "json", "dist-one", loaded), entry("two", "string", "dist-two", loaded))

    plugins = load_environment(**switches).plugins

    assert {p.name for p in plugins if p.status is Status.BLOCKED} == blocked
    assert all("OPENINFER_PLUGINS" in p.reason for p in plugins if p.status is Status.BLOCKED)
    assert set(loaded) == {"one", "two"} - blocked


def test_core_stays_unless_it_is_blocked_by_name() -> None:
    assert info(load_environment(allow=[], autoload=False), "core").status is Status.OK
    assert info(load_environment(autoload=False, block=["core"]), "core").status is Status.BLOCKED


def test_strict_loading_raises_with_every_reason() -> None:
    with pytest.raises(PluginError) as caught:
        load(("a", plugin(api=None)), ("b", plugin(api=7)), ("good", GOOD), strict=True)

    assert caught.value.plugin == "a"
    assert caught.value.status == "failed"
    assert "a of (given in the program) is failed: " in str(caught.value)
    assert "b of (given in the program) is incompatible: " in str(caught.value)


def test_a_blocked_plugin_is_not_a_failure_under_strict_loading() -> None:
    assert info(load(("a", plugin(api=None)), block=["a"], strict=True), "a").status is Status.BLOCKED


def test_the_default_environment_is_loaded_once_and_follows_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENINFER_PLUGINS", "OPENINFER_PLUGINS_BLOCK", "OPENINFER_PLUGINS_STRICT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENINFER_PLUGINS_AUTOLOAD", "0")
    alone = default_environment()

    assert default_environment() is alone
    assert Environment.default() is alone
    assert {p.name for p in alone.plugins if p.status is Status.OK} == {"core"}

    monkeypatch.setenv("OPENINFER_PLUGINS_BLOCK", " core , other ")
    assert {p.name for p in default_environment().plugins if p.status is Status.OK} == set()


@pytest.mark.parametrize("name", ["OPENINFER_PLUGINS_AUTOLOAD", "OPENINFER_PLUGINS_STRICT"])
def test_a_malformed_switch_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "maybe")

    with pytest.raises(PluginError, match=f"expected 0 or 1 in {name}, found 'maybe'"):
        default_environment()


def test_an_unknown_device_lists_those_that_exist() -> None:
    with pytest.raises(
        DeviceError, match="unknown device 'good_devise'; known: good_device; did you mean `good_device`"
    ):
        load(("good", GOOD)).device("good_devise")


@pytest.mark.parametrize(
    ("path", "reported"),
    [
        ("json", "expected 'module:attribute', found 'json'"),
        ("json:absent", "cannot load 'json:absent'"),
        ("no_such_module:x", "No module named 'no_such_module'"),
    ],
)
def test_a_heavy_part_that_cannot_be_loaded_says_so(path: str, reported: str) -> None:
    with pytest.raises(PluginError, match=reported):
        load_object(path)
