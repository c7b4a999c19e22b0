"""Calls of operators that are defined by stages, as computations."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Builder, Tensor, Value, verify
from openinfer.compute.elementwise import broadcast, sizes_of
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.applying import refused_expression, scalar_expression
from openinfer.ops.schema import Compute, Elementwise, Loops, OpTypeError
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from openinfer.compute import Computation
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import DefineStages, OpSchema


def computation_of(schema: OpSchema, call: OpCall) -> Computation:
    """Return what a call computes: inputs that are given, in their order, and outputs.

    Raises:
        OpTypeError: the operator is not defined by stages, or the call does not have all inputs and results.
        ComputationError: its definition is wrong.
    """
    define = _stages_of(schema, call)
    return _definition(define, call) if call.has_sizes else _defined(define, CallKey(call))


def written_computation(schema: OpSchema, call: OpCall) -> Computation:
    """Return what a definition says a call computes, without proof that places are within their tensors.

    Raises:
        OpTypeError: the operator is not defined by stages, or the call does not have all inputs and results.
        ComputationError: its definition is wrong.
    """
    return _written(_stages_of(schema, call), call)


def stages_of(schema: OpSchema) -> DefineStages | None:
    """Return what writes the stages of an operator: its definition, or the form for many threads of a loop program."""
    match schema.definition:
        case Compute(define):
            return define
        case Loops(stages=stages):
            return stages
        case _:
            return None


def _stages_of(schema: OpSchema, call: OpCall) -> DefineStages:
    define = stages_of(schema)
    if define is None:
        raise OpTypeError("is not defined by stages", of=schema.name)
    for number, spec in enumerate(schema.inputs):
        if not spec.optional:
            needed(call.inputs, number)
    if len(call.outputs) < len(schema.outputs):
        # Results that a statement leaves out have types only where its inputs fit: they may be stand-ins.
        raise OpTypeError(f"has {len(schema.outputs)} results, found {len(call.outputs)}", of=schema.name, code="arity")
    return define


def refusing_computation(schema: OpSchema, call: OpCall) -> Computation:
    """Return an elementwise call that refuses elements as one stage with a check.

    Raises:
        OpTypeError: it refuses none.
        ExprError: the definition of the operator is wrong.
    """
    definition, refused = schema.definition, refused_expression(schema, call)
    if not isinstance(definition, Elementwise) or definition.refusal is None or refused is None:
        raise OpTypeError("refuses no element", of=schema.name)
    builder = _builder(call)
    (y,) = builder.outputs
    at = builder.axes(*y.shape)
    elements = {n: x[broadcast(at, x.shape)].expr for n, x in enumerate(builder.inputs) if x is not None}
    builder.refuse(Value(tree.substitute(refused, elements)), definition.refusal.rule)
    expr = scalar_expression(schema, call)
    sizes = {size: builder.position(size).expr for size in sizes_of(expr)}
    y[at] = Value(tree.substitute(expr, {**elements, **sizes}))
    computation = builder.computation()
    verify(computation)
    return computation


class CallKey:
    """A call as the key of a table: settings are a mapping, which has no hash."""

    def __init__(self, call: OpCall) -> None:
        self.call = call
        # By its text too: 1, 1.0 and True are equal and mean different settings.
        settings = tuple((name, value, repr(value)) for name, value in sorted(call.settings.items()))
        self._parts = (call.op, call.inputs, call.outputs, settings)

    def __hash__(self) -> int:
        return hash(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallKey) and self._parts == other._parts


@lru_cache(maxsize=1024)
def _defined(define: DefineStages, key: CallKey) -> Computation:
    """Return what a definition says; programs call an operator on the same types again and again."""
    return _definition(define, key.call)


def _definition(define: DefineStages, call: OpCall) -> Computation:
    computation = _written(define, call)
    verify(computation)
    return computation


def _written(define: DefineStages, call: OpCall) -> Computation:
    builder = _builder(call)
    define(builder, call)
    return builder.computation()


def row_copied(call: OpCall) -> Computation:
    """Return the copy of all elements of the one input, in row-major order, as one row."""
    source = needed(call.inputs)
    row = TensorType(source.dtype, (source.count,))
    builder = _builder(replace(call, inputs=(row,), outputs=(row,)))
    (x,), (y,) = builder.given, builder.outputs
    at = builder.axes(*row.shape)
    y[at] = x[at]
    return builder.computation()


def _builder(call: OpCall) -> Builder:
    inputs = [type_ and tensor_of(f"x{number}", type_) for number, type_ in enumerate(call.inputs)]
    return Builder(call.op, inputs, [tensor_of(f"y{number}", type_) for number, type_ in enumerate(call.outputs)])


def tensor_of(name: str, type_: TensorType) -> Tensor:
    """Return an operand of a computation of some type."""
    return Tensor(name, type_.dtype, tuple(Index.of(extent) for extent in type_.shape))
