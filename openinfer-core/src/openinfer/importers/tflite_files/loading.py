"""The importer of TFLite models: what the plugin hook names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dsl import graph
from openinfer.importers.imported import ImportedModel, ImportOptions, ImportReport
from openinfer.importers.onnx_files.default_sizes import model_with_sizes
from openinfer.importers.onnx_files.loops import Loop
from openinfer.importers.onnx_files.merging import without_repetitions
from openinfer.importers.onnx_files.printing import printed
from openinfer.importers.onnx_files.rolling import rolled
from openinfer.importers.onnx_files.sizes import expressions
from openinfer.importers.onnx_files.states import with_states
from openinfer.importers.onnx_files.unused import without_unused
from openinfer.importers.tflite_files.reading import read_model
from openinfer.importers.tflite_files.translating import translate

if TYPE_CHECKING:
    from pathlib import Path

    from openinfer.importers.tflite_files.source import TfliteModel
    from openinfer.plugins.environment import Environment


def load(path: Path, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return the model of a TFLite file as a program with its weights.

    Raises:
        ModelImportError: the file is damaged, or has operators that cannot be imported.
        MissingDependencyError: the package ``tflite`` is not installed.
    """
    return imported(read_model(path), options, environment)


def imported(model: TfliteModel, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return a model that was read as a program with its weights.

    Raises:
        ModelImportError: it has operators that cannot be imported.
    """
    program, variables = translate(model, options, environment)
    without_repetitions(program)
    if variables:
        with_states(program, variables)
    with_states(program, options.feeds, options.kept_inputs)
    without_unused(program)
    statements = rolled(program) if options.roll else program.calls
    producer = f", made by {model.producer}" if model.producer else ""
    result = printed(program, environment, f"{model.name}: imported from TFLite{producer}", statements)
    program_graph = graph(result.text, check=True, name=model.name)
    paths = {tensor.path or tensor.name: tensor.name for tensor in model.main.tensors}
    report = ImportReport(
        format="tflite",
        nodes=sum(len(part.operators) for part in model.subgraphs.values()),
        statements=sum(len(part.calls) if isinstance(part, Loop) else 1 for part in statements),
        folded=0,
        inputs=result.inputs,
        outputs=result.outputs,
        values={paths[path]: name for path, name in result.values.items() if path in paths},
        feeds={output: value.name for value, output, _ in program.states},
        starts={value.name: (value.dtype, expressions(value.dims)) for value, _, _ in program.states},
        states=result.states,
        layers=sum(part.count for part in statements if isinstance(part, Loop) and isinstance(part.count, int)),
        notes=tuple(program.notes),
    )
    weights = model_with_sizes(program_graph, result.weights, program.sizes, environment)
    return ImportedModel(graph=program_graph, text=result.text, model=weights, report=report)
