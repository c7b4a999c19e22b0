"""`openinfer doctor`: what is installed here, what is wrong with it, and what to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from openinfer.cli import diagnosis
from openinfer.cli.terminal import print_document, table
from openinfer.diagnostics import did_you_mean
from openinfer.errors import MissingDependencyError
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.cli.diagnosis import Fact


@click.command(name="doctor", short_help="Check what is installed, and say what is wrong.")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Exit with 3 unless this device can be used.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Exit with 3 unless this target is installed.")
@click.option(
    "--compiler", "compilers", multiple=True, type=click.Choice(["c", "glsl"]), help="Exit with 3 unless it is found."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(*, devices: tuple[str, ...], targets: tuple[str, ...], compilers: tuple[str, ...], as_json: bool) -> None:
    """Check versions, plugins, devices, compilers, caches and switches, and say what is wrong and what to do.

    A missing component that no option requires, such as a device, is not a problem. Exit code 3 when something that
    an option requires is missing.

    \b
    openinfer doctor
    openinfer doctor --device vulkan --target c --compiler c
    """
    environment = Environment.default()
    found: Mapping[str, Sequence[Fact]] = {
        "versions": [*diagnosis.versions()],
        "plugins": [*diagnosis.plugins(environment)],
        "devices": [*diagnosis.devices(environment)],
        "targets": [*diagnosis.targets(environment)],
        "compilers": [*diagnosis.compilers()],
        "caches": [*diagnosis.caches()],
        "switches": [*diagnosis.variables(environment)],
    }
    missing = [
        *_missing("device", devices, found["devices"]),
        *_missing("synth target", targets, found["targets"]),
        *_missing("compiler", [name.upper() for name in compilers], found["compilers"]),
    ]
    problems = [fact.problem for facts in found.values() for fact in facts if fact.problem]
    if as_json:
        facts = {name: [asdict(fact) for fact in each] for name, each in found.items()}
        print_document({**facts, "problems": problems, "missing": missing})
    else:
        click.echo("\n".join(_lines(found, problems)))
    if missing:
        raise MissingDependencyError("; ".join(missing))


def _lines(found: Mapping[str, Sequence[Fact]], problems: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for name, facts in found.items():
        rows = [(fact.name, fact.state, fact.detail) for fact in facts]
        lines += [*(table((name, "", ""), rows).splitlines() if rows else [name, "none"]), ""]
    return [*lines, *(f"problem: {problem}" for problem in problems), *([] if problems else ["no problems found"])]


def _missing(what: str, wanted: Iterable[str], facts: Sequence[Fact]) -> list[str]:
    """Return a line for everything that was requested and cannot be used."""
    known = {fact.name: fact for fact in facts}
    found: list[str] = []
    for name in wanted:
        fact = known.get(name.partition(":")[0])
        if fact is None:
            hint = did_you_mean(name, known) or "`openinfer plugins` shows what is installed"
            found.append(f"there is no {what} {name!r}: {hint}")
        elif fact.state != "ok":
            found.append(f"{what} {name} cannot be used here: {fact.detail}")
    return found
