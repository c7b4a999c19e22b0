"""The conformance kit finds what is wrong: results, errors, missing kernels; and says so for the very case."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from unittest.mock import Mock

import numpy as np
import pytest

from openinfer.builtin import openinfer_ops
from openinfer.dtypes import DType, Kind
from openinfer.errors import DeviceError, FeatureMissingError, OpenInferError
from openinfer.expr import tree
from openinfer.ir.graph import Graph
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import Elementwise, Refusal
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor, Simulator
from openinfer.simulate.state.snapshot import Snapshot
from openinfer.testing import pytest_plugin
from openinfer.testing.cases import Case, cases, sampled
from openinfer.testing.checks import check_operator, wrong
from openinfer.testing.oracle import Exact, known_oracles
from openinfer.testing.places import Place, device_place
from openinfer.testing.refused import RefusedCase
from openinfer.testing.stepping import wrong_on_device
from openinfer.testing.values import specials
from openinfer.testing.waiting import limit_s
from openinfer.testing.whole_programs import WholeProgram, whole_programs

Array: TypeAlias = np.ndarray[Any, Any]

ENVIRONMENT = Environment.default()
CPU = device_place("cpu", ENVIRONMENT)
EVERY = 8


def failures(op: str, place: Place = CPU) -> dict[str, tuple[str, ...]]:
    schema, oracle = ENVIRONMENT.op(op), known_oracles()[op]
    cells = check_operator(schema, oracle, place, ENVIRONMENT, every=EVERY)
    return {name: cell.failures for name, cell in cells.items()}


def changing(change: Callable[[Case, Array], Array]) -> Place:
    """Return the device cpu with something else in the outputs of every case."""

    def run(given: Sequence[Case]) -> list[list[Array]]:
        return [[change(case, array) for array in outputs] for case, outputs in zip(given, CPU.run(given), strict=True)]

    return replace(CPU, run=run)


def kit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    return subprocess.run(
        [*command, "openinfer.testing.conformance", *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s(120),
        check=False,
    )


@pytest.mark.parametrize("op", ["add", "reshape", "sum_axis", "cumsum", "is_nan", "cast"])
def test_what_is_right_passes(op: str) -> None:
    found = failures(op)

    assert set(found) == set(ENVIRONMENT.op(op).dtypes)
    assert not any(found.values())


def test_devices_are_closed_after_each_program(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Executor] = []
    closed: list[Executor] = []
    make, close = Simulator.make_executor, Executor.close

    def making(simulator: Simulator, program: Graph) -> Executor:
        opened.append(make(simulator, program))
        return opened[-1]

    def closing(executor: Executor) -> None:
        closed.append(executor)
        close(executor)

    monkeypatch.setattr(Simulator, "make_executor", making)
    monkeypatch.setattr(Executor, "close", closing)

    failures("add")

    assert opened
    assert closed == opened


@pytest.mark.parametrize("op", ["add", "reshape", "sum_axis", "exp", "matmul"])
def test_one_wrong_bit_in_one_element_fails(op: str) -> None:
    def flip(case: Case, array: Array) -> Array:
        if array.size < 2 or case.shapes not in ("example", "special"):
            return array
        flipped = np.array(array, order="C")
        # The most significant byte of the last element: the sign of a number, or a large step in its size.
        flipped.reshape(-1)[-1:].view(np.uint8)[-1] ^= 0x41 if array.dtype != np.bool_ else 1
        return flipped

    found = failures(op, changing(flip))

    assert all(found.values()), [name for name, lines in found.items() if not lines]


def negative_zero(array: Array) -> Array:
    return np.where(array == 0, -np.zeros_like(array), array)


def canonical_nan(array: Array) -> Array:
    return np.where(np.isnan(array), np.full_like(array, np.nan), array)


def without_nan(array: Array) -> Array:
    return np.where(np.isnan(array), np.zeros_like(array), array)


def finite(array: Array) -> Array:
    return np.where(np.isinf(array), np.copysign(np.full_like(array, 2.0), array), array)


def a_little_more(array: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(array * 1.001, array.dtype)


@pytest.mark.parametrize(
    ("op", "change"),
    [
        ("mul", negative_zero),
        ("trunc", negative_zero),
        ("identity", negative_zero),
        ("identity", canonical_nan),
        ("max_axis", without_nan),
        ("sum_axis", without_nan),
        ("softmax", without_nan),
        ("max_pool2d", finite),
        ("matmul", finite),
        ("clamp", finite),
        ("sigmoid", a_little_more),
        ("relu", a_little_more),
        ("gelu", a_little_more),
    ],
)
def test_a_special_value_or_size_that_is_off_fails(op: str, change: Callable[[Array], Array]) -> None:
    def changed(case: Case, array: Array) -> Array:
        return change(array) if case.call.outputs[0].dtype.is_float else array

    schema, f32 = ENVIRONMENT.op(op), ENVIRONMENT.dtypes["f32"]
    every = [case for case in cases(schema, f32, ENVIRONMENT.dtypes) if case.shapes != "large" and case.target is None]

    found = changing(changed).run(every)

    lines = [wrong(schema, known_oracles()[op], case, each) for case, each in zip(every, found, strict=True)]
    assert any(lines)


def test_where_the_specification_leaves_a_zero_open_either_passes() -> None:
    def changed(case: Case, array: Array) -> Array:
        return negative_zero(array) if case.call.outputs[0].dtype.is_float else array

    assert not any(failures("max", changing(changed)).values())


@pytest.mark.parametrize("op", ["max_axis", "argmin_axis", "cumsum", "softmax", "topk", "sdpa", "linear", "rope"])
def test_values_that_are_not_finite_reach_what_folds_and_mixes(op: str) -> None:
    found = cases(ENVIRONMENT.op(op), ENVIRONMENT.dtypes["f32"], ENVIRONMENT.dtypes)
    given = [array for case in found for array in case.inputs() if array is not None and array.dtype.kind == "f"]

    assert any(np.isnan(array).any() for array in given)
    assert any(np.isposinf(array).any() for array in given)
    assert any(np.isneginf(array).any() for array in given)


@pytest.mark.parametrize(
    ("op", "setting"), [("clamp", "min"), ("relu", "alpha"), ("silu", "beta"), ("div", "div_by_zero_mask")]
)
def test_settings_of_examples_meet_every_special_value(op: str, setting: str) -> None:
    f32 = ENVIRONMENT.dtypes["f32"]
    found = [case for case in cases(ENVIRONMENT.op(op), f32, ENVIRONMENT.dtypes) if case.shapes == "special"]

    inputs = [case.inputs()[0] for case in found if setting in case.settings]
    assert inputs
    assert all(array is not None and np.isin(specials(f32), array).sum() == len(specials(f32)) - 1 for array in inputs)


def negative(inputs: Sequence[tree.Expr], settings: Mapping[str, Any]) -> tree.Expr:
    return tree.lt(inputs[0], tree.literal(0, inputs[0].dtype))


@pytest.mark.parametrize("dtype", ["f8", "f32", "i8", "i64"])
def test_elements_that_an_operator_refuses_are_not_drawn(dtype: str) -> None:
    absolute = ENVIRONMENT.op("abs")
    assert isinstance(absolute.definition, Elementwise)
    refusal = Refusal(negative, "what is negative has no root")
    schema = replace(absolute, definition=replace(absolute.definition, refusal=refusal))

    found = cases(schema, ENVIRONMENT.dtypes[dtype], ENVIRONMENT.dtypes)

    assert {"empty", "odd", "special"} <= {case.shapes for case in found}
    assert any(case.target is not None for case in found)
    assert all((array >= 0).all() for case in found for array in case.inputs() if array is not None)


def test_a_reduction_is_tried_on_shapes_of_every_kind() -> None:
    found = cases(ENVIRONMENT.op("sum_axis"), ENVIRONMENT.dtypes["f32"], ENVIRONMENT.dtypes)

    assert {"example", "scalar", "empty", "odd", "one", "large"} <= {case.shapes for case in found}


def test_every_pair_of_type_and_accumulator_is_tried() -> None:
    tried = {
        (name, str(case.settings["acc"]))
        for name, dtype in ENVIRONMENT.dtypes.items()
        for case in cases(ENVIRONMENT.op("sum_axis"), dtype, ENVIRONMENT.dtypes)
        if dtype.is_integer and not isinstance(case.settings.get("acc", ()), tuple)
    }

    # Six packed types, and those of 8, 16 and 32 bits, with every wider type of their sign.
    assert len(tried) == 6 * 4 + 2 * (3 + 2 + 1)


def test_a_wrong_shape_fails() -> None:
    def deepen(case: Case, array: Array) -> Array:
        del case
        return array[np.newaxis]

    found = failures("add", changing(deepen))

    assert all("expected" in lines[0] for lines in found.values())


def test_a_wrong_oracle_fails() -> None:
    right = known_oracles()["sub"]

    def wrong(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        return tuple(np.asarray(-values, values.dtype) for values in right(inputs, call))

    cells = check_operator(ENVIRONMENT.op("sub"), wrong, CPU, ENVIRONMENT, every=EVERY)

    # In the unsigned and signed types of one bit, a number and its negative are one.
    assert {name for name, cell in cells.items() if not cell.failures} <= {"i1", "u1"}


def test_an_error_stays_with_its_case() -> None:
    def run(given: Sequence[Case]) -> list[list[Array]]:
        if any(case.call.inputs[0] == found.call.inputs[0] for case in given):
            raise DeviceError("the shaft is jammed")
        return CPU.run(given)

    f32 = ENVIRONMENT.dtypes["f32"]
    found = sampled(cases(ENVIRONMENT.op("exp"), f32, ENVIRONMENT.dtypes), EVERY)[0]
    lines = failures("exp", replace(CPU, run=run))

    assert [name for name, each in lines.items() if each] == ["f32"]
    assert f"{found}: DeviceError: the shaft is jammed" in lines["f32"]


@pytest.mark.parametrize("some", [True, False])
def test_a_feature_that_the_hardware_does_not_support_is_missing_and_not_a_failure(*, some: bool) -> None:
    def run(given: Sequence[Case]) -> list[list[Array]]:
        if any(case.shapes == "example" or not some for case in given):
            raise FeatureMissingError("this box does not support what a kernel needs: shaderInt64")
        return CPU.run(given)

    cells = check_operator(
        ENVIRONMENT.op("mean_axis"), known_oracles()["mean_axis"], replace(CPU, run=run), ENVIRONMENT, every=EVERY
    )

    for cell in cells.values():
        assert cell.missing == "this box does not support what a kernel needs: shaderInt64"
        assert not cell.failures
    assert any(cell.ran for cell in cells.values()) is some


def test_an_element_with_no_result_may_meet_hardware_without_a_feature() -> None:
    def refuse(given: Sequence[RefusedCase]) -> list[list[OpenInferError | None]]:
        raise FeatureMissingError(f"this box does not support what {len(given)} kernels need")

    schema, oracle = ENVIRONMENT.op("gather"), known_oracles()["gather"]
    (cell, *others) = check_operator(schema, oracle, replace(CPU, refuse=refuse), ENVIRONMENT, every=EVERY).values()

    assert cell.missing == "this box does not support what 1 kernels need"
    assert not any(each.failures for each in (cell, *others))


def test_element_types_of_plugins_are_not_drawn() -> None:
    wide = DType(name="i128", kind=Kind.SIGNED, bits=128, oinf_tag=0, storage="int128")
    environment = replace(ENVIRONMENT, dtypes={"i128": wide, **ENVIRONMENT.dtypes, "u128": replace(wide, name="u128")})

    for op in ("sum_axis", "cast"):
        schema = ENVIRONMENT.op(op)
        schema = replace(schema, dtypes=schema.dtypes | {"i128"})
        cells = check_operator(schema, known_oracles()[op], device_place("cpu", environment), environment, every=EVERY)

        assert set(cells) == set(ENVIRONMENT.op(op).dtypes)
        assert not any(cell.failures or cell.missing for cell in cells.values())
        f32 = ENVIRONMENT.dtypes["f32"]
        assert cases(schema, f32, environment.dtypes) == cases(schema, f32, ENVIRONMENT.dtypes)


def test_a_sample_is_the_same_each_time_and_has_every_type() -> None:
    for dtype in ENVIRONMENT.dtypes.values():
        every = cases(ENVIRONMENT.op("add"), dtype, ENVIRONMENT.dtypes)
        some = sampled(every, EVERY)
        assert bool(some) is bool(every)
        assert some == sampled(every, EVERY)
        assert len(some) <= len(every) // 3 + 1
        assert sampled(every, 1) == every


def test_every_operator_of_core_has_an_oracle() -> None:
    assert {schema.name for schema in openinfer_ops()} == set(known_oracles())


def test_a_missing_kernel_fails_or_is_skipped_with_its_reason() -> None:
    asked = ("--openinfer-device", "vulkan", "--openinfer-op", "exp", "--openinfer-sample", "100")

    strict, lenient = kit(*asked), kit(*asked, "--openinfer-allow-missing", "-rs")

    assert strict.returncode == 1
    assert "device vulkan does not support some cases: vulkan has no exp" in strict.stdout
    assert lenient.returncode == 0
    assert "device vulkan: vulkan has no exp" in lenient.stdout
    assert " 1 skipped" in lenient.stdout


@pytest.mark.parametrize("program", whole_programs(), ids=lambda program: program.name)
def test_a_wrong_result_of_a_step_is_named(program: WholeProgram) -> None:
    """The expected result of the last step is changed: that a place gives another is found there and nowhere else."""
    *before, last = program.results
    name = next(iter(last))
    changed = {**last, name: last[name] + np.ones((), last[name].dtype)}

    lines = wrong_on_device(replace(program, results=(*before, changed)), "cpu", ENVIRONMENT)

    number = len(before)
    runs = ["", " after a snapshot"] if program.has_state else [""]
    named = [line.partition(" is ")[0] for line in lines]
    assert named == [f"{program.name}, step {number}{run}: {name}" for run in runs]


def test_state_that_a_snapshot_leaves_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = (program for program in whole_programs() if program.name == "registers")

    def forget(_executor: Executor, _snapshot: Snapshot) -> None:
        """Restore nothing."""

    monkeypatch.setattr(Executor, "restore", forget)

    lines = wrong_on_device(program, "cpu", ENVIRONMENT)

    assert lines
    assert all(" after a snapshot: " in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--openinfer-device", "abacos"), "unknown device 'abacos'"),
        (("--openinfer-op", "ad"), "unknown operator 'ad': did you mean"),
        (("--openinfer-sample", "0"), "expected a whole number from 1 on, found '0'"),
    ],
)
def test_what_is_called_wrongly_is_said(arguments: tuple[str, ...], message: str) -> None:
    result = kit(*arguments)

    assert result.returncode in (2, 4)
    assert message in result.stdout + result.stderr


def test_random_programs_are_tests_of_their_own_where_some_are_requested() -> None:
    found = kit("--openinfer-op", "neg", "-k", "random", "-vv", "--openinfer-random", "3", "--openinfer-seed", "9")

    assert found.returncode == 0, found.stdout
    assert [int(number) for number in re.findall(r"\[cpu-9-(\d+)\] PASSED", found.stdout)] == [0, 1, 2]
    none = Mock(getoption={"--openinfer-op": [], "--openinfer-random": 0}.get)
    assert pytest_plugin.pytest_ignore_collect(pytest_plugin.RANDOM_PROGRAMS, none)
    assert not pytest_plugin.pytest_ignore_collect(pytest_plugin.WHOLE_PROGRAMS, none)


def test_the_kit_counts_the_cases_that_ran_in_each_place() -> None:
    found = kit("--openinfer-op", "neg", "--openinfer-sample", str(EVERY))

    schema, oracle = ENVIRONMENT.op("neg"), known_oracles()["neg"]
    ran = sum(cell.ran for cell in check_operator(schema, oracle, CPU, ENVIRONMENT, every=EVERY).values())
    assert f"conformance cases on device cpu: {ran}\n" in found.stdout
