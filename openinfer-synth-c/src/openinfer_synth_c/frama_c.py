"""Proofs by Frama-C: its analyser Eva follows the values that variables of a program may have."""

from __future__ import annotations

import csv
import re
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.codegen import loop_program
from openinfer.errors import MissingDependencyError, SynthesisError
from openinfer.plan.accesses import walk
from openinfer.plan.steps import ComputeStep, CopyStep, StoreStep
from openinfer.scratch import scratch_directory
from openinfer.synth.c_host.toolchain import run_tool
from openinfer.synth.proof import Alarm, Proof
from openinfer_synth_c.kernel_calls import has_vector_types
from openinfer_synth_c.loop_programs.rests import followed
from openinfer_synth_c.project import PROOF_NAME, analysed_source
from openinfer_synth_c.view_bounds import followed_lengths, moving_registers, source_of_copy, view_bounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step

ANALYSER = "Eva of Frama-C"

AS_WRITTEN, PLAIN = "as written", "c99"
"""Forms that are analysed: the bundle's source, or the same loops without vector types."""

_REPORT = "report.csv"
_LONGEST_ANSWER = 20.0
"""Seconds for the analyser to say which version it is."""

_OPTIONS = (
    *("-eva", "-eva-slevel", "0", "-eva-auto-loop-unroll", "0", "-eva-no-print"),
    *("-eva-no-show-progress", "-eva-msg-key=-initial-state"),
    *("-warn-special-float", "none", "-warn-invalid-pointer", "-kernel-warn-key", "annot:missing-spec=abort"),
)
_SPLITS = 100
"""Values that a split is for without an option."""

_OPEN = frozenset({"Unknown", "Invalid", "Invalid or unreachable"})
_LIBRARY = "FRAMAC_SHARE"
"""Where the analyser's declarations of the C library are, of which a call that cannot be is an alarm of its own."""

_END = "Frama_C_show_each_step"
"""What `PROOF_NAME` calls to print the statuses with which a step may end."""

_ENDS = re.compile(rf"{_END}: (.*)")
_DONE = re.compile(r"\{0[};]|\[0\.\.|^0$")


def prove(plan: ExecutionPlan, *, timeout: float) -> Proof:
    """Return what Eva says of a plan's program, in which inputs and state hold anything of their types.

    Args:
        timeout: seconds that it may take.

    Raises:
        MissingDependencyError: Frama-C is not installed.
        SynthesisError: it failed, took too long, or did not come to the end of a step.
    """
    command = _found()
    form = PLAIN if has_vector_types(plan) else AS_WRITTEN
    options = (*_OPTIONS, *_precise(plan))
    with scratch_directory() as directory:
        version = run_tool([command, "-version"], directory, _LONGEST_ANSWER, "Frama-C").strip()
        for name, text in analysed_source(_in_plain_c(plan)).items():
            (directory / name).write_text(text, encoding="ascii")
        # Frama-C takes its directory from the environment: paths are absolute.
        files = [str(directory / PROOF_NAME), "-then", "-report-csv", str(directory / _REPORT)]
        started = time.perf_counter()
        said = run_tool([command, *options, *files], directory, timeout, "Frama-C")
        seconds = time.perf_counter() - started
        alarms = tuple(_alarms(directory))
        if not alarms:
            _check_end(said)
    return Proof(analyser=ANALYSER, version=version, options=options, form=form, alarms=alarms, seconds=seconds)


def _found() -> str:
    command = shutil.which("frama-c")
    if command is None:
        message = "Frama-C is not installed (looked for frama-c); install it, for example with"
        raise MissingDependencyError(f"{message} `apt-get install frama-c-base`", code="no-analyser")
    return command


def _precise(plan: ExecutionPlan) -> tuple[str, ...]:
    """Return options for functions over the few variables of a model, which lie at different places, and for splits."""
    if not plan.states and not any(register.is_kept for register in plan.registers):
        return _split_limit(plan)
    functions = (f"{plan.options.prefix}_{name}:1000" for name in ("find", "save", "load"))
    return ("-eva-slevel-function", ",".join(functions), *_split_limit(plan))


def _split_limit(plan: ExecutionPlan) -> tuple[str, ...]:
    """Return the option for as many values as a split variable may have, where that is many."""
    steps = (step for procedure in plan.procedures for step in walk(procedure.steps))
    moving = moving_registers(plan)
    most = max((count for step in steps for count in _splits(plan, step, moving)), default=0)
    return ("-eva-split-limit", str(most)) if most > _SPLITS else ()


def _splits(plan: ExecutionPlan, step: Step, moving: frozenset[int]) -> Iterator[int]:
    """Yield how many values the variables have that the source of a step splits."""
    match step:
        case StoreStep(region=region):
            sizes = (axis.size.constant for axis in region.ranges if axis.start.constant is None)
            yield from (size + 1 for size in sizes if size is not None)
        case ComputeStep(arguments=arguments) if arguments:
            kernel = loop_program(step)
            given = dict(zip(kernel.parameters, arguments, strict=True))
            lengths = followed_lengths(step, view_bounds(plan, step, moving))
            yield from (given[var].high - given[var].low + 1 for var in (*followed(kernel), *lengths))
        case CopyStep(output=output, count=count) if count and source_of_copy(plan, step, moving):
            yield plan.values[output].type.count + 1
        case _:
            pass


def _in_plain_c(plan: ExecutionPlan) -> ExecutionPlan:
    if plan.arch is None or not has_vector_types(plan):
        return plan
    return replace(plan, arch=replace(plan.arch, compiler=replace(plan.arch.compiler, dialect="c99")))


def _check_end(said: str) -> None:
    """Raise unless the analysis reached the end of a step: nothing is proved about unreachable code."""
    ends = _ENDS.findall(said)
    if not any(_DONE.search(end) for end in ends):
        raise SynthesisError(f"Frama-C did not reach the end of a step, whose status it finds in: {ends}")


def _alarms(directory: Path) -> Iterable[Alarm]:
    """Yield the properties that are not proved, which are few, from the table of all."""
    with (directory / _REPORT).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["status"] in _OPEN and row["function"] != _END and not row["directory"].startswith(_LIBRARY):
                yield Alarm(
                    file=row["file"],
                    line=int(row["line"]),
                    function=row["function"],
                    kind=row["property kind"],
                    condition=row["property"],
                )
