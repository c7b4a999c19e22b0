"""Every operator with every element type, in every mode, against its oracle."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from openinfer.builtin import openinfer_ops
from openinfer.ops.schema import Primitive
from openinfer.plugins.environment import Environment
from openinfer.testing.checks import check_operator
from openinfer.testing.oracle import oracle_of
from openinfer.testing.places import device_place, target_place
from openinfer.testing.pytest_plugin import CASES_ON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ops.schema import OpSchema
    from openinfer.testing.checks import Cell


@cache
def built_in() -> frozenset[str]:
    """Return the operators of OpenInfer itself, for which the kit has oracles."""
    return frozenset(schema.name for schema in openinfer_ops())


def incomparable(schema: OpSchema, environment: Environment) -> str:
    """Return why nothing is known that results of an operator could be compared with; an empty string where it is."""
    if oracle_of(schema) is not None:
        return ""
    if isinstance(schema.definition, Primitive):
        return f"no oracle is known for {schema.name}, which has kernels only: give its schema one"
    return "" if "cpu" in environment.devices else f"no oracle is known for {schema.name}, and there is no device cpu"


@cache
def checked(kind: str, place: str, op: str, every: int) -> Mapping[str, Cell]:
    """Return what came of an operator: its types run in the same programs."""
    environment = Environment.default()
    found = device_place(place, environment) if kind == "device" else target_place(place, environment)
    schema = environment.op(op)
    return check_operator(schema, oracle_of(schema), found, environment, every=every)


def test_an_operator_computes_what_the_specification_says(
    openinfer_cell: tuple[str, str, str, str], request: pytest.FixtureRequest
) -> None:
    kind, place, op, dtype = openinfer_cell
    environment = Environment.default()
    unknown = incomparable(environment.op(op), environment)
    if unknown:
        (pytest.fail if op in built_in() else pytest.skip)(unknown)
    cell = checked(kind, place, op, request.config.getoption("--openinfer-sample"))[dtype]
    request.node.user_properties.append((f"{CASES_ON}{kind} {place}", cell.ran))
    if cell.missing and request.config.getoption("--openinfer-allow-missing"):
        if not cell.ran:
            pytest.skip(f"{kind} {place}: {cell.missing}")
    elif cell.missing:
        pytest.fail(f"{kind} {place} does not support some cases: {cell.missing}")
    if not cell.ran and not cell.failures:
        (pytest.fail if op in built_in() else pytest.skip)(
            f"no case of {op} for {dtype} is known: give its schema examples"
        )
    if cell.failures:
        shown = "\n".join(cell.failures[:10])
        pytest.fail(f"{len(cell.failures)} failures in {cell.ran} cases:\n{shown}")
