"""One program over many inputs."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from openinfer import programs
from openinfer.batch.guarded_runner import opened_runner
from openinfer.batch.inputs import open_inputs
from openinfer.batch.job import Job
from openinfer.batch.schedule import Task, is_limited, outcomes
from openinfer.boundary import public
from openinfer.diagnostics import Diagnostic, near_or_known
from openinfer.errors import ExecutionError, OpenInferError
from openinfer.ir.graph import MemoryKind
from openinfer.ir.nodes import Return
from openinfer.model import Model, ModelLoader
from openinfer.plugins.environment import Environment
from openinfer.simulate.values import host_value
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from openinfer.batch.answers import Outcome
    from openinfer.batch.runner import Runner
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.programs import Program

State: TypeAlias = Literal["input", "worker"]

RETRIES = 2
"""How often an input is run again after its worker was lost, where nothing else is requested."""


BatchResult: TypeAlias = "tuple[int, dict[str, Any] | OpenInferError]"
"""What became of one input: its place from 0, and outputs as `Executor.outputs` returns them, or an error."""


@public
def run_batch(
    model: Model | str | os.PathLike[str],
    graph: Program,
    inputs: Iterable[Mapping[str, Any]] | str | os.PathLike[str],
    *,
    device: str = "cpu",
    runner: str | Runner | None = None,
    workers: int | None = None,
    state: State = "input",
    outputs: Sequence[str] = (),
    steps: int = 1,
    sizes: Mapping[str, int] | None = None,
    limits: Mapping[str, int] | None = None,
    strict: bool = False,
    placement: bool = False,
    look_ahead: int | None = None,
    retries: int = RETRIES,
    timeout: float | None = None,
    start_timeout: float | None = None,
    send_model: bool = False,
    environment: Environment | None = None,
) -> Iterator[BatchResult]:
    """Run a program over many inputs and yield a result for each, in order, as they come.

    Results depend neither on the runner nor on the number of workers. Closing the iterator ends the workers.

    Args:
        model: a model, or the path of one.
        graph: a program: a graph, its text, or the path of a file.
        inputs: values of dynamic variables, a mapping for each input, taken as they are needed; or the path of a file
            ``.npz`` or ``.npy`` whose arrays have the inputs along their first axis, of a folder of such files each of
            which is an input, or a pattern for them.
        runner: ``"in-process"``, ``"processes"``, ``"ray"``, a plugin's, or an object with the methods of
            `openinfer.batch.Runner`. By default ``"in-process"``, with more workers or a time limit
            ``"processes"``.
        workers: how many; by default what the runner chooses.
        state: ``"input"``: every input finds persistent memory as it is before the first step. ``"worker"``: it finds
            what the one before it left, which takes one worker if the program has persistent memory.
        outputs: what to yield, as for `Executor.fetch`; by default what ``return`` names, else what the program writes.
        steps: steps for every input, with the same values.
        limits: how far caches may grow on a device that stores them in static memory, as for `Simulator`.
        look_ahead: most inputs that are taken and not yielded yet; by default four for each worker.
        retries: how often an input is run again after its worker was lost.
        timeout: seconds that an input may run; its worker is ended then, and it fails (``input-timeout``).
        start_timeout: seconds in which a worker starts, imports OpenInfer, and opens program, model and device; 120 by
            default. One that takes longer is replaced.
        send_model: send the bytes of the model's file, for workers that do not find it under its path.

    Raises:
        ValidationError: the graph does not fit, with every finding.
        OpenInferError: ``unknown-runner``; ``batch-state``, the state of several workers was requested; while
            iterating, ``input-timeout``, the runner cannot end an input; ``worker-lost``, ``retries`` + 1 workers in a
            row were lost while they started, and no other one runs.
        ExecutionError: ``unknown-variable``, the program has no such output; ``input-file``.
        DeviceError, MissingDependencyError: device or runner cannot be used; while iterating.
        ValueError: a number is out of its range, or ``state`` is none of the two.
    """
    opened = model if isinstance(model, Model) else ModelLoader.open(model, environment=environment)
    job = Job(
        graph=programs.graph(graph, strict=strict),
        model=opened,
        device=str(device),
        sizes=dict(sizes or {}),
        limits=dict(limits or {}),
        outputs=tuple(outputs),
        steps=_at_least(1, steps, "steps"),
        keep_state=_keeps(state),
        strict=strict,
        placement=placement,
        send_model=send_model,
        environment=environment,
        start_timeout=start_timeout,
    )
    check_job(job)
    make = runner_of(runner, workers, job, timeout)
    tasks = _tasks(inputs, job)
    _at_least(0, retries, "retries")
    found = run_tasks(job, tasks, make, look_ahead=look_ahead, retries=retries, timeout=timeout)
    return _results(found, opened if opened is not model else None)


def check_job(job: Job) -> ResolvedGraph:
    """Check the program against model and device, and the names of outputs against the program; return the program.

    Raises:
        ValidationError, DeviceError, ExecutionError: as `run_batch`.
    """
    kind = job.device.partition(":")[0]
    resolved = resolve(
        job.graph,
        job.model,
        sizes=job.sizes,
        environment=job.environment,
        device=kind,
        placement=job.placement,
        strict=job.strict,
    )
    returned = {name for _, node in job.graph.nodes() if isinstance(node.kind, Return) for name in node.kind.names}
    for output in job.outputs:
        name, known = output.partition("[")[0].strip(), [*job.graph.vars, *sorted(returned)]
        if name not in known:
            hint = near_or_known(name, known, "variables")
            raise ExecutionError(f"unknown variable `{output}`: {hint}", code="unknown-variable")
    return resolved


def runner_of(
    runner: str | Runner | None, workers: int | None, job: Job, timeout: float | None = None
) -> Callable[[], Runner]:
    """Return what makes the runner when the batch begins.

    Raises:
        OpenInferError: ``unknown-runner``, or ``batch-state``.
        ValueError: ``workers`` is less than 1, or a limit no number of seconds above 0.
    """
    for limit, seconds in (("timeout", timeout), ("start_timeout", job.start_timeout)):
        if seconds is not None and not 0 < seconds <= threading.TIMEOUT_MAX:
            raise ValueError(f"{limit} is a number of seconds above 0, found {seconds}")
    if workers is not None:
        _at_least(1, workers, "workers")
    elif job.carries_state:
        workers = 1
    if runner is not None and not isinstance(runner, str):
        return lambda: _suited(runner, job)
    environment = job.environment or Environment.default()
    spec = environment.runner(runner or _by_default(workers, is_limited=is_limited(job, timeout)))
    if workers is not None and workers > 1:
        _check_state(workers, job)
    return lambda: _suited(opened_runner(spec, workers, environment.owner("runner", spec.name)), job)


def run_tasks(
    job: Job,
    tasks: Iterable[Task],
    make_runner: Callable[[], Runner],
    *,
    look_ahead: int | None,
    retries: int,
    timeout: float | None = None,
) -> Generator[Outcome]:
    """Yield the outcome of every task in order; errors of statements show their place in the program."""
    if look_ahead is not None:
        _at_least(1, look_ahead, "look_ahead")

    def run() -> Generator[Outcome]:
        runner = make_runner()
        ahead = look_ahead or 4 * runner.workers
        with closing(outcomes(runner, job, tasks, look_ahead=ahead, retries=retries, timeout=timeout)) as found:
            for outcome in found:
                _place(outcome.error, job.graph)
                yield outcome

    return run()


def only_input(graph: Graph, given: Iterable[str] = ()) -> str:
    """Return the dynamic variable that is to get a value, where there is just one; one with ``@init`` needs none.

    Raises:
        ExecutionError: ``input-file``, there is none, or there are several.
    """
    taken = set(given)
    dynamic = [v for v in graph.vars.values() if v.kind is MemoryKind.DYNAMIC and v.name not in taken]
    needed = [variable.name for variable in dynamic if variable.init is None]
    names = needed or [variable.name for variable in dynamic]
    if len(names) == 1:
        return names[0]
    listed = ", ".join(f"`{name}`" for name in names) or "none"
    message = f"a .npy file is for the only dynamic variable that has no value yet, found {listed}: use .npz files"
    raise ExecutionError(message, code="input-file")


def _keeps(state: str) -> bool:
    if state not in ("input", "worker"):
        raise ValueError(f"state is 'input' or 'worker', found {state!r}")
    return state == "worker"


def _at_least(least: int, value: int, name: str) -> int:
    if value < least:
        raise ValueError(f"{name} is at least {least}, found {value}")
    return value


def _by_default(workers: int | None, *, is_limited: bool) -> str:
    several = workers is not None and workers > 1
    return "processes" if several or is_limited else "in-process"


def _suited(runner: Runner, job: Job) -> Runner:
    try:
        _check_state(runner.workers, job)
    except OpenInferError:
        runner.close()
        raise
    return runner


def _check_state(workers: int, job: Job) -> None:
    if not job.carries_state or workers == 1:
        return
    message = (
        f"the program has persistent memory: with one state a worker, results would depend on which of {workers} "
        "workers an input meets; use one worker, or one state an input"
    )
    raise OpenInferError(message, code="batch-state")


def _tasks(inputs: Iterable[Mapping[str, Any]] | str | os.PathLike[str], job: Job) -> Iterable[Task]:
    if isinstance(inputs, str | os.PathLike):
        found = open_inputs(os.fspath(inputs), lambda: only_input(job.graph))
        return (Task.read(index, item.name, item.load) for index, item in enumerate(found))
    return (Task.given(index, f"input {index}", values) for index, values in enumerate(inputs))


def _place(error: OpenInferError | None, graph: Graph) -> None:
    """Give an error that names a statement its place in the text."""
    if not isinstance(error, ExecutionError) or error.diagnostics or error.node_index is None:
        return
    span = next((node.span for _, node in graph.nodes() if node.index == error.node_index), None)
    error.diagnostics = (
        Diagnostic(
            code=error.code,
            message=str(error),
            span=span,
            block=error.block,
            node_index=error.node_index,
            node_desc=error.node_desc,
        ),
    )


@public
def _results(found: Generator[Outcome], opened: Model | None) -> Iterator[BatchResult]:
    try:
        with closing(found):
            for outcome in found:
                values = {name: host_value(tensor) for name, tensor in outcome.outputs.items()}
                yield outcome.index, outcome.error or values
    finally:
        if opened is not None:
            opened.close()
