"""Whether the definitions of an operator that a plugin offers yield the types that they have to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import ComputationError
from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import BUILTIN, BY_NAME
from openinfer.errors import OpenInferError
from openinfer.expr.tree import ExprError
from openinfer.loops import LoopProgramError
from openinfer.ops.applying import (
    DecompositionError,
    decomposition,
    fold_expression,
    refused_expression,
    scalar_expression,
)
from openinfer.ops.computations import computation_of
from openinfer.ops.loop_programs import loop_program_of
from openinfer.ops.schema import Compute, Elementwise, Loops, Reduction, Required
from openinfer.ops.small_calls import small_call
from openinfer.plugins.crossing import crossing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.dtypes import DType
    from openinfer.ops.schema import OpSchema
    from openinfer.plugins.crossing import Owner

_MISFITS = (ExprError, ComputationError, LoopProgramError)
"""What building a definition raises where its parts do not fit."""


def definition_misfit(owner: Owner, schema: OpSchema) -> str | None:
    """Return what is wrong with the definition of an operator, tried with a small call of each element type, or None.

    Whatever else its rules raise is an error of the statement that needs them, since other settings may be fine.
    """
    stranger = next((name for name in schema.domain if schema.input(name) is None), None)
    if stranger is not None:
        return f"OpSchema {schema.name!r}: domain names {stranger!r}, which is not an input"
    if not isinstance(schema.definition, Elementwise | Reduction | Compute | Loops):
        return None
    return next((wrong for dtype in BUILTIN if (wrong := _misfit_for(owner, schema, dtype)) is not None), None)


def composite_misfit(owner: Owner, schema: OpSchema, ops: Mapping[str, OpSchema]) -> str | None:
    """Return what is wrong with the decomposition of an operator, tried like other definitions, or None.

    Args:
        ops: the operators that it may call, by their names and aliases.
    """
    tried = (dtype for dtype in BUILTIN if dtype.name in schema.dtypes and _has_own_settings(schema, dtype))
    return next((wrong for dtype in tried if (wrong := _decomposed(owner, schema, dtype, ops)) is not None), None)


def _decomposed(owner: Owner, schema: OpSchema, dtype: DType, ops: Mapping[str, OpSchema]) -> str | None:
    unknown: list[str] = []

    def operator(name: str) -> OpSchema:
        if name not in ops:
            unknown.append(name)
            raise OpenInferError(f"unknown operator {name!r}", code="unknown-op")
        return ops[name]

    try:
        with crossing(owner, f"the definition of operator {schema.name}"):
            call = small_call(schema, dtype, BY_NAME)
            if call is not None:
                decomposition(schema, call, operator)
    except DecompositionError as error:
        return f"OpSchema {schema.name!r} for {dtype}: {error}"
    except OpenInferError:
        if unknown and type(unknown[0]) is str:
            hint = did_you_mean(unknown[0], ops) or "operators of plugins that load later cannot be used"
            return f"OpSchema {schema.name!r}: its decomposition calls {unknown[0]!r}, which is not an operator: {hint}"
    return None


def _misfit_for(owner: Owner, schema: OpSchema, dtype: DType) -> str | None:
    if dtype.name not in schema.dtypes or not _has_own_settings(schema, dtype):
        return None
    try:
        with crossing(owner, f"the definition of operator {schema.name}", passing=(*_MISFITS, OpenInferError)):
            _define(schema, dtype)
    except _MISFITS as error:
        return f"OpSchema {schema.name!r} for {dtype}: {error}"
    except OpenInferError:
        return None
    return None


def _define(schema: OpSchema, dtype: DType) -> None:
    """Build the definition for a small call, if there is one."""
    call = small_call(schema, dtype, BY_NAME)
    if call is None:
        return
    if isinstance(schema.definition, Compute):
        computation_of(schema, call)
    elif isinstance(schema.definition, Loops):
        loop_program_of(schema, call)
        if schema.definition.stages is not None:
            computation_of(schema, call)
    elif isinstance(schema.definition, Reduction):
        fold_expression(schema, call)
    else:
        scalar_expression(schema, call)
        refused_expression(schema, call)


def _has_own_settings(schema: OpSchema, dtype: DType) -> bool:
    """Whether a small call has settings that the schema names, not values that were tried."""
    if any(example.dtypes is None or dtype.name in example.dtypes for example in schema.examples):
        return True
    return not any(isinstance(setting.default, Required) for setting in schema.settings)
