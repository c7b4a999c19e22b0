"""Options of passes and observers: declared by plugins, set by users, given to the parts as keyword arguments."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from given_plugins import info, load, plugin

from openinfer.cli import main
from openinfer.errors import PluginError
from openinfer.plan.passes import with_passes
from openinfer.plan.steps import Procedure
from openinfer.plugins import switches
from openinfer.plugins.crossing import PluginWarning
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.part_options import with_options
from openinfer.plugins.switches import PartOption
from openinfer.plugins.types import ObserverSpec, OptionSpec, PassSpec
from openinfer.simulate.execute.observers import Observers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plugins.environment import Environment

PARTS = "parts_with_options"
"""This module, under a name that descriptions may have."""

calls: list[dict[str, Any]] = []
"""Options with which parts were called."""


def rewrite(procedures: Any, types: Any, **options: Any) -> Any:
    del types
    calls.append(options)
    return procedures


class Listener:
    def __init__(self, **options: Any) -> None:
        calls.append(options)

    def observe(self, events: Any) -> None:
        """Ignore the events."""


OPTIONS = (
    OptionSpec(name="depth", summary="How deep.", value=2),
    OptionSpec(name="share", summary="How much.", value=0.5),
    OptionSpec(name="fast", summary="Whether.", value=False),
    OptionSpec(name="file", summary="Where to.", value="out.txt"),
)
DEFAULTS = {"depth": 2, "share": 0.5, "fast": False, "file": "out.txt"}


@hookimpl
def openinfer_passes() -> tuple[PassSpec, ...]:
    return (PassSpec(name="tidy.steps", stage="plan", run=f"{PARTS}:rewrite", options=OPTIONS),)


@hookimpl
def openinfer_observers() -> tuple[ObserverSpec, ...]:
    return (
        ObserverSpec(name="log", summary="s", observer=f"{PARTS}:Listener", options=OPTIONS),
        ObserverSpec(name="plain", summary="s", observer=f"{PARTS}:Listener"),
    )


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PARTS, sys.modules[__name__])
    calls.clear()


def load_example(options: Mapping[str, Mapping[str, Any]] | None = None, **choices: Any) -> Environment:
    return load(("example", plugin(openinfer_passes, openinfer_observers)), options=options, **choices)


def test_parts_get_their_options_as_keyword_arguments() -> None:
    environment = load_example({"tidy.steps": {"depth": 7}, "log": {"fast": True, "share": 1}})

    with_passes((Procedure("entry", ()),), (), 0, environment)
    Observers(environment)

    assert calls == [{**DEFAULTS, "depth": 7}, {**DEFAULTS, "fast": True, "share": 1.0}, {}]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("log.depth=-3; log.share=1e-3 ;log.fast=1", {"depth": -3, "share": 1e-3, "fast": True}),
        ("log.depth=1;log.depth=4", {"depth": 4}),
        ("log.file= a=b.txt ", {"file": " a=b.txt "}),
    ],
)
def test_options_are_text_in_a_variable(text: str, values: dict[str, Any]) -> None:
    chosen = switches.from_variables({switches.OPTIONS: text}).options

    environment = load_example({"log": {option.name: option.value for option in chosen}})

    assert {each.name: each.value for each in environment.observers["log"].options} == {**DEFAULTS, **values}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"logg": {"depth": 1}}, "'logg', which is not a pass or observer: did you mean `log`"),
        ({"log": {"dept": 1}}, "'log' has no option 'dept': did you mean `depth`"),
        ({"plain": {"depth": 1}}, "'plain' has no option 'depth': it has none"),
        ({"log": {"depth": "many"}}, "option log.depth: expected an integer, found 'many'"),
        ({"log": {"depth": 1.5}}, "option log.depth: expected an integer, found 1.5"),
        ({"log": {"share": 10**400}}, "option log.share: expected a number, found 1000"),
        ({"log": {"share": "half"}}, "option log.share: expected a number, found 'half'"),
        ({"log": {"fast": "perhaps"}}, "option log.fast: expected 0 or 1, found 'perhaps'"),
        ({"log": {"file": 3}}, "option log.file: expected a text, found 3"),
    ],
)
def test_wrong_options_are_errors(options: Mapping[str, Mapping[str, Any]], said: str) -> None:
    with pytest.raises(PluginError) as refused:
        load_example(options)

    assert said in str(refused.value)


def test_a_wrong_option_of_the_variable_is_a_warning_that_stops_nothing() -> None:
    offered = load_example()
    chosen = switches.from_variables({switches.OPTIONS: "gone.depth=1;log.dept=2;log.depth=3"}).options

    with pytest.warns(PluginWarning) as warned:
        changed = with_options({"passes": offered.passes, "observers": offered.observers}, chosen, strict=False)

    assert [str(warning.message).split(":")[0] for warning in warned] == [
        "OPENINFER_PLUGINS_OPTIONS or --plugins-option names 'gone', which is not a pass or observer",
        "'log' has no option 'dept'",
    ]
    assert {option.name: option.value for option in changed["observers"]["log"].options} == {**DEFAULTS, "depth": 3}


def test_a_pass_and_an_observer_of_one_name_have_their_own_options() -> None:
    observer = ObserverSpec(name="o", summary="s", observer=f"{PARTS}:Listener", options=OPTIONS[:1])
    rewriting = PassSpec(name="o", stage="plan", run=f"{PARTS}:rewrite", options=OPTIONS[1:])
    values = [PartOption("o", "depth", 5), PartOption("o", "fast", value=True)]

    changed = with_options({"passes": {"o": rewriting}, "observers": {"o": observer}}, values, strict=True)

    assert [option.value for option in changed["observers"]["o"].options] == [5]
    assert [option.value for option in changed["passes"]["o"].options] == [0.5, True, "out.txt"]


def test_two_options_of_one_name_are_refused_when_their_plugin_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "OPTIONS", (*OPTIONS, OPTIONS[0]))

    assert "two options share a name: depth, share, fast, file, depth" in info(load_example(), "example").reason


@pytest.mark.parametrize("option", ["", " ", "log.file=a;b"])
def test_an_option_of_the_command_line_is_one_option(option: str) -> None:
    result = CliRunner().invoke(main, ["--plugins-option", option, "plugins"])

    assert result.exit_code == 2
    assert f"expected PART.OPTION=VALUE without ';', found {option!r}" in result.stderr


def test_options_of_the_command_line_follow_those_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(switches.OPTIONS, "log.depth=1;log.fast=1")
    variables: list[str] = []
    monkeypatch.setattr(
        "openinfer.plugins.loader.default_environment",
        lambda: variables.append(os.environ[switches.OPTIONS]) or load_example(),
    )

    CliRunner().invoke(main, ["--plugins-option", "log.depth=2", "plugins"])

    assert variables[0] == "log.depth=1;log.fast=1;log.depth=2"


@pytest.mark.parametrize("text", ["log", "log.depth", "depth=3", ".depth=3", "log.=3"])
def test_an_option_that_is_written_wrongly_is_shown(text: str) -> None:
    with pytest.raises(PluginError, match=r"expected PART\.OPTION=VALUE") as refused:
        switches.from_variables({switches.OPTIONS: text})

    assert repr(text) in str(refused.value)


def test_options_of_a_part_that_is_switched_off_are_no_mistake() -> None:
    assert "log" not in load_example({"log": {"depth": 1}}, off=["log"]).observers


def test_an_option_without_a_legal_value_is_refused_when_its_plugin_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: Any = None
    monkeypatch.setitem(globals(), "OPTIONS", (OptionSpec(name="depth", summary="s", value=wrong),))

    environment = load_example()

    assert "value is None, expected bool | int | float | str" in info(environment, "example").reason


def test_the_list_of_plugins_has_the_options_with_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = load_example({"tidy.steps": {"depth": 7}})
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: environment)

    text = CliRunner().invoke(main, ["plugins"]).output
    document = json.loads(CliRunner().invoke(main, ["plugins", "--json"]).stdout)

    assert "tidy.steps.depth  7        How deep." in text
    (own,) = (each for each in document if each["name"] == "example")
    expected = {"plugin": "example", "part": "tidy.steps", "option": "depth", "value": 7, "summary": "How deep."}
    assert own["options"][0] == expected
    assert len(own["options"]) == 2 * len(OPTIONS)
