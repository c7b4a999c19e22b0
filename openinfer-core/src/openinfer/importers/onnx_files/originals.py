"""ONNX models as onnxruntime runs them, or else ONNX's reference evaluator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files import failures
from openinfer.importers.onnx_files.package import onnx_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from openinfer.importers.imported import ImportOptions
    from openinfer.importers.onnx_files.source import Array


_RUNNING = "the original does not run ({runner}): {error}; give inputs that fit with --input"
_LOADING = "{runner} does not load the original, so that nothing can be compared: {error}"


def opened(path: Path, options: ImportOptions) -> OnnxOriginal:
    """Return a model to run, by onnxruntime where it is installed and can exchange the arrays."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        runtime = None
    return OnnxOriginal(path, options.values, runtime if _has_arrays_of_numpy(path) else None)


def _has_arrays_of_numpy(path: Path) -> bool:
    """Whether NumPy itself has the types of all inputs and outputs: onnxruntime exchanges no arrays of ml_dtypes."""
    onnx = onnx_module()
    graph = onnx.load(str(path), load_external_data=False).graph
    types = {port.type.tensor_type.elem_type for port in (*graph.input, *graph.output)} - {onnx.TensorProto.UNDEFINED}
    return all(onnx.helper.tensor_dtype_to_np_dtype(number).isbuiltin == 1 for number in types)


class OnnxOriginal:
    """A model; ``runtime`` is the package onnxruntime, or None for the reference evaluator."""

    def __init__(self, path: Path, fixed: Mapping[str, Any], runtime: Any) -> None:
        self._path = path
        self._fixed = fixed
        self._runtime = runtime
        self._failures = (*failures.NUMERIC, *failures.of_onnx()) if runtime is None else failures.of_onnxruntime()
        self._session: Any = None
        self._plain_session: Any = None

    @property
    def guards_overflow(self) -> bool:
        """Whether results are infinite or NaN only where the model's are: not of the reference evaluator.

        It computes, for example, a LogSoftmax as the logarithm of a softmax.
        """
        return self._runtime is not None

    @property
    def runner(self) -> str:
        """What runs it."""
        return "onnx.reference" if self._runtime is None else f"onnxruntime {self._runtime.__version__}"

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name.

        Raises:
            ModelImportError: the model does not run on these inputs.
        """
        if self._session is None:
            self._session = self._open(str(self._path))
        return self._outputs(self._session, inputs)

    def unoptimised(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name as they are without optimisations of the graph.

        Raises:
            ModelImportError: the model does not run on these inputs.
        """
        if self._plain_session is None:
            self._plain_session = self._open(str(self._path), optimise=False)
        return self._outputs(self._plain_session, inputs)

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every value that nodes write, by name."""
        onnx = onnx_module()
        proto = onnx.load(str(self._path))
        known = {info.name for info in proto.graph.output}
        for node in proto.graph.node:
            proto.graph.output.extend(
                onnx.ValueInfoProto(name=name) for name in node.output if name and name not in known
            )
        try:
            return self._outputs(self._open(proto.SerializeToString()), inputs)
        except (ModelImportError, ValueError):
            # A model of 2 GiB, or values that the runtime cannot return: the first difference stays unknown.
            return {}

    def _open(self, model: str | bytes, *, optimise: bool = True) -> Any:
        if self._runtime is None:
            reference, onnx = onnx_module("onnx.reference"), onnx_module()
            proto = onnx.load_from_string(model) if isinstance(model, bytes) else model
            return self._call(reference.ReferenceEvaluator, proto, failing=_LOADING)
        try:
            return self._session_of(model, optimise=optimise, exact_bytes=True)
        except ModelImportError:
            # Some operators have no kernel then, such as QGemm on weights with sign.
            return self._session_of(model, optimise=optimise, exact_bytes=False)

    def _session_of(self, model: str | bytes, *, optimise: bool, exact_bytes: bool) -> Any:
        """Return a session of ONNX Runtime.

        Args:
            exact_bytes: whether to ask for exact sums of products of bytes without and with sign: they overflow 16 bits
                on x86 processors without VNNI else.
        """
        options = self._runtime.SessionOptions()
        options.log_severity_level = 3
        # The arena keeps what the largest step needed.
        options.enable_cpu_mem_arena = False
        # Threads share trees, and the rows of a hidden state that is quantised: results depend on how many there are.
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.x64quantprecision", str(int(exact_bytes)))
        if not optimise:
            options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        providers = ["CPUExecutionProvider"]
        return self._call(self._runtime.InferenceSession, model, options, providers=providers, failing=_LOADING)

    def _outputs(self, session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if self._runtime is None:
            names: Sequence[str] = session.output_names
            wanted = {name: session.input_types[number] for number, name in enumerate(session.input_names)}
        else:
            names = [output.name for output in session.get_outputs()]
            wanted = {value.name: value for value in session.get_inputs()}
        given = dict(inputs)
        for name, value in self._fixed.items():
            if name in wanted:
                given[name] = self._as_input(name, value)
        results = self._call(session.run, None, given)
        return {name: self._array(name, result) for name, result in zip(names, results, strict=True)}

    def _array(self, name: str, result: Any) -> Array:
        """Return a result as an array: of maps from labels to scores, rows in the order of the labels of `ZipMap`."""
        if not isinstance(result, list):
            return np.asarray(result)
        onnx, rows = onnx_module(), cast("list[Mapping[str | int, float]]", result)
        graph = onnx.load(str(self._path), load_external_data=False).graph
        (attribute,) = next(node for node in graph.node if name in node.output).attribute
        labels = attribute.ints or [label.decode() for label in attribute.strings]
        scores = [[row[label] for label in labels] for row in rows]
        return np.array(scores, np.float32).reshape(len(rows), len(labels))

    def _as_input(self, name: str, value: Any) -> Array:
        onnx = onnx_module()
        proto = onnx.load(str(self._path), load_external_data=False)
        info = next(info for info in proto.graph.input if info.name == name).type.tensor_type
        array = np.asarray(value, onnx.helper.tensor_dtype_to_np_dtype(info.elem_type))
        shape = [dim.dim_value or 1 for dim in info.shape.dim]
        return np.broadcast_to(array, shape).copy() if array.ndim == 0 else array

    def _call(self, function: Any, *arguments: Any, failing: str = _RUNNING, **named: Any) -> Any:
        try:
            # The reference evaluator computes in NumPy, which warns where a sigmoid's exponential overflows.
            with np.errstate(all="ignore"):
                return function(*arguments, **named)
        except self._failures as error:
            raise ModelImportError(failing.format(runner=self.runner, error=error), code="import-value") from error
