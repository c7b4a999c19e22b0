"""TFLite models as TFLite Micro runs them (the package ``tflite-micro``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import ModelImportError
from openinfer.importers.given_values import given_array
from openinfer.importers.tflite_files.reading import read_model
from openinfer.importers.tflite_files.replays import Replays

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.tflite_files.source import Tensor

    Array = npt.NDArray[Any]


def micro_runtime() -> Any:
    """Return the module that runs models; None where the package is not installed."""
    try:
        return importlib.import_module("tflite_micro.python.tflite_micro.runtime")
    except ImportError:
        return None


class MicroOriginal:
    """A model, run with the reference kernels of TFLite Micro, in the shapes that the file says."""

    def __init__(self, path: Path, options: ImportOptions, runtime: Any) -> None:
        self._path = path
        model = read_model(path)
        self._graph, self._replays = model.main, Replays(model)
        self._fixed = options.values
        self._runtime = runtime

    @property
    def runner(self) -> str:
        """What runs it."""
        return "TFLite Micro"

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name, and what stands for states.

        Raises:
            ModelImportError: the model does not run on these inputs.
        """
        graph, steps = self._graph, self._replays.steps(inputs)
        try:
            interpreter = self._runtime.Interpreter.from_file(str(self._path))
            for step in steps:
                for number, position in enumerate(graph.inputs):
                    interpreter.set_input(self._array(graph.tensors[position], step), number)
                interpreter.invoke()
            outputs = {
                graph.tensors[position].name: np.array(interpreter.get_output(number))
                for number, position in enumerate(graph.outputs)
            }
        except (RuntimeError, ValueError) as error:
            message = f"the original does not run ({self.runner}): {error}; it runs in the shapes of the file alone"
            raise ModelImportError(f"{message}: fix open dimensions with --set", code="import-value") from error
        return outputs | self._replays.states(steps)

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return nothing: the package shows outputs only."""
        del inputs
        return {}

    def _array(self, tensor: Tensor, inputs: Mapping[str, Array]) -> Array:
        shape = tuple(1 if extent is None else extent for extent in tensor.dims)
        if tensor.name in inputs:
            return np.ascontiguousarray(inputs[tensor.name], storage_dtype(tensor.dtype))
        array = given_array(tensor.name, self._fixed[tensor.name], tensor.dtype)
        return np.broadcast_to(array, array.shape or shape).copy()
