"""`openinfer run --batch`: inputs from files, results to the terminal and to files."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.batch_results import FolderResults, StackedResults
from openinfer.cli.failures import rendered
from openinfer.cli.findings import print_unlogged_warnings
from openinfer.cli.program_options import random_bounds
from openinfer.cli.progress import progress
from openinfer.cli.run_report import output_lines, output_object
from openinfer.cli.terminal import print_document, wants_colour, width_of
from openinfer.diagnostics import near_or_known, printable
from openinfer.errors import ExecutionError
from openinfer.ir.resolved import Storage
from openinfer.plugins.output import diverted_output
from openinfer.simulate.execute.step_sizes import agreed_sizes, typed_for
from openinfer.validate.step_sizes import step_sizes
from openinfer_oinf.progress import advance, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from openinfer.batch.answers import Outcome
    from openinfer.batch.inputs import Inputs
    from openinfer.batch.job import Job
    from openinfer.batch.schedule import Task
    from openinfer.cli.batch_options import BatchOptions
    from openinfer.cli.run_values import Input
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model


MOST_NAMES = 8
"""Maximum number of inputs that fail in the same way and are all named."""


def run_batch_command(
    job: Job,
    options: BatchOptions,
    shared: Sequence[Input],
    outputs: Sequence[tuple[str, Path | None]],
    *,
    seed: int,
    as_json: bool,
) -> None:
    """Run a program over the inputs of ``--batch`` and report; exit with 1 when one failed.

    Raises:
        OpenInferError: nothing can be run: program, model, files or options do not fit.
    """
    from openinfer.batch.inputs import open_inputs
    from openinfer.batch.run import RETRIES, check_job, only_input, run_tasks, runner_of

    program = check_job(job)
    print_unlogged_warnings(program.warnings)
    inputs = open_inputs(options.source, lambda: only_input(job.graph, [each.name for each in shared]))
    tasks = _tasks(inputs, _SharedValues(shared, program, job.model, seed))
    retries = RETRIES if options.retries is None else options.retries
    make_runner = runner_of(options.runner, options.workers, job, options.timeout)
    keepers = _keepers(inputs, options, outputs)
    found = run_tasks(job, tasks, make_runner, look_ahead=options.look_ahead, retries=retries, timeout=options.timeout)
    report = _Report(len(inputs.stems), saved=bool(keepers), as_json=as_json)
    with ExitStack() as stack:
        if as_json:
            # The document follows the last input, so that what workers print between two inputs is diverted too.
            stack.enter_context(diverted_output())
        for keeper in keepers:
            stack.enter_context(closing(keeper))
        stack.enter_context(closing(found))
        stack.callback(report.report_failures)
        for outcome in stack.enter_context(closing(report.counted(_diverted(found)))):
            for keeper in keepers:
                keeper.add(outcome)
        for keeper in keepers:
            keeper.finish()
    report.end(job)


def _diverted(found: Iterator[Outcome]) -> Generator[Outcome]:
    """Yield outcomes. What kernels of plugins print meanwhile goes to standard error, as in a single run."""
    while True:
        with diverted_output():
            outcome = next(found, None)
        if outcome is None:
            return
        yield outcome


def _keepers(
    inputs: Inputs, options: BatchOptions, outputs: Sequence[tuple[str, Path | None]]
) -> list[FolderResults | StackedResults]:
    files: dict[Path, list[str]] = {}
    for name, file in outputs:
        if file is not None:
            files.setdefault(file, []).append(name)
    read = list(inputs.files)
    keepers: list[FolderResults | StackedResults] = [StackedResults(f, names, read) for f, names in files.items()]
    return keepers if options.output_dir is None else [*keepers, FolderResults(options.output_dir, inputs.stems, read)]


class _SharedValues:
    """The values of ``--input``, which every input of a batch gets: random ones differ from input to input.

    Raises:
        ExecutionError: the program has no dynamic variable of a name, or a value cannot be read.
    """

    def __init__(self, shared: Sequence[Input], program: ResolvedGraph, model: Model, seed: int) -> None:
        dynamic = [name for name, variable in program.variables.items() if variable.storage is Storage.DYNAMIC]
        for item in shared:
            if item.name not in dynamic:
                hint = near_or_known(item.name, dynamic, "dynamic variables")
                message = f"--input {item.name}=...: the program has no such dynamic variable: {hint}"
                raise ExecutionError(message, code="unknown-variable")
        self._shared = shared
        self._program = program
        self._seed = seed
        self._free = step_sizes(program.graph, model)
        self._bounds = random_bounds(shared, program, model)
        contents = {item.name: item.content() for item in shared}
        self._contents = {name: content for name, content in contents.items() if content is not None}
        # What fits no input is reported before the first runs.
        self.of(0, {})

    def of(self, index: int, read: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that an input gets in addition to those that were read for it, which give it its sizes.

        Raises:
            ExecutionError: a variable has a value in both, or one does not fit.
            ShapeError: two extents give one size different values.
        """
        twice = next((item.name for item in self._shared if item.name in read), None)
        if twice is not None:
            raise ExecutionError(f"`{twice}` is in the file and in --input: give it once", code="input-file")
        sizes = agreed_sizes(self._program, self._free, {**self._contents, **read}, {})
        return {
            item.name: item.value(
                typed_for(self._program, item.name, sizes),
                (self._seed, number, index),
                self._contents.get(item.name),
                self._bounds.get(item.name),
            )
            for number, item in enumerate(self._shared)
        }


def _tasks(inputs: Inputs, shared: _SharedValues) -> Iterator[Task]:
    from openinfer.batch.schedule import Task

    def merged(index: int, load: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        read = load()
        return {**shared.of(index, read), **read}

    for index, item in enumerate(inputs):
        yield Task.read(index, item.name, lambda index=index, load=item.load: merged(index, load))


class _Report:
    """What is printed about a batch: outputs as they come unless they are saved, failures, and counts at the end."""

    def __init__(self, total: int, *, saved: bool, as_json: bool) -> None:
        self._total = total
        self._saved = saved
        self._as_json = as_json
        self._failed = 0
        self._results: list[dict[str, Any]] = []
        # A bar in the middle of printed results would tear them.
        self._bar = sys.stderr.isatty() and not as_json and (saved or not sys.stdout.isatty())
        self._held: list[str] = []
        self._failures: dict[str, list[str]] = {}

    def counted(self, found: Generator[Outcome]) -> Generator[Outcome]:
        """Yield outcomes, reporting each, with a progress bar where one is to be shown."""
        if not self._bar:
            for outcome in found:
                self._report(outcome)
                yield outcome
            return
        with progress("inputs"):
            expect(self._total)
            for outcome in found:
                self._report(outcome)
                yield outcome
                advance(1)

    def report_failures(self) -> None:
        """Print failures that waited for the bar to end, and how often those printed before came again."""
        for line in self._held:
            click.echo(line, err=True)
        for first, *others in self._failures.values():
            if others:
                listed = (
                    ", ".join(others) if len(others) <= MOST_NAMES else f"{others[0]}, {others[1]} ... {others[-1]}"
                )
                count = f"{len(others)} more input{'' if len(others) == 1 else 's'}"
                click.echo(f"{count} failed as {first} did: {listed}", err=True)

    def end(self, job: Job) -> None:
        """Print the counts; exit with 1 when an input failed."""
        if self._as_json:
            document = {"device": job.device, "steps": job.steps, "inputs": self._total, "failed": self._failed}
            print_document({**document, "results": self._results})
        else:
            count = f"{self._total} input{'' if self._total == 1 else 's'}"
            click.echo(f"{count}: {self._total - self._failed} done, {self._failed} failed")
        if self._failed:
            raise click.exceptions.Exit(1)

    def _report(self, outcome: Outcome) -> None:
        head = printable(outcome.name)
        if outcome.error is not None:
            self._failed += 1
            self._report_failure(
                head,
                outcome.index,
                rendered(outcome.error, colour=wants_colour(sys.stderr), width=width_of(sys.stderr)),
            )
        if self._as_json:
            self._results.append(self._object(outcome))
        elif not self._saved:
            for name, tensor in outcome.outputs.items():
                click.echo("\n".join(f"{head}: {line}" for line in output_lines(name, tensor)))

    def _report_failure(self, head: str, index: int, text: str) -> None:
        """Print a failure, unless another input failed in the same way."""
        names = self._failures.setdefault(text, [])
        names.append(head)
        if len(names) > 1:
            return
        line = f"{head} (input {index}): {text}"
        if self._bar:
            self._held.append(line)
        else:
            click.echo(line, err=True)

    def _object(self, outcome: Outcome) -> dict[str, Any]:
        head = {"index": outcome.index, "name": outcome.name}
        if outcome.error is not None:
            return {**head, "error": {"code": outcome.error.code, "message": str(outcome.error)}}
        values = {name: output_object(tensor) for name, tensor in outcome.outputs.items()}
        return head if self._saved else {**head, "outputs": values}
