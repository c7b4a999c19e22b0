"""From the operators of a model to the calls of a program, in one pass."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from openinfer.diagnostics import shortened
from openinfer.dims import NeedsNumberError
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.dimensions import Dimensions
from openinfer.importers.onnx_files.emitter import Emitter
from openinfer.importers.onnx_files.failures import broken
from openinfer.importers.onnx_files.inputs import input_values
from openinfer.importers.onnx_files.problems import Problem, error_of
from openinfer.importers.onnx_files.sizes import size_text
from openinfer.importers.onnx_files.source import SourceGraph, TensorInfo
from openinfer.importers.onnx_files.values import Value
from openinfer.importers.tflite_files.folding import folded
from openinfer.importers.tflite_files.image_order import ImageOrder
from openinfer.importers.tflite_files.naming import module_of
from openinfer.importers.tflite_files.node import Node, RefusedSubgraphError, UnsupportedNodeError
from openinfer.importers.tflite_files.refusals import refusal
from openinfer.importers.tflite_files.registry import translators
from openinfer.importers.tflite_files.variables import Variables, variable_names

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.onnx_files.values import Call, Program
    from openinfer.importers.tflite_files.source import Operator, Subgraph, Tensor, TfliteModel
    from openinfer.importers.tflite_files.variables import Variable
    from openinfer.plugins.environment import Environment

MOST_OPERATORS = 1 << 17
"""Operators of all subgraphs, each as often as it is run."""

_MALFORMED = (TypeError, ValueError, IndexError, KeyError, ArithmeticError, MemoryError)
"""What translators raise where options, inputs or shapes of an operator are not what it has."""


@dataclass(slots=True, eq=False)
class _Shared:
    """What all subgraphs of a model have in common.

    Attributes:
        count: operators that were translated so far, those of a subgraph as often as it is run.
        inside: depth of branches and loops around what is being translated.
        is_first: whether it runs before the first inference only.
    """

    model: TfliteModel
    emit: Emitter
    order: ImageOrder
    variables: Variables
    requantize: str
    problems: list[Problem] = field(default_factory=list[Problem])
    count: int = 0
    inside: int = 0
    is_first: bool = False


@dataclass(slots=True, eq=False)
class _Graph:
    """A subgraph while its operators are translated: values by the positions of its tensors."""

    number: int
    source: Subgraph
    shared: _Shared
    scope: dict[int, Value] = field(default_factory=dict[int, Value])
    failed: set[int] = field(default_factory=set[int])

    @property
    def variables(self) -> Variables:
        return self.shared.variables

    def subgraph(self, number: int) -> Subgraph:
        return self.shared.model.subgraphs[number]

    def translate(self) -> None:
        """Translate all operators, with constants and inputs in the scope."""
        for position, tensor in enumerate(self.source.tensors):
            if tensor.payload is not None:
                self.scope[position] = Value(tensor.name, tensor.dtype, tensor.payload.shape, tensor.payload)
        self.shared.count += len(self.source.operators)
        if self.shared.count > MOST_OPERATORS:
            raise broken(f"subgraphs run one another, with more than {MOST_OPERATORS} operators in all")
        for operator in self.source.operators:
            _translate(operator, self)

    def run(self, number: int, inputs: Sequence[Value]) -> list[Value]:
        source, known_problems = self.subgraph(number), len(self.shared.problems)
        if len(source.inputs) != len(inputs):
            raise broken(f"subgraph {number} has {len(source.inputs)} inputs, and is run with {len(inputs)}")
        inner = _Graph(number, source, self.shared, dict(zip(source.inputs, inputs, strict=True)))
        inner.translate()
        if len(self.shared.problems) > known_problems:
            raise RefusedSubgraphError
        return [_output(position, inner) for position in source.outputs]

    @contextmanager
    def side(self) -> Generator[list[Call]]:
        with self.shared.emit.side() as calls, self.loop():
            yield calls

    @contextmanager
    def loop(self) -> Generator[None]:
        self.shared.inside += 1
        try:
            with self.shared.order.inner():
                yield
        finally:
            self.shared.inside -= 1

    def kept(self, position: int) -> Variable:
        return self.shared.variables.tensor(self.number, position, self.source.tensors[position])

    def keep(self, node: Node, variable: Variable, value: Value) -> None:
        if self.shared.is_first:
            if value.payload is None:
                node.refuse("a first value that is computed, expected one that is stored")
            variable.initial = value.payload
            return
        if self.shared.inside:
            node.refuse(f"the variable {variable.name!r} is written in a branch or a loop")
        variable.now = node.emit.materialised(value)

    def initialise(self, number: int) -> None:
        shared = self.shared
        outer, shared.is_first = shared.is_first, True
        try:
            with self.side():
                self.run(number, [])
        finally:
            shared.is_first = outer

    def value(self, position: int) -> Value | None:
        """Return what a tensor holds; None where it is left out, or is not written yet."""
        tensor = self.source.tensors[position] if position >= 0 else None
        if tensor is not None and tensor.is_variable and position not in self.scope:
            return self.shared.variables.read(self.kept(position))
        return self.scope.get(position)


def translate(model: TfliteModel, options: ImportOptions, environment: Environment) -> tuple[Program, dict[str, str]]:
    """Return a model as a program, and the outputs that are variables in the next step, as pairs with inputs.

    Raises:
        ModelImportError: operators cannot be translated; all of them.
    """
    values = dict(options.values)
    main = model.main
    infos = tuple(_info(main.tensors[position]) for position in dict.fromkeys(main.inputs))
    dimensions = Dimensions(SourceGraph(model.name, (), infos, (), {}), values)
    emit = Emitter(environment, dimensions)
    shared = _Shared(model, emit, ImageOrder(emit), Variables(variable_names(model)), options.requantize)
    state = _Graph(0, main, shared)
    inputs = input_values(infos, dimensions, values)
    state.scope.update(zip(dict.fromkeys(main.inputs), inputs, strict=True))
    state.translate()
    if shared.problems:
        raise error_of("operator", shared.problems)
    outputs = [(main.tensors[n].name, _output(n, state)) for n in dict.fromkeys(main.outputs)]
    program = emit.program(model.name, inputs, outputs)
    return program, shared.variables.finish(program)


def _info(tensor: Tensor) -> TensorInfo:
    if tensor.payload is not None:
        raise broken(f"input {tensor.name!r} has numbers in the file")
    # Converters leave the batch open in every input: it is one size.
    dims = tuple(extent if extent is not None else None if axis else "batch" for axis, extent in enumerate(tensor.dims))
    return TensorInfo(tensor.name, tensor.dtype, dims)


def _output(position: int, state: _Graph) -> Value:
    value = state.value(position)
    if value is None:
        raise broken(f"no operator writes the output {state.source.tensors[position].name!r}")
    return state.shared.emit.materialised(value)


def _translate(operator: Operator, state: _Graph) -> None:
    read = [position for position in operator.inputs if position >= 0]
    if any(position in state.failed for position in read):
        state.failed.update(operator.outputs)
        return
    tensors, emit, order = state.source.tensors, state.shared.emit, state.shared.order
    missing = next((n for n in read if n not in state.scope and not tensors[n].is_variable), None)
    if missing is not None:
        message = f"{operator.op} {operator.index} reads {shortened(tensors[missing].name)!r} before it is written"
        raise broken(f"{message}: operators form a cycle or are out of order")
    node = Node(
        operator,
        tuple(tensors[position] if position >= 0 else None for position in operator.inputs),
        tuple(tensors[position] for position in operator.outputs),
        tuple(state.value(position) for position in operator.inputs),
        emit,
        order,
        state.shared.requantize,
        state,
    )
    emit.stage = _stage(node)
    mark = len(emit.calls)
    try:
        results = _results(node)
    except RefusedSubgraphError:
        reason = ""
    except (UnsupportedNodeError, ModelImportError) as error:
        reason = str(error)
    except NeedsNumberError as error:
        reason = emit.dimensions.needs_number(error)
    except _MALFORMED as error:
        # Translators read options and extents as the operator defines them; those of a damaged file are others.
        reason = f"its options, inputs or shapes do not fit the operator ({type(error).__name__}: {error})"
    else:
        for position, value in zip(operator.outputs, results, strict=False):
            if value.payload is None and not value.name and not any(value is read for read in node.inputs):
                order.name(value, tensors[position].path or tensors[position].name)
            state.scope[position] = value
        return
    del emit.calls[mark:]
    if reason:
        state.shared.problems.append(_problem(node, reason))
    state.failed.update(operator.outputs)


def _results(node: Node) -> Sequence[Value]:
    early = folded(node)
    if early is not None:
        return [early]
    translator = translators().get(node.op)
    if translator is None:
        node.refuse(refusal(node.op))
    # Scales of a damaged file overflow; what is not finite then is refused.
    with np.errstate(all="ignore"):
        made = translator(node)
    results = [made] if isinstance(made, Value) else list(made)
    if len(results) < len(node.results):
        node.refuse(f"it has {len(node.results)} outputs, expected {len(results)}")
    if results and not node.results:
        node.refuse("it has no output")
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


def _problem(node: Node, reason: str) -> Problem:
    name = shortened(node.results[0].name) if node.results else ""
    types = ", ".join(
        "none" if value is None else f"{value.dtype}[{','.join(map(size_text, value.dims))}]" for value in node.inputs
    )
    return Problem(f"{node.op} {name!r}", types, reason)
