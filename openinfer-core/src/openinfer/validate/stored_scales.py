"""Scales and zero points of the quantised tensors of a model, as variables and inputs.

A variable ``W`` of the integer type of a quantised tensor comes with the constants ``W@scale`` and ``W@zero_point``
(names that no program can write), and a family ``W(l)`` has families of them. Operators whose schema says so read them
where a program gives no scale.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.ir.graph import MemoryKind
from openinfer.ir.resolved import Filled, FromTensor, PrefixTable, ResolvedVar, Storage
from openinfer.ir.types import TensorType
from openinfer.ir.values import Ref
from openinfer.ops.schema import OpTypeError
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.ir.resolved import SettingValue, UnresolvedSetting
    from openinfer.model import Model
    from openinfer.ops.schema import OpSchema, StoredScales
    from openinfer.validate.scope import Scope

    Settings = Mapping[str, SettingValue | UnresolvedSetting]

PARTS = ("scale", "zero_point")


def scale_variables(variables: Iterable[ResolvedVar], model: Model) -> dict[str, ResolvedVar]:
    """Return the scales and zero points of the variables that are quantised tensors of the model, by name."""
    scales: dict[str, ResolvedVar] = {}
    for variable in variables:
        tensor = _tensor(variable)
        if tensor is None or not _has_stored_scales(tensor, variable.type, model):
            continue
        for part in PARTS:
            kind = _part_type(tensor, part, model)
            if kind is not None:
                name = f"{variable.name}@{part}"
                scales[name] = _constant(variable, name, kind, f"{tensor}@{part}")
    return scales


def scale_tables(tables: Iterable[PrefixTable], model: Model) -> dict[str, PrefixTable]:
    """Return the scales and zero points of families of quantised tensors; their types are those of the first member."""
    tables_of_scales: dict[str, PrefixTable] = {}
    for table in tables:
        first = next(iter(_entries(table, model)), None)
        for part in PARTS if first is not None else ():
            kind = None if first is None else _part_type(first, part, model)
            if kind is not None:
                name = f"{table.name}@{part}"
                pattern = f"{table.pattern}@{part}"
                tables_of_scales[name] = replace(table, name=name, type=kind, pattern=pattern, initial=Filled(0))
    return tables_of_scales


def with_stored_scales(
    schema: OpSchema, inputs: Sequence[Ref | None], settings: Settings, scope: Scope
) -> tuple[tuple[Ref | None, ...], dict[str, SettingValue | UnresolvedSetting]]:
    """Return the inputs and settings of an operator with what the model supplies.

    Raises:
        OpTypeError: ``shape-mismatch``, the model has scales along another dim than the operator takes.
    """
    rule, unchanged = schema.stored_scales, (tuple(inputs), dict(settings))
    if rule is None:
        return unchanged
    places = {spec.name: position for position, spec in enumerate(schema.inputs)}
    quantised = inputs[places[rule.of]]
    if quantised is None or inputs[places[rule.scale]] is not None:
        return unchanged
    scale = Ref(f"{quantised.name}@scale", quantised.indices)
    if _found(scale.name, scope) is None:
        return unchanged
    completed = list(inputs)
    completed[places[rule.scale]] = scale
    zero_point = Ref(f"{quantised.name}@zero_point", quantised.indices)
    if _found(zero_point.name, scope) is not None and inputs[places[rule.zero_point]] is None:
        completed[places[rule.zero_point]] = zero_point
    return tuple(completed), _with_axis(schema, rule, quantised.name, settings, scope)


def _with_axis(
    schema: OpSchema, rule: StoredScales, name: str, settings: Settings, scope: Scope
) -> dict[str, SettingValue | UnresolvedSetting]:
    """Return the settings, with the axis of the scales where the operator takes any; refuse another than it takes."""
    variable = _found(name, scope)
    axis = None if variable is None else _axis(variable, scope.model)
    if variable is None or axis is None:
        return dict(settings)
    if rule.sets_axis is not None and rule.sets_axis not in settings:
        return {**settings, rule.sets_axis: axis}
    all_settings = {spec.name: spec.default for spec in schema.settings} | dict(settings)
    if rule.axis is not None:
        wanted = rule.axis(all_settings)  # pyright: ignore[reportArgumentType] -- settings of run time are true, as given ones
    else:
        axis_set = all_settings.get(rule.sets_axis or "")
        wanted = axis_set % len(variable.type.shape) if isinstance(axis_set, int) else axis
    if wanted != axis:
        raise OpTypeError(
            f"the model has scales of `{name}` along its dim {axis}, {schema.name} takes them along dim {wanted} here: "
            f"give {rule.scale}, or declare `{name}` as a float, which holds its reals, for an operator of floats"
        )
    return dict(settings)


def _found(name: str, scope: Scope) -> ResolvedVar | PrefixTable | None:
    return scope.variables.get(name) or scope.tables.get(name)


def _axis(variable: ResolvedVar | PrefixTable, model: Model) -> int | None:
    """Return the dim that the scales of a variable, or of the first entry of a family, go along."""
    tensor = next(iter(_entries(variable, model)), None) if isinstance(variable, PrefixTable) else _tensor(variable)
    quantisation = None if tensor is None else model.quantisation(tensor)
    return None if quantisation is None else quantisation.axis


def _tensor(variable: ResolvedVar) -> str | None:
    """Return the name of the model tensor that a variable always holds, or None."""
    lasting = variable.storage in (Storage.CONSTANT, Storage.VOLATILE)
    return variable.initial.name if lasting and isinstance(variable.initial, FromTensor) else None


def _has_stored_scales(tensor: str, kind: TensorType, model: Model) -> bool:
    info = model.var_info(tensor)
    return info is not None and info.quantised and info.dtype is kind.dtype


def _entries(table: PrefixTable, model: Model) -> Iterable[str]:
    """Yield the quantised tensors of a family, in the order of the model."""
    pieces = re.split(r"\{[A-Za-z_][A-Za-z0-9_]*\}", table.pattern)
    pattern = re.compile("[0-9]+".join(map(re.escape, pieces)))
    for name in model.tensors:
        if pattern.fullmatch(name) and _has_stored_scales(name, table.type, model):
            yield name


def _part_type(tensor: str, part: str, model: Model) -> TensorType | None:
    info = model.var_info(f"{tensor}@{part}")
    return None if info is None else TensorType(info.dtype, info.shape)


def _constant(variable: ResolvedVar, name: str, kind: TensorType, tensor: str) -> ResolvedVar:
    dims = tuple(Const(extent) for extent in kind.shape)
    decl = variable.decl
    made = None if decl is None else replace(decl, name=name, kind=MemoryKind.CONSTANT, dtype=kind.dtype, dims=dims)
    return ResolvedVar(
        name=name,
        storage=Storage.CONSTANT,
        type=kind,
        initial=FromTensor(tensor),
        decl=made,
        dims=dims,
        span=variable.span,
    )
