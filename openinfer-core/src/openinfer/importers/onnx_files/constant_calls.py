"""Calls whose operands are all known, evaluated as the operators are defined.

A constant is then what the running program would have computed, whoever wrote the model's own definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from openinfer.compute.evaluate import RefusedError
from openinfer.importers.onnx_files.elements import stored_form
from openinfer.importers.onnx_files.values import Call, Value
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.evaluation import NotEvaluatedError, evaluate_call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.importers.onnx_files.source import Array
    from openinfer.ir.resolved import SettingValue
    from openinfer.plugins.environment import Environment


def evaluated(
    calls: Sequence[Call], results: Sequence[Value | None], environment: Environment
) -> list[Array | None] | None:
    """Return the elements of results that calls compute of known values, in storage form; None: the program does.

    Calls are left to the program where they count rows, refuse their operands, or take long.
    """
    arrays: dict[int, Array] = {}
    try:
        with np.errstate(all="ignore"):
            for call in calls:
                made = _results(call, arrays, environment)
                arrays.update((id(value), array) for value, array in zip(call.outputs, made, strict=True))
        return [None if value is None else _elements(value, arrays) for value in results]
    except (NotEvaluatedError, RefusedError):
        return None


def _elements(value: Value, arrays: Mapping[int, Array]) -> Array:
    array = arrays.get(id(value))
    if array is not None and array.shape == value.shape:
        return array
    if value.payload is None:
        # A row count of the running program, or a value of another call.
        raise NotEvaluatedError
    return stored_form(value.array(), value.dtype)


def _results(call: Call, arrays: Mapping[int, Array], environment: Environment) -> Sequence[Array]:
    if type(call) is not Call:
        # Branches and loops.
        raise NotEvaluatedError
    types = [None if value is None else _type(value) for value in call.inputs]
    declared = [_type(value) for value in call.outputs] if call.declared else []
    settings = {
        name: _elements(setting, arrays).item() if isinstance(setting, Value) else cast("SettingValue", setting)
        for name, setting in call.settings.items()
    }
    op_call = call_of(environment.op(call.op), types, settings, declared)
    if op_call.has_sizes:
        raise NotEvaluatedError
    return evaluate_call(
        op_call, [None if value is None else _elements(value, arrays) for value in call.inputs], environment
    )


def _type(value: Value) -> TensorType:
    shape = value.shape
    if shape is None:
        raise NotEvaluatedError
    return TensorType(value.dtype, shape)
