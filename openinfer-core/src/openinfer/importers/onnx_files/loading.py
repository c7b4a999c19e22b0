"""The importer of ONNX models: what the plugin hook names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.importers.imported import ImportedModel, ImportOptions
from openinfer.importers.onnx_files.finishing import Origin, finished
from openinfer.importers.onnx_files.merging import without_repetitions
from openinfer.importers.onnx_files.positions import NotKeptError
from openinfer.importers.onnx_files.reading import read_model
from openinfer.importers.onnx_files.states import with_states
from openinfer.importers.onnx_files.translating import translate

if TYPE_CHECKING:
    from pathlib import Path

    from openinfer.importers.onnx_files.source import SourceModel
    from openinfer.plugins.environment import Environment


def load(path: Path, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return the model of an ONNX file as a program with its weights.

    Raises:
        ModelImportError: the file is damaged, or has nodes that cannot be imported.
        MissingDependencyError: the package ``onnx`` is not installed.
    """
    return imported(read_model(path), options, environment)


def imported(model: SourceModel, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return a model that was read as a program with its weights.

    Raises:
        ModelImportError: it has nodes that cannot be imported.
    """
    try:
        return _imported(model, options, environment)
    except NotKeptError as error:
        if options.feeds is not None:
            raise
        found = _imported(model, replace(options, feeds={}), environment)
        note = f"caches stay inputs and outputs: {error}"
        return replace(found, report=replace(found.report, notes=(*found.report.notes, note)))


def _imported(model: SourceModel, options: ImportOptions, environment: Environment) -> ImportedModel:
    translation = translate(model, options, environment)
    program = translation.program
    # Only then an output that is a copy of an input is that input.
    without_repetitions(program)
    with_states(program, options.feeds, options.kept_inputs)
    origin = Origin("onnx", "ONNX", model.producer, translation.nodes, translation.folded, model.notes)
    return finished(program, origin, options, environment)
