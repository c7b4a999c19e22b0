"""Applying operators to types: calls, scalar expressions with their rounding, and decompositions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dims import is_size, surely
from openinfer.expr import tree
from openinfer.ir.types import LARGEST_SIZE
from openinfer.ops.calls import Decomposition, OpCall, Step, compute_type
from openinfer.ops.definitions import check_expression, check_fold, check_refusal
from openinfer.ops.schema import Composite, Elementwise, Fold, OpTypeError, Reduction, Required
from openinfer.ops.setting_kinds import check_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import InputSpec, OpSchema


def call_of(
    schema: OpSchema,
    inputs: Sequence[TensorType | None],
    settings: Mapping[str, SettingValue],
    declared: Sequence[TensorType] = (),
) -> OpCall:
    """Return the call of an operator: defaults filled in, output types inferred.

    Raises:
        OpTypeError: a setting is unknown, missing or of the wrong kind, the operator cannot take these types, or what
            it yields is ``too-large``.
    """
    check_dtypes(schema, inputs)
    filled = filled_settings(schema, settings)
    outputs = schema.infer(inputs, filled, declared)
    past = next((made for made in outputs if _is_too_large(made)), None)
    if past is not None:
        message = f"yields {past}: no tensor has more than {LARGEST_SIZE} elements or bytes"
        raise OpTypeError(message, of=schema.name, code="too-large")
    return OpCall(op=schema.name, inputs=tuple(inputs), outputs=outputs, settings=filled)


def _is_too_large(made: TensorType) -> bool:
    """Whether a type has too many elements or bytes at all sizes."""
    return surely(lambda: not made.fits) if any(map(is_size, made.shape)) else not made.fits


def check_dtypes(schema: OpSchema, inputs: Sequence[TensorType | None]) -> None:
    """Check that inputs are of legal element types, and of one type where the schema names none.

    Raises:
        OpTypeError: ``dtype-unsupported``; or ``arity``, too many inputs.
    """
    common: TensorType | None = None
    for position, given in enumerate(inputs):
        spec = _input_spec(schema, position)
        if given is None:
            continue
        legal = schema.dtypes if spec.dtypes is None else spec.dtypes
        if given.dtype.name not in legal:
            message = f"takes no {given} as {spec.name}; legal: {', '.join(sorted(legal))}"
            raise OpTypeError(message, of=schema.name, code="dtype-unsupported", position=position)
        if spec.dtypes is not None:
            continue
        if common is not None and common.dtype is not given.dtype:
            message = f"inputs of {schema.name} have one dtype, found {common} and {given}: cast one of them"
            raise OpTypeError(message, code="dtype-unsupported", position=position)
        common = given


def _input_spec(schema: OpSchema, position: int) -> InputSpec:
    if position < len(schema.inputs):
        return schema.inputs[position]
    if schema.inputs and schema.inputs[-1].variadic:
        return schema.inputs[-1]
    raise OpTypeError(f"takes {len(schema.inputs)} inputs, found more", of=schema.name, code="arity")


def filled_settings(schema: OpSchema, given: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """Return every setting of the schema by its canonical name, defaults filled in.

    Raises:
        OpTypeError: ``unknown-setting``, ``missing-setting`` (a required one) or ``setting-type``.
    """
    by_name: dict[str, SettingValue] = {}
    for name, value in given.items():
        spec = schema.setting(name)
        if spec is None:
            known = ", ".join(s.name for s in schema.settings) or "none"
            raise OpTypeError(f"has no setting {name!r}; it has: {known}", of=schema.name, code="unknown-setting")
        by_name[spec.name] = value
    filled: dict[str, SettingValue] = {}
    for spec in schema.settings:
        value = by_name.get(spec.name, spec.default)
        if isinstance(value, Required):
            raise OpTypeError(
                f"needs the setting {spec.name!r} ({spec.type.value})", of=schema.name, code="missing-setting"
            )
        if value is not spec.default:
            check_setting(schema.name, spec, value)
        filled[spec.name] = value
    return filled


def scalar_expression(schema: OpSchema, call: OpCall) -> Expr:
    """Return the expression of one element of an elementwise call, from stored inputs to stored output.

    Low floats are widened on entry and rounded once at the end; input numbers are positions in ``call.inputs``.

    Raises:
        OpTypeError: the operator is not elementwise.
        ExprError: its definition yields another type than that of the output, or reads what is not an input.
    """
    if not isinstance(schema.definition, Elementwise):
        raise OpTypeError("is not elementwise", of=schema.name)
    out = call.outputs[0].dtype
    built = schema.definition.build(_elements(call), call.settings, compute_type(out))
    check_expression(schema.name, built, _stored(call), compute_type(out))
    return tree.cast(built, out)


def refused_expression(schema: OpSchema, call: OpCall) -> Expr | None:
    """Return whether an element of an elementwise call is refused, from stored inputs; None where none ever is.

    Raises:
        ExprError: the test is not a bool, or reads what is not an input.
    """
    if not isinstance(schema.definition, Elementwise) or schema.definition.refusal is None:
        return None
    built = schema.definition.refusal.build(_elements(call), call.settings)
    if built is not None:
        check_refusal(schema.name, built, _stored(call))
    return built


def _stored(call: OpCall) -> dict[int, DType]:
    """Return the element types of the inputs of a call by position."""
    return {number: given.dtype for number, given in enumerate(call.inputs) if given is not None}


def _elements(call: OpCall) -> list[Expr]:
    """Return the elements of the inputs of a call, low floats widened; numbers are positions in ``call.inputs``."""
    return [
        tree.cast(tree.Input(number, given.dtype), compute_type(given.dtype))
        for number, given in enumerate(call.inputs)
        if given is not None
    ]


def fold_expression(schema: OpSchema, call: OpCall) -> tuple[tuple[int, ...], Fold]:
    """Return the folded axes and the fold of a reduction, from stored input to stored output.

    Raises:
        OpTypeError: the operator is not a reduction.
        ExprError: the parts of its fold do not fit one another, its input or its output.
    """
    if not isinstance(schema.definition, Reduction):
        raise OpTypeError("is not a reduction", of=schema.name)
    given = call.inputs[0]
    if given is None:
        raise OpTypeError("needs an input", of=schema.name, code="arity")
    out = call.outputs[0].dtype
    fold = schema.definition.build(compute_type(given.dtype), call.settings, compute_type(out))
    check_fold(schema.name, fold, compute_type(given.dtype), compute_type(out))
    widened = tree.cast(tree.Input(0, given.dtype), compute_type(given.dtype))
    element, finish = tree.substitute(fold.element, {0: widened}), tree.cast(fold.finish, out)
    stored = replace(fold, element=element, finish=finish)
    return schema.definition.axes(len(given.shape), call.settings), stored


class _Recorder:
    """Records the calls of a decomposition and infers their types."""

    def __init__(
        self, schemas: Callable[[str], OpSchema], values: list[TensorType], outputs: tuple[TensorType, ...]
    ) -> None:
        self._schemas = schemas
        self.values = values
        self.outputs = outputs
        self.steps: list[Step] = []

    def type_of(self, value: int) -> TensorType:
        return self.values[value]

    def op(self, name: str, *inputs: int | None, **settings: SettingValue) -> int:
        return self.ops(name, *inputs, **settings)[0]

    def ops(self, name: str, *inputs: int | None, **settings: SettingValue) -> tuple[int, ...]:
        schema = self._schemas(name)
        given = (*inputs, *(None for _ in schema.inputs[len(inputs) :]))
        _check_given(schema, given)
        types = [None if value is None else self.values[value] for value in given]
        return self._append(call_of(schema, types, settings), given)

    def reshape(self, value: int, shape: tuple[int, ...]) -> int:
        given = self.values[value]
        (made,) = self._append(call_of(self._schemas("reshape"), [given], {}, [replace(given, shape=shape)]), (value,))
        return made

    def _append(self, call: OpCall, inputs: tuple[int | None, ...]) -> tuple[int, ...]:
        first = len(self.values)
        self.values += call.outputs
        made = tuple(range(first, len(self.values)))
        self.steps.append(Step(call, inputs, made))
        return made


def _check_given(schema: OpSchema, inputs: Sequence[int | None]) -> None:
    for position, value in enumerate(inputs):
        spec = _input_spec(schema, position)
        if value is None and not spec.optional:
            raise OpTypeError(f"needs the input {spec.name}", of=schema.name, code="arity", position=position)


class DecompositionError(OpTypeError):
    """A composite yields other types than its operator infers: a mistake in the operator's definition."""


def decomposition(schema: OpSchema, call: OpCall, schemas: Callable[[str], OpSchema]) -> Decomposition:
    """Return a composite call in terms of others; these may be composite themselves.

    ``schemas`` finds an operator by name.

    Raises:
        OpTypeError: the operator is not composite; `DecompositionError`: it does not yield the inferred types.
    """
    if not isinstance(schema.definition, Composite):
        raise OpTypeError("has no decomposition", of=schema.name)
    given = [t for t in call.inputs if t is not None]
    numbers = iter(range(len(given)))
    inputs = tuple(None if t is None else next(numbers) for t in call.inputs)
    recorder = _Recorder(schemas, list(given), call.outputs)
    outputs = schema.definition.decompose(recorder, inputs, call.settings)
    found = tuple(recorder.values[o] for o in outputs)
    if found != call.outputs:
        yielded, expected = (", ".join(map(str, types)) for types in (found, call.outputs))
        raise DecompositionError(f"the decomposition of {schema.name} yields {yielded}, expected {expected}")
    return Decomposition(tuple(recorder.values), inputs, outputs, tuple(recorder.steps))
