"""Operator coverage: what carries out each operator with each element type on each device and synth target.

The answer comes from `selection.select`, asked with a small example call of the operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, I64, U64
from openinfer.errors import OpenInferError, PluginError
from openinfer.ir.types import TensorType
from openinfer.ops import examples
from openinfer.ops.calls import call_of
from openinfer.ops.schema import OpTypeError, Required, SettingType
from openinfer.plugins.selection import (
    Decomposed,
    DerivedExpression,
    DerivedFold,
    HandWritten,
    KernelTable,
    kernel_table,
    lacks,
    select,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import InputSpec, OpSchema, SettingSpec
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.types import DeviceSpec, Fallback, SynthTargetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How one operator runs with one element type in one place.

    Attributes:
        dtype: element type of the inputs that have no types of their own.
        place: ``"device"`` or ``"synth target"``.
        target: name of the device or synth target.
        by: ``"kernel"``, ``"expression"``, ``"fold"``, ``"decomposition"``; ``"fallback"`` where a device lacks it and
            leaves it to another; ``"missing"``, or ``"unknown"`` when no example call is known or the kernels cannot
            be listed.
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
        calls = {dtype.name: example_call(schema, dtype, environment.dtypes) for dtype in dtypes}
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
        return kernel_table(environment, spec.name, spec.expression_dtypes)
    except PluginError as error:
        return str(error)


def _covered(
    environment: Environment, place: _Place, devices: Mapping[str, _Place], call: OpCall | None
) -> tuple[str, str]:
    if isinstance(place.table, str):
        return "unknown", place.table
    if call is None:
        return "unknown", "no example call of this operator is known"
    try:
        return _found(environment, place, place.table, devices, call)
    except OpenInferError as error:
        return "unknown", str(error)


def _found(
    environment: Environment, place: _Place, table: KernelTable, devices: Mapping[str, _Place], call: OpCall
) -> tuple[str, str]:
    missing = list(lacks(environment, table, call))
    if missing:
        other = place.fallback and devices.get(place.fallback.device)
        left = place.fallback is not None and all(place.fallback.takes(lack.call) for lack in missing)
        reason = missing[0].reason
        if left and other and isinstance(other.table, KernelTable) and not any(lacks(environment, other.table, call)):
            return "fallback", f"{reason}: it runs on {other.name}"
        return "missing", reason
    found = select(environment, table, call)
    kinds = {HandWritten: "kernel", DerivedExpression: "expression", DerivedFold: "fold", Decomposed: "decomposition"}
    return next(name for kind, name in kinds.items() if isinstance(found, kind)), ""


def missing_reason(environment: Environment, table: KernelTable, call: OpCall) -> str | None:
    """Return why the target of ``table`` itself cannot carry out a call, looking into decompositions, or None."""
    return next((lack.reason for lack in lacks(environment, table, call)), None)


_SHAPES: tuple[tuple[int, ...], ...] = ((2, 2), (2, 2, 2, 2), (2, 2, 2), (2,), ())
"""Shapes of example inputs: all extents 2, so that what must agree does."""

_SETTINGS: Mapping[SettingType, tuple[SettingValue, ...]] = {
    SettingType.INT: (0, 1, 2),
    SettingType.FLOAT: (0.5,),
    SettingType.NUMBER: (1, 2),
    SettingType.SCALAR: (1, 0, 1.0, True),
    SettingType.BOOL: (False,),
    SettingType.STR: ("",),
    SettingType.DTYPE: (F32,),
    SettingType.INT_LIST: ((0,), (0, 1), (1, 0), (2, 2), (4,), (0, 1, 2, 3)),
    SettingType.INT_OR_LIST: (1, (0,), (1, 1)),
    SettingType.FLOAT_OR_LIST: (1.0,),
    SettingType.PADDING: (0,),
    SettingType.ACC: (F32,),
}
"""Values to try for a setting without default."""


def example_call(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> OpCall | None:
    """Return a small legal call with ``dtype`` for the inputs without types of their own, or None if none is found.

    It is the operator's first example for that type; where it has none, one is looked for.
    """
    for example in schema.examples:
        if example.dtypes is None or dtype.name in example.dtypes:
            return examples.example_call(schema, example, dtype, dtypes)
    return _found_call(schema, dtype, dtypes)


def _found_call(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> OpCall | None:
    """Return a legal call found by trying shapes and settings, or None.

    Optional inputs are left out, and settings with defaults keep them, but for ``acc`` where an operator needs it.
    """
    types = [_input_type(spec, dtype, dtypes) for spec in schema.inputs]
    for shape, settings in product(_SHAPES, _settings(schema)):
        inputs = [None if element is None else TensorType(element, shape) for element in types]
        # An operator whose output type is the caller's choice reads it from the declaration of the output.
        for declared in ((), (TensorType(dtype, shape),)):
            try:
                return call_of(schema, inputs, settings, declared)
            except OpTypeError:
                continue
    return None


def _settings(schema: OpSchema) -> list[dict[str, SettingValue]]:
    """Return settings to try: values for those without default, with and without a wide accumulator."""
    required = [spec for spec in schema.settings if isinstance(spec.default, Required)]
    names = [spec.name for spec in required]
    filled = [dict(zip(names, values, strict=True)) for values in product(*(_values(spec) for spec in required))]
    accs = [spec.name for spec in schema.settings if spec.type is SettingType.ACC and spec not in required]
    return [*filled, *({**one, name: wide} for name, wide, one in product(accs, (I64, U64), filled))]


def _input_type(spec: InputSpec, dtype: DType, dtypes: Mapping[str, DType]) -> DType | None:
    if spec.optional:
        return None
    if spec.dtypes is None or dtype.name in spec.dtypes:
        return dtype
    return next((found for name, found in dtypes.items() if name in spec.dtypes), dtype)


def _values(spec: SettingSpec) -> tuple[SettingValue, ...]:
    return spec.choices or _SETTINGS[spec.type]
