"""Drawing how a setting is written: as a number, or as something of the program that has its value."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dsl.builder import GraphBuilder
from openinfer.dtypes import BY_NAME
from openinfer.ir.values import Ref
from openinfer.ops.schema import SettingSpec, SettingType
from openinfer.testing.random_programs.writer import SIZES, Writer

SHARE = 0.1
"""Settings that are not written as numbers."""


def written_setting(writer: Writer, spec: SettingSpec, value: Any) -> Any:
    """Return a setting for the builder, of the same value in any event."""
    if writer.random.random() > SHARE:
        return value
    if spec.type is SettingType.INT_LIST and isinstance(value, tuple):
        whole = cast("tuple[int, ...]", value)
        return [_expression(writer, each) for each in whole] or whole
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if spec.type is SettingType.INT and writer.random.random() < 0.5:
        return _expression(writer, value)
    if spec.type in (SettingType.INT, SettingType.FLOAT, SettingType.NUMBER):
        return _variable(writer, value, is_constant=spec.type is not SettingType.FLOAT)
    return value


def _expression(writer: Writer, value: Any) -> Any:
    """Return an expression of sizes for a number that is not negative."""
    name, size = writer.random.choice(list(SIZES.items()))
    if not isinstance(value, int) or value < size or writer.random.random() < 0.3:
        return value
    return GraphBuilder.expr(name if value == size else f"{name}+{value - size}")


def _variable(writer: Writer, value: float, *, is_constant: bool) -> Ref:
    """Declare a scalar of the value; results whose shapes depend on it need a constant."""
    dtype = BY_NAME["f32" if isinstance(value, float) else "i64"]
    name, chance = writer.name("c"), writer.random.random()
    if is_constant or chance < 0.5:
        writer.builder.constant(name, dtype, init=value)
    elif chance < 0.7:
        writer.builder.volatile(name, dtype, init=value)
    else:
        writer.builder.dynamic(name, dtype)
        writer.inputs[name] = lambda: np.array(value, storage_dtype(dtype))
    return Ref(name)
