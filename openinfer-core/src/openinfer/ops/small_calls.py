"""A small legal call of any operator, from its examples or found by trying."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, I64, U64
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.examples import example_call
from openinfer.ops.schema import OpTypeError, Required, SettingType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import InputSpec, OpSchema, SettingSpec

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


def small_call(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> OpCall | None:
    """Return a small legal call with ``dtype`` for the inputs without types of their own, or None if none is found.

    It is the operator's first example for that type; where it has none, one is looked for.
    """
    for example in schema.examples:
        if example.dtypes is None or dtype.name in example.dtypes:
            return example_call(schema, example, dtype, dtypes)
    return _found_call(schema, dtype, dtypes)


def _found_call(schema: OpSchema, dtype: DType, dtypes: Mapping[str, DType]) -> OpCall | None:
    """Search for a legal call by trying shapes and settings; return it or None.

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
