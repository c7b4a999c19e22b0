"""`openinfer bench`: how long a program takes, and which of its nodes."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from openinfer.cli.findings import print_unlogged_warnings, print_warnings
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.options import device_option
from openinfer.cli.program_options import StepValues, give_first_values, inputs_hinted, program_options
from openinfer.cli.progress import made_executor, progress
from openinfer.cli.terminal import print_document, table
from openinfer.errors import SynthesisError
from openinfer.plugins.output import diverted_output
from openinfer_oinf.progress import expect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.cli.program_argument import OpenedProgram, ProgramArgument
    from openinfer.cli.run_values import Input
    from openinfer.inspect.benchmark import NodeTime, Spread
    from openinfer.ir.graph import Graph

_MEASUREMENT = "Measurement"

MOST_NODES = 20
"""Nodes that are printed, the longest ones; JSON has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured, and what came out; times in nanoseconds for a repetition of ``steps`` steps.

    ``node_by_node`` says why the device did not run the program whole, where that is so.
    """

    graph: str
    model: str | None
    device: str
    steps: int
    warm_up: int
    repetitions: int
    machine: str
    node_by_node: Sequence[str]
    whole: Spread
    nodes: Sequence[NodeTime]


@click.command(name="bench", cls=HeadedCommand, short_help="Measure how long a program and its nodes take on a device.")
@program_options()
@device_option
@option_under(_MEASUREMENT)(
    "--arch", metavar="FILE|NAME", help="Count the instructions of each step on the board of a device."
)
@option_under(_MEASUREMENT)(
    "--repeat", "repetitions", default=30, show_default=True, type=click.IntRange(1, 1_000_000), help="Repetitions."
)
@option_under(_MEASUREMENT)(
    "--warm-up", default=3, show_default=True, type=click.IntRange(0, 1_000_000), help="Repetitions not measured."
)
@click.option("--json", "as_json", is_flag=True, help="Print one object; times in nanoseconds.")
def command(
    *,
    program: ProgramArgument,
    inputs: list[Input],
    initial: list[Input],
    steps: int,
    sizes: dict[str, int],
    seed: int,
    placement: bool,
    device: str,
    arch: str | None,
    limits: dict[str, int],
    repetitions: int,
    warm_up: int,
    as_json: bool,
) -> None:
    """Measure how long GRAPH takes on a device, and how long each of its nodes.

    A repetition runs --steps steps from the same persistent memory, untraced; its time includes inserting
    inputs and waiting for the device. The nodes are timed one by one in separate repetitions, which takes longer, so
    their sum is not the time of a step.

    \b
    openinfer bench digits.oi -m digits.oinf --input image=random
    openinfer bench digits.oi -m digits.oinf --input image=random --device vulkan --repeat 100 --json

    With --arch the program of target c runs one step on an emulated board (QEMU), which counts the instructions of each
    step of the plan; times do not matter there. Exit code 3: the compiler of the board or QEMU is not installed.

    \b
    openinfer bench digits.oi -m digits.oinf --input image=random --arch cortex-m4
    """
    if arch is not None:
        _refuse_options_of_times()
        _count_instructions(program, inputs, sizes, limits, seed, arch, as_json=as_json)
        return
    simulated: dict[str, Any] = {"device": device, "sizes": sizes, "placement": placement, "limits": limits}
    with program.opened() as opened:
        measured = _measured(program, opened, inputs, initial, steps, seed, simulated, repetitions, warm_up)
    if as_json:
        print_document(asdict(measured))
    else:
        click.echo("\n".join(_lines(measured, opened.graph)))


_OF_TIMES = {
    "initial": "--initial",
    "steps": "--steps",
    "placement": "--placement",
    "device": "--device",
    "repetitions": "--repeat",
    "warm_up": "--warm-up",
}
"""Options that the count of instructions of one step does not heed."""


def _refuse_options_of_times() -> None:
    context = click.get_current_context()
    for name, option in _OF_TIMES.items():
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option} is not for --arch, which counts the instructions of one step")


def _measured(
    program: ProgramArgument,
    opened: OpenedProgram,
    inputs: Sequence[Input],
    initial: Sequence[Input],
    steps: int,
    seed: int,
    simulated: Mapping[str, Any],
    repetitions: int,
    warm_up: int,
) -> Measured:
    from openinfer.inspect.benchmark import node_times, spread, whole_times
    from openinfer.simulate import Simulator

    counts = {"warm_up": warm_up, "repetitions": repetitions}
    plain = Simulator(opened.model, opened.graph, trace=False, **simulated)
    timed = Simulator(opened.model, opened.graph, trace=True, timer=True, echo=False, **simulated)
    print_unlogged_warnings(plain.warnings)
    with diverted_output(), made_executor(plain) as executor, made_executor(timed) as traced:
        for own in (executor, traced):
            give_first_values(own, opened.named(initial), seed)
        print_warnings(executor.node_by_node)
        drawn = StepValues(opened.named(inputs), executor, opened.model, seed)
        values: list[Mapping[str, Any]] = [drawn.at(step) for step in range(steps)]
        with inputs_hinted(), progress("measuring"):
            expect(2 * (warm_up + repetitions))
            whole = spread(whole_times(executor, values, **counts))
            by_node = [finding.message for finding in executor.node_by_node]
            nodes = node_times(traced, values, **counts)
    return Measured(
        graph=program.graph,
        model=program.model,
        device=plain.device,
        steps=steps,
        machine=_machine(),
        node_by_node=by_node,
        whole=whole,
        nodes=nodes,
        **counts,
    )


def _count_instructions(
    program: ProgramArgument,
    inputs: Sequence[Input],
    sizes: dict[str, int],
    limits: dict[str, int],
    seed: int,
    arch: str,
    *,
    as_json: bool,
) -> None:
    """Print the instructions of each step of a plan on an emulated board."""
    from openinfer.cli.board_report import board_document, board_text, steps_document, steps_text
    from openinfer.simulate import Simulator
    from openinfer.synth import Synthesizer

    synthesizer = Synthesizer(arch=arch, limits=limits)
    with program.opened() as opened:
        with progress("planning"):
            synthesis = synthesizer.synthesize(opened.model, opened.graph, sizes=sizes)
        simulator = Simulator(opened.model, opened.graph, sizes=sizes, limits=limits)
        with made_executor(simulator) as executor:
            values = StepValues(opened.named(inputs), executor, opened.model, seed).at(0)
        with progress("compiling and running on the board"):
            result = synthesis.profile(values)
    measured = result.board
    if measured is None:
        raise SynthesisError(f"the target {synthesis.plan.target} measured nothing on a board")
    print_warnings(synthesis.warnings)
    if as_json:
        print_document({**board_document(measured), "steps": steps_document(synthesis.plan, measured)})
    else:
        click.echo(f"{steps_text(synthesis.plan, measured)}\n\n{board_text(measured)}")


def _machine() -> str:
    """Return what else than the program the times depend on."""
    import numpy as np

    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{platform.machine()}, {os.cpu_count() or 1} cores, {python}, NumPy {np.__version__}"


def _lines(found: Measured, program: Graph) -> list[str]:
    steps = "1 step" if found.steps == 1 else f"{found.steps} steps"
    with_model = "" if found.model is None else f" with {found.model}"
    head = f"{found.graph}{with_model} on {found.device}: {found.repetitions} repetitions of {steps}"
    whole = found.whole
    middle = f"middle half {_time(whole.lower_quartile)} to {_time(whole.upper_quartile)}"
    lines = [
        f"{head}, after {found.warm_up} that do not count ({found.machine})",
        f"{steps}: median {_time(whole.median)}, {middle}, least {_time(whole.least)}, most {_time(whole.most)}",
    ]
    places = {node.index: node.span.line for _, node in program.nodes() if node.span is not None}
    rows = [
        (
            str(places.get(each.node_index, "")),
            f"{each.median_ns / 1000:.1f}",
            f"{100 * each.share:.1f}",
            str(each.runs),
            each.node_desc,
        )
        for each in found.nodes[:MOST_NODES]
    ]
    if rows:
        lines += ["", "nodes, timed one by one in repetitions of their own (medians):"]
        lines += table(("line", "us", "%", "runs", "node"), rows).splitlines()
    if len(found.nodes) > MOST_NODES:
        lines.append(f"... {len(found.nodes) - MOST_NODES} more nodes: --json has all")
    return lines


def _time(nanoseconds: float) -> str:
    """Return a time with a unit in which it has one to three digits before the point."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            count = nanoseconds / size
            return f"{count:.3g} {unit}" if count < 999.5 else f"{count:.0f} {unit}"
    return f"{nanoseconds:.0f} ns"
