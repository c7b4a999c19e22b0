"""The click group of `openinfer`: options for every command, lazy subcommands, errors without tracebacks."""

from __future__ import annotations

import os
import pkgutil
import sys
import warnings
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

import openinfer
from openinfer.boundary import DEBUG
from openinfer.cli import commands, failures
from openinfer.cli.plugin_commands import opened_command
from openinfer.cli.shell_completion import VARIABLE, offer_files
from openinfer.cli.terminal import has_printed_document, want_document, wants_document
from openinfer.diagnostics import Diagnostic, Severity, did_you_mean, render
from openinfer.plugins import discovery, switches
from openinfer.plugins.crossing import PluginWarning
from openinfer.plugins.environment import Environment
from openinfer.plugins.waiting import naming_threads_left
from openinfer_oinf.standard_streams import claim_streams

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from openinfer.plugins.types import CommandSpec

_NAME = "openinfer"

_WIDEST_HELP = 120
"""Columns of help on a terminal that has as many; longer lines are hard to read."""

_HELP: tuple[type[click.ClickException], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)
"""What click raises to print help where there is no argument; click 8.1 prints it without."""


class Program(click.Group):
    """A group whose subcommands are imported when they are called.

    Built-in commands are the modules of `cli.commands`; plugins add others, or replace them.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted({*_builtin(), *Environment.default().commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        module = _builtin().get(cmd_name)
        # Plugins take time to load: a built-in command waits for them only where one could replace it.
        if module is None or any(candidate.owner.is_foreign for candidate in discovery.installed()):
            spec = _of_plugins().get(cmd_name)
            if spec is not None:
                return opened_command(spec, Environment.default().owner("command", cmd_name))
        return None if module is None else import_module(module).command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            hint = did_you_mean(args[0], self.list_commands(ctx)) or f"`{ctx.command_path} --help` lists them"
            ctx.fail(f"unknown command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        specs = _of_plugins()
        builtin = {name: import_module(module).command for name, module in _builtin().items() if name not in specs}
        rows = [(name, command.get_short_help_str(80)) for name, command in builtin.items()]
        rows += [(name, spec.summary) for name, spec in specs.items()]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))

    def main(self, *arguments: Any, **options: Any) -> Any:
        try:
            claim_streams()
        except OSError as error:
            sys.exit(failures.report(error, debug=False))
        if VARIABLE in os.environ:
            offer_files()
        with naming_threads_left():
            # By this name messages quote commands, however Python was started.
            return super().main(*arguments, **{"prog_name": _NAME, **options})

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        options = args[: args.index("--")] if "--" in args else args
        json = "--json" in options
        with _failures_reported(debug="--debug" in options, json=json):
            context = super().make_context(info_name, args, parent, **extra)
            if json:
                want_document(context)
            return context

    def invoke(self, ctx: click.Context) -> Any:
        debug = bool(ctx.params.get("debug"))
        reported = _failures_reported(debug=debug, json=wants_document(ctx), context=ctx)
        # The switches decide which plugins load, and so which commands there are.
        variables = {**_switches(ctx.params), **({DEBUG: "1"} if debug else {})}
        with _variables_set(variables), _warnings_printed(), reported:
            result = super().invoke(ctx)
            # A reader that went away shows when the rest of the output is written.
            sys.stdout.flush()
            return result


@contextmanager
def _failures_reported(*, debug: bool, json: bool, context: click.Context | None = None) -> Generator[None]:
    """Print an error, with ``json`` as a document unless there is one, and leave with its exit code.

    Click's own ways out pass.
    """
    try:
        yield
    except click.ClickException as error:
        if isinstance(error, _HELP):
            raise
        raise click.exceptions.Exit(failures.report(error, debug=False, json=json)) from None
    except (click.exceptions.Exit, click.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the user reads one message
        has_document = context is not None and has_printed_document(context)
        raise click.exceptions.Exit(failures.report(error, debug=debug, json=json and not has_document)) from None


def _builtin() -> Mapping[str, str]:
    return {
        found.name.rstrip("_").replace("_", "-"): f"{commands.__name__}.{found.name}"
        for found in pkgutil.iter_modules(commands.__path__)
    }


def _of_plugins() -> Mapping[str, CommandSpec]:
    """Return the commands of plugins, but for those of core that no other replaces; none is imported."""
    environment = Environment.default()
    own = {name for name in _builtin() if not environment.owner("command", name).is_foreign}
    return {name: spec for name, spec in environment.commands.items() if name not in own}


@contextmanager
def _warnings_printed() -> Generator[None]:
    """Print warnings about plugins like findings, without the line of ours that gives them."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **rest: Any) -> None:
            if issubclass(category, PluginWarning):
                finding = Diagnostic(code="plugin", message=str(message), severity=Severity.WARNING)
                click.echo(render(finding), err=True)
            else:
                before(message, category, *place, **rest)

        warnings.showwarning = show
        yield


def _switches(options: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Return what options say about plugins, as environment variables."""
    return {
        switches.BLOCK: options.get("plugins_block"),
        switches.ALLOW: options.get("plugins"),
        switches.AUTOLOAD: "0" if options.get("no_plugins_autoload") else None,
        switches.STRICT: "1" if options.get("plugins_strict") else None,
        switches.OFF: options.get("plugins_off"),
        switches.OPTIONS: _part_options(options.get("plugins_option", ())),
    }


def _part_options(options: Sequence[str]) -> str | None:
    """Return the variable with options after those that it has, since of several values the last counts."""
    set_before = os.environ.get(switches.OPTIONS, "")
    return switches.SEPARATOR.join([*filter(None, [set_before]), *options]) if options else None


def _checked_options(context: click.Context, parameter: click.Parameter, options: tuple[str, ...]) -> tuple[str, ...]:
    del context, parameter
    for option in options:
        if not option.strip() or switches.SEPARATOR in option:
            raise click.BadParameter(f"expected PART.OPTION=VALUE without {switches.SEPARATOR!r}, found {option!r}")
    return options


@contextmanager
def _variables_set(values: Mapping[str, str | None]) -> Generator[None]:
    """Set environment variables for a while; None leaves one as it is. Processes started meanwhile inherit them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST_HELP})
@click.version_option(openinfer.__version__, prog_name=_NAME, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the Python traceback of an error.")
@click.option("--plugins-block", metavar="NAMES", help="Load none of these plugins (comma-separated).")
@click.option("--plugins", metavar="NAMES", help="Load only these plugins (comma-separated), and core's own.")
@click.option("--no-plugins-autoload", is_flag=True, help="Load core's own plugin and those of --plugins only.")
@click.option("--plugins-strict", is_flag=True, help="Fail when a plugin does not load.")
@click.option("--plugins-off", metavar="NAMES", help="Run none of these passes and observers (comma-separated).")
@click.option(
    "--plugins-option",
    metavar="PART.OPTION=VALUE",
    multiple=True,
    callback=_checked_options,
    help="Set an option of a pass or observer.",
)
def main(**_: Any) -> None:
    """Describe inference explicitly, simulate it, and generate source code for it."""
    # `Program.invoke` reads the options: they decide which commands there are.
