"""From the operators of a program of PyTorch to the calls of a program, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from openinfer.diagnostics import shortened
from openinfer.dims import Condition, Dim, NeedsNumberError, Relation, index_of
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.demands import take
from openinfer.importers.onnx_files.dimensions import Dimensions
from openinfer.importers.onnx_files.emitter import Emitter
from openinfer.importers.onnx_files.failures import broken
from openinfer.importers.onnx_files.inputs import input_values
from openinfer.importers.onnx_files.node import NeedsValueError, UnsupportedNodeError
from openinfer.importers.onnx_files.problems import Problem, error_of
from openinfer.importers.onnx_files.sizes import is_number, shape_text, size_text
from openinfer.importers.onnx_files.source import SourceGraph
from openinfer.importers.onnx_files.values import Program, Value, of_elements
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.source import Ref
from openinfer.importers.torch_files.symbolic_integers import CHECKS, FUNCTIONS, computed
from openinfer.importers.torch_files.translators import translators

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.onnx_files.source import TensorInfo
    from openinfer.importers.torch_files.node import Resolved
    from openinfer.importers.torch_files.source import Argument, Operator, TorchProgram
    from openinfer.importers.torch_files.symbols import Range
    from openinfer.plugins.environment import Environment

NO_TRANSLATION = "no operator implements it: export the module with other operators in its place"
"""The reason of an operator that no translator is for."""

_MALFORMED = (TypeError, ValueError, IndexError, KeyError, ArithmeticError)
"""What translators raise where arguments of an operator are not what it has."""


@dataclass(slots=True)
class _State:
    """What is known while operators are translated: values by the names of nodes."""

    emit: Emitter
    scope: dict[str, Resolved]
    problems: list[Problem] = field(default_factory=list[Problem])
    missing: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])


def translate(source: TorchProgram, options: ImportOptions, environment: Environment) -> Program:
    """Return a program; buffers that it writes are inputs with an output ``NAME.next`` that only they read.

    Raises:
        ModelImportError: operators cannot be translated; all of them.
    """
    values = dict(options.values)
    dimensions = Dimensions(SourceGraph(source.name, (), source.inputs, (), {}), values)
    emit = Emitter(environment, dimensions)
    scope: dict[str, Resolved] = {
        name: Value(weight.name, weight.payload.dtype, weight.payload.shape, weight.payload)
        for name, weight in source.weights.items()
    }
    inputs = input_values(source.inputs, dimensions, values)
    scope.update((value.name, value) for value in inputs)
    _limit(dimensions, source.ranges)
    for name, buffer in source.buffers.items():
        scope[name] = kept = Value(buffer.name, buffer.payload.dtype, buffer.payload.shape)
        inputs.append(kept)
    state = _State(emit, scope)
    for operator in source.operators:
        _translate(operator, state)
    if state.problems:
        missing = ", ".join(sorted(state.missing))
        further = [f"operators without a translation: {missing}"] if missing else []
        raise error_of("operator", state.problems, further=further)
    outputs = [(name, _output(name, argument, state)) for name, argument in source.outputs]
    initial = {b.name: b.payload for b in source.buffers.values() if np.asarray(b.payload.load()).any()}
    outputs += [(next_name(b.name), _output(b.name, b.result, state)) for b in source.buffers.values()]
    program = emit.program(source.name, inputs, outputs)
    program.initial = initial
    program.internal = {next_name(buffer.name) for buffer in source.buffers.values()}
    return program


def next_name(buffer: str) -> str:
    """Return what the value of a buffer after a step is called."""
    return f"{buffer}.next"


def _limit(dimensions: Dimensions, ranges: Mapping[str, Range]) -> None:
    """Take in what the program says of the sizes that it was exported for."""
    named = {dimensions.origins.get(name, name): name for name in dimensions.sizes}
    for param, values in ranges.items():
        name = named.get(param)
        if name is None:
            continue
        declared = dimensions.space.declared(name)
        high = declared.high if values.high is None else values.high
        size = dimensions.space.size(name, max(values.low, declared.low or 0), high)
        if values.multiple > 1:
            rest = (size - values.remainder) % values.multiple
            take(dimensions.space, Condition(index_of(rest), Relation.EQUAL))


def _output(name: str, argument: Argument, state: _State) -> Value:
    value = _resolved(argument, state.scope)
    if isinstance(value, int) and not isinstance(value, bool):
        value = of_elements([value], ())
    if not isinstance(value, Value):
        message = f"the output {name!r} is {value!r}, expected a tensor: leave it out of what the module returns"
        raise ModelImportError(message, code="import-unsupported")
    return state.emit.materialised(value)


def _resolved(argument: Argument, scope: Mapping[str, Resolved]) -> Resolved:
    if isinstance(argument, Ref):
        if argument.name not in scope:
            raise broken(f"an operator reads {shortened(argument.name)!r} before it is written")
        return scope[argument.name]
    if isinstance(argument, tuple):
        return tuple(_resolved(part, scope) for part in argument)
    return argument


def _refs(argument: Argument) -> list[str]:
    if isinstance(argument, Ref):
        return [argument.name]
    return [name for part in argument for name in _refs(part)] if isinstance(argument, tuple) else []


def _translate(operator: Operator, state: _State) -> None:
    if operator.op in CHECKS and not operator.results and not operator.foreign:
        return
    if any(name in state.failed for value in operator.arguments.values() for name in _refs(value)):
        state.failed.add(operator.name)
        return
    arguments = {name: _resolved(value, state.scope) for name, value in operator.arguments.items()}
    node = Node(operator, arguments, state.emit)
    state.emit.stage = operator.stage
    mark = len(state.emit.calls)
    try:
        state.scope[operator.name] = _results(node)
    except (UnsupportedNodeError, ModelImportError) as error:
        reason = str(error)
    except NeedsValueError:
        reason = "an argument has to be known at import: fix the inputs that it depends on with --set"
    except NeedsNumberError as error:
        reason = state.emit.dimensions.needs_number(error)
    except _MALFORMED as error:
        # Translators read arguments as the operator defines them; those of a damaged file are others.
        reason = f"its arguments or shapes do not fit the operator ({type(error).__name__}: {error})"
    else:
        return
    del state.emit.calls[mark:]
    state.problems.append(_problem(node, reason))
    if reason == NO_TRANSLATION:
        state.missing.add(operator.op)
    state.failed.add(operator.name)


def _results(node: Node) -> Resolved:
    """Return what a node is in the rest of the program: a tensor, several, or an integer."""
    operator = node.source
    if operator.op == "getitem":
        parts, position = node.get("0"), node.get("1")
        value = parts[position]
        if value is None:
            node.refuse(f"result {position} of the operator before it is not available")
        return value
    if operator.op in FUNCTIONS and not operator.results and not operator.foreign:
        return computed(node)
    translator = translators().get(operator.op)
    if translator is None:
        node.refuse(NO_TRANSLATION)
    if operator.foreign:
        node.refuse(f"its result is {operator.foreign}, which OpenInfer does not have: export the module without it")
    made = translator(node)
    if isinstance(made, Value):
        _check(node, made, operator.results[0])
        return made
    for position, (value, info) in enumerate(zip(made, operator.results, strict=False)):
        if value is not None:
            _check(node, value, info, position)
    return tuple(made)


def _check(node: Node, value: Value, info: TensorInfo, position: int = 0) -> None:
    """Compare a result with what the program says of it, and name it."""
    if info.dtype is not value.dtype:
        node.refuse(f"result {position} is {value.dtype}, and the program says {info.dtype}")
    wanted = info.dims or ()
    differs = len(wanted) != value.rank or any(
        is_number(ours) and isinstance(theirs, int) and ours != theirs
        for ours, theirs in zip(value.dims, wanted, strict=True)
    )
    if differs:
        node.refuse(f"result {position} has the shape [{shape_text(value.dims)}], and the program says {list(wanted)}")
    value.name = value.name or info.name


def _problem(node: Node, reason: str) -> Problem:
    arguments = ", ".join(f"{name}={_shown(value)}" for name, value in node.arguments.items() if value is not None)
    return Problem(f"{node.source.op} {shortened(node.source.name)!r}", arguments, reason)


def _shown(value: Resolved) -> str:
    if isinstance(value, Value):
        return f"{value.dtype}[{','.join(map(size_text, value.dims))}]"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_shown(part) for part in cast('Sequence[Resolved]', value))}]"
    return size_text(value) if isinstance(value, Dim) else str(value)
