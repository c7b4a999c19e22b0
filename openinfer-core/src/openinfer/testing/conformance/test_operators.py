"""Every operator with every element type, in every mode, against its oracle."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from openinfer.plugin import openinfer_ops
from openinfer.plugins.environment import Environment
from openinfer.testing.checks import check_operator
from openinfer.testing.oracle import known_oracles
from openinfer.testing.places import device_place, target_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.testing.checks import Cell


@cache
def built_in() -> frozenset[str]:
    """Return the operators of OpenInfer itself; those of plugins have no oracles."""
    return frozenset(schema.name for schema in openinfer_ops())


@cache
def checked(kind: str, place: str, op: str, every: int) -> Mapping[str, Cell]:
    """Return what came of an operator: its types run in the same programs."""
    environment = Environment.default()
    found = device_place(place, environment) if kind == "device" else target_place(place, environment)
    return check_operator(environment.op(op), known_oracles()[op], found, environment, every=every)


def test_an_operator_computes_what_the_specification_says(
    openinfer_cell: tuple[str, str, str, str], request: pytest.FixtureRequest
) -> None:
    kind, place, op, dtype = openinfer_cell
    if op not in known_oracles():
        (pytest.fail if op in built_in() else pytest.skip)(f"no oracle is known for {op}")
    cell = checked(kind, place, op, request.config.getoption("--openinfer-sample"))[dtype]
    if cell.missing and request.config.getoption("--openinfer-allow-missing"):
        if not cell.ran:
            pytest.skip(f"{kind} {place}: {cell.missing}")
    elif cell.missing:
        pytest.fail(f"{kind} {place} has nothing for some cases: {cell.missing}")
    if not cell.ran and not cell.failures:
        pytest.fail(f"no case of {op} for {dtype} is known: give its schema examples")
    if cell.failures:
        shown = "\n".join(cell.failures[:10])
        pytest.fail(f"{len(cell.failures)} failures in {cell.ran} cases:\n{shown}")
