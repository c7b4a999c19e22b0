"""`openinfer run`: simulate a program and print its results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from openinfer.cli.batch_options import batch_options
from openinfer.cli.findings import print_unlogged_warnings, print_warnings
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.options import device_option
from openinfer.cli.program_options import INPUTS, StepValues, give_first_values, inputs_hinted, program_options
from openinfer.cli.progress import made_executor, progress
from openinfer.cli.run_report import (
    memory_lines,
    memory_object,
    output_lines,
    output_object,
    save_array,
    time_lines,
)
from openinfer.cli.run_values import parse_output
from openinfer.cli.terminal import print_document
from openinfer.cli.trace_files import PERFETTO, format_of, trace_options, write_trace
from openinfer.diagnostics import printable
from openinfer.plugins.output import diverted_output
from openinfer_oinf.progress import advance, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.cli.batch_options import BatchOptions
    from openinfer.cli.program_argument import OpenedProgram, ProgramArgument
    from openinfer.cli.run_values import Input
    from openinfer.events import MemoryUse, TraceEvent
    from openinfer.simulate import Executor

    Watcher: TypeAlias = Callable[[TraceEvent], None]
    """Called after every node."""

_RESULTS = "Results"


@dataclass(frozen=True, slots=True)
class Watched:
    """What is recorded or printed while the program runs."""

    trace_path: str | None
    trace_format: str | None
    timing: bool
    memory: bool
    verbose: bool

    @property
    def recording(self) -> bool | None:
        """Whether a trace is recorded; None leaves it to the environment."""
        return True if self.trace_path is not None or self.timing else None

    @property
    def timer(self) -> bool | None:
        """Whether nodes are timed; None leaves it to the environment."""
        has_times = self.trace_path is not None and format_of(self.trace_path, self.trace_format) == PERFETTO
        return True if self.timing or has_times else None


@dataclass(frozen=True, slots=True)
class Extras:
    """What is reported after the outputs: times of operators, and memory in use after every node."""

    timing: bool
    memory: Sequence[MemoryUse] | None


@click.command(name="run", cls=HeadedCommand, short_help="Simulate a program and print its results.")
@program_options(least_steps=0)
@device_option
@option_under(_RESULTS)(
    "--output", "outputs", multiple=True, metavar="NAME[=FILE]", help="Print a variable; save it as .npy."
)
@option_under(INPUTS)(
    "--state", "state_path", metavar="FILE", help="Persistent memory: load it if the file exists, save it at the end."
)
@trace_options(_RESULTS)
@option_under(_RESULTS)("--timing", is_flag=True, help="Time operators and print their durations.")
@option_under(_RESULTS)(
    "--memory", "memory_wanted", is_flag=True, help="Print the peak number of bytes of values, by kind."
)
@option_under(_RESULTS)(
    "--verbose", is_flag=True, help="Print every node as it runs, with types and settings, on stderr."
)
@click.option("--json", "as_json", is_flag=True, help="Print results as JSON.")
@batch_options
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
    limits: dict[str, int],
    outputs: tuple[str, ...],
    state_path: str | None,
    trace_path: str | None,
    trace_format: str | None,
    timing: bool,
    memory_wanted: bool,
    verbose: bool,
    as_json: bool,
    batch: BatchOptions | None,
) -> None:
    """Simulate GRAPH (a .oi program, a .json graph, - for standard input, or a model such as model.onnx) and print its
    results after the last step.

    \b
    openinfer run digits.oi --model digits.oinf --input image=random --seed 1
    openinfer run digits.oi --model digits.oinf --input image=scan.npy --output digit
    openinfer run digits.oi --model digits.oinf --input image=zeros --timing --memory
    openinfer run digits.oi --model digits.oinf --input image=zeros --trace t.perfetto.json
    openinfer run model.onnx --input image=random
    openinfer run digits.oi --model digits.oinf --batch scans.npz --workers 4 --output-dir found

    --initial hidden=hidden.npy gives a persistent variable its value before the first step, such as what an encoder
    has computed; --state is for the values after the last.

    The file of --trace opens at https://ui.perfetto.dev. With --batch, --output NAME=FILE.npz saves results of all.
    """
    if trace_format is not None and trace_path is None:
        raise click.UsageError("--trace-format is about the file of --trace, which is not given")
    wanted = [parse_output(text) for text in outputs]
    common: dict[str, Any] = {"device": device, "sizes": sizes, "placement": placement, "limits": limits}
    watched = Watched(trace_path, trace_format, timing=timing, memory=memory_wanted, verbose=verbose)
    if batch is not None:
        _refuse_with_batch({"state": state_path, "initial": initial, "steps 0": not steps}, watched)
        with program.opened() as opened:
            _run_batch(opened, batch, inputs, wanted, steps, seed, common, as_json=as_json)
        return
    _refuse_two_states(initial, state_path)
    with program.opened() as opened:
        _simulate(opened, inputs, initial, wanted, steps, seed, common, state_path, watched, as_json=as_json)


def _simulate(
    opened: OpenedProgram,
    inputs: Sequence[Input],
    initial: Sequence[Input],
    wanted: Sequence[tuple[str, Path | None]],
    steps: int,
    seed: int,
    common: Mapping[str, Any],
    state_path: str | None,
    watched: Watched,
    *,
    as_json: bool,
) -> None:
    from openinfer.simulate import Simulator

    recorded = {"trace": watched.recording, "timer": watched.timer, "echo": False}
    simulator = Simulator(opened.model, opened.graph, **recorded, **common)
    print_unlogged_warnings(simulator.warnings)
    with made_executor(simulator) as executor:
        give_first_values(executor, opened.named(initial), seed)
        print_warnings(executor.node_by_node)
        values = StepValues(opened.named(inputs), executor, opened.model, seed)
        memory = _run_with_state(executor, values, steps, state_path, watched)
        names = [(opened.output_name(name), file) for name, file in wanted] or [
            (name, None) for name in _results(executor, steps)
        ]
        extras = Extras(timing=watched.timing, memory=memory if watched.memory else None)
        _report(executor, names, steps, common["device"], as_json=as_json, extras=extras)


def _refuse_two_states(initial: Sequence[Input], state_path: str | None) -> None:
    if initial and state_path is not None and Path(state_path).exists():
        message = f"--initial is for the first step, and {state_path} has the state after earlier ones"
        raise click.UsageError(f"{message}: leave out one of the two, or remove the file")


def _refuse_with_batch(options: Mapping[str, object], watched: Watched) -> None:
    """Refuse options that are about one run."""
    shown = {"trace": watched.trace_path, "timing": watched.timing, "memory": watched.memory}
    alone = {**options, **shown, "verbose": watched.verbose}
    unfit = next((name for name, value in alone.items() if value), None)
    if unfit is not None:
        raise click.UsageError(f"--{unfit} does not go with --batch")


def _run_batch(
    opened: OpenedProgram,
    batch: BatchOptions,
    inputs: Sequence[Input],
    wanted: Sequence[tuple[str, Path | None]],
    steps: int,
    seed: int,
    common: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    from openinfer.batch.job import Job
    from openinfer.cli.batch_run import run_batch_command

    outputs = [(opened.output_name(name), file) for name, file in wanted]
    job = Job(
        graph=opened.graph,
        model=opened.model,
        outputs=tuple(name for name, _ in outputs),
        steps=steps,
        keep_state=batch.state_per == "worker",
        send_model=batch.send_model,
        start_timeout=batch.start_timeout,
        **common,
    )
    run_batch_command(job, batch, opened.named(inputs), outputs, seed=seed, as_json=as_json)


def _run_with_state(
    executor: Executor,
    inputs: StepValues,
    steps: int,
    state_path: str | None,
    watched: Watched,
) -> list[MemoryUse]:
    """Run steps between reading and writing the files of the options; return the memory in use after every node."""
    from openinfer.simulate.logs import LogKind, is_wanted

    memory: list[MemoryUse] = []
    watchers = [_reporter(executor)] if watched.verbose else []
    watchers += [_noter(executor, memory)] if watched.memory else []
    if state_path is not None and Path(state_path).exists():
        executor.restore(state_path)
    try:
        # Kernels of plugins may print; standard output is for the results.
        with diverted_output():
            _run(executor, inputs, steps, quiet=watched.verbose or is_wanted(LogKind.TRACE), watchers=watchers)
    finally:
        if watched.trace_path is not None:
            write_trace(watched.trace_path, watched.trace_format, executor, memory)
    if state_path is not None:
        executor.snapshot().save(state_path)
    return memory


def _run(
    executor: Executor,
    inputs: StepValues,
    steps: int,
    *,
    quiet: bool,
    watchers: Sequence[Watcher],
) -> None:
    with progress("running", quiet=quiet):
        expect(steps if steps > 1 else 0)
        for step in range(steps):
            executor.insert(inputs.at(step))
            with inputs_hinted():
                _step(executor, watchers)
            advance(1)


def _step(executor: Executor, watchers: Sequence[Watcher]) -> None:
    if not watchers:
        executor.step()
        return
    for run in executor.iterate(consumers=True):
        for watcher in watchers:
            watcher(run.event)


def _reporter(executor: Executor) -> Watcher:
    """Return a function that prints a node that has run, with types and settings."""
    from openinfer.simulate.execute.details import Details

    details = Details(executor)
    return lambda event: click.echo(printable(details.line(event)), err=True)


def _noter(executor: Executor, memory: list[MemoryUse]) -> Watcher:
    """Return what notes the memory in use after a node."""
    from openinfer.inspect.memory_use import memory_after

    return lambda event: memory.append(memory_after(executor, event))


def _results(executor: Executor, steps: int) -> list[str]:
    """Return what to print without --output: the results of ``entry``, else what was written."""
    return list(executor.outputs()) or list(executor.written() if steps else ())


def _report(
    executor: Executor,
    names: Sequence[tuple[str, Path | None]],
    steps: int,
    device: str,
    *,
    as_json: bool,
    extras: Extras,
) -> None:
    from openinfer.inspect.statistics import operator_times

    values = {name: executor.result(name) for name, _ in names}
    for name, file in names:
        if file is not None:
            save_array(file, values[name])
    times = operator_times(executor.trace()) if extras.timing else []
    if not as_json:
        lines = [line for name, value in values.items() for line in output_lines(name, value)]
        head = [] if steps == 1 else [f"after {steps} steps:" if steps else "no step was run"]
        tables = [*(time_lines(times, steps) if extras.timing else []), *memory_lines(extras.memory or ())]
        click.echo("\n".join([*head, *lines, *tables]))
        return
    document: dict[str, Any] = {"device": device, "steps": steps}
    document["outputs"] = {name: output_object(value) for name, value in values.items()}
    if extras.timing:
        document["timing"] = [asdict(time) for time in times]
    if extras.memory is not None:
        document["memory"] = memory_object(extras.memory)
    print_document(document)
