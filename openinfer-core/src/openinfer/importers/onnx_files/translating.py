"""From the nodes of a graph to the calls of a program, in one pass."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import shortened
from openinfer.dims import NeedsNumberError
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.attribute_checks import attribute_fault
from openinfer.importers.onnx_files.control_flow import control_flow
from openinfer.importers.onnx_files.dimensions import Dimensions
from openinfer.importers.onnx_files.emitter import Emitter
from openinfer.importers.onnx_files.evaluating import (
    MOST_FOLDED,
    as_translated,
    computed,
    may_be_computed,
    sizes_of,
)
from openinfer.importers.onnx_files.expansion import expanded
from openinfer.importers.onnx_files.folding import folded
from openinfer.importers.onnx_files.inputs import input_values
from openinfer.importers.onnx_files.node import NeedsValueError, Node, UnsupportedNodeError
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.problems import Problem, error_of
from openinfer.importers.onnx_files.registry import RUNTIME
from openinfer.importers.onnx_files.shape_rules import FixedSizesError
from openinfer.importers.onnx_files.sizes import has_text, is_number, names_of, size_text, unwritten_text
from openinfer.importers.onnx_files.stages import stage_of
from openinfer.importers.onnx_files.translators import translators
from openinfer.importers.onnx_files.values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.onnx_files.source import SourceGraph, SourceModel, SourceNode, TensorInfo
    from openinfer.importers.onnx_files.values import Program
    from openinfer.plugins.environment import Environment

_MALFORMED = (TypeError, ValueError, IndexError, KeyError, ArithmeticError)
"""What translators raise where attributes, inputs or shapes of a node are not what its operator has."""


@dataclass(slots=True)
class Translation:
    """A program, and what is known about how it was made."""

    program: Program
    nodes: int = 0
    folded: int = 0


@dataclass(slots=True)
class _Problem:
    """Why a node cannot be translated.

    Attributes:
        fixed: the demand of a node that accepts some sizes only, and which.
    """

    node: SourceNode
    reason: str
    types: str
    code: str = "import-unsupported"
    inputs: tuple[str, ...] = ()
    fixed: FixedSizesError | None = None


@dataclass(slots=True)
class _State:
    """What is known while nodes are translated."""

    model: SourceModel
    emit: Emitter
    problems: list[_Problem] = field(default_factory=list["_Problem"])
    failed: set[str] = field(default_factory=set[str])
    folded: int = 0
    nodes: int = 0


def translate(model: SourceModel, options: ImportOptions, environment: Environment) -> Translation:
    """Return a model as a program; a dimension for which a node accepts one number or another dimension only is that.

    Raises:
        ModelImportError: nodes cannot be translated; all of them.
    """
    numbers: dict[str, int | str] = {}
    notes: list[str] = []
    while True:
        program = _translated(model, {**options.values, **numbers}, environment)
        if isinstance(program, Translation):
            program.program.notes[:0] = notes
            return program
        demands = {name: (number, title) for title, name, number in _demands(program)}
        if demands.keys() <= numbers.keys() | options.values.keys():
            # What a node asks for again is set already, and did not help.
            raise _error(program)
        numbers |= {name: number for name, (number, _) in demands.items()}
        notes += [_applied(name, value, title) for name, (value, title) in demands.items()]


def _applied(name: str, value: int | str, title: str) -> str:
    shown = f"`{value}`" if isinstance(value, str) else value
    return f"`{name}` is {shown}: {title} accepts no other"


def _demands(problems: Sequence[_Problem]) -> Iterator[tuple[str, str, int | str]]:
    """Yield nodes that accept only one number for a dimension, or another dimension, the last node first."""
    for problem in reversed(problems):
        for name, number in () if problem.fixed is None else problem.fixed.sizes.items():
            yield problem.node.title, name, number


def _translated(model: SourceModel, values: dict[str, Any], environment: Environment) -> Translation | list[_Problem]:
    """Return a model as a program, or why nodes of it cannot be translated."""
    dimensions = Dimensions(model.graph, values)
    emit = Emitter(environment, dimensions)
    state = _State(model, emit)
    inputs = input_values(model.graph.inputs, dimensions, values)
    scope = {value.name: value for value in inputs}
    translate_graph(model.graph, scope, state)
    writers = {name: node for node in model.graph.nodes for name in node.outputs}
    for info in model.graph.outputs:
        if info.name in writers and info.name in scope:
            _check_output(scope[info.name], writers[info.name], scope, state)
    if state.problems:
        return state.problems
    outputs = [(info.name, _output(info, scope, state)) for info in model.graph.outputs]
    return Translation(emit.program(model.name, inputs, outputs), state.nodes, state.folded)


def _check_output(value: Value, source: SourceNode, scope: Mapping[str, Value], state: _State) -> None:
    """Note a problem where an output has an extent that a program cannot declare."""
    if names_of(*value.dims) & state.emit.counts.keys():
        return
    unwritten = [dim for dim in value.dims if not has_text(dim)]
    if unwritten:
        options = state.emit.dimensions.options(names_of(*unwritten))
        reason = f"{unwritten_text(unwritten[0])}: fix it with {options}"
        types = _types(Node(source, tuple(scope.get(name) for name in source.inputs), state.emit))
        state.problems.append(_Problem(source, reason, types))


def _output(info: TensorInfo, scope: Mapping[str, Value], state: _State) -> Value:
    value = scope.get(info.name)
    if value is None:
        raise ModelImportError(f"no node writes the output {info.name!r}", code="import-file")
    return state.emit.materialised(value)


def translate_graph(graph: SourceGraph, scope: dict[str, Value], state: _State) -> None:
    """Translate the nodes of a graph; ``scope`` has its inputs, and then all of its values."""
    for name, payload in graph.payloads.items():
        scope[name] = Value(name, payload.dtype, payload.shape, payload)
    for node in graph.nodes:
        state.nodes += 1
        _translate_node(node, scope, state)


def _translate_node(source: SourceNode, scope: dict[str, Value], state: _State) -> None:
    if any(name in state.failed for name in source.inputs):
        state.failed.update(source.outputs)
        return
    missing = [name for name in source.inputs if name and name not in scope]
    if missing:
        message = f"{source.title} reads {shortened(missing[0])!r} before any node writes it"
        raise ModelImportError(f"{message}: nodes form a cycle or are out of order", code="import-file")
    node = Node(source, tuple(scope[name] if name else None for name in source.inputs), state.emit)
    mark = len(state.emit.calls)
    state.emit.stage = stage_of(source, state.emit.stage)
    try:
        fault = attribute_fault(source)
        if fault is not None:
            node.refuse(fault)
        results = _with_graphs(node, scope, state) if _has_graphs(source) else _results(node, state)
    except NeedsValueError as needed:
        del state.emit.calls[mark:]
        state.problems.append(_needs_value(node, needed, scope, state))
        results = None
    except (UnsupportedNodeError, ModelImportError) as error:
        del state.emit.calls[mark:]
        fixed = error if isinstance(error, FixedSizesError) else None
        state.problems.append(_Problem(source, str(error), _types(node), fixed=fixed))
        results = None
    except NeedsNumberError as error:
        del state.emit.calls[mark:]
        state.problems.append(_Problem(source, state.emit.dimensions.needs_number(error), _types(node)))
        results = None
    except _MALFORMED as error:
        # Translators read attributes and extents as the operator defines them; those of a damaged node are others.
        del state.emit.calls[mark:]
        reason = f"its attributes, inputs or shapes do not fit the operator ({type(error).__name__}: {error})"
        state.problems.append(_Problem(source, reason, _types(node)))
        results = None
    if results is None:
        state.failed.update(source.outputs)
        return
    for name, value in zip(source.outputs, results, strict=False):
        if value is not None and name:
            value.name = value.name or name
            scope[name] = value
            _declare_shape(value, name, mark, state)


def _declare_shape(value: Value, name: str, mark: int, state: _State) -> None:
    """Give a result the shape that the file says where integers of run time decide how large it is, without bound.

    Devices and targets reserve memory for it. A step in which it has another shape is refused.
    """
    info, emit, dims = state.model.graph.types.get(name), state.emit, value.dims
    shape = () if info is None or info.dims is None else tuple(dim for dim in info.dims if isinstance(dim, int))
    of_run_time = [dim for dim in dims if names_of(dim) & emit.counts.keys()]
    if len(shape) < len(dims) or all(map(emit.dimensions.is_bounded, of_run_time)):
        return
    # One node may become several calls of results of its shape, such as pads of an image and of its mask.
    calls = [call for call in emit.calls[mark:] if type(call) is Call and [v.dims for v in call.outputs] == [dims]]
    for call in calls:
        call.outputs[0].dims = shape
        call.declared = not any(read.dims == shape for read in call.reads())
    if not calls:
        return
    emit.notes.append(f"`{shortened(name)}` has the shape {list(shape)} of the file: integers of run time decide it")


def _has_graphs(source: SourceNode) -> bool:
    return not source.domain and source.op in ("If", "Loop", "Scan")


def _with_graphs(node: Node, scope: Mapping[str, Value], state: _State) -> Sequence[Value | None] | None:
    """Return the results of a node with graphs inside; of an `If` those of the branch that a known condition takes."""

    def translated(body: SourceGraph, inner: dict[str, Value]) -> bool:
        problems = len(state.problems)
        translate_graph(body, inner, state)
        # What reads values of nodes that failed is left out without a problem of its own.
        return len(state.problems) == problems and not any(info.name in state.failed for info in body.outputs)

    known_condition = node.given(0).integers() if node.op == "If" else None
    if known_condition is not None and is_number(known_condition[0]):
        body = node.get("then_branch" if known_condition[0] else "else_branch")
        inner = dict(scope)
        if not translated(body, inner):
            # What is wrong within the branch has been noted with its own name.
            return None
        state.folded += 1
        return [inner.get(info.name) for info in body.outputs]
    problems = len(state.problems)
    try:
        return control_flow(node, scope, translated)
    except NeedsValueError:
        if not any(_sources(node.source.inputs[:1], state.model.graph, scope)) and len(state.problems) > problems:
            return None
        # One side cannot be translated, or the sides differ: the condition decides which.
        del state.problems[problems:]
        raise


def _results(node: Node, state: _State) -> Sequence[Value | None] | None:
    """Return the results of a node, computed at import where that can be."""
    if any(value is not None and value.elements is not None for value in node.inputs) or node.op in ("Shape", "Size"):
        early = folded(node)
        if early is not None:
            state.folded += 1
            return [early]
    mark, is_known = len(state.emit.calls), may_be_computed(node)
    translator = translators().get((node.source.domain, node.op))
    if translator is None:
        body = expanded(node, state.model.opsets)
        if body is not None:
            return _inlined(node, body, state)
        constants = _computed_only(node, state) if is_known else None
        if constants is None:
            node.refuse(_without_operator(node))
        return constants
    made = translator(node)
    results = [made] if isinstance(made, Value) else list(made)
    if is_known and names_of(*(dim for value in results if value for dim in value.dims)) & state.emit.counts.keys():
        values_known = _computed_only(node, state)
        if values_known is not None:
            del state.emit.calls[mark:]
            return values_known
    calls = state.emit.calls[mark:]
    if not (is_known and calls and (sizes_of(results) or 0) <= MOST_FOLDED):
        return results
    values = as_translated(node, calls, results, state.emit.environment)
    if values is None:
        return results
    del state.emit.calls[mark:]
    state.folded += 1
    return values


def _computed_only(node: Node, state: _State) -> Sequence[Value | None] | None:
    """Compute a node that no operator implements: its inputs have few elements and say how many the result has."""
    elements = [element for value in node.inputs if value for element in value.integers() or ()]
    bounded = all(is_number(element) and abs(element) <= MOST_FOLDED for element in elements)
    found = computed(node, state.model.opsets) if bounded else None
    state.folded += found is not None
    return found


def _inlined(node: Node, body: SourceGraph, state: _State) -> Sequence[Value | None]:
    """Translate a node by the function that ONNX defines it with."""
    scope = {f"in{position}": value for position, value in enumerate(node.inputs) if value is not None}
    problems = len(state.problems)
    translate_graph(body, scope, state)
    if len(state.problems) > problems:
        inner = state.problems[problems]
        del state.problems[problems:]
        position = _unknown_integers(node)
        if inner.code == "import-value" and position is not None:
            raise NeedsValueError(node.source, position)
        node.refuse(f"inside of its definition: {inner.node.op}: {inner.reason}")
    return [scope.get(f"out{position}") for position in range(len(node.source.outputs))]


def _unknown_integers(node: Node) -> int | None:
    """Return the position of the first input of integers that is not known; None where there is none."""
    found = (
        position
        for position, value in enumerate(node.inputs)
        if value is not None and value.dtype.is_integer and value.integers() is None
    )
    return next(found, None)


# Problems


def _without_operator(node: Node) -> str:
    """Return why a node that neither an operator nor a function defines cannot be imported, and what to do."""
    domain, op, onnx = node.source.domain, node.op, onnx_module()
    if domain == RUNTIME:
        return f"no operator implements it: export the model without ONNX Runtime's operator {op}"
    if domain and domain not in (supported for supported, _ in translators()):
        return f"operators of the domain {domain!r} are unknown: export it as a function, or as operators of ONNX"
    if domain or onnx.defs.has(op):
        if op in _RANDOM:
            return "no operator implements it: make the random numbers an input of the model"
        return "no operator implements it: export the model with other operators in its place"
    owner = next((supported for supported, name in translators() if name == op), None)
    if owner is not None:
        return f"ONNX has no such operator; {owner} has one: write that domain into the node"
    near = difflib.get_close_matches(op, [name for supported, name in translators() if not supported], 1, 0.7)
    return "ONNX has no such operator" + (f"; the nearest is {near[0]}" if near else "")


_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def _needs_value(node: Node, needed: NeedsValueError, scope: Mapping[str, Value], state: _State) -> _Problem:
    names = list(dict.fromkeys(node.source.inputs[position] for position in needed.positions))
    sources, sizes = _sources(names, state.model.graph, scope)
    options = [f"--set {source}=VALUE" for source in sources]
    options += [state.emit.dimensions.options(sizes)] if sizes else []
    *others, last = map(repr, names)
    listed = f"inputs {', '.join(others)} and {last} have" if others else f"input {last} has"
    reason = f"{listed} to be known at import"
    if options:
        reason += f": fix {' and '.join(options)}"
    return _Problem(node.source, reason, _types(node), "import-value", sources)


def _sources(
    names: Sequence[str], graph: SourceGraph, scope: Mapping[str, Value]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the inputs of a graph that values depend on, and the sizes: shapes depend on no elements."""
    writers = {output: node for node in graph.nodes for output in node.outputs}
    inputs = [info.name for info in graph.inputs]
    sources: dict[str, None] = {}
    sizes: frozenset[str] = frozenset()
    seen, waiting = set(names), [*reversed(names)]
    while waiting:
        current = waiting.pop()
        if current in inputs:
            sources.setdefault(current)
        writer = writers.get(current)
        if writer is not None and writer.op in ("Shape", "Size") and writer.inputs[0] in scope:
            sizes |= names_of(*scope[writer.inputs[0]].dims)
            continue
        for before in () if writer is None else writer.inputs:
            if before not in seen:
                seen.add(before)
                waiting.append(before)
    return tuple(sources), sizes


def _types(node: Node) -> str:
    shown = [
        "none" if value is None else f"{value.dtype}[{','.join(map(size_text, value.dims))}]" for value in node.inputs
    ]
    return ", ".join(shown)


def _error(problems: Sequence[_Problem]) -> ModelImportError:
    """Return the error that lists why nodes cannot be translated."""
    listed = [Problem(each.node.title, each.types, each.reason, each.code) for each in problems]
    return error_of("node", listed, inputs=list(dict.fromkeys(name for each in problems for name in each.inputs)))
