"""One operator compared with its oracle in one place: what the conformance tests assert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from openinfer.errors import FeatureMissingError, OpenInferError
from openinfer.ops.calls import compute_type
from openinfer.ops.schema import OpTypeError
from openinfer.plugins.coverage import missing_reason
from openinfer.testing.cases import cases, sampled
from openinfer.testing.comparing import mismatch
from openinfer.testing.expectation import Expected, expected_of
from openinfer.testing.moving import differing_codes, moved_codes
from openinfer.testing.places import reference_place
from openinfer.testing.precision import tolerance_of
from openinfer.testing.refused import refused_case
from openinfer.testing.result_types import mistyped
from openinfer.testing.values import exact, types_of_language

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.testing.cases import Case
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.places import Place
    from openinfer.testing.refused import RefusedCase
    from openinfer.testing.values import Array

    Outcome: TypeAlias = "list[Array] | Skipped | str"
    """Outputs of a case, why the hardware cannot run it, or the error that it ended with."""

Tried = TypeVar("Tried")
Found = TypeVar("Found")

LONGEST_PROGRAM = 256
"""Cases in one program: compilers of large functions, and planning of memory, take more than proportional time."""

LONGEST_REFUSED = 32
"""Cases in one program that is run once for each element that has no result."""

MISSING = "kernel-missing"
"""Code of the error of a program with an operator that the place does not support."""

REFUSED = "out-of-range"
"""Code of the error that such an element ends a step with."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Why a place cannot run a case: an optional feature or a function that the hardware does not have."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What came of one operator with one element type.

    Attributes:
        ran: number of cases that ran.
        missing: why the place does not support some cases, or an empty string.
        failures: what was wrong, a line each.
    """

    ran: int
    missing: str
    failures: tuple[str, ...]


def check_operator(
    schema: OpSchema, oracle: Oracle | None, place: Place, environment: Environment, *, every: int = 1
) -> Mapping[str, Cell]:
    """Run an operator with every element type on a device or target; return what came of each, by the type's name.

    Without an oracle, results are compared with those of the operator's definition on the device cpu. About one case in
    ``every`` is run, and at least one of every type.

    Raises:
        DeviceError: there is no oracle, and no device cpu.
    """
    drafts: dict[str, _Draft] = {}
    untried: dict[str, Cell] = {}
    types = types_of_language(environment.dtypes)
    for dtype in types.values():
        if dtype.name not in schema.dtypes:
            continue
        try:
            found = cases(schema, dtype, types)
        except OpTypeError as error:
            untried[dtype.name] = Cell(ran=0, missing="", failures=(str(error),))
        else:
            drafts[dtype.name] = _split(found, place, environment, every)
    outcomes, errors = _run(drafts, place), _refuse(drafts, place)
    wanted = None if oracle is not None else _run(drafts, reference_place(schema, environment))

    def judge(name: str, number: int, found: Sequence[Array]) -> list[str]:
        case = drafts[name].cases[number]
        if oracle is not None:
            return wrong(schema, oracle, case, found)
        return [] if wanted is None else unlike(schema, case, wanted[name][number], found)

    return untried | {
        name: _judged(draft, outcomes[name], errors[name], partial(judge, name)) for name, draft in drafts.items()
    }


@dataclass(frozen=True, slots=True)
class _Draft:
    cases: tuple[Case, ...]
    refused: tuple[RefusedCase, ...]
    missing: str
    failures: tuple[str, ...]


def _split(found: Sequence[Case], place: Place, environment: Environment, every: int) -> _Draft:
    """Return the cases that can run, why others cannot, and those whose results the schema gives wrong types."""
    chosen = sampled(found, every)
    lines = [mistyped(case) for case in chosen]
    typed = [case for case, line in zip(chosen, lines, strict=True) if line is None]
    reasons = [missing_reason(environment, place.table, case.call) for case in typed]
    return _Draft(
        cases=tuple(case for case, reason in zip(typed, reasons, strict=True) if reason is None),
        refused=_refused(found, place, environment, every),
        missing=next((reason for reason in reasons if reason is not None), ""),
        failures=tuple(line for line in lines if line is not None),
    )


def _refused(found: Sequence[Case], place: Place, environment: Environment, every: int) -> tuple[RefusedCase, ...]:
    """Return the cases with elements that have no result, as far as the place has something for them."""
    if place.refuse is None:
        return ()
    listed = [case for case in found if refused_case(case) and mistyped(case) is None]
    able = [case for case in listed if missing_reason(environment, place.table, case.call) is None]
    return tuple(each for case in sampled(able, every) if (each := refused_case(case)))


def _run(drafts: Mapping[str, _Draft], place: Place) -> dict[str, list[Outcome]]:
    """Run all types together, in programs of bounded length; return what came of each case, by type."""
    cases = [(name, number, case) for name, draft in drafts.items() for number, case in enumerate(draft.cases)]
    found: dict[str, list[Outcome]] = {name: [""] * len(draft.cases) for name, draft in drafts.items()}
    # A device may run a program whole or node by node: it is the latter where somebody reads an input afterwards.
    for in_place in (False, True):
        alike = [entry for entry in cases if (entry[2].target is not None) is in_place]
        for start in range(0, len(alike), LONGEST_PROGRAM):
            program = alike[start : start + LONGEST_PROGRAM]
            outcomes = _outcomes([case for _, _, case in program], place.run)
            for (name, number, _), outcome in zip(program, outcomes, strict=True):
                found[name][number] = outcome
    return found


def _refuse(drafts: Mapping[str, _Draft], place: Place) -> dict[str, list[Skipped | str]]:
    """Run all types together with elements that have no result; return what is wrong or cannot be run, by type."""
    found: dict[str, list[Skipped | str]] = {name: [] for name in drafts}
    if place.refuse is None:
        return found
    listed = [(name, refused) for name, draft in drafts.items() for refused in draft.refused]
    for start in range(0, len(listed), LONGEST_REFUSED):
        program = listed[start : start + LONGEST_REFUSED]
        outcomes = _outcomes([refused for _, refused in program], place.refuse)
        for (name, refused), outcome in zip(program, outcomes, strict=True):
            found[name] += [outcome] if isinstance(outcome, str | Skipped) else unrefused(refused, outcome)
    return found


def _outcomes(given: Sequence[Tried], run: Callable[[Sequence[Tried]], Sequence[Found]]) -> list[Found | Skipped | str]:
    """Run cases as a program; one that fails is halved, so that an error stays with the case that it comes from."""
    try:
        return list(run(given))
    except OpenInferError as error:
        if len(given) == 1 and (isinstance(error, FeatureMissingError) or error.code == MISSING):
            return [Skipped(str(error))]
        if len(given) == 1:
            return [f"{given[0]}: {type(error).__name__}: {error}"]
    half = len(given) // 2
    return [*_outcomes(given[:half], run), *_outcomes(given[half:], run)]


def _judged(
    draft: _Draft,
    found: Sequence[Outcome],
    refusals: Sequence[Skipped | str],
    judge: Callable[[int, Any], list[str]],
) -> Cell:
    failures = [*draft.failures]
    for number, outcome in enumerate(found):
        if not isinstance(outcome, Skipped):
            failures += [outcome] if isinstance(outcome, str) else judge(number, outcome)
    failures += [line for line in refusals if not isinstance(line, Skipped)]
    reasons = [each.reason for each in (*found, *refusals) if isinstance(each, Skipped)]
    ran = len(draft.cases) + len(draft.refused) - len(reasons)
    return Cell(ran=ran, missing=draft.missing or next(iter(reasons), ""), failures=tuple(failures))


def unrefused(refused: RefusedCase, errors: Sequence[OpenInferError | None]) -> list[str]:
    """Return what is wrong with the errors of a case, a line for each element that did not cause the right one."""
    return [
        f"{refused} with {element}: {_described(error)}, expected the error {REFUSED}"
        for element, error in zip(refused.elements, errors, strict=True)
        if error is None or error.code != REFUSED
    ]


def _described(error: OpenInferError | None) -> str:
    return "no error" if error is None else f"{type(error).__name__} ({error.code}): {error}"


def wrong(schema: OpSchema, oracle: Oracle, case: Case, found: Sequence[Array]) -> list[str]:
    """Return what is wrong with the outputs of a case, a line for each output that is not what its oracle says."""
    codes = moved_codes(schema, oracle, case)
    if codes is not None:
        lines = [differing_codes(want, got) for want, got in zip(codes, found, strict=True)]
        return [f"{case}: {line}" for line in lines if line is not None]
    with np.errstate(all="ignore"):
        inputs = _exact_inputs(case)
        expected = expected_of(oracle, inputs, _rounded(case.call))
        tolerance = tolerance_of(schema, case.call, inputs, [output.values for output in expected])
    lines = [
        mismatch(want, got, out.dtype, tolerance)
        for want, got, out in zip(expected, found, case.call.outputs, strict=True)
    ]
    return [f"{case}: {line}" for line in lines if line is not None]


def unlike(schema: OpSchema, case: Case, reference: Outcome, found: Sequence[Array]) -> list[str]:
    """Return what is wrong with the outputs of a case, a line for each that is unlike that of the reference.

    Both may be off, so that functions of a library may differ by twice the tolerance.
    """
    if isinstance(reference, str | Skipped):
        reason = reference if isinstance(reference, str) else reference.reason
        return [f"nothing to compare with, the definition fails on cpu: {reason}"]
    outputs = [out.dtype for out in case.call.outputs]
    expected = [exact(array, dtype) for array, dtype in zip(reference, outputs, strict=True)]
    with np.errstate(all="ignore"):
        tolerance = tolerance_of(schema, case.call, _exact_inputs(case), expected)
    lines = [
        mismatch(Expected(tuple(want.shape), want), got, dtype, replace(tolerance, ulps=2 * tolerance.ulps))
        for want, got, dtype in zip(expected, found, outputs, strict=True)
    ]
    return [f"{case}: {line}" for line in lines if line is not None]


def _exact_inputs(case: Case) -> list[Exact | None]:
    return [
        None if array is None or given is None else exact(array, given.dtype)
        for array, given in zip(case.inputs(), case.call.inputs, strict=True)
    ]


def _rounded(call: OpCall) -> OpCall:
    """Return the call with floats among its settings rounded to the type that the operator computes in."""
    types = [given.dtype for given in (*call.inputs, *call.outputs) if given is not None and given.dtype.is_float]
    if not types or compute_type(types[0]).bits == 64:
        return call
    settings = {n: float(np.float32(v)) if isinstance(v, float) else v for n, v in call.settings.items()}
    return replace(call, settings=settings)
