"""The importer of ONNX models: what the plugin hook names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import counted
from openinfer.dsl import graph
from openinfer.importers.imported import ImportedModel, ImportOptions, ImportReport
from openinfer.importers.onnx_files.batch_norms import without_batch_norms
from openinfer.importers.onnx_files.default_sizes import model_with_sizes
from openinfer.importers.onnx_files.loops import Loop
from openinfer.importers.onnx_files.merging import without_repetitions
from openinfer.importers.onnx_files.printing import printed
from openinfer.importers.onnx_files.reading import read_model
from openinfer.importers.onnx_files.rewriting import with_idioms
from openinfer.importers.onnx_files.rolling import rolled
from openinfer.importers.onnx_files.states import with_states
from openinfer.importers.onnx_files.translating import translate
from openinfer.importers.onnx_files.unused import without_unused
from openinfer.importers.onnx_files.weight_names import with_weight_names

if TYPE_CHECKING:
    from pathlib import Path

    from openinfer.importers.onnx_files.source import SourceModel
    from openinfer.plugins.environment import Environment


def load(path: Path, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return the model of an ONNX file as a program with its weights.

    Raises:
        ModelImportError: the file is damaged, or has nodes that cannot be imported.
        EnvironmentLacksError: the package ``onnx`` is not installed.
    """
    return imported(read_model(path), options, environment)


def imported(model: SourceModel, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return a model that was read as a program with its weights.

    Raises:
        ModelImportError: it has nodes that cannot be imported.
    """
    translation = translate(model, options, environment)
    program = translation.program
    with_states(program, options.feeds)
    without_repetitions(program)
    without_unused(program)
    with_idioms(program)
    norms = 0 if options.keep_norms else without_batch_norms(program)
    producer = f", made by {model.producer}" if model.producer else ""
    with_weight_names(program, environment)
    statements = rolled(program) if options.roll else program.calls
    result = printed(program, environment, f"{model.name}: imported from ONNX{producer}", statements)
    report = ImportReport(
        format="onnx",
        nodes=translation.nodes,
        statements=sum(len(each.calls) if isinstance(each, Loop) else 1 for each in statements),
        folded=translation.folded,
        inputs=result.inputs,
        outputs=result.outputs,
        values=result.values,
        feeds={output: value.name for value, output, _ in program.states},
        notes=(
            *(
                f"`{value.name}` is a state: each step takes what `{output}` was before"
                for value, output, _ in program.states
            ),
            *((f"{counted(norms, 'batch norm')} folded into the weights before",) if norms else ()),
        ),
    )
    program_graph = graph(result.text, check=True, name=model.name)
    weights = model_with_sizes(program_graph, result.weights, program.sizes, environment)
    return ImportedModel(graph=program_graph, text=result.text, model=weights, report=report)
