"""`openinfer plan`: how a program is carried out on a device, what that costs, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from openinfer.cli.findings import print_warnings
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.options import limit_option, size_option, strict_order_option, target_option
from openinfer.cli.program_argument import program_argument
from openinfer.cli.progress import progress
from openinfer.cli.terminal import print_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.cli.program_argument import ProgramArgument

_WRITTEN = "Further results"


@click.command(
    name="plan", cls=HeadedCommand, short_help="Show the execution plan of a program, and the reasons for it."
)
@program_argument
@click.option(
    "--arch", is_eager=True, metavar="FILE|NAME", help="Device file, or a name such as host; by default generic."
)
@target_option
@click.option("--schedules", metavar="FILE", help="Schedules in place of those that the cost model chooses.")
@size_option
@limit_option
@strict_order_option
@option_under(_WRITTEN)("--schedules-out", "out", metavar="FILE", help="Write the schedules, which --schedules reads.")
@option_under(_WRITTEN)("--svg", metavar="FILE", help="Write a picture of the arena over time.")
@option_under(_WRITTEN)(
    "--print-after",
    "passes",
    multiple=True,
    metavar="PASS",
    help="Print the program after a pass too: lower, initialise, constants, fuse, arrange, place.",
)
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(
    *,
    program: ProgramArgument,
    arch: str | None,
    target: str | None,
    schedules: str | None,
    sizes: dict[str, int],
    limits: dict[str, int],
    strict_order: bool,
    out: str | None,
    svg: str | None,
    passes: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Show the plan of GRAPH (an .oi or .json file, - for standard input, or a model such as model.onnx).

    For each step: operations and bytes, memory, the schedule of each of its stages with the next best one, and why a
    result is stored. Nothing is compiled.
    """
    from openinfer.estimate import estimate, estimate_text, plan_document
    from openinfer.output_files import writing
    from openinfer.plan.picture import arena_svg
    from openinfer.plan.schedules import schedules_text
    from openinfer.synth import Synthesizer

    if passes and as_json:
        raise click.UsageError("--print-after prints text: leave --json out")
    synthesizer = Synthesizer(
        target or (None if arch else "c"), arch=arch, schedules=schedules, limits=limits, strict_order=strict_order
    )
    with program.opened(strict=strict) as opened:
        shown: dict[str, str | None] = {}

        def watch(name: str, text: Callable[[], str]) -> None:
            shown[name] = text() if name in passes else None

        with progress("planning"):
            plan = synthesizer.plan(opened.model, opened.graph, sizes=sizes, strict=strict, watch=watch)
            estimates = estimate(plan)
    print_warnings(() if plan.arch is None else plan.arch.warnings)
    _print_passes(passes, shown)
    if out is not None:
        with writing(out) as write:
            write(schedules_text(plan.procedures).encode())
    if svg is not None:
        with writing(svg) as write:
            write(f"{arena_svg(plan)}\n".encode())
    if as_json:
        print_document(plan_document(plan, estimates))
    else:
        click.echo(f"{estimate_text(plan, estimates)}\n\n{plan.memory_map()}")


def _print_passes(names: Sequence[str], shown: Mapping[str, str | None]) -> None:
    """Print the program after some passes, in the order in which they ran."""
    unknown = next((name for name in names if name not in shown), None)
    if unknown is not None:
        raise click.UsageError(f"unknown pass {unknown!r}; the passes of this program are {', '.join(shown)}")
    for name, text in shown.items():
        if text is not None:
            click.echo(f"after {name}\n\n{text}\n")
