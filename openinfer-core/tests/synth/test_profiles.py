"""Devices by name: the profiles that the synth targets of plugins offer."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from given_plugins import load, plugin

from openinfer.arch import DeviceArch
from openinfer.errors import PluginError, SynthesisError
from openinfer.plugins.crossing import PluginWarning
from openinfer.plugins.environment import Environment
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import ProfileSpec, SynthTargetSpec
from openinfer.synth.profiles import device_of, profiles


def document(name: str, api: str) -> dict[str, Any]:
    return {"device": {"type": "cpu", "api": api, "name": name}}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Two targets with profiles, one without, and one that offers something else."""
    module = ModuleType("offered")
    monkeypatch.setitem(sys.modules, "offered", module)
    vars(module)["FIRST"] = {"small": lambda: document("small", "a"), "both": lambda: document("both", "a")}
    vars(module)["SECOND"] = {"both": lambda: document("both", "b")}
    vars(module)["WRONG"] = {"small": document("small", "w")}
    places = {"a": "offered:FIRST", "b": "offered:SECOND", "none": None}
    return Environment(targets={name: target(name, place) for name, place in places.items()})


def target(name: str, place: str | None) -> SynthTargetSpec:
    return SynthTargetSpec(name=name, summary="", target="x:y", expression_dtypes=None, profiles=place)


def test_a_name_is_looked_up_among_the_profiles_of_the_target(environment: Environment) -> None:
    found = device_of("both", "b", environment)

    assert found is not None
    assert (found.name, found.api) == ("both", "b")


def test_without_a_target_the_first_that_has_the_name_counts(environment: Environment) -> None:
    assert list(profiles(None, environment)) == ["both", "small"]
    assert getattr(device_of("both", None, environment), "api", None) == "a"


def test_another_plugin_adds_a_profile_to_a_target(environment: Environment) -> None:
    vars(sys.modules["offered"])["third"] = lambda: document("board", "a")
    board = ProfileSpec(name="board", synth_target="a", document="offered:third")
    more = replace(environment, profiles={"a:board": board})

    assert list(profiles("a", more)) == ["small", "both", "board"]
    assert "board" not in profiles("b", more)
    assert getattr(device_of("board", "a", more), "name", None) == "board"


def boards(*targets: str) -> ModuleType:
    @hookimpl
    def openinfer_synth_targets() -> list[SynthTargetSpec]:
        return [target("one", None), target("two", None)]

    @hookimpl
    def openinfer_profiles() -> list[ProfileSpec]:
        return [ProfileSpec(name="board", synth_target=name, document=f"offered:{name}") for name in targets]

    return plugin(openinfer_synth_targets, openinfer_profiles)


def test_a_board_has_a_profile_for_each_target(environment: Environment) -> None:
    del environment
    for name in ("one", "two"):
        vars(sys.modules["offered"])[name] = lambda name=name: document("board", name)

    loaded = load(("boards", boards("one", "two")), strict=True)

    assert [getattr(device_of("board", name, loaded), "api", None) for name in ("one", "two")] == ["one", "two"]


def test_a_profile_for_a_target_that_nobody_offers_is_named() -> None:
    said = "profile 'board' is for synth target 'onne', which is not there: did you mean `one`"
    with pytest.warns(PluginWarning, match=said):
        load(("boards", boards("onne")))
    with pytest.raises(PluginError, match=said):
        load(("boards", boards("onne")), strict=True)


@pytest.mark.parametrize(("target", "message"), [("b", "there are both"), ("none", "there are none")])
def test_an_unknown_name_is_refused(environment: Environment, target: str, message: str) -> None:
    with pytest.raises(SynthesisError, match=rf"unknown device 'xyz' \(for a file write './xyz'\): {message}"):
        device_of("xyz", target, environment)


@pytest.mark.parametrize("written", ["device.json", "./device"])
def test_what_has_a_path_or_an_ending_is_a_file(
    environment: Environment, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(written).write_text(json.dumps(document("from a file", "a")))

    assert getattr(device_of(written, "a", environment), "name", None) == "from a file"
    with pytest.raises(OSError, match="absent"):
        device_of("absent.json", "a", environment)


def test_devices_and_documents_are_taken_as_they_are(environment: Environment) -> None:
    arch = DeviceArch.load(document("x", "a"))

    assert device_of(arch, "a", environment) is arch
    assert device_of(document("x", "a"), "a", environment) == arch
    assert device_of(None, "a", environment) is None


def test_a_plugin_that_offers_something_else_is_named(environment: Environment) -> None:
    wrong = Environment(targets={"w": target("w", "offered:WRONG")})

    with pytest.raises(
        PluginError, match=r"profiles of synth target w returned .* expected a mapping from names to functions"
    ):
        device_of("small", "w", wrong)
