"""The importer of programs of `torch.export`: what the plugin hook names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.finishing import Origin, finished
from openinfer.importers.onnx_files.merging import without_repetitions
from openinfer.importers.onnx_files.states import with_states
from openinfer.importers.torch_files.reading import read_program
from openinfer.importers.torch_files.translating import next_name, translate

if TYPE_CHECKING:
    from pathlib import Path

    from openinfer.importers.imported import ImportedModel, ImportOptions
    from openinfer.importers.torch_files.source import TorchProgram
    from openinfer.plugins.environment import Environment


def load(path: Path, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return the program of a ``.pt2`` file with its weights.

    Raises:
        ModelImportError: the file is damaged, could run code, or has operators that cannot be imported.
        MissingDependencyError: the package ``torch`` is not installed.
    """
    return imported(read_program(path), options, environment)


def imported(source: TorchProgram, options: ImportOptions, environment: Environment) -> ImportedModel:
    """Return a program that was read, with its weights.

    Raises:
        ModelImportError: it has operators that cannot be imported.
    """
    program = translate(source, options, environment)
    without_repetitions(program)
    buffers = {next_name(buffer.name): buffer.name for buffer in source.buffers.values()}
    if buffers:
        with_states(program, buffers)
    with_states(program, options.feeds, options.kept_inputs)
    nodes = len(source.operators) + source.folded
    origin = Origin("torch", "PyTorch", source.producer.removeprefix("PyTorch "), nodes, source.folded)
    return finished(program, origin, options, environment)
