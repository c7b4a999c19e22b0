"""Which device carries out an operator that the program's device does not support, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from openinfer.diagnostics import Severity
from openinfer.dsl import graph
from openinfer.dtypes import BUILTIN
from openinfer.errors import DeviceError, ValidationError
from openinfer.model import Model
from openinfer.plugins.coverage import coverage
from openinfer.plugins.environment import Environment
from openinfer.plugins.offers import misfit
from openinfer.plugins.types import DeviceSpec, Fallback, KernelSpec
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.resolved import ResolvedGraph

NARROW = frozenset({"f32", "i32", "bool"})
WIDE = NARROW | {"f64", "i64", "i8"}


def device(name: str, dtypes: frozenset[str] | None, fallback: Fallback | None = None) -> DeviceSpec:
    return DeviceSpec(name=name, summary="", probe="x:y", backend="x:y", expression_dtypes=dtypes, fallback=fallback)


def kernels(target: str) -> Sequence[KernelSpec]:
    """Both devices multiply matrices of f32, the wide one of f64 too."""
    types = {"box": {"f32"}, "host": {"f32", "f64"}}
    return [KernelSpec(op="matmul", kernel="x:y", dtypes=frozenset(types[target]))] if target in types else []


def environment(*devices: DeviceSpec) -> Environment:
    left = Fallback(device="host", dtypes=frozenset({"f64", "i64"}))
    given = devices or (device("box", NARROW, left), device("host", WIDE))
    return replace(Environment.default(), devices={each.name: each for each in given}, kernel_source=kernels)


def resolved(
    statements: str, declared: str, *, on: Environment | None = None, main: str = "box", **options: bool
) -> ResolvedGraph:
    text = f"dynamic {{ {declared} }}\nblock entry {{ {statements} return; }}"
    return resolve(graph(text), Model.from_arrays({}), device=main, environment=on or environment(), **options)


def findings(statements: str, declared: str, on: Environment | None = None, **options: bool) -> Sequence[Diagnostic]:
    with pytest.raises(ValidationError) as caught:
        resolved(statements, declared, on=on, **options)
    return [each for each in caught.value.diagnostics if each.severity is Severity.ERROR]


@pytest.mark.rule("runtime.devices.5")
def test_unsupported_operators_of_such_a_type_run_on_the_other_device_with_one_warning_for_each_statement() -> None:
    found = resolved(
        "op neg(x) >> x; op add(a, a) >> a; loop l (i in 0..2) { op l2_norm(x, axis=0) >> x; }",
        "x: f64[2]; a: f32[2];",
    )

    assert found.placed == {0: "host", 2: "host"}
    assert [(each.code, each.severity, each.node_index) for each in found.warnings] == [
        ("kernel-fallback", Severity.WARNING, 0),
        ("kernel-fallback", Severity.WARNING, 2),
    ]
    assert found.warnings[0].message == (
        "box has no neg for f64: it runs on host, and its values are brought there and back"
    )


@pytest.mark.rule("runtime.checks.11")
@pytest.mark.parametrize(
    ("statement", "declared"),
    [
        ("op cast(x, to=f32) >> y;", "x: f64[2]; y: f32[2];"),
        ("op cast(x, to=i64) >> y;", "x: i32[2]; y: i64[2];"),
        ("op matmul(x, x) >> y;", "x: f64[2, 2]; y: f64[2, 2];"),
    ],
)
def test_one_such_type_among_inputs_and_outputs_is_enough(statement: str, declared: str) -> None:
    assert resolved(statement, declared).placed == {0: "host"}


def test_a_part_of_a_decomposition_takes_the_whole_operator_along() -> None:
    found = resolved("op dequantize_linear(x, s) >> y;", "x: i32[2]; s: f32; y: f32[2];")

    assert found.placed == {0: "host"}
    assert "box has no" in found.warnings[0].message
    assert "f64" in found.warnings[0].message


@pytest.mark.rule("runtime.devices.2")
@pytest.mark.parametrize(
    ("statement", "declared", "message"),
    [
        ("op neg(x) >> x;", "x: i8[2];", "box has no neg for i8"),
        (
            "op matmul(x, x) >> x;",
            "x: i32[2, 2];",
            "box has no matmul for i32[2,2], i32[2,2]: its kernels take other types or settings",
        ),
        (
            "op avg_pool2d(x, kernel=1) >> x;",
            "x: f64[1, 1, 2, 2];",
            (
                "box has no avg_pool2d for f64, and host, to which box leaves it, cannot run it either: "
                "host has no kernel for avg_pool2d, which has no expression or decomposition"
            ),
        ),
    ],
)
def test_other_missing_kernels_are_errors(statement: str, declared: str, message: str) -> None:
    (finding,) = findings(statement, declared)

    assert finding.code == "kernel-missing"
    assert finding.message == message


@pytest.mark.rule("runtime.devices.5")
def test_a_device_that_is_not_installed_cannot_be_fallen_back_to() -> None:
    alone = environment(device("box", NARROW, Fallback(device="host", dtypes=frozenset({"f64"}))))

    (finding,) = findings("op neg(x) >> x;", "x: f64[2];", on=alone)

    assert finding.code == "kernel-missing"
    assert finding.message == "box has no neg for f64, and no loaded plugin offers host, to which box leaves it"
    assert finding.hint is not None
    assert "install" in finding.hint


def test_falling_back_is_an_error_when_strict() -> None:
    (finding,) = findings("op neg(x) >> x;", "x: f64[2];", strict=True)

    assert finding.code == "kernel-fallback"


HINTED = 'op neg(x) >> x with { placement = "box" }; op neg(x) >> x; op neg(n) >> n with { placement = "none" };'


def test_hints_count_where_that_is_requested() -> None:
    found = resolved(HINTED, "x: f32[2]; n: f32[2];", main="host", placement=True)
    plain = resolved(HINTED, "x: f32[2]; n: f32[2];", main="host")

    assert found.placed == {0: "box", 2: "none"}
    assert plain.placed == {}


def test_the_innermost_hint_around_an_operator_counts() -> None:
    text = """volatile { x: f32[2]; }
    block entry with { placement = "box" } {
      op neg(x) >> x;
      loop a (i in 0..2) with { placement = "host" } {
        op neg(x) >> x;
        loop b (j in 0..2) { op neg(x) >> x; op abs(x) >> x with { placement = "box" }; }
      }
    }
    block other { op neg(x) >> x; }"""
    program = graph(text)
    found = resolve(program, Model.from_arrays({}), device="host", placement=True, environment=environment())

    ops = [node.index for _, node in program.nodes() if node.index in found.ops]
    assert [found.placed.get(index, "host") for index in sorted(ops)] == ["box", "host", "host", "box", "host"]


def test_an_operator_that_is_placed_on_a_device_without_it_falls_back_to_the_program_s_own() -> None:
    found = resolved('op neg(x) >> x with { placement = "box" };', "x: f64[2];", main="host", placement=True)

    assert found.placed == {}
    assert [each.code for each in found.warnings] == ["kernel-fallback"]


def test_a_number_after_the_name_of_a_device_changes_nothing() -> None:
    assert resolved("op neg(x) >> x;", "x: f64[2];", main="box:1").placed == {0: "host"}
    with pytest.raises(DeviceError, match="unknown device 'bix'"):
        resolved("op neg(x) >> x;", "x: f64[2];", main="bix:1")


def test_coverage_marks_cells_that_a_device_leaves_to_another() -> None:
    rows = {(row.target, row.dtype): row for row in coverage(environment(), ["neg"])}

    assert rows["box", "f32"].by == "expression"
    assert (rows["box", "f64"].by, rows["box", "f64"].reason) == ("fallback", "box has no neg for f64: it runs on host")
    assert (rows["box", "i8"].by, rows["host", "i8"].by) == ("missing", "expression")
    assert rows["host", "f64"].by == "expression"


def test_coverage_counts_a_cell_as_missing_that_the_other_device_does_not_support_either() -> None:
    alone = environment(device("box", NARROW, Fallback(device="host", dtypes=frozenset({"f64"}))))

    assert {row.by for row in coverage(alone, ["neg"]) if row.dtype == "f64" and row.target == "box"} == {"missing"}


@pytest.mark.parametrize(
    ("fallback", "wrong"),
    [
        ("cpu", "fallback is 'cpu', expected Fallback | None"),
        (Fallback(device="", dtypes=frozenset()), "device is '', expected an identifier"),
        (Fallback(device="cpu", dtypes={"f64"}), "dtypes is {'f64'}, expected frozenset[str]"),
    ],
)
def test_a_description_with_a_wrong_fallback_is_reported(fallback: Fallback, wrong: str) -> None:
    reported = misfit(DeviceSpec, device("box", NARROW, fallback))

    assert reported is not None
    assert wrong in reported


INSIDE = {"popcount": ("i16", "u16"), "relu": ("i32", "i64"), "mean_axis": ("i32", "i64"), "sigmoid": ("f16", "f32")}
"""Operators with an element type, and another one that only occurs within their expressions."""


def by_of(op: str, dtype: str, *devices: DeviceSpec) -> tuple[str, str]:
    """How the first of some devices carries an operator out, and why not."""
    rows = coverage(replace(environment(*devices), targets={}), [op])
    return next((row.by, row.reason) for row in rows if row.dtype == dtype and row.target == devices[0].name)


@pytest.mark.parametrize("op", INSIDE)
def test_types_within_an_expression_count(op: str) -> None:
    dtype, inner = INSIDE[op]
    every = frozenset(each.name for each in BUILTIN)
    incomplete, reason = device("box", every - {inner}), f"its expression computes in {inner}"
    optional = replace(incomplete, optional_dtypes=frozenset({inner}))
    able = by_of(op, dtype, device("box", every))[0]

    assert able in ("expression", "fold")
    assert by_of(op, dtype, incomplete) == ("missing", f"box has no {op} for {dtype}: {reason}")
    assert by_of(op, dtype, optional) == (able, "")
    assert by_of(op, dtype, device("box", None)) == (able, "")


def test_conditions_within_an_expression_are_free() -> None:
    narrow = device("box", frozenset({"f32"}))

    assert by_of("relu", "f32", narrow) == ("expression", "")
    assert by_of("is_nan", "f32", narrow) == ("missing", "box has no is_nan for bool")


def test_an_operator_falls_back_for_a_type_within_its_expression() -> None:
    left = Fallback(device="host", dtypes=frozenset({"i64"}))
    box, host = device("box", frozenset({"i32", "bool"}), left), device("host", None)

    found = resolved("op mean_axis(x, axes=[0]) >> y;", "x: i32[2]; y: i32;", on=environment(box, host))

    assert found.placed == {0: "host"}
    assert "box has no mean_axis for i32: its expression computes in i64" in found.warnings[0].message
    assert by_of("mean_axis", "i32", box, host)[0] == "fallback"


def test_none_leaves_every_type_to_the_other_device() -> None:
    box, host = device("box", frozenset(), Fallback(device="host")), device("host", None)

    rows = list(coverage(replace(environment(box, host), targets={}), ["relu"]))

    assert misfit(DeviceSpec, box) is None
    assert misfit(DeviceSpec, host) is None
    assert {row.by for row in rows if row.target == "box"} == {"fallback"}
    assert {row.by for row in rows if row.target == "host"} == {"expression"}
    assert len(rows) == 20
