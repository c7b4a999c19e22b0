"""Operator coverage: what carries out each operator with each element type on each device and synth target.

The answer comes from `selection.select`, asked with a small example call of the operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from openinfer.errors import OpenInferError, PluginError
from openinfer.ops.small_calls import small_call
from openinfer.plugins.selection import (
    Computed,
    Decomposed,
    DerivedExpression,
    DerivedFold,
    HandWritten,
    KernelTable,
    Looped,
    choose,
    kernel_table,
    missing_kernels,
    select,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.types import DeviceSpec, Fallback, SynthTargetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How one operator runs with one element type in one place.

    Attributes:
        dtype: element type of the inputs that have no types of their own.
        place: ``"device"`` or ``"synth target"``.
        target: name of the device or synth target.
        by: ``"kernel"``, ``"expression"``, ``"fold"``, ``"decomposition"``, ``"computation"``, ``"loops"``;
            ``"fallback"`` where a device leaves it to another; ``"missing"``, or ``"unknown"`` when
            no example call is known or the kernels cannot be listed.
        reason: why it is missing or unknown, or left to another device, and which.
    """

    op: str
    dtype: str
    place: str
    target: str
    by: str
    reason: str = ""


def coverage(environment: Environment, ops: Iterable[str] | None = None) -> Iterator[Coverage]:
    """Yield the coverage of operators (all of them by default) by operator, target and element type, in this order.

    Raises:
        OpenInferError: ``unknown-op``.
    """
    devices = {
        spec.name: _Place("device", spec.name, _table(environment, spec), spec.fallback)
        for _, spec in sorted(environment.devices.items())
    }
    targets = [
        _Place("synth target", spec.name, _table(environment, spec)) for _, spec in sorted(environment.targets.items())
    ]
    for name in sorted(environment.ops) if ops is None else ops:
        schema = environment.op(name)
        dtypes = [dtype for dtype in environment.dtypes.values() if dtype.name in schema.dtypes]
        calls = {dtype.name: _call_or_reason(schema, dtype, environment.dtypes) for dtype in dtypes}
        for place in (*devices.values(), *targets):
            for dtype, call in calls.items():
                by, reason = _covered(environment, place, devices, call)
                yield Coverage(op=schema.name, dtype=dtype, place=place.kind, target=place.name, by=by, reason=reason)


@dataclass(frozen=True, slots=True)
class _Place:
    """A device or synth target; ``table`` is why its kernels cannot be listed, where that is so."""

    kind: str
    name: str
    table: KernelTable | str
    fallback: Fallback | None = None


def _table(environment: Environment, spec: DeviceSpec | SynthTargetSpec) -> KernelTable | str:
    try:
        return kernel_table(environment, spec)
    except PluginError as error:
        return str(error)


def _call_or_reason(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> OpCall | str:
    """Return a small legal call, or why none is known."""
    try:
        return small_call(schema, dtype, dtypes) or "no example call of this operator is known"
    except OpenInferError as error:
        return str(error)


def _covered(
    environment: Environment, place: _Place, devices: Mapping[str, _Place], call: OpCall | str
) -> tuple[str, str]:
    if isinstance(place.table, str):
        return "unknown", place.table
    if isinstance(call, str):
        return "unknown", call
    try:
        return _found(environment, place, place.table, devices, call)
    except OpenInferError as error:
        return "unknown", str(error)


def _found(
    environment: Environment, place: _Place, table: KernelTable, devices: Mapping[str, _Place], call: OpCall
) -> tuple[str, str]:
    choice = choose(call, partial(select, environment, table))
    missing = list(choice.missing())
    if missing:
        reason = missing[0].reason
        other = place.fallback and devices.get(place.fallback.device)
        if place.fallback is None or not other or not isinstance(other.table, KernelTable):
            return "missing", reason
        taken = all(each.is_taken_by(place.fallback) for each in missing)
        if taken and not any(missing_kernels(environment, other.table, call)):
            return "fallback", f"{reason}: it runs on {other.name}"
        return "missing", reason
    kinds = {
        HandWritten: "kernel",
        DerivedExpression: "expression",
        DerivedFold: "fold",
        Decomposed: "decomposition",
        Computed: "computation",
        Looped: "loops",
    }
    return next(name for kind, name in kinds.items() if isinstance(choice.chosen, kind)), ""


def missing_reason(environment: Environment, table: KernelTable, call: OpCall) -> str | None:
    """Return why the target of ``table`` itself cannot carry out a call, looking into decompositions, or None."""
    return next((each.reason for each in missing_kernels(environment, table, call)), None)
