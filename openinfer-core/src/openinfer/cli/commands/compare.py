"""`openinfer compare`: the same program on several devices, node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.compare_report import comparison_object, comparison_text
from openinfer.cli.findings import print_unlogged_warnings
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.program_options import StepValues, give_first_values, inputs_hinted, program_options
from openinfer.cli.progress import made_executor, progress
from openinfer.cli.terminal import print_document
from openinfer.cli.tolerance_option import tolerance_option
from openinfer.plugins.output import diverted_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openinfer.cli.program_argument import ProgramArgument
    from openinfer.cli.run_values import Input
    from openinfer.inspect.divergence import Comparison
    from openinfer.simulate import Executor, Simulator
    from openinfer.tolerances import Tolerance


@click.command(name="compare", cls=HeadedCommand, short_help="Find the first node after which devices differ.")
@program_options()
@option_under("Comparison")(
    "--device", "devices", multiple=True, required=True, metavar="NAME", help="The first is the reference."
)
@tolerance_option("Accept this difference, absolute or of the larger magnitude of both elements.", "Comparison")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def command(
    *,
    program: ProgramArgument,
    inputs: list[Input],
    initial: list[Input],
    steps: int,
    sizes: dict[str, int],
    limits: dict[str, int],
    seed: int,
    placement: bool,
    devices: tuple[str, ...],
    tolerances: Mapping[str, Tolerance],
    as_json: bool,
) -> None:
    """Run GRAPH with the same inputs on several devices, and find the first node after which values differ.

    Every value that a node writes is compared with the first device's: equal for integers and bools, within a
    tolerance of the element type for floats (f32: 1e-4 absolute or relative; twice that for vulkan). Exit code 1 when
    devices differ.

    \b
    openinfer compare digits.oi -m digits.oinf --input image=random --device cpu --device vulkan
    openinfer compare digits.oi -m digits.oinf --input image=random --device cpu --device vulkan \\
        --tolerance f32=1e-6 --steps 3 --json
    """
    from openinfer.inspect import check_comparisons
    from openinfer.simulate import Simulator

    if len(devices) < 2:
        raise click.UsageError("give at least two devices: --device cpu --device vulkan")
    given: dict[str, Any] = {"sizes": sizes, "placement": placement, "limits": limits, "trace": False}
    found: list[Comparison] = []
    with program.opened() as opened:

        def values(executor: Executor) -> Iterator[Mapping[str, Any]]:
            drawn = StepValues(opened.named(inputs), executor, opened.model, seed)
            yield from (drawn.at(step) for step in range(steps))

        def begin(executor: Executor) -> None:
            give_first_values(executor, opened.named(initial), seed)

        reference, *others = [Simulator(opened.model, opened.graph, device=name, **given) for name in devices]
        print_unlogged_warnings(warning for each in (reference, *others) for warning in each.warnings)
        for other in others:
            with inputs_hinted():
                found.append(_compared((reference, other), tolerances, begin, values))
    if as_json:
        print_document([comparison_object(each) for each in found])
    else:
        click.echo("\n\n".join(map(comparison_text, found)))
    check_comparisons(found)


def _compared(
    pair: tuple[Simulator, Simulator],
    tolerances: Mapping[str, Tolerance],
    begin: Callable[[Executor], None],
    values: Callable[[Executor], Iterator[Mapping[str, Any]]],
) -> Comparison:
    from openinfer.inspect.divergence import Tolerances, compare_executors

    names = (pair[0].device, pair[1].device)
    with diverted_output(), made_executor(pair[0]) as reference, made_executor(pair[1]) as held:
        for executor in (reference, held):
            begin(executor)
        with progress("comparing"):
            return compare_executors((reference, held), names, values(reference), Tolerances(names, tolerances))
