"""The rules of operators of third parties, each guarded and its result checked.

An `OpSchema` is made of functions, which are called wherever an operator is validated, planned or bound. They are
guarded once, when the operator is taken in, so that no caller has to know.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from openinfer.affine import Index, Quotient, Remainder, Var, Within
from openinfer.compute import ComputationError, verify
from openinfer.dims import is_size
from openinfer.dtypes import DType
from openinfer.errors import OpenInferError, PluginError
from openinfer.expr import tree
from openinfer.expr.tree import ExprError
from openinfer.expr.verify import verify as verify_expression
from openinfer.ir.types import TensorType
from openinfer.loops import buffers, nodes, tiles
from openinfer.loops.substitution import values_of
from openinfer.ops import schema
from openinfer.ops.counting import COUNT, COUNT_TYPE
from openinfer.ops.schema import OpTypeError
from openinfer.plugins.crossing import blame, fault, guarded, wrong
from openinfer.plugins.structure import Structure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from openinfer.compute import Builder
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Decomposer, DefineStages, OpSchema, SettingValue
    from openinfer.plugins.crossing import Owner

    Check = Callable[[OpSchema, Any], str | None]


def guarded_rules(owner: Owner, operator: OpSchema) -> OpSchema:
    """Return an operator whose rules end with a `PluginError` where they raise or return something else than they
    should; operators of this repository as they are."""
    return _guarded_fields(owner, operator, operator) if owner.is_foreign else operator


def _guarded_fields(owner: Owner, operator: OpSchema, part: Any) -> Any:
    """Return a description with every function in it guarded, parts of it included."""
    changed: dict[str, Any] = {}
    for spec in dataclasses.fields(part):
        value = getattr(part, spec.name)
        if dataclasses.is_dataclass(value) and type(value).__module__ == schema.__name__:
            changed[spec.name] = _guarded_fields(owner, operator, value)
        elif callable(value) and not isinstance(value, type):
            changed[spec.name] = _guarded_rule(owner, operator, type(part).__name__, spec.name, value)
    return dataclasses.replace(part, **changed) if changed else part


def _guarded_rule(owner: Owner, operator: OpSchema, kind: str, name: str, rule: Callable[..., Any]) -> Any:
    action = f"rule `{name}` of operator {operator.name}"
    call = guarded(owner, action, rule)
    if kind == "Composite":
        return partial(_decomposed, owner, action, call)
    if kind == "Compute":
        return partial(_defined, owner, action, call)
    check = _CHECKS.get((kind, name))
    return call if check is None else partial(_checked, owner, action, call, partial(check, operator))


def _checked(
    owner: Owner,
    action: str,
    rule: Callable[..., Any],
    check: Callable[[Any], str | None],
    *args: Any,
    **kwargs: Any,
) -> Any:
    result = rule(*args, **kwargs)
    expected = check(result)
    if expected is not None:
        raise fault(owner, f"{action} {wrong(result, expected)}")
    return result


def _decomposed(
    owner: Owner,
    action: str,
    rule: Callable[..., Any],
    steps: Decomposer,
    inputs: Sequence[int | None],
    settings: Mapping[str, SettingValue],
) -> tuple[int, ...]:
    """Return the results of a decomposition, all of them values that it has made."""
    try:
        result = rule(steps, inputs, settings)
    except (OpTypeError, PluginError):
        raise
    except OpenInferError as error:
        blame(owner, action, error)
    if not _are_integers(result):
        raise fault(owner, f"{action} {wrong(result, 'a tuple of the numbers of values')}")
    try:
        for value in result:
            steps.type_of(value)
    except LookupError as error:
        blame(owner, f"{action} returned {result}, of which one is not a value of the decomposition: it", error)
    return result


def _defined(owner: Owner, action: str, rule: DefineStages, k: Builder, call: OpCall) -> None:
    """Write the stages of a call, which have to be a computation."""
    try:
        rule(k, call)
        verify(k.computation())
    except ComputationError as error:
        blame(owner, action, error)


def _output_types(operator: OpSchema, result: Any) -> str | None:
    count = len(operator.outputs)
    counts = f"at least {count}" if operator.variadic_outputs else str(count)
    types = list(cast("tuple[object, ...]", result)) if type(result) is tuple else []
    enough = len(types) == count or (operator.variadic_outputs and len(types) > count)
    if enough and all(map(_is_tensor_type, types)):
        is_counted = not operator.counted or types[COUNT] == COUNT_TYPE
        return None if is_counted else f"{COUNT_TYPE} as the type of `{operator.outputs[COUNT]}`, which counts"
    return f"a tuple of {counts} TensorType"


def _is_tensor_type(found: object) -> bool:
    if type(found) is not TensorType or type(found.dtype) is not DType:
        return False
    if type(found.shape) is not tuple or not all(type(extent) is int or is_size(extent) for extent in found.shape):
        return False
    return all(extent >= 0 for extent in found.shape)


def _are_integers(found: Any) -> bool:
    return type(found) is tuple and all(type(each) is int for each in cast("tuple[object, ...]", found))


def _expression(_: OpSchema, result: Any) -> str | None:
    if not isinstance(result, tree.Input | tree.Literal | tree.Size | tree.Apply):
        return "an expression"
    wrong_part = _EXPRESSIONS.misfit(result, tree.Expr) or _wrong_application([result])
    return None if wrong_part is None else f"an expression: {wrong_part}"


def _wrong_application(expressions: Iterable[tree.Expr]) -> str | None:
    try:
        for each in expressions:
            verify_expression(each)
    except ExprError as error:
        return str(error)
    return None


def _expression_or_none(operator: OpSchema, result: Any) -> str | None:
    expected = None if result is None else _expression(operator, result)
    return expected and f"None or {expected}"


def _fold(operator: OpSchema, result: Any) -> str | None:
    parts = () if type(result) is not schema.Fold else (result.element, result.combine, result.finish)
    if not parts or any(_expression(operator, part) for part in parts) or _expression_or_none(operator, result.start):
        return "a Fold of expressions"
    return None


def _axes(_: OpSchema, result: Any) -> str | None:
    is_right = _are_integers(result) and all(axis >= 0 for axis in result) and list(result) == sorted({*result})
    return None if is_right else "a tuple of axes, ascending and not negative"


def _axis(_: OpSchema, result: Any) -> str | None:
    return None if type(result) is int and 0 <= result < 2**31 else "a dim, an int of 0 or more and less than 2**31"


def _kernel(_: OpSchema, result: Any) -> str | None:
    wrong_part = _LOOP_PROGRAMS.misfit(result, nodes.Kernel)
    wrong_part = wrong_part or _wrong_application(value.expr for value in values_of(result.body))
    return None if wrong_part is None else f"a Kernel of openinfer.loops: {wrong_part}"


_EXPRESSION_PARTS = (tree.Input, tree.Literal, tree.Apply)
_EXPRESSION_NAMES: Mapping[str, Any] = {"Expr": tree.Expr, "Scalar": int | float | bool}

_EXPRESSIONS = Structure(*_EXPRESSION_PARTS, names=_EXPRESSION_NAMES)

_LOOP_PROGRAMS = Structure(
    *_EXPRESSION_PARTS,
    *(
        part
        for module in (buffers, tiles, nodes)
        for part in vars(module).values()
        if dataclasses.is_dataclass(part) and isinstance(part, type)
    ),
    *(Index, Var, Quotient, Remainder, Within),
    names={**_EXPRESSION_NAMES, "DType": DType},
)

_CHECKS: Mapping[tuple[str, str], Check] = {
    ("OpSchema", "infer"): _output_types,
    ("Elementwise", "build"): _expression,
    ("Refusal", "build"): _expression_or_none,
    ("Reduction", "axes"): _axes,
    ("Reduction", "build"): _fold,
    ("Loops", "define"): _kernel,
    ("StoredScales", "axis"): _axis,
}
