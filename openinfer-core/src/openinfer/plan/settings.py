"""Settings that name constants of the model, whose values are known at planning time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.ir.resolved import RuntimeInts, RuntimeScalar, Storage, integers_of
from openinfer.ir.text import ref_text
from openinfer.plan.weights import scalar_of
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import ResolvedGraph, ResolvedOp, SettingValue, UnresolvedSetting
    from openinfer.model import Model
    from openinfer.scalars import Scalar


class RuntimeSettingError(ValueError):
    """A setting depends on ``name``, whose value is only known when the program runs."""

    def __init__(self, setting: str, name: str) -> None:
        super().__init__(f"setting {setting!r} depends on {name!r}, which is only known when the program runs")
        self.setting = setting
        self.name = name


def known_settings(
    op: ResolvedOp, resolved: ResolvedGraph, model: Model, loop_indices: frozenset[str]
) -> Mapping[str, SettingValue]:
    """Return every setting with its value.

    Raises:
        RuntimeSettingError: one depends on something that is neither a constant nor a size.
        DivisionError: a division in one has no value.
    """
    settings = dict(op.settings)
    for setting, value in op.runtime_settings.items():
        settings[setting] = known_setting(setting, value, resolved, model, loop_indices)
    return settings


def runtime_integers(
    op: ResolvedOp, resolved: ResolvedGraph, model: Model, loop_indices: frozenset[str]
) -> Mapping[str, RuntimeInts]:
    """Return the integer settings that are known at run time only.

    Raises:
        RuntimeSettingError: a setting of another type depends on such a value.
    """
    runtime: dict[str, RuntimeInts] = {}
    for setting, value in op.runtime_settings.items():
        try:
            known_setting(setting, value, resolved, model, loop_indices)
        except RuntimeSettingError:
            if isinstance(value, RuntimeInts):
                runtime[setting] = value
                continue
            variable = None if value.name in loop_indices else resolved.variables.get(value.name)
            if variable is not None and not variable.type.dtype.is_integer:
                raise
            runtime[setting] = RuntimeInts((Name(value.name),), is_list=False)
    return runtime


def known_setting(
    setting: str, value: UnresolvedSetting, resolved: ResolvedGraph, model: Model, loop_indices: frozenset[str]
) -> SettingValue:
    """Return the value of a setting.

    Raises:
        RuntimeSettingError: it is known at run time only.
    """
    if isinstance(value, RuntimeScalar):
        return _constant(setting, value.name, resolved, model, loop_indices)

    def lookup(name: str) -> int:
        if name not in loop_indices and name not in resolved.variables and name in resolved.sizes:
            return resolved.sizes[name]
        return int(_constant(setting, name, resolved, model, loop_indices))

    numbers = tuple(symbolic.evaluate(expr, lookup) for expr in value.exprs)
    return integers_of(value.exprs, numbers) if value.is_list else numbers[0]


def _constant(setting: str, name: str, resolved: ResolvedGraph, model: Model, loop_indices: frozenset[str]) -> Scalar:
    variable = resolved.variables.get(name)
    fixed = variable is not None and variable.storage is Storage.CONSTANT and variable.initial is not None
    if name in loop_indices or variable is None or variable.initial is None or not fixed:
        raise RuntimeSettingError(setting, name)
    return scalar_of(model, variable.type, variable.initial)


def instead_of(op: ResolvedOp, error: RuntimeSettingError, *, is_index: bool) -> str:
    """Return what to write in place of a setting that is known only when the program runs."""
    source = op.inputs[0] if op.inputs else None
    if op.op == "select" and error.setting == "index" and source is not None:
        axis = op.settings.get("axis", 0)
        return f"`op gather({ref_text(source)}, {error.name}, axis={axis})` takes such an index as an input"
    if is_index:
        return f"take the statement out of the loop, and write it once for each value of `{error.name}`"
    return f"declare `{error.name}` as constant with data in the model, or write its value"
