"""The time of each step of a program, and its share of the machine's peak of operations and of bytes.

The emitted source is compiled with a call of a clock before every step; the time of a call is subtracted again.
Operations are those of the definition, a multiply-add counts as two; bytes are those of every operand and result once.
The peak of bytes is that of reading as many bytes again and again as the weights and the arena of the program have, so
that steps whose operands still lie in a nearer cache may pass it.
"""

from __future__ import annotations

import ctypes
import statistics
from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING

from generated import CLOCK, Generated
from peaks import peak

from openinfer.expr.linear import linearise
from openinfer.plan.accesses import members, operands, walk, writes
from openinfer.plan.report import step_text
from openinfer.plan.steps import ComputeStep, CopyStep, LoopStep, ReturnStep, TableRef, ValueRef
from openinfer.synth.c_text import comment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from forms import Form
    from nets import Net

    from openinfer.compute import Stage
    from openinfer.expr.tree import Expr
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step

_CLOCK = """{clock}
/* What the steps took so far, in microseconds, and how often they ran. */
double layer_times[{count}];
int layer_runs[{count}];
static int layer_step = {last};
static double layer_start;

static void layer(int step) {{
    const double at = now();
    layer_times[layer_step] += at - layer_start;
    layer_runs[layer_step] += 1;
    layer_step = step;
    layer_start = now();
}}

"""

_SAMPLES = 301


@dataclass(frozen=True)
class Layer:
    """A step: microseconds, operations and bytes of all its runs in one step of the program; shares are of the peak."""

    step: str
    time: float
    operations: int
    nbytes: int
    operations_share: float
    nbytes_share: float


def print_layers(net: Net, name: str, form: Form, folder: Path) -> dict[str, object]:
    """Print a line for each step of a network; return the same as a document."""
    program = Generated(net, form, folder / "layers", _with_clock)
    plan = program.plan
    most = peak(folder / "peaks", plan.weights_nbytes + plan.arena_nbytes)
    steps = list(_steps(plan))
    times, runs, clock = _times(program, len(steps))
    layers: list[Layer] = []
    for step, time, count in zip(steps, times, runs, strict=True):
        done, moved = _operations(step) * count, _nbytes(plan, step) * count
        shares = (done / most.operations / time, moved / most.nbytes / time) if time else (0.0, 0.0)
        layers.append(Layer(step_text(plan, step), time, done, moved, *shares))
    total = sum(layer.time for layer in layers)
    print(
        f"{net.name}, {name}: {total:.1f} µs in {len(layers)} steps (clock {clock:.2f} µs each, not counted);"
        f" peak {most.operations * 1e-3:.0f} Gop/s, {most.nbytes * 1e-3:.0f} GB/s"
    )
    print(f"  {'µs':>8} {'share':>6} {'Mop':>8} {'of peak':>7} {'KB':>8} {'of peak':>7}  step")
    for layer in layers:
        print(
            f"  {layer.time:8.2f} {layer.time / total if total else 0.0:6.1%}"
            f" {layer.operations * 1e-6:8.3f} {layer.operations_share:7.0%}"
            f" {layer.nbytes / 1024:8.1f} {layer.nbytes_share:7.0%}  {layer.step[:100]}"
        )
    return {"net": net.name, "form": name, "peak": asdict(most), "layers": [asdict(layer) for layer in layers]}


def _steps(plan: ExecutionPlan) -> Iterator[Step]:
    """Yield the steps that have comments of their own in the source, in its order."""
    for procedure in plan.procedures:
        for step in walk(procedure.steps):
            if not isinstance(step, ReturnStep):
                yield step


def _with_clock(plan: ExecutionPlan, source: str) -> str:
    """Return the source with a call of the clock before each step, found by the comments that steps begin with."""
    lines = source.splitlines()
    steps = list(_steps(plan))
    marked: list[str] = []
    at = next(number for number, line in enumerate(lines) if line.startswith("/* block "))
    head = lines[:at]
    for number, step in enumerate(steps):
        comments = _comments(step)
        found = at
        while [line.strip() for line in lines[found : found + len(comments)]] != comments:
            found += 1
            if found == len(lines):
                raise SystemExit(f"the source has no comment of the step {step_text(plan, step)}")
        marked += [*lines[at:found], f"    layer({number});", *lines[found : found + len(comments)]]
        at = found + len(comments)
    rest = lines[at:]
    last = max(number for number, line in enumerate(rest) if line.strip() == "return MODEL_OK;" or "return b" in line)
    call = rest[last].strip().removeprefix("return ")
    # Between two calls that follow one another nothing runs but the clock.
    calls = f"layer({len(steps)});\n    layer({len(steps) + 1});"
    rest[last] = f"    const enum model_status done = {call}\n    {calls}\n    return done;"
    clock = _CLOCK.format(clock=CLOCK, count=len(steps) + 2, last=len(steps) + 1)
    return "\n".join((clock, *head, *marked, *rest, ""))


def _comments(step: Step) -> list[str]:
    statements = step.origin.statements
    shown = [f"line {s.line}: {s.text}" if s.line is not None else s.text for s in statements]
    return [comment(text) for text in shown] or [comment("initial value")]


def _times(program: Generated, count: int) -> tuple[list[float], list[int], float]:
    """Return the median microseconds of each step, without those of the clock, its runs, and what the clock takes."""
    times = (ctypes.c_double * (count + 2)).in_dll(program.library, "layer_times")
    runs = (ctypes.c_int * (count + 2)).in_dll(program.library, "layer_runs")
    samples: list[list[float]] = []
    for _ in range(_SAMPLES):
        program.run(1)
        ctypes.memset(times, 0, ctypes.sizeof(times))
        ctypes.memset(runs, 0, ctypes.sizeof(runs))
        program.run(1)
        samples.append(list(times)[: count + 1])
    counts = list(runs)[:count]
    *medians, clock = (statistics.median(sample[number] for sample in samples) for number in range(count + 1))
    return [max(time - clock * runs, 0.0) for time, runs in zip(medians, counts, strict=True)], counts, clock


def _operations(step: Step) -> int:
    return sum(map(_stage_operations, step.computation.stages)) if isinstance(step, ComputeStep) else 0


def _stage_operations(stage: Stage) -> int:
    places = prod(_extents(stage.axes))
    count = places * _arithmetic((stage.value,))
    if stage.fold is not None:
        values = [value for total in stage.fold.totals for value in (total.term, total.combine)]
        count += places * prod(_extents(stage.fold.axes)) * _arithmetic(values)
    return count


def _extents(axes: Sequence[object]) -> list[int]:
    extents = [getattr(axis, "extent", None) for axis in axes]
    return [extent if isinstance(extent, int) else 1 for extent in extents]


def _arithmetic(values: Sequence[Expr]) -> int:
    instructions = (i for value in values for i in linearise(value).instructions)
    return sum(i.function not in ("input", "literal", "cast") for i in instructions)


def _nbytes(plan: ExecutionPlan, step: Step) -> int:
    if isinstance(step, LoopStep) or (isinstance(step, CopyStep) and plan.is_view(step)):
        return 0
    read = 0
    for operand in dict.fromkeys(operands(step)):
        if isinstance(operand, ValueRef):
            read += plan.values[operand.value].stored.nbytes
        elif isinstance(operand, TableRef):
            read += plan.table(operand.table).stored.nbytes
    return read + sum(plan.values[value].stored.nbytes for value in members(writes(step)))
