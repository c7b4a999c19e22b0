"""Schedules in a file: written, read back, obeyed, and refused where they do not fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openinfer.arch import TargetInfo
from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.model import Model
from openinfer.plan import PlanOptions, make_plan
from openinfer.plan.schedules import common_loops_text, parse_schedules, schedules_text
from openinfer.plan.steps import ComputeStep
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.schedule.text import schedule_text
from openinfer.validate import resolve

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan

TABLE = KernelTable("test", {}, frozenset({"f32", "i64", "bool"}), computations=True)
PROGRAM = """
dynamic { x: f32[2, 4]; }
constant { w: f32[4, N]; }
volatile { y: f32[2, N]; }
block entry {
  op matmul(x, w) >> y;
  return y;
}
"""
HEAD = "openinfer-schedules 1\nentry:6 matmul\n"


def plan_of(given: str | None = None, *, size: int = 8, program: str = PROGRAM) -> ExecutionPlan:
    weights = np.arange(4 * size, dtype=np.float32).reshape(4, size)
    model = Model.from_arrays({"w": weights}, sizevars={"N": size})
    environment = Environment.default()
    resolved = resolve(graph(program), model, environment=environment)
    schedules = None if given is None else parse_schedules(given, "tuned.txt")
    options = PlanOptions(machine=TargetInfo(registers=8), schedules=schedules)
    return make_plan(resolved, model, environment, TABLE, options)


def schedules_of(plan: ExecutionPlan) -> list[str]:
    steps = [step for p in plan.procedures for step in p.steps if isinstance(step, ComputeStep)]
    return [schedule_text(schedule) for step in steps for schedule in step.arrangement.schedules]


def test_a_plan_writes_its_schedules_with_what_they_are_of() -> None:
    plan = plan_of()
    (schedule,) = schedules_of(plan)

    head, blank, step, stage = schedules_text(plan.procedures).splitlines()

    assert (head, blank, step) == ("openinfer-schedules 1", "", "entry:6 matmul")
    assert stage.startswith("    y0[i0=2 i1=8 i2=4] ")
    assert stage.endswith(f": {schedule}")


def test_what_is_written_gives_an_equal_plan() -> None:
    first = plan_of()

    again = plan_of(schedules_text(first.procedures))

    assert again.procedures == first.procedures
    assert [bytes(weight.data) for weight in again.weights] == [bytes(weight.data) for weight in first.weights]


def test_a_given_schedule_wins_and_weights_are_packed_for_it() -> None:
    written = schedules_text(plan_of().procedures)
    chosen = schedules_of(plan_of())
    given = "i0 i1:4 i2 i1=lanes"
    assert chosen != [given]

    plan = plan_of(written.replace(chosen[0], given))

    assert schedules_of(plan) == [given]
    # Columns in fours: all rows of the first four lie before those of the others.
    (weight,) = plan.weights
    expected = np.arange(32, dtype=np.float32).reshape(4, 2, 4).transpose(1, 0, 2)
    np.testing.assert_array_equal(np.frombuffer(weight.data, "<f4"), expected.ravel())


def test_a_file_with_a_part_of_the_steps_leaves_the_others_to_the_cost_model() -> None:
    assert schedules_of(plan_of("# nothing is given\nopeninfer-schedules 1\n")) == schedules_of(plan_of())


def test_equal_steps_of_a_line_are_numbered() -> None:
    program = PROGRAM.replace(
        "op matmul(x, w) >> y;", "op cumsum(x, axis=0) >> a; op cumsum(a, axis=1) >> b; op matmul(b, w) >> y;"
    )

    steps = [
        line for line in schedules_text(plan_of(program=program).procedures).splitlines() if line.startswith("entry")
    ]

    assert steps == ["entry:6 cumsum", "entry:6 cumsum #2", "entry:6 matmul"]


SOFTMAX = """
dynamic { x: f32[512, 1024]; }
volatile { y: f32[512, 1024]; }
block entry {
  op softmax(x) >> y;
  return y;
}
"""


def common_loops(plan: ExecutionPlan) -> list[str]:
    steps = [step for p in plan.procedures for step in p.steps if isinstance(step, ComputeStep)]
    return [common_loops_text(step.arrangement) for step in steps]


def test_loops_around_stages_are_written_and_read_back() -> None:
    first = plan_of(program=SOFTMAX)
    written = schedules_text(first.procedures)

    again = plan_of(written, program=SOFTMAX)

    assert written.splitlines()[2:4] == ["entry:5 softmax", "    under: i6:32"]
    assert again.procedures == first.procedures


@pytest.mark.parametrize(("given", "rows"), [("i6:4", 4), ("", 512)])
def test_given_loops_around_stages_win(given: str, rows: int) -> None:
    written = "\n".join(schedules_text(plan_of(program=SOFTMAX).procedures).splitlines()[:3])
    (stage,) = [line for line in schedules_text(plan_of(program=SOFTMAX).procedures).splitlines() if " y0[" in line]

    plan = plan_of(f"{written}\n    under: {given}\n{stage}\n", program=SOFTMAX)

    assert common_loops(plan) == [given]
    largest = max(value.stored.count for value in plan.values if value.name.startswith("y.softmax"))
    assert largest == rows * 1024


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("i7:4=unroll", "expected serial loops such as `i0:4 i2`"),
        ("i6 i6", "an axis is walked twice"),
        ("i9", "the loop 'i9' is over an unknown axis; known: i6, i7"),
        ("i6:3 sliding", "i6 slides in steps of 3, which leave a rest"),
        ("i6\n    under: i6", "tuned.txt:5: step `entry:5 softmax` has common loops already in line 4"),
    ],
)
def test_loops_around_stages_that_do_not_fit_are_refused(given: str, message: str) -> None:
    lines = schedules_text(plan_of(program=SOFTMAX).procedures).splitlines()

    with pytest.raises(SynthesisError, match=re.escape(message)):
        plan_of("\n".join([*lines[:3], f"    under: {given}", *lines[4:]]), program=SOFTMAX)


def digest() -> str:
    return schedules_text(plan_of().procedures).partition("] ")[2][:8]


MISFITS = {
    "unknown step": (
        "openinfer-schedules 1\nentry:7 matmul\n    y0[i0=2 i1=8 i2=4] DIGEST: i0 i1",
        "tuned.txt:3: the program has no step `entry:7 matmul`",
    ),
    "unknown stage": (
        f"{HEAD}  z[i0=2] DIGEST: i0",
        "tuned.txt:3: step `entry:6 matmul` has no stage z; it has y0",
    ),
    "other extents": (
        f"{HEAD}  y0[i0=2 i1=9 i2=4] DIGEST: i0 i1 i2",
        "stage y0 of step `entry:6 matmul` has changed: the file has the axes i0=2 i1=9 i2=4, the stage i0=2 i1=8 i2=4",
    ),
    "other meaning": (
        f"{HEAD}  y0[i0=2 i1=8 i2=4] 00000000: i0 i1 i2",
        "has changed: its expressions or element types differ (the file has 00000000, the stage DIGEST)",
    ),
    "unknown axis": (
        f"{HEAD}  y0[i0=2 i1=8 i2=4] DIGEST: i0 i1 i9",
        "the loop 'i9' is over an unknown axis; known: i0, i1, i2",
    ),
    "missing axis": (f"{HEAD}  y0[i0=2 i1=8 i2=4] DIGEST: i0 i2 i0=lanes", "i1 has step 1: found steps []"),
    "too many totals": (
        f"{HEAD}  y0[i0=2 i1=8 i2=4] DIGEST: i2 i0=unroll i1=unroll",
        "16 totals at once, the target has 8 registers",
    ),
    "stage twice": (
        f"{HEAD}  y0[i0=2 i1=8 i2=4] DIGEST: i0 i1:8 i2 i1=lanes\n  y0[i0=2 i1=8 i2=4] DIGEST: i0 i1:8 i2 i1=lanes",
        "tuned.txt:4: stage y0 of step `entry:6 matmul` has a schedule already",
    ),
    "step without stages": (f"{HEAD}", "tuned.txt:2: step `entry:6 matmul` has no stages"),
    "unknown step without stages": (
        "openinfer-schedules 1\nentry:7 matmul\nentry:6 matmul\n  y0[] 00000000: i0",
        "tuned.txt:2: step `entry:7 matmul` has no stages",
    ),
    "no header": ("entry:6 matmul", "expected `openinfer-schedules 1` in the first line, found 'entry:6 matmul'"),
    "later version": ("openinfer-schedules 2", "expected `openinfer-schedules 1` in the first line"),
    "no step": ("openinfer-schedules 1\n  y0[i0=2] 00000000: i0", "tuned.txt:2: expected a stage such as"),
    "wrong step": (
        "openinfer-schedules 1\nmatmul",
        "tuned.txt:2: expected a step such as `entry:4 matmul`, found 'matmul'",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_an_error_that_says_where_and_what_differs(name: str) -> None:
    text, message = (part.replace("DIGEST", digest()) for part in MISFITS[name])

    with pytest.raises(SynthesisError) as caught:
        plan_of(text)

    assert caught.value.code == "schedules"
    assert message in str(caught.value)


def test_the_digest_is_of_the_meaning_and_not_of_the_extents() -> None:
    first, second = (schedules_text(plan_of(size=size).procedures).partition("] ")[2][:8] for size in (8, 12))
    negated = PROGRAM.replace("matmul(x, w) >> y;", "matmul(x, w) >> t; op neg(t) >> y;")

    assert first == second
    assert first not in schedules_text(plan_of(program=negated).procedures)
