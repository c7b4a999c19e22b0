"""The conformance kit tries elements that an operator has no result for: a device that lets one pass fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openinfer.builtin import openinfer_ops
from openinfer.errors import DeviceError, OpenInferError
from openinfer.ops.schema import Elementwise
from openinfer.plugins.environment import Environment
from openinfer.testing.cases import cases
from openinfer.testing.checks import check_operator
from openinfer.testing.oracle import known, known_oracles
from openinfer.testing.places import Place, device_place, target_place
from openinfer.testing.refused import RefusedCase, refused_case

ENVIRONMENT = Environment.default()

CPU = device_place("cpu", ENVIRONMENT)

KERNELS = "openinfer_backend_cpu"


def failures(op: str, dtype: str, place: Place = CPU) -> tuple[str, ...]:
    schema = replace(ENVIRONMENT.op(op), dtypes=frozenset({dtype}))
    return check_operator(schema, known_oracles()[op], place, ENVIRONMENT, every=8)[dtype].failures


def tried(op: str, dtype: str) -> list[RefusedCase]:
    found = cases(ENVIRONMENT.op(op), ENVIRONMENT.dtypes[dtype], ENVIRONMENT.dtypes)
    return [refused for case in found if (refused := refused_case(case))]


def clipped(indices: Any, extent: int, what: str, workspace: Any, *, negative: bool = True) -> Any:
    """Take the nearest place for an index that is none."""
    del what
    found = workspace.take(indices.shape, np.dtype(np.int64))

    def run() -> None:
        below = np.minimum(indices, extent - 1).astype(np.int64)
        np.copyto(found, np.maximum(below, -extent if negative else 0) % max(extent, 1))

    return found, run


def unchecked(*_: object) -> None:
    """Accept every result."""


@pytest.mark.parametrize(
    ("op", "dtype", "part", "mutated"),
    [
        ("gather", "f32", "kernels.indexing.places", clipped),
        ("embedding", "u4", "kernels.indexing.places", clipped),
        ("gather_elements", "i8", "targets.places", clipped),
        ("gather_nd", "f16", "targets.places", clipped),
        ("scatter", "f32", "targets.places", clipped),
        ("scatter_nd", "i64", "targets.places", clipped),
        ("rope_cached", "f32", "kernels.rotary.places", clipped),
        ("pow", "i32", "kernels.power._check", unchecked),
        ("cast", "f32", "kernels.conversion._check", unchecked),
    ],
)
def test_a_kernel_that_lets_an_element_pass_fails(
    monkeypatch: pytest.MonkeyPatch, op: str, dtype: str, part: str, mutated: Callable[..., Any]
) -> None:
    assert not failures(op, dtype)

    monkeypatch.setattr(f"{KERNELS}.{part}", mutated)

    found = failures(op, dtype)
    assert found
    assert all(line.endswith(", expected the error out-of-range") for line in found)


def test_a_schema_that_refuses_no_element_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cast = ENVIRONMENT.op("cast")
    assert isinstance(cast.definition, Elementwise)
    lenient = replace(cast, definition=replace(cast.definition, refusal=None))
    environment = replace(ENVIRONMENT, ops={**ENVIRONMENT.ops, "cast": lenient})
    monkeypatch.setattr(f"{KERNELS}.kernels.conversion.refused_expression", unchecked)

    found = check_operator(lenient, known_oracles()["cast"], device_place("cpu", environment), environment, every=100)

    (line,) = found["i8"].failures
    assert line.startswith("cast(i8[")
    assert line.endswith("with 0.0 at place -1 of input 0: no error, expected the error out-of-range")


def test_refused_elements_are_errors_without_a_kernel_too() -> None:
    def refuse(given: Sequence[RefusedCase]) -> list[list[OpenInferError | None]]:
        return [[None for _ in refused.elements] for refused in given]

    assert failures("pow", "i32", replace(CPU, refuse=refuse))
    assert failures("pow", "i32", replace(CPU, refuse=refuse, table=replace(CPU.table, kernels={})))


def test_another_error_is_not_the_one_that_is_required() -> None:
    def refuse(given: Sequence[RefusedCase]) -> list[list[OpenInferError | None]]:
        return [[DeviceError("the shaft is jammed") for _ in refused.elements] for refused in given]

    line, *_ = failures("pow", "i8", replace(CPU, refuse=refuse))

    assert line.endswith("(device): the shaft is jammed, expected the error out-of-range")


def test_an_error_without_such_an_element_stays_with_its_case() -> None:
    assert CPU.refuse is not None
    first, *others = tried("gather", "f32")

    def refuse(given: Sequence[RefusedCase]) -> list[list[OpenInferError | None]]:
        if any(refused.case.call == first.case.call for refused in given):
            raise DeviceError("the shaft is jammed")
        assert CPU.refuse is not None
        return CPU.refuse(given)

    assert others
    assert failures("gather", "f32", replace(CPU, refuse=refuse)) == (f"{first}: DeviceError: the shaft is jammed",)


@pytest.mark.parametrize("device", ["cpu", "c"])
def test_every_element_is_refused(device: str) -> None:
    place = device_place(device, ENVIRONMENT)
    assert place.refuse is not None
    listed = [tried(op, "f32" if op == "cast" else "i32")[0] for op in known("REFUSED") if op != "rope_cached"]

    found = place.refuse([*listed, tried("rope_cached", "f32")[0]])

    assert {error and error.code for errors in found for error in errors} == {"out-of-range"}


@pytest.mark.parametrize(
    ("op", "dtype", "values"),
    [
        ("gather", "f32", {(1, 5), (1, -6)}),
        ("embedding", "f32", {(0, 7), (0, -1)}),
        ("rope_cached", "f32", {(3, 9), (3, -10)}),
        ("pow", "i8", {(1, -1), (1, -128)}),
        ("pow", "u8", set[tuple[int, int]]()),
        ("pow", "f32", set[tuple[int, int]]()),
        ("cast", "u8", {(0, 0)}),
        ("cast", "t1", set[tuple[int, int]]()),
    ],
)
def test_refused_elements_are_next_to_legal_ones(op: str, dtype: str, values: set[tuple[int, int]]) -> None:
    found = tried(op, dtype)

    assert {(element.input, element.value) for refused in found[:1] for element in refused.elements} == values


def test_every_dim_that_a_tuple_names_is_passed() -> None:
    (refused, *_) = tried("gather_nd", "f32")

    assert [(element.place, element.value) for element in refused.elements] == [(-2, 5), (-2, -6), (-1, 7), (-1, -8)]


def test_results_without_elements_refuse_nothing() -> None:
    assert all(made.count for op in known("REFUSED") for each in tried(op, "f32") for made in each.case.call.outputs)


def test_targets_are_not_tested() -> None:
    assert target_place("c", ENVIRONMENT).refuse is None


def test_what_is_refused_is_of_known_operators() -> None:
    assert set(known("REFUSED")) <= {schema.name for schema in openinfer_ops()}


def test_operators_that_say_so_in_their_schema_have_such_elements() -> None:
    said = {s.name for s in openinfer_ops() if isinstance(s.definition, Elementwise) and s.definition.refusal}

    assert said <= set(known("REFUSED"))
