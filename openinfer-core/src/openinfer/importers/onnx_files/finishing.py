"""From the calls of a program to its text and weights: the same for every format of one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import counted
from openinfer.dsl import graph
from openinfer.errors import ModelImportError, OpenInferError
from openinfer.importers.imported import ImportedModel, ImportOptions, ImportReport
from openinfer.importers.onnx_files.batch_norms import without_batch_norms, without_channel_constants
from openinfer.importers.onnx_files.default_sizes import model_with_sizes
from openinfer.importers.onnx_files.head_splits import with_heads_before_splits
from openinfer.importers.onnx_files.idiom_search import with_idioms
from openinfer.importers.onnx_files.loops import Loop
from openinfer.importers.onnx_files.movement_chains import with_short_chains
from openinfer.importers.onnx_files.positions import with_positions
from openinfer.importers.onnx_files.printing import printed
from openinfer.importers.onnx_files.rolling import rolled
from openinfer.importers.onnx_files.sizes import expressions
from openinfer.importers.onnx_files.unused import without_unused
from openinfer.importers.onnx_files.weight_names import with_weight_names

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Program
    from openinfer.ir.graph import Graph
    from openinfer.plugins.environment import Environment
    from openinfer.symbolic import IntExpr


@dataclass(frozen=True, slots=True)
class Origin:
    """What a report says of the model that a program was made of.

    Attributes:
        format: name of the importer.
        title: the format as the first line of the program names it.
        producer: what wrote the file; empty where it does not say.
        nodes: nodes of the model.
        folded: those whose values are known at import.
        notes: on how the file was read, one sentence each.
    """

    format: str
    title: str
    producer: str
    nodes: int
    folded: int = 0
    notes: tuple[str, ...] = ()


def finished(program: Program, origin: Origin, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return a program, whose states are there, with patterns replaced and layers rolled, as text with weights.

    Raises:
        ModelImportError: the language has no such program.
    """
    without_unused(program)
    with_idioms(program)
    with_heads_before_splits(program)
    with_short_chains(program)
    norms = 0 if options.keep_norms else without_batch_norms(program)
    constants = 0 if options.keep_norms else without_channel_constants(program)
    producer = f", made by {origin.producer}" if origin.producer else ""
    with_positions(program)
    with_weight_names(program, environment)
    statements = rolled(program) if options.roll else program.calls
    result = printed(program, environment, f"{program.name}: imported from {origin.title}{producer}", statements)
    fed = {output: value.name for value, output, _ in program.states}
    fed |= {output: cache.name for cache, output in program.caches}
    report = ImportReport(
        format=origin.format,
        nodes=origin.nodes,
        statements=sum(len(each.calls) if isinstance(each, Loop) else 1 for each in statements),
        folded=origin.folded,
        inputs=result.inputs,
        outputs=result.outputs,
        values=result.values,
        feeds=fed,
        starts=_starts(program),
        states=result.states,
        recognised=program.recognised,
        norms=norms,
        channel_constants=constants,
        layers=sum(part.count for part in statements if isinstance(part, Loop) and isinstance(part.count, int)),
        notes=(
            *origin.notes,
            *_state_notes(program),
            *_cache_notes(program),
            *((f"{counted(norms, 'batch norm')} folded into the weights before",) if norms else ()),
            *program.notes,
        ),
    )
    program_graph = _parsed(result.text, program.name)
    weights = model_with_sizes(program_graph, result.weights, program.sizes, environment)
    return ImportedModel(graph=program_graph, text=result.text, model=weights, report=report)


def _parsed(text: str, name: str) -> Graph:
    """Parse a program that was made of a model.

    Raises:
        ModelImportError: the language has no such program.
    """
    try:
        return graph(text, check=True, name=name)
    except OpenInferError as error:
        message = f"the model needs a program that the language cannot express: {error}"
        raise ModelImportError(message, code="import-unsupported", diagnostics=list(error.diagnostics)) from error


def _state_notes(program: Program) -> list[str]:
    return [
        f"`{value.name}` is a state: each step takes what `{output}` was before, the first one zeros "
        f"(--initial gives it others, --no-feed {value.name} leaves it an input)"
        for value, output, _ in program.states
        if output not in program.internal
    ]


def _cache_notes(program: Program) -> list[str]:
    if not program.caches:
        return []
    first, output = program.caches[0]
    return [f"{counted(len(program.caches), 'cache')}: each step extends `{first.name}` to `{output}`, and keeps it"]


def _starts(program: Program) -> dict[str, tuple[DType, tuple[IntExpr, ...]]]:
    """Return what states hold before the first step, by the names of inputs."""
    found = {value.name: (value.dtype, expressions(value.dims)) for value, _, _ in program.states}
    for cache, _ in program.caches:
        dims = tuple(0 if axis == cache.axis else dim for axis, dim in enumerate(cache.dims))
        found[cache.name] = cache.dtype, expressions(dims)
    return found
