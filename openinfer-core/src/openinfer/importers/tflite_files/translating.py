"""From the operators of a model to the calls of a program, in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.diagnostics import Diagnostic, counted, shortened
from openinfer.dims import NeedsNumberError
from openinfer.errors import ModelImportError
from openinfer.importers.given_values import given_array
from openinfer.importers.onnx_files.dimensions import Dimensions
from openinfer.importers.onnx_files.emitter import Emitter
from openinfer.importers.onnx_files.failures import broken
from openinfer.importers.onnx_files.sizes import is_number, shape_text, size_text
from openinfer.importers.onnx_files.source import SourceGraph, TensorInfo
from openinfer.importers.onnx_files.values import Program, Value, known
from openinfer.importers.tflite_files.folding import folded
from openinfer.importers.tflite_files.image_order import ImageOrder
from openinfer.importers.tflite_files.naming import module_of
from openinfer.importers.tflite_files.node import Node, UnsupportedNodeError
from openinfer.importers.tflite_files.refusals import refusal
from openinfer.importers.tflite_files.registry import translators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.tflite_files.source import Operator, Tensor, TfliteModel
    from openinfer.plugins.environment import Environment

MOST_LISTED = 100
"""Operators that one error lists."""

_MALFORMED = (TypeError, ValueError, IndexError, KeyError, ArithmeticError)
"""What translators raise where options, inputs or shapes of an operator are not what it has."""


@dataclass(slots=True)
class _State:
    """What is known while operators are translated: values by the positions of tensors."""

    model: TfliteModel
    emit: Emitter
    order: ImageOrder
    scope: dict[int, Value]
    requantize: str
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    failed: set[int] = field(default_factory=set[int])


def translate(model: TfliteModel, options: ImportOptions, environment: Environment) -> Program:
    """Return a model as a program.

    Raises:
        ModelImportError: operators cannot be translated; all of them.
    """
    values = dict(options.values)
    dimensions = Dimensions(_inputs_as_graph(model), values)
    emit = Emitter(environment, dimensions)
    scope = {
        position: Value(tensor.name, tensor.dtype, tensor.payload.shape, tensor.payload)
        for position, tensor in enumerate(model.tensors)
        if tensor.payload is not None
    }
    inputs: list[Value] = []
    for position in dict.fromkeys(model.inputs):
        tensor = model.tensors[position]
        scope[position] = _input(tensor, dimensions, values)
        if tensor.name not in options.values:
            inputs.append(scope[position])
    if values:
        listed = ", ".join(map(repr, values))
        available = ", ".join([*(model.tensors[n].name for n in model.inputs), *dimensions.names]) or "none"
        message = f"the model has no input or dimension {listed}; it has: {available}"
        raise ModelImportError(message, code="import-value")
    state = _State(model, emit, ImageOrder(emit), scope, options.requantize)
    for operator in model.operators:
        _translate(operator, state)
    _raise_problems(state)
    outputs = [(model.tensors[n].name, _output(n, state)) for n in dict.fromkeys(model.outputs)]
    sizes, origins = dimensions.least(), dict(dimensions.origins)
    return Program(model.name, inputs, outputs, emit.calls, sizes, dimensions.space, origins, notes=emit.notes)


def _inputs_as_graph(model: TfliteModel) -> SourceGraph:
    infos = tuple(_info(model.tensors[position]) for position in dict.fromkeys(model.inputs))
    return SourceGraph(model.name, (), infos, (), {})


def _info(tensor: Tensor) -> TensorInfo:
    # Converters leave the batch open in every input: it is one size.
    dims = tuple(extent if extent is not None else None if axis else "batch" for axis, extent in enumerate(tensor.dims))
    return TensorInfo(tensor.name, tensor.dtype, dims)


def _input(tensor: Tensor, dimensions: Dimensions, values: dict[str, Any]) -> Value:
    dims = dimensions.of(_info(tensor))
    if tensor.payload is not None:
        raise broken(f"input {tensor.name!r} has numbers in the file")
    if tensor.name not in values:
        return Value(tensor.name, tensor.dtype, dims)
    array = given_array(tensor.name, values.pop(tensor.name), tensor.dtype)
    shape = tuple(dim if is_number(dim) else 1 for dim in dims)
    if array.ndim and array.shape != shape:
        shown = shape_text(dims)
        message = f"the value for input {tensor.name!r} has shape {list(array.shape)}, expected [{shown}]"
        raise ModelImportError(message, code="import-value")
    return known(np.broadcast_to(array, shape), tensor.dtype, tensor.name)


def _output(position: int, state: _State) -> Value:
    value = state.scope.get(position)
    if value is None:
        raise broken(f"no operator writes the output {state.model.tensors[position].name!r}")
    return state.emit.materialised(value)


def _translate(operator: Operator, state: _State) -> None:
    read = [position for position in operator.inputs if position >= 0]
    if any(position in state.failed for position in read):
        state.failed.update(operator.outputs)
        return
    tensors = state.model.tensors
    missing = next((n for n in read if n not in state.scope and not tensors[n].is_variable), None)
    if missing is not None:
        message = f"{operator.op} {operator.index} reads {shortened(tensors[missing].name)!r} before it is written"
        raise broken(f"{message}: operators form a cycle or are out of order")
    node = Node(
        operator,
        tuple(tensors[position] if position >= 0 else None for position in operator.inputs),
        tuple(tensors[position] for position in operator.outputs),
        tuple(state.scope.get(position) for position in operator.inputs),
        state.emit,
        state.order,
        state.requantize,
    )
    state.emit.stage = _stage(node)
    mark = len(state.emit.calls)
    try:
        results = _results(node)
    except (UnsupportedNodeError, ModelImportError) as error:
        reason = str(error)
    except NeedsNumberError as error:
        reason = state.emit.dimensions.needs_number(error)
    except _MALFORMED as error:
        # Translators read options and extents as the operator defines them; those of a damaged file are others.
        reason = f"its options, inputs or shapes do not fit the operator ({type(error).__name__}: {error})"
    else:
        for position, value in zip(operator.outputs, results, strict=False):
            if value.payload is None and not any(value is read for read in node.inputs):
                state.order.name(value, tensors[position].path or tensors[position].name)
            state.scope[position] = value
        return
    del state.emit.calls[mark:]
    state.problems.append((_title(node), reason))
    state.failed.update(operator.outputs)


def _results(node: Node) -> Sequence[Value]:
    early = folded(node)
    if early is not None:
        return [early]
    translator = translators().get(node.op)
    if translator is None:
        node.refuse(refusal(node.op))
    if not node.results:
        node.refuse("it has no output")
    kept = next((tensor for tensor in node.tensors if tensor is not None and tensor.is_variable), None)
    if kept is not None:
        node.refuse(f"{kept.name!r} is kept within the model from one inference to the next")
    # Scales of a damaged file overflow; what is not finite then is refused.
    with np.errstate(all="ignore"):
        made = translator(node)
    results = [made] if isinstance(made, Value) else list(made)
    if len(results) < len(node.results):
        node.refuse(f"it has {len(node.results)} outputs, expected {len(results)}")
    for value, tensor in zip(results, node.results, strict=False):
        _check(node, value, tensor)
    return results


def _check(node: Node, value: Value, tensor: Tensor) -> None:
    """Compare what a translator made with what the file says of it."""
    if value.dtype is not tensor.dtype:
        node.refuse(f"the result is {value.dtype}, and the file says {tensor.dtype}")
    shape = value.shape
    # Converters leave out shapes of what depends on sizes: those of scalars.
    if shape is None or not tensor.dims or None in tensor.dims:
        return
    if shape != tensor.dims:
        node.refuse(f"the result has the shape {list(shape)}, and the file says {list(tensor.dims)}")


def _stage(node: Node) -> str:
    """Return the layer that an operator belongs to: that of its weight, else that of its result."""
    weight = node.tensors[1] if len(node.tensors) > 1 else None
    paths = [weight.path] if weight is not None and weight.payload is not None and len(weight.dims) > 1 else []
    paths += [tensor.path for tensor in node.results]
    return next((module for module in map(module_of, paths) if module), "")


def _title(node: Node) -> str:
    """Return an operator as messages call it, with the types of its inputs."""
    name = shortened(node.results[0].name) if node.results else ""
    types = ", ".join(
        "none" if value is None else f"{value.dtype}[{','.join(map(size_text, value.dims))}]" for value in node.inputs
    )
    return f"{node.op} {name!r}({shortened(types, 300)})"


def _raise_problems(state: _State) -> None:
    if not state.problems:
        return
    lines = [f"{title}: {shortened(reason, 600)}" for title, reason in state.problems[:MOST_LISTED]]
    diagnostics = [Diagnostic(code="import-unsupported", message=line) for line in lines]
    more = len(state.problems) - len(lines)
    if more:
        lines.append(f"and {more} more")
    raise ModelImportError(
        f"{counted(len(state.problems), 'operator')} cannot be imported:\n  " + "\n  ".join(lines),
        code="import-unsupported",
        diagnostics=diagnostics,
        nodes=[title.partition("(")[0] for title, _ in state.problems],
    )
