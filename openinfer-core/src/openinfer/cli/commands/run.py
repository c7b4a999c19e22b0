"""`openinfer run`: simulate a program and print its results."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.options import seed_option, size_option
from openinfer.cli.run_report import output_lines, output_object, save_array, time_lines
from openinfer.cli.run_values import parse_inputs, parse_output
from openinfer.diagnostics import Diagnostic
from openinfer.errors import DynamicUnsetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from openinfer.cli.run_values import Input
    from openinfer.errors import Finding
    from openinfer.events import TraceEvent
    from openinfer.simulate import Executor


@click.command(name="run")
@click.argument("graph", metavar="GRAPH")
@click.option("--model", "model_path", required=True, metavar="FILE", help="Model with sizes and weights.")
@click.option("--device", default="cpu", show_default=True, metavar="NAME", help="Device, such as cpu or vulkan:1.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=SOURCE", help="SOURCE: a .npy file, random, zeros, a value."
)
@click.option("--output", "outputs", multiple=True, metavar="NAME[=FILE]", help="Print a variable; save it as .npy.")
@click.option(
    "--steps",
    default=1,
    show_default=True,
    type=click.IntRange(min=0),
    help="Steps to run; values are printed as they are after the last.",
)
@size_option
@seed_option
@click.option("--state", "state_path", metavar="FILE", help="Persistent memory: load it if there, save it at the end.")
@click.option("--trace", "trace_path", metavar="FILE", help="Write the events of all steps as JSON.")
@click.option("--timing", is_flag=True, help="Time operators and print which take how long.")
@click.option("--verbose", is_flag=True, help="Print every node as it runs, on standard error.")
@click.option("--json", "as_json", is_flag=True, help="Print results as JSON.")
def command(
    *,
    graph: str,
    model_path: str,
    device: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    steps: int,
    sizes: dict[str, int],
    seed: int,
    state_path: str | None,
    trace_path: str | None,
    timing: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Simulate GRAPH (a .oi program, a .json graph, or - for standard input) and print its results."""
    from openinfer.cli.graph_argument import read_graph
    from openinfer.model import ModelLoader
    from openinfer.simulate import Simulator

    given = parse_inputs(inputs)
    wanted = [parse_output(text) for text in outputs]
    program = read_graph(graph)
    with ModelLoader.open(model_path) as model:
        recording = trace_path is not None or timing
        simulator = Simulator(model, program, device=device, sizes=sizes, trace=recording, timer=timing)
        with simulator.make_executor() as executor:
            watch = _tell if verbose else None
            if state_path is not None and Path(state_path).exists():
                executor.restore(state_path)
            _run(executor, given, steps, seed, by_node=recording or verbose, watch=watch)
            if state_path is not None:
                executor.snapshot().save(state_path)
            names = wanted or [(name, None) for name in _results(executor, steps)]
            if trace_path is not None:
                _write_trace(trace_path, executor.trace())
            _report(executor, names, steps, device, as_json=as_json, timing=timing)


def _run(
    executor: Executor,
    inputs: Sequence[Input],
    steps: int,
    seed: int,
    *,
    by_node: bool,
    watch: Callable[[TraceEvent], None] | None,
) -> None:
    with _counted(steps, shown=steps > 1 and sys.stderr.isatty() and watch is None) as numbers:
        for step in numbers:
            values = {i.name: i.value(executor.input_type(i.name), (seed, p, step)) for p, i in enumerate(inputs)}
            executor.insert(values)
            try:
                _step(executor, by_node=by_node, watch=watch)
            except DynamicUnsetError as error:
                error.diagnostics = tuple(_hinted(finding) for finding in error.diagnostics)
                raise


def _counted(steps: int, *, shown: bool) -> AbstractContextManager[Iterable[int]]:
    """Return the numbers of the steps, behind a progress bar when it is to be shown."""
    if not shown:
        return nullcontext(range(steps))
    return click.progressbar(range(steps), label="steps", file=sys.stderr)


def _hinted(finding: Finding) -> Finding:
    hint = "give it one with --input NAME=FILE.npy, NAME=random, NAME=zeros or NAME=VALUE"
    return replace(finding, hint=hint) if isinstance(finding, Diagnostic) else finding


def _step(executor: Executor, *, by_node: bool, watch: Callable[[TraceEvent], None] | None) -> None:
    if not by_node:
        executor.step()
        return
    for run in executor.iterate():
        if watch is not None:
            watch(run.event)


def _tell(event: TraceEvent) -> None:
    click.echo(str(event), err=True)


def _results(executor: Executor, steps: int) -> list[str]:
    """Return what to print when nothing was asked for: the results of ``entry``, else what was written."""
    return list(executor.outputs()) or list(executor.written() if steps else ())


def _write_trace(path: str, events: list[TraceEvent]) -> None:
    from openinfer.serialize import trace_to_json

    Path(path).write_text(json.dumps(trace_to_json(events), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _report(
    executor: Executor,
    names: Sequence[tuple[str, Path | None]],
    steps: int,
    device: str,
    *,
    as_json: bool,
    timing: bool,
) -> None:
    from openinfer.simulate.statistics import operator_times

    values = {name: executor.result(name) for name, _ in names}
    for name, file in names:
        if file is not None:
            save_array(file, values[name])
    times = operator_times(executor.trace()) if timing else []
    if not as_json:
        lines = [line for name, value in values.items() for line in output_lines(name, value)]
        head = [] if steps == 1 else [f"after {steps} steps:" if steps else "no step was run"]
        click.echo("\n".join([*head, *lines, *(time_lines(times, steps) if timing else [])]))
        return
    document: dict[str, Any] = {"device": device, "steps": steps}
    document["outputs"] = {name: output_object(value) for name, value in values.items()}
    if timing:
        document["timing"] = [asdict(time) for time in times]
    click.echo(json.dumps(document, indent=2, allow_nan=False))
