"""The command `openinfer` around its subcommands: discovery, switches, errors, exit codes, streams."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

import openinfer
from openinfer.cli import main
from openinfer.cli.failures import rendered
from openinfer.cli.headings import HeadedCommand, HeadedOption
from openinfer.diagnostics import Diagnostic, Source
from openinfer.errors import DeviceError, MissingDependencyError, OpenInferError, PluginError, ValidationError
from openinfer.plugins import discovery, loader
from openinfer.plugins.discovery import Candidate
from openinfer.plugins.environment import Environment
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.plugins.types import CommandSpec
from openinfer.testing.waiting import limit_s

COMMANDS = Path(openinfer.__file__).parent / "cli" / "commands"


def name_of(module: Path) -> str:
    """Return the command of a module; one whose name is a word of Python has an underscore after it."""
    return module.stem.rstrip("_")


def offer(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Make an environment the process's default."""
    environment = Environment(**fields)
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: environment)


def offer_command(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Make a function the plugin command `example`."""
    monkeypatch.setattr(sys.modules[__name__], "example", click.command()(function), raising=False)
    spec = CommandSpec(name="example", summary="an example", command=f"{__name__}:example")
    offer(monkeypatch, commands={"example": spec})


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


def test_every_module_of_the_commands_package_is_a_command_of_its_name() -> None:
    listed = main.list_commands(click.Context(main))

    for module in COMMANDS.glob("[a-z]*.py"):
        assert name_of(module) in listed
        assert main.get_command(click.Context(main), name_of(module)).name == name_of(module)


def test_help_lists_built_in_commands_and_those_of_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    offer_command(monkeypatch, lambda: None)

    output = run("--help").output

    assert "an example" in output
    assert "List the devices" in output


def test_summaries_of_built_in_commands_are_whole_on_one_line() -> None:
    section = run("--help").output.partition("Commands:\n")[2].splitlines()
    names = {name_of(module) for module in COMMANDS.glob("[a-z]*.py")}

    assert {line.split()[0] for line in section} >= names
    assert all(line.endswith(".") and not line.endswith("...") for line in section if line.split()[0] in names)


@pytest.mark.parametrize("module", sorted(COMMANDS.glob("[a-z]*.py")), ids=name_of)
def test_help_lists_long_lists_of_options_under_headings(module: Path) -> None:
    command = main.get_command(click.Context(main), name_of(module))
    options = [option.opts[0] for option in command.params if isinstance(option, click.Option)]

    text = command.get_help(click.Context(command, terminal_width=200))

    sections = [
        re.findall(r"^  (?:-\w, )?(-[\w-]+)", part, re.M) for part in re.split(r"^\S.*:$", text, flags=re.M)[1:]
    ]
    assert all(len(section) <= 12 for section in sections)
    listed = [name for section in sections for name in section]
    assert len(listed) == len({*listed}) == len(options) + 1
    assert sections[0][-1] == "--help"


def test_the_heading_of_an_option_is_declared_with_it() -> None:
    command = HeadedCommand(
        "made",
        params=[
            HeadedOption(["--late"], heading="Rest", help="First said."),
            click.Option(["--plain"]),
            HeadedOption(["--hidden"], heading="Nothing to see", hidden=True),
            click.Argument(["file"]),
        ],
    )

    text = command.get_help(click.Context(command))

    assert re.findall(r"^(\w.*):$|^  (--\w+)", text, re.M) == [
        ("Options", ""),
        ("", "--plain"),
        ("", "--help"),
        ("Rest", ""),
        ("", "--late"),
    ]


def test_every_command_that_takes_a_model_takes_the_short_option_too() -> None:
    context = click.Context(main)
    commands = [main.get_command(context, name_of(module)) for module in COMMANDS.glob("[a-z]*.py")]
    options = [set(option.opts) for command in commands if command is not None for option in command.params]

    assert sum("--model" in found for found in options) >= 7
    assert all("-m" in found for found in options if "--model" in found)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("run g.oi -m m.oinf --trace-format json", "--trace-format is about the file of --trace"),
        ("synth g.oi -m m.oinf --target c -o out --tolerance 1e-3", "--tolerance goes with --verify"),
        ("synth g.oi -m m.oinf --target c -o out --plan --json", "leave --json out"),
        ("ops --markdown pages --json", "leave --coverage and --json out"),
        ("ops --markdown pages --coverage", "leave --coverage and --json out"),
        ("explain --markdown --json", "not with --markdown"),
        ("graph g.oi --html --json", "expected one form, found --json and --html"),
    ],
)
def test_an_option_that_would_do_nothing_is_a_mistake_of_usage(line: str, shown: str) -> None:
    result = run(*line.split())

    assert result.exit_code == 2
    assert shown in " ".join(result.output.split())


def test_every_option_says_what_it_does() -> None:
    context = click.Context(main)
    commands = [main.get_command(context, name_of(module)) for module in COMMANDS.glob("[a-z]*.py")]
    options = [o for c in (main, *commands) if c is not None for o in c.params if isinstance(o, click.Option)]

    assert len(options) > 80
    assert [option.opts for option in options if not option.help] == []


def install(monkeypatch: pytest.MonkeyPatch, name: str, *commands: CommandSpec) -> None:
    """Make a plugin that offers commands the only one that is installed next to core."""

    def openinfer_commands() -> tuple[CommandSpec, ...]:
        return commands

    module = ModuleType("theirs")
    module.OPENINFER_API = 1
    module.openinfer_commands = hookimpl(openinfer_commands)
    core = next(found for found in discovery.installed() if found.name == "core")
    found = Candidate(name=name, distribution="theirs-dist", version="1", value="theirs", load=lambda: module)
    monkeypatch.setattr("openinfer.plugins.discovery.installed", lambda: [core, found])
    environment = load_environment()
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: environment)


@click.command()
def theirs() -> None:
    """Their own list."""
    click.echo("their list")


def test_a_plugin_takes_the_name_of_a_built_in_command_only_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = CommandSpec(name="plugins", summary="their list of plugins", command="their_commands:theirs")

    monkeypatch.setitem(sys.modules, "their_commands", SimpleNamespace(theirs=theirs))
    install(monkeypatch, "thief", spec)
    refused = run("plugins")
    install(monkeypatch, "theirs", replace(spec, replaces="core"))
    replaced = run("plugins")

    assert (refused.exit_code, replaced.exit_code) == (0, 0)
    assert "or declare replaces='core'" in refused.output
    assert replaced.output == "their list\n"
    assert "their list of plugins" in run("--help").output
    assert run("devices").exit_code == 0


def test_a_switch_keeps_a_command_of_a_plugin_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Candidate(name="theirs", distribution="d", version="1", value="theirs", load=lambda: pytest.fail("loaded"))
    monkeypatch.setattr("openinfer.plugins.discovery.installed", lambda: [found])
    loader._loaded_once.cache_clear()
    try:
        result = run("--plugins-block", "theirs", "their-command")
    finally:
        loader._loaded_once.cache_clear()

    assert result.exit_code == 2
    assert "unknown command 'their-command'" in result.output


def leaves() -> None:
    sys.exit(3)


def refuses() -> None:
    raise click.ClickException("not today")


def fails() -> None:
    raise KeyError("oops")


class Rude(BaseException):
    """Not an `Exception`."""


def is_rude() -> None:
    raise Rude("oops")


@pytest.mark.parametrize(
    ("function", "code", "shown"),
    [
        (leaves, 3, ""),
        (refuses, 1, "error[usage]: not today"),
        (fails, 1, "error[plugin]: command example raised KeyError: 'oops'"),
        (is_rude, 1, "command example raised Rude: oops"),
    ],
)
def test_a_command_of_a_plugin_may_leave_but_not_crash(
    monkeypatch: pytest.MonkeyPatch, function: Any, code: int, shown: str
) -> None:
    offer_command(monkeypatch, function)

    result = run("example")

    assert result.exit_code == code
    assert shown in result.stderr
    assert ("Traceback" in run("--debug", "example").stderr) == (shown.startswith(("error[plugin]", "command")))


def test_the_version_is_printed() -> None:
    assert run("--version").output == f"openinfer {openinfer.__version__}\n"


def test_an_unknown_command_is_a_usage_error_with_a_hint() -> None:
    result = run("plugin")

    assert result.exit_code == 2
    assert "unknown command 'plugin': did you mean `plugins`" in result.output


def raising(error: BaseException) -> Any:
    def function() -> None:
        raise error

    return function


SPAN = Source("a.oi", "op ad(x) >> y;").span(3, 5)
FINDING = Diagnostic(code="unknown-op", message="unknown operator `ad`", span=SPAN, hint="did you mean `add`?")
CARETS = "1 | op ad(x) >> y;\n  |    ^^\n  help: did you mean `add`?"

ENDINGS = {
    "wrong input": (OpenInferError("wrong", code="x"), 1, "error[x]: wrong"),
    "device unknown": (DeviceError("unknown device 'gpu'"), 1, "error[device]: unknown device 'gpu'"),
    "device unavailable": (DeviceError("no driver", code="device-unavailable"), 3, "[device-unavailable]: no driver"),
    "missing dependency": (MissingDependencyError("no compiler: install gcc"), 3, "error[environment]: no compiler"),
    "file": (FileNotFoundError(2, "No such file", "m.oinf"), 1, "error[file]: No such file: m.oinf"),
    "mistake": (ZeroDivisionError("boom"), 1, "command example raised ZeroDivisionError: boom"),
    "interrupt": (KeyboardInterrupt(), 130, "interrupted"),
    "findings": (ValidationError("all", diagnostics=[FINDING]), 1, CARETS),
}


@pytest.mark.rule("api.commands.1", "api.commands.3")
@pytest.mark.parametrize(("error", "code", "text"), ENDINGS.values(), ids=list(ENDINGS))
def test_an_error_is_reported_without_traceback_and_sets_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, text: str
) -> None:
    offer_command(monkeypatch, raising(error))

    result = run("example")

    assert result.exit_code == code
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_debug_shows_the_traceback_too(monkeypatch: pytest.MonkeyPatch) -> None:
    offer_command(monkeypatch, raising(OpenInferError("wrong", code="x")))

    result = run("--debug", "example")

    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("error[x]: wrong\n")


@pytest.mark.rule("api.commands.4")
def test_messages_cannot_steer_the_terminal() -> None:
    assert rendered(OpenInferError("a\x1b[2Jb\nc", code="x")) == "error[x]: a\\x1b[2Jb\\nc"


@pytest.mark.rule("api.commands.4")
def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    offer_command(monkeypatch, raising(OpenInferError("wrong", code="x")))

    assert "\x1b" not in run("example").stderr
    assert rendered(OpenInferError("wrong", code="x"), colour=True).startswith("\x1b[31m")


@pytest.mark.rule("api.commands.4")
@pytest.mark.parametrize(
    ("variables", "terminal", "wanted"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, True, False)],
)
def test_no_color_and_dumb_terminals_are_honoured(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], terminal: bool, wanted: bool
) -> None:
    from openinfer.cli.terminal import wants_colour

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    class Stream:
        def isatty(self) -> bool:
            return terminal

    assert wants_colour(Stream()) is wanted


def test_a_plugin_command_that_cannot_be_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, commands={"bad": CommandSpec(name="bad", summary="", command="no_such_module:x")})

    result = run("bad")

    assert result.exit_code == 1
    assert "error[plugin]: cannot load 'no_such_module:x'" in result.stderr


def test_a_plugin_command_that_is_not_a_command_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, commands={"bad": CommandSpec(name="bad", summary="", command="json:dumps")})

    assert "(function), expected a click command" in run("bad").stderr


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--plugins-block", "a,b"], {"OPENINFER_PLUGINS_BLOCK": "a,b"}),
        (["--plugins", "a"], {"OPENINFER_PLUGINS": "a"}),
        (["--no-plugins-autoload"], {"OPENINFER_PLUGINS_AUTOLOAD": "0"}),
        (["--plugins-strict"], {"OPENINFER_PLUGINS_STRICT": "1"}),
        (["--plugins-off", "a,b"], {"OPENINFER_PLUGINS_OFF": "a,b"}),
        (["--plugins-option", "a.b=1", "--plugins-option", "c.d=x"], {"OPENINFER_PLUGINS_OPTIONS": "a.b=1;c.d=x"}),
    ],
)
def test_switches_hold_for_the_command_and_its_child_processes_only(
    monkeypatch: pytest.MonkeyPatch, options: list[str], variables: dict[str, str]
) -> None:
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    seen: dict[str, str] = {}
    offer_command(monkeypatch, lambda: seen.update(os.environ))

    assert run(*options, "example").exit_code == 0

    assert {name: seen.get(name) for name in variables} == variables
    assert not set(variables) & set(os.environ)


def test_a_malformed_switch_is_reported_even_for_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_PLUGINS_STRICT", "perhaps")

    result = run("--help")

    assert result.exit_code == 1
    assert "expected 0 or 1 in OPENINFER_PLUGINS_STRICT, found 'perhaps'" in result.stderr


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    command = [sys.executable, "-m", "openinfer", "plugins"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.close()
            error, code = process.stderr.read(), process.wait(timeout=limit_s(60))
        finally:
            process.kill()

    assert (code, error) == (141, "")


@pytest.mark.skipif(os.name != "posix", reason="closes file descriptors through a POSIX shell")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("plugins >&-", 1, "error[file]: standard output is closed\n"),
        ("ops nothing 2>&-", 1, ""),
        ("plugins 2>&-", 0, ""),
    ],
)
def test_closed_output_is_an_error_and_closed_standard_error_is_none(arguments: str, code: int, said: str) -> None:
    line = f'exec "$0" -m openinfer {arguments}'

    finished = subprocess.run(["sh", "-c", line, sys.executable], capture_output=True, text=True, check=False)

    assert (finished.returncode, finished.stderr) == (code, said)


def test_a_strict_failure_is_reported_by_any_command_that_loads_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Environment:
        raise PluginError("plugins did not load", plugin="bad")

    monkeypatch.setattr("openinfer.plugins.loader.default_environment", fail)

    assert run("devices").exit_code == 1
    assert "error[plugin]: plugins did not load" in run("devices").stderr


def test_a_program_is_checked_without_the_simulator_and_the_planner(tmp_path: Path) -> None:
    (tmp_path / "net.oi").write_text("dynamic { x: f32[2]; } block entry { op abs(x) >> y; return y; }")
    check = "import sys; from openinfer.cli import main; main(['check', 'net.oi'], standalone_mode=False)"
    command = [sys.executable, "-c", f"{check}; print('loaded:', *sys.modules)"]

    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=limit_s(60), check=True)

    assert "no errors" in ran.stdout
    heavy = {"openinfer.simulate", "openinfer.inspect", "openinfer.batch", "openinfer.plan"}
    assert not heavy & set(ran.stdout.split())
