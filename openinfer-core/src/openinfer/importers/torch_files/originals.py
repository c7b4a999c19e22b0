"""Programs of `torch.export` as PyTorch runs them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.errors import ModelImportError
from openinfer.importers.given_values import given_array
from openinfer.importers.onnx_files.failures import NUMERIC
from openinfer.importers.torch_files.package import torch_module
from openinfer.importers.torch_files.reading import decomposed, exported, program_of, result_name
from openinfer.importers.torch_files.tensors import array_of, tensor_of
from openinfer.importers.torch_files.translating import next_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.torch_files.source import TorchProgram

    Array = npt.NDArray[Any]


def opened(path: Path, options: ImportOptions) -> TorchOriginal:
    """Return a program to run by PyTorch.

    Raises:
        MissingDependencyError: the package ``torch`` is not installed.
        ModelImportError: the file is damaged, or could run code when it is read.
    """
    program = exported(path)
    plain = decomposed(program)
    return TorchOriginal(program, plain, program_of(plain, path.stem), options.values)


class TorchOriginal:
    """A program; nodes are interpreted one by one, and neither guards nor other code of the file is run.

    Args:
        program: as it was saved.
        plain: the same in the operators that were imported.
        source: that one as plain data.
        fixed: inputs that have become constants.
    """

    def __init__(self, program: Any, plain: Any, source: TorchProgram, fixed: Mapping[str, Any]) -> None:
        self._program = program
        self._plain = plain
        self._source = source
        self._types = {info.name: info.dtype for info in source.inputs}
        self._types |= {buffer.name: buffer.payload.dtype for buffer in source.buffers.values()}
        self._fixed = {name: value for name, value in fixed.items() if name in self._types}

    @property
    def runner(self) -> str:
        """What runs it."""
        return f"PyTorch {torch_module().__version__}"

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name, and what buffers hold next.

        Raises:
            ModelImportError: the program does not run on these inputs.
        """
        feed = dict(self._placeholders(self._program, inputs))
        values = _by_name(self._interpreted(self._program, feed))
        specs: Any = self._program.graph_signature.output_specs
        by_kind: dict[str, list[Any]] = {}
        arrays: dict[str, Array] = {}
        for spec in specs:
            value = values[spec.arg.name] if spec.arg.name in values else getattr(spec.arg, "value", None)
            by_kind.setdefault(spec.kind.name, []).append(value)
            if spec.kind.name == "BUFFER_MUTATION":
                arrays[next_name(spec.target)] = array_of(value)
        results = [value for value in by_kind.get("USER_OUTPUT", []) if value is not None]
        for (name, _), value in zip(self._source.outputs, results, strict=True):
            arrays[name] = _as_array(value)
        written = {spec.target for spec in specs if spec.kind.name == "BUFFER_MUTATION"}
        for spec in self._program.graph_signature.input_specs:
            # Operators of a program that was not rewritten write into the buffer itself.
            if spec.target in {b.name for b in self._source.buffers.values()} - written:
                arrays[next_name(spec.target)] = array_of(feed[spec.arg.name])
        return arrays

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every tensor that operators write, by name."""
        values = _by_name(self._interpreted(self._plain, dict(self._placeholders(self._plain, inputs))))
        return {name: array_of(value) for name, value in values.items() if hasattr(value, "detach")}

    def _placeholders(self, program: Any, inputs: Mapping[str, Array]) -> Iterator[tuple[str, Any]]:
        """Yield a value for each input of the graph."""
        for spec in program.graph_signature.input_specs:
            name = spec.arg.name
            if spec.kind.name == "USER_INPUT":
                yield name, self._tensor(name, inputs) if name in self._types else getattr(spec.arg, "value", None)
            elif spec.target in inputs:
                yield name, self._tensor(spec.target, inputs)
            else:
                held = program.state_dict.get(spec.target)
                yield name, (program.constants[spec.target] if held is None else held).detach().clone()

    def _tensor(self, name: str, inputs: Mapping[str, Array]) -> Any:
        dtype = self._types[name]
        if dtype is None:
            raise ModelImportError(f"input {name!r} has no element type", code="import-value")
        if name in inputs:
            return tensor_of(np.asarray(inputs[name]), dtype)
        array = given_array(name, self._fixed[name], dtype)
        info = next(info for info in self._source.inputs if info.name == name)
        shape = tuple(dim if isinstance(dim, int) else 1 for dim in info.dims or ())
        return tensor_of(np.broadcast_to(array, array.shape or shape), dtype)

    def _interpreted(self, program: Any, feed: Mapping[str, Any]) -> Any:
        """Run a graph node by node, and return the interpreter with all values."""
        torch = torch_module()
        interpreter = torch.fx.Interpreter(program.graph_module, garbage_collect_values=False)
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                interpreter.run(*feed.values())
        except NUMERIC as error:
            message = f"the original does not run ({self.runner}): {error}; give inputs that fit with --input"
            raise ModelImportError(message, code="import-value") from error
        return interpreter


def _as_array(value: Any) -> Array:
    return array_of(value) if hasattr(value, "detach") else np.asarray(value, np.int64)


def _by_name(interpreter: Any) -> dict[str, Any]:
    """Return what nodes wrote, by the names of results."""
    values: dict[str, Any] = {}
    for node, value in interpreter.env.items():
        values[node.name] = value
        if isinstance(value, list | tuple):
            values |= {result_name(node.name, place): part for place, part in enumerate(cast("list[Any]", value))}
    return values
