"""TFLite models as LiteRT runs them (the package ``ai-edge-litert``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import MissingDependencyError, ModelImportError
from openinfer.importers.given_values import given_array
from openinfer.importers.tflite_files.micro_originals import MicroOriginal, micro_runtime
from openinfer.importers.tflite_files.reading import read_model
from openinfer.importers.tflite_files.replays import Replays
from openinfer_oinf.installing import install_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.tflite_files.replays import Steps
    from openinfer.importers.tflite_files.source import Subgraph

    Array = npt.NDArray[Any]


def opened(path: Path, options: ImportOptions) -> LiteRtOriginal | MicroOriginal:
    """Return a model to run by LiteRT, or by TFLite Micro, if that is installed, for its bits.

    Raises:
        MissingDependencyError: the package ``ai-edge-litert`` is not installed.
        ModelImportError: the file is damaged.
    """
    micro = micro_runtime() if options.requantize == "tflite" else None
    if micro is not None:
        return MicroOriginal(path, options, micro)
    try:
        runtime = importlib.import_module("ai_edge_litert.interpreter")
    except ImportError as error:
        message = f"running TFLite models needs the package ai-edge-litert ({error})"
        raise MissingDependencyError(f"{message}: install it with `{install_command('ai-edge-litert')}`") from error
    return LiteRtOriginal(path, options, runtime)


class LiteRtOriginal:
    """A model, run with the kernels that LiteRT chooses: XNNPACK's where it has them.

    Where codes are computed in fixed point, the kernels are LiteRT's reference, which round as TFLite Micro's do but in
    dense layers, where they round once.
    """

    def __init__(self, path: Path, options: ImportOptions, runtime: Any) -> None:
        self._path = path
        model = read_model(path)
        self._graph, self._replays = model.main, Replays(model)
        names = {self._graph.tensors[position].name for position in self._graph.inputs}
        self._fixed: dict[str, Any] = {name: value for name, value in options.values.items() if name in names}
        self._runtime = runtime
        kernels = runtime.OpResolverType
        self._kernels = kernels.AUTO if options.requantize == "f32" else kernels.BUILTIN_REF

    @property
    def runner(self) -> str:
        """What runs it."""
        return "LiteRT"

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name, and what stands for states.

        Raises:
            ModelImportError: the model does not run on these inputs.
        """
        steps = self._replays.steps(inputs)
        interpreter = self._invoked(steps, keeps_all=False)
        outputs = dict(_named(self._graph, self._graph.outputs))
        values = {name: interpreter.get_tensor(position) for position, name in outputs.items()}
        return values | self._replays.states(steps)

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every value that operators write, by name."""
        interpreter = self._invoked(self._replays.steps(inputs), keeps_all=True)
        written = [position for operator in self._graph.operators for position in operator.outputs]
        values: dict[str, Array] = {}
        for position, name in _named(self._graph, written):
            try:
                values[name] = interpreter.get_tensor(position)
            except ValueError:
                # What a kernel of several fused operators does not store stays unknown.
                continue
        return values

    def _invoked(self, steps: Steps, *, keeps_all: bool) -> Any:
        try:
            interpreter = self._runtime.Interpreter(
                model_path=str(self._path),
                experimental_preserve_all_tensors=keeps_all,
                experimental_op_resolver_type=self._kernels,
            )
            arrays = dict(_named(self._graph, self._graph.inputs))
            for position, name in arrays.items():
                interpreter.resize_tensor_input(position, self._array(position, name, steps[-1]).shape)
            interpreter.allocate_tensors()
            for inputs in steps:
                for position, name in arrays.items():
                    interpreter.set_tensor(position, self._array(position, name, inputs))
                interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            message = f"the original does not run ({self.runner}): {error}; give inputs that fit with --input"
            raise ModelImportError(message, code="import-value") from error
        return interpreter

    def _array(self, position: int, name: str, inputs: Mapping[str, Array]) -> Array:
        if name in inputs:
            return np.asarray(inputs[name])
        tensor = self._graph.tensors[position]
        shape = tuple(1 if extent is None else extent for extent in tensor.dims)
        array = given_array(name, self._fixed[name], tensor.dtype)
        return np.broadcast_to(array, array.shape or shape).copy()


def _named(graph: Subgraph, positions: Iterable[int]) -> list[tuple[int, str]]:
    return [(position, graph.tensors[position].name) for position in dict.fromkeys(positions)]
