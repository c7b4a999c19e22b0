"""Programs run in every place, and what is wrong about them."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from openinfer.errors import OpenInferError
from openinfer.ir.graph import MemoryKind
from openinfer.plugins.environment import Environment
from openinfer.testing.random_programs.agreement import differences
from openinfer.testing.random_programs.defined import defined_differences
from openinfer.testing.random_programs.levels import levels_of, operators_of
from openinfer.testing.random_programs.refusals import is_refusal
from openinfer.testing.random_programs.running import (
    Failed,
    HangError,
    Ran,
    Step,
    run_iterated,
    run_on,
    run_restored,
    through_json,
    through_text,
)
from openinfer.testing.random_programs.sample import Sample
from random_programs.c_batches import STATUS_OF, Build, Given, compiler_failed, manner_of, run_batch
from random_programs.c_units import Written, written_in_c
from random_programs.emitted import run_emitted
from random_programs.oracles import wrong_statements
from random_programs.subnormals import flushes_subnormals
from random_programs.tally import Tally

Result = TypeVar("Result")

_ENDED = re.compile(r"step \d+: ((?:no|the) error.*)")
"""Differences that are not about a value."""

ALWAYS = ("cpu", "text", "JSON", "traced", "iterated", "restored", "oracle")
"""Places that refuse nothing: programs are drawn by the rules of operators and language."""

TRACE = "trace"

EMITTED = "emitted-"
"""How names of places begin that run the projects of a target."""

EVERY = 8
"""One program in so many is run in each further way on cpu; every other one is read as text, the others as JSON."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong about a program.

    Attributes:
        number: that of the program.
        kind: where it is wrong and in what way; a smaller program is wrong alike if it has the same.
        message: what is wrong, in detail.
    """

    number: int
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where programs are run.

    Attributes:
        devices: names of devices of the simulator other than cpu; ``device-c`` is device c, ``+trace`` runs it traced.
        builds: how programs in C are compiled.
        targets: targets whose projects are built and run one by one; ``emitted-vulkan`` is that of target vulkan.
        thorough: whether every program is run in every way on cpu.
    """

    environment: Environment
    devices: tuple[str, ...] = ()
    builds: tuple[Build, ...] = ()
    targets: tuple[str, ...] = ()
    thorough: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """A program that cpu runs, and how far its values are defined."""

    number: int
    sample: Sample
    ran: Ran
    levels: Mapping[str, int]


def examine(samples: Mapping[int, Sample], plan: Plan, tally: Tally) -> list[Finding]:
    """Run numbered programs in every place and return what is wrong."""
    findings: list[Finding] = []
    known: list[_Known] = []
    for number, sample in samples.items():
        found = _guarded(number, "cpu", findings, tally, lambda sample=sample: run_on(sample, "cpu", plan.environment))
        if found is None:
            continue
        each = _Known(number, sample, found, levels_of(found.program, plan.environment))
        known.append(each)
        _note(tally, "cpu", each, ())
        tally.ended.update(step.code for step in found.steps if isinstance(step, Failed))
        _other_ways(each, plan, findings, tally)
        _statements(each, plan, findings, tally)
    for device in plan.devices:
        _on_device(known, device, plan, findings, tally)
    if plan.builds:
        _in_c(known, plan, findings, tally)
    for place in plan.targets:
        _emitted(known, place, plan, findings, tally)
    return findings


def _note(tally: Tally, place: str, each: _Known, steps: Sequence[Step]) -> None:
    names = {name for step in each.ran.steps if not isinstance(step, Failed) for name in step}
    compared = [each.levels.get(name, 0) for name in sorted(names)] if steps else []
    tally.note_run(place, operators_of(each.ran.program), compared)


def _guarded(
    number: int,
    build: str,
    findings: list[Finding],
    tally: Tally,
    run: Callable[[], Result],
    fits: Callable[[], bool] = lambda: True,
) -> Result | None:
    """Return what a run returns; note why it has nothing.

    Args:
        fits: whether the shapes of a program are legal at the greatest sizes of a step, which targets plan memory for.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return run()
    except OpenInferError as error:
        if build.startswith(ALWAYS) or not is_refusal(error, fits):
            findings.append(Finding(number, f"{build}: error {error.code}", str(error)))
        else:
            tally.refused[build, error.code] += 1
    except HangError as error:
        findings.append(Finding(number, f"{build}: hangs", str(error)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the fuzzer looks for
        reported = "".join(traceback.format_exception(error)[-4:])
        findings.append(Finding(number, f"{build}: raises {type(error).__name__}", reported))
    return None


def _other_ways(each: _Known, plan: Plan, findings: list[Finding], tally: Tally) -> None:
    """Compare what cpu makes of a program in other forms and ways with what it makes of it plainly."""
    sample, environment = each.sample, plan.environment
    ways: dict[str, Callable[[], tuple[Step, ...]]] = {
        "traced": lambda: run_on(sample, "cpu", environment, trace=True).steps,
        "iterated": lambda: run_iterated(sample, environment),
        "restored": lambda: run_restored(sample, environment, through_file=each.number % 3 == 0),
    }
    for place, (name, changed) in enumerate((("text", through_text), ("JSON", through_json))):
        if (each.number + place) % 2 and not plan.thorough:
            continue
        other = _guarded(each.number, name, findings, tally, lambda changed=changed: changed(sample))
        if other is None:
            continue
        if other.graph != sample.graph:
            findings.append(Finding(each.number, f"{name}: graph", f"{name} is read as another graph"))
        ways[name] = lambda other=other: run_on(other, "cpu", environment).steps
    for place, (name, run) in enumerate(ways.items()):
        if not plan.thorough and (each.number + place) % EVERY and not _has_state(name, sample):
            continue
        steps = _guarded(each.number, name, findings, tally, run)
        lines = [] if steps is None else differences(each.ran.steps, steps)
        findings += _different(each.number, name, lines)


def _statements(each: _Known, plan: Plan, findings: list[Finding], tally: Tally) -> None:
    """Compare single statements of a calm program with oracles, at times."""
    if not each.sample.calm or (each.number % EVERY and not plan.thorough):
        return
    run = partial(wrong_statements, each.sample, plan.environment)
    lines = _guarded(each.number, "oracle", findings, tally, run) or []
    findings += _different(each.number, "oracle", lines)


def _has_state(way: str, sample: Sample) -> bool:
    """Whether a way is that of programs with state, and this is one."""
    return way == "restored" and any(each.kind is MemoryKind.PERSISTENT for each in sample.graph.vars.values())


def _on_device(known: Sequence[_Known], device: str, plan: Plan, findings: list[Finding], tally: Tally) -> None:
    for each in known:
        name, _, way = device.partition("+")
        found = _guarded(
            each.number,
            device,
            findings,
            tally,
            lambda each=each, name=name, trace=way == TRACE: run_on(
                each.sample, name.removeprefix("device-"), plan.environment, trace=trace
            ),
        )
        if found is None:
            continue
        _note(tally, device, each, found.steps)
        gpu = device.startswith("vulkan")
        lines = _differences(each, each.ran.steps, found.steps, plan, gpu=gpu, flushes=flushes_subnormals(name))
        findings += _different(each.number, device, lines)


def _differences(
    each: _Known,
    expected: Sequence[Step],
    found: Sequence[Step],
    plan: Plan,
    *,
    gpu: bool = False,
    flushes: bool = False,
) -> list[str]:
    """Return how steps differ from what cpu made of them, apart from what is open for the values that they meet."""
    sample, program = each.sample, each.ran.program
    levels = levels_of(program, plan.environment, gpu=gpu) if gpu else each.levels
    return defined_differences(sample, program, expected, found, plan.environment, levels, gpu=gpu, flushes=flushes)


def _in_c(known: Sequence[_Known], plan: Plan, findings: list[Finding], tally: Tally) -> None:
    written: list[tuple[_Known, Written]] = []
    for sample in known:
        found = _guarded(
            sample.number,
            "c",
            findings,
            tally,
            lambda sample=sample: written_in_c(sample.sample, plan.environment),
            lambda sample=sample: sample.sample.fits_at_limits(plan.environment),
        )
        written += [] if found is None else [(sample, found)]
    given = [Given(program, sample.sample) for sample, program in written]
    for build in plan.builds:
        for (sample, program), outcome in zip(written, run_batch(given, build), strict=True):
            place = f"c, {build}"
            if isinstance(outcome, str) and compiler_failed(outcome):
                tally.refused[place, "an error within the compiler itself"] += 1
                continue
            if isinstance(outcome, str):
                findings.append(Finding(sample.number, f"{place}: {manner_of(outcome)}", outcome))
                continue
            _note(tally, place, sample, outcome)
            lines = _differences(sample, _reached(sample, program), outcome, plan)
            findings += _different(sample.number, place, lines)


def _emitted(known: Sequence[_Known], place: str, plan: Plan, findings: list[Finding], tally: Tally) -> None:
    target = place.removeprefix(EMITTED)
    for each in known:
        run = partial(run_emitted, each.sample, target, plan.environment)
        fits = partial(each.sample.fits_at_limits, plan.environment)
        outcome = _guarded(each.number, place, findings, tally, run, fits)
        if outcome is None:
            continue
        program, steps = outcome
        if isinstance(steps, str):
            findings.append(Finding(each.number, f"{place}: {manner_of(steps)}", steps))
            continue
        _note(tally, place, each, steps)
        gpu, flushes = target == "vulkan", flushes_subnormals(target)
        lines = _differences(each, _reached(each, program), steps, plan, gpu=gpu, flushes=flushes)
        findings += _different(each.number, place, lines)


def _different(number: int, place: str, lines: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for each difference; steps that end in different ways are of a kind by how they do."""
    for line in lines:
        ended = _ENDED.fullmatch(line)
        yield Finding(number, f"{place}: {ended[1] if ended else 'value'}", line)


def _reached(each: _Known, program: Written) -> list[Step]:
    """Return the steps on cpu as a program in C has them.

    Without a return the results are those that statements may write. Some errors have one status in C.
    """
    names = {port.name for port in program.plan.outputs}
    return [
        Failed(STATUS_OF.get(step.code, step.code))
        if isinstance(step, Failed)
        else {name: value for name, value in step.items() if name in names}
        for step in each.ran.steps
    ]
