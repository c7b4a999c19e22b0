"""Every field of a device file that steers target c is seen in the plan or in the source that is written."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.diagnostics import Severity
from openinfer.estimate import estimate
from openinfer.plan.steps import ComputeStep
from openinfer.schedule.text import schedule_text

if TYPE_CHECKING:
    from openinfer.synth import Synthesis

# A product of which the packed weights are larger than the first cache: 256 · 96 · 4 = 98,304 bytes.
TEXT = """
dynamic { x: f32[R, 256]; }
constant { w: f32[256, 96]; }
volatile { y: f32[R, 96]; }
block entry {
  op matmul(x, w) >> t;
  op exp(t) >> t;
  op neg(t) >> y;
  return y;
}
"""
MODEL = oi.Model.from_arrays({"w": np.ones((256, 96), np.float32)}, sizevars={"R": 24})


def synthesis(target: dict[str, Any], *, rows: int = 24, **sections: Any) -> Synthesis:
    document = {"version": 2, "device": {"type": "cpu", "api": "c"}, "target": target, **sections}
    return oi.Synthesizer(arch=document).synthesize(MODEL, TEXT, sizes={"R": rows})


def source(made: Synthesis) -> str:
    return made.bundle.files["model.c"].decode()


def schedule(made: Synthesis) -> str:
    """Return the first schedule of the plan as text."""
    return schedule_text(estimate(made.plan).steps[0].choices[0].schedule)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_lanes_are_those_of_the_loops(lanes: int) -> None:
    assert schedule(synthesis({"lanes": lanes, "registers": 32})) == f"i1:{lanes} i0:24 i2 i0=unroll i1=lanes"


@pytest.mark.parametrize(("registers", "tile"), [(8, "i0:5"), (16, "i0:12"), (32, "i0:24")])
def test_registers_bound_the_rows_of_a_tile(registers: int, tile: str) -> None:
    assert tile in schedule(synthesis({"registers": registers})).split()


def test_fused_multiply_adds_are_written_where_the_device_has_them() -> None:
    assert "fma" in source(synthesis({"fma": True}))
    assert "fma" not in source(synthesis({"fma": False}))


# Many rows are as slow as the arithmetic, one row as its weights: near ones as loads, far ones as lines.
CYCLES = [
    ("multiply_adds", 24, 65536, 1, 4),
    ("loads", 1, 1048576, 1, 2),
    ("caches", 1, 0, [4096], [1048576]),
    ("line", 1, 65536, 16, 64),
]


@pytest.mark.parametrize(("field", "rows", "cache", "slow", "quick"), CYCLES)
def test_the_cost_model_knows_the_machine(field: str, rows: int, cache: int, slow: object, quick: object) -> None:
    def cycles(value: object) -> float:
        made = synthesis({"lanes": 16, "registers": 32, "caches": [cache], field: value}, rows=rows)
        found = estimate(made.plan).steps[0].cycles
        assert found is not None
        return found

    assert cycles(slow) > cycles(quick)


def test_the_dialect_decides_how_lanes_are_written() -> None:
    assert "vector_size" in source(synthesis({"dialect": "vector"}))
    assert "vector_size" not in source(synthesis({"dialect": "c99"}))


def test_flags_are_in_the_makefile() -> None:
    made = synthesis({"flags": ["-march=armv8-a", "-mtune=cortex-a53"]})

    assert "-march=armv8-a -mtune=cortex-a53" in made.bundle.files["Makefile"].decode()


@pytest.mark.parametrize(
    ("preferences", "ops"),
    [
        ({}, ["matmul+exp+neg"]),
        ({"max_kernel_ops": 3}, ["matmul+exp+neg"]),
        ({"max_kernel_ops": 2}, ["matmul+exp", "neg"]),
        ({"max_kernel_ops": 1}, ["matmul", "exp", "neg"]),
        ({"prefer_fusion": False}, ["matmul", "exp", "neg"]),
    ],
)
def test_preferences_limit_fusion(preferences: dict[str, Any], ops: list[str]) -> None:
    plan = synthesis({}, preferences=preferences).plan

    assert [step.op for step in plan.procedures[-1].steps if isinstance(step, ComputeStep)] == ops


def test_the_plan_says_that_the_device_keeps_operators_apart() -> None:
    report = synthesis({}, preferences={"max_kernel_ops": 1}).report()

    assert "stored: the device has steps of at most 1 operator" in report


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("registers", [4, 8, 32])
def test_small_machines_compute_the_same(lanes: int, registers: int) -> None:
    x = np.linspace(-0.01, 0.01, 3 * 256, dtype=np.float32).reshape(3, 256)
    made = synthesis({"lanes": lanes, "registers": registers, "multiply_adds": 1}, rows=3)

    found = made.run({"x": x}).outputs["y"]

    expected = -np.exp(x.astype(np.float64) @ np.ones((256, 96)))
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=1e-5)


def test_a_precision_that_no_program_leaves_open_is_a_note_and_changes_no_source() -> None:
    preferred = synthesis({}, features={"fp16": True}, preferences={"default_precision": "fp16"})
    (note,) = preferred.warnings
    assert (note.code, note.severity) == ("default-precision", Severity.NOTE)
    assert "changes nothing: no program leaves it open" in note.message
    assert source(preferred) == source(synthesis({}, features={"fp16": True}))
