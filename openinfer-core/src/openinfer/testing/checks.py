"""One operator held against its oracle in one place: what the conformance tests assert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.errors import OpenInferError
from openinfer.ops.calls import compute_type
from openinfer.ops.schema import OpTypeError
from openinfer.plugins.coverage import missing_reason
from openinfer.testing.cases import cases, sampled
from openinfer.testing.comparing import mismatch
from openinfer.testing.expectation import expected_of
from openinfer.testing.moving import differing_codes, moved_codes
from openinfer.testing.precision import tolerance_of
from openinfer.testing.result_types import mistyped
from openinfer.testing.values import exact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable
    from openinfer.testing.cases import Case
    from openinfer.testing.oracle import Oracle
    from openinfer.testing.places import Place
    from openinfer.testing.values import Array

    Outcome: TypeAlias = "list[Array] | str"
    """Outputs of a case, or the error that it ended with."""

LONGEST_PROGRAM = 256
"""Cases in one program: compilers of large functions, and planning of memory, take more than proportional time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What came of one operator with one element type.

    Attributes:
        ran: number of cases that ran.
        missing: why the place has nothing for some cases, or an empty string.
        failures: what was wrong, a line each.
    """

    ran: int
    missing: str
    failures: tuple[str, ...]


def check_operator(
    schema: OpSchema, oracle: Oracle, place: Place, environment: Environment, *, every: int = 1
) -> Mapping[str, Cell]:
    """Run an operator with every element type on a device or target; return what came of each, by the type's name.

    About one case in ``every`` is run, and at least one of every type.
    """
    drafts: dict[str, _Draft] = {}
    refused: dict[str, Cell] = {}
    for dtype in environment.dtypes.values():
        if dtype.name not in schema.dtypes:
            continue
        try:
            chosen = sampled(cases(schema, dtype, environment.dtypes), every)
        except OpTypeError as error:
            refused[dtype.name] = Cell(ran=0, missing="", failures=(str(error),))
        else:
            drafts[dtype.name] = _split(chosen, place.table, environment)
    found = _run(drafts, place)
    return refused | {name: _judged(schema, oracle, drafts[name], found[name]) for name in drafts}


@dataclass(frozen=True, slots=True)
class _Draft:
    cases: tuple[Case, ...]
    missing: str
    failures: tuple[str, ...]


def _split(found: Sequence[Case], table: KernelTable, environment: Environment) -> _Draft:
    """Return the cases that can run, why others cannot, and those whose results the schema gives wrong types."""
    lines = [mistyped(case) for case in found]
    typed = [case for case, line in zip(found, lines, strict=True) if line is None]
    reasons = [missing_reason(environment, table, case.call) for case in typed]
    able = tuple(case for case, reason in zip(typed, reasons, strict=True) if reason is None)
    missing = next((reason for reason in reasons if reason is not None), "")
    return _Draft(able, missing, tuple(line for line in lines if line is not None))


def _run(drafts: Mapping[str, _Draft], place: Place) -> dict[str, list[Outcome]]:
    """Run all types together, in programs of bounded length; return what came of each case, by type."""
    cases = [(name, number, case) for name, draft in drafts.items() for number, case in enumerate(draft.cases)]
    found: dict[str, list[Outcome]] = {name: [""] * len(draft.cases) for name, draft in drafts.items()}
    # A device may run a program whole or node by node: it is the latter where somebody looks at an input afterwards.
    for in_place in (False, True):
        alike = [entry for entry in cases if (entry[2].target is not None) is in_place]
        for start in range(0, len(alike), LONGEST_PROGRAM):
            program = alike[start : start + LONGEST_PROGRAM]
            outcomes = _outcomes([case for _, _, case in program], place)
            for (name, number, _), outcome in zip(program, outcomes, strict=True):
                found[name][number] = outcome
    return found


def _outcomes(cases: Sequence[Case], place: Place) -> list[Outcome]:
    """Run cases as a program; one that fails is halved, so that an error stays with the case that it comes from."""
    try:
        return list(place.run(cases))
    except OpenInferError as error:
        if len(cases) == 1:
            return [f"{cases[0]}: {type(error).__name__}: {error}"]
    half = len(cases) // 2
    return [*_outcomes(cases[:half], place), *_outcomes(cases[half:], place)]


def _judged(schema: OpSchema, oracle: Oracle, draft: _Draft, found: Sequence[Outcome]) -> Cell:
    failures = [*draft.failures]
    for case, outcome in zip(draft.cases, found, strict=True):
        failures += [outcome] if isinstance(outcome, str) else wrong(schema, oracle, case, outcome)
    return Cell(ran=len(draft.cases), missing=draft.missing, failures=tuple(failures))


def wrong(schema: OpSchema, oracle: Oracle, case: Case, found: Sequence[Array]) -> list[str]:
    """Return what is wrong with the outputs of a case, a line for each output that is not what its oracle says."""
    codes = moved_codes(schema, oracle, case)
    if codes is not None:
        lines = [differing_codes(want, got) for want, got in zip(codes, found, strict=True)]
        return [f"{case}: {line}" for line in lines if line is not None]
    with np.errstate(all="ignore"):
        inputs = [
            None if array is None or given is None else exact(array, given.dtype)
            for array, given in zip(case.inputs(), case.call.inputs, strict=True)
        ]
        expected = expected_of(oracle, inputs, _rounded(case.call))
        tolerance = tolerance_of(schema, case.call, inputs, [output.values for output in expected])
    lines = [
        mismatch(want, got, out.dtype, tolerance)
        for want, got, out in zip(expected, found, case.call.outputs, strict=True)
    ]
    return [f"{case}: {line}" for line in lines if line is not None]


def _rounded(call: OpCall) -> OpCall:
    """Return the call with floats among its settings rounded to the type that the operator computes in."""
    types = [given.dtype for given in (*call.inputs, *call.outputs) if given is not None and given.dtype.is_float]
    if not types or compute_type(types[0]).bits == 64:
        return call
    settings = {n: float(np.float32(v)) if isinstance(v, float) else v for n, v in call.settings.items()}
    return replace(call, settings=settings)
