"""Reads an ONNX file with the package ``onnx``, and checks what a hostile one could claim."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.diagnostics import shortened
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files import failures
from openinfer.importers.onnx_files.elements import element_name, element_type, stored_form
from openinfer.importers.onnx_files.external import external_payload
from openinfer.importers.onnx_files.failures import broken
from openinfer.importers.onnx_files.framing import without_large_data
from openinfer.importers.onnx_files.functions import STANDARD, inlined
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.source import (
    Dim,
    Payload,
    SourceGraph,
    SourceModel,
    SourceNode,
    TensorInfo,
)
from openinfer.ir.types import TensorType
from openinfer.regular_files import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.source import Array

OLDEST_OPSET = 7
"""Older models are converted: their operators broadcast by attributes."""

CONVERTED_OPSET = 13

DEEPEST = 16
"""Most levels of graphs inside of nodes."""

UNNAMED = ("", "main_graph", "torch_jit", "torch-jit-export")
"""What exporters call the graph of any model; the name of the file says more."""


def read_model(path: Path) -> SourceModel:
    """Return the model of a file.

    Raises:
        ModelImportError: it is not an ONNX model, or is damaged, newer than the package, or claims what cannot be.
        MissingDependencyError: the package ``onnx`` is not installed.
    """
    onnx = onnx_module()
    try:
        proto = onnx.load_model_from_string(_message(path))
    except OSError as error:
        raise broken(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except failures.of_onnx() as error:
        raise broken(f"{str(path)!r} is not an ONNX model: {error}") from error
    return model_of(proto, path.parent, path.name)


def _message(path: Path) -> bytes:
    """Return the message of a file, with large numbers left where they are."""
    with open_regular(path) as stream:
        if not stream.seek(0, 2):
            return b""
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            return without_large_data(data, path.name)


def model_of(proto: Any, folder: Path | None, name: str) -> SourceModel:
    """Return a parsed model; ``folder`` is where its external data lie, None for a model without a file.

    Raises:
        ModelImportError: as `read_model`.
    """
    onnx = onnx_module()
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise broken(f"{name} has no graph: expected an ONNX model")
    _check_versions(onnx, proto, name)
    proto, notes = inlined(proto, name)
    proto = _converted(proto, name)
    opsets = {("" if o.domain in STANDARD else o.domain): int(o.version) for o in proto.opset_import}
    reader = _Reader(onnx, opsets, folder, name)
    title = proto.graph.name if proto.graph.name not in UNNAMED else name.removesuffix(".onnx")
    return SourceModel(title, reader.graph(proto.graph, 0), opsets, proto.producer_name, tuple(notes))


def _check_versions(onnx: Any, proto: Any, name: str) -> None:
    newest = int(onnx.defs.onnx_opset_version())
    for opset in proto.opset_import:
        if opset.version < 1:
            raise broken(f"{name} uses opset {opset.version}; the oldest is 1")
        if opset.domain in STANDARD and opset.version > newest:
            message = f"{name} uses opset {opset.version}; the installed onnx {onnx.__version__} knows up to {newest}"
            raise ModelImportError(f"{message}: install a newer onnx", code="import-file")


def _converted(proto: Any, name: str) -> Any:
    versions = [o.version for o in proto.opset_import if o.domain in STANDARD]
    if not versions or versions[0] >= OLDEST_OPSET:
        return proto
    try:
        return onnx_module("onnx.version_converter").convert_version(proto, CONVERTED_OPSET)
    except failures.of_onnx() as error:
        message = f"{name} is of opset {versions[0]}, and onnx cannot convert it to {CONVERTED_OPSET}: {error}"
        raise ModelImportError(message, code="import-unsupported") from error


class _Reader:
    """Turns messages into plain data."""

    def __init__(self, onnx: Any, opsets: Mapping[str, int], folder: Path | None, name: str) -> None:
        self._onnx = onnx
        self._opsets = opsets
        self._folder = folder
        self._name = name

    def graph(self, proto: Any, depth: int) -> SourceGraph:
        if depth > DEEPEST:
            raise broken(f"{self._name}: graphs are nested more than {DEEPEST} levels deep")
        payloads = {tensor.name: self.payload(tensor) for tensor in proto.initializer}
        payloads |= {tensor.values.name: self._dense(tensor) for tensor in proto.sparse_initializer}
        types = {info.name: self._info(info) for info in (*proto.value_info, *proto.output)}
        self._check_names(proto, payloads)
        return SourceGraph(
            name=proto.name,
            nodes=tuple(self._node(node, depth) for node in proto.node),
            inputs=tuple(self._info(info) for info in proto.input if info.name not in payloads),
            outputs=tuple(self._info(info) for info in proto.output),
            payloads=payloads,
            types=types,
        )

    def _check_names(self, proto: Any, payloads: Mapping[str, Payload]) -> None:
        """Refuse a graph in which two values have one name; inputs may have initialisers."""
        written = [name for node in proto.node for name in node.output if name]
        tensors = [tensor.name for tensor in proto.initializer]
        for names in ([info.name for info in proto.input], tensors, [*payloads, *written]):
            twice = next((name for name, count in Counter(names).items() if count > 1), None)
            if twice is not None:
                raise broken(f"{self._name}: the name {shortened(twice)!r} belongs to several values of one graph")
        inputs = {info.name for info in proto.input}
        both = next((name for name in written if name in inputs), None)
        if both is not None:
            raise broken(f"{self._name}: a node writes {shortened(both)!r}, an input of its graph")

    def _node(self, proto: Any, depth: int) -> SourceNode:
        domain = "" if proto.domain in STANDARD else str(proto.domain)
        return SourceNode(
            op=proto.op_type,
            domain=domain,
            name=proto.name,
            opset=self._opsets.get(domain, 1),
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes={a.name: self._attribute(a, depth) for a in proto.attribute},
            proto=proto,
        )

    def _attribute(self, proto: Any, depth: int) -> Any:
        kinds = self._onnx.AttributeProto
        if proto.type == kinds.GRAPH:
            return self.graph(proto.g, depth + 1)
        if proto.type == kinds.TENSOR:
            return self.payload(proto.t)
        if proto.type == kinds.SPARSE_TENSOR:
            return self._dense(proto.sparse_tensor)
        try:
            value = self._onnx.helper.get_attribute_value(proto)
        except ValueError as error:
            raise broken(f"{self._name}: the attribute {proto.name!r} has no value: {error}") from error
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if proto.type == kinds.STRINGS:
            return [text.decode("utf-8", "replace") for text in value]
        return list(value) if proto.type in (kinds.INTS, kinds.FLOATS) else value

    def payload(self, proto: Any) -> Payload:
        """Return the numbers of a tensor without reading them, after checking that they are there."""
        dtype = element_type(self._onnx, proto.data_type)
        if dtype is None:
            kind = element_name(self._onnx, proto.data_type)
            message = f"{self._name}: tensor {proto.name!r} has element type {kind}, which OpenInfer does not have"
            raise ModelImportError(message, code="import-unsupported")
        shape = tuple(int(extent) for extent in proto.dims)
        if any(extent < 0 for extent in shape) or not TensorType(dtype, shape).fits:
            raise broken(f"{self._name}: tensor {proto.name!r} claims the shape {list(shape)}")
        if proto.data_location == self._onnx.TensorProto.EXTERNAL:
            return external_payload(self._name, self._folder, proto, dtype, shape)
        self._check_length(proto, TensorType(dtype, shape))
        return Payload(dtype, shape, partial(_inline, self._onnx, proto, dtype, shape))

    def _check_length(self, proto: Any, kind: TensorType) -> None:
        """Compare the bytes or numbers that a message holds with what its shape claims."""
        if proto.HasField("raw_data"):
            found, wanted = len(proto.raw_data), kind.nbytes
            second = next((name for name in _FIELDS if len(getattr(proto, name))), None)
            if second is not None:
                raise broken(f"{self._name}: tensor {proto.name!r} has raw_data and {second}, expected one of them")
        else:
            field = self._onnx.helper.tensor_dtype_to_field(proto.data_type)
            others = [name for name in _FIELDS if name != field and len(getattr(proto, name))]
            if others:
                message = f"{self._name}: tensor {proto.name!r} has its elements in {' and '.join(others)}"
                raise broken(f"{message}, expected {field} for its type {kind}")
            found = len(getattr(proto, field))
            wanted = kind.nbytes if kind.dtype.is_packed else kind.count
        if found != wanted:
            message = f"{self._name}: tensor {proto.name!r} holds {found} values or bytes"
            raise broken(f"{message}, its type {kind} needs {wanted}")

    def _dense(self, proto: Any) -> Payload:
        values, indices = self.payload(proto.values), self.payload(proto.indices)
        shape = tuple(int(extent) for extent in proto.dims)
        if any(extent < 0 for extent in shape) or TensorType(values.dtype, shape).nbytes > MOST_SPARSE_NBYTES:
            raise broken(f"{self._name}: sparse tensor {proto.values.name!r} claims the shape {list(shape)}")
        return Payload(values.dtype, shape, partial(_scattered, values, indices, shape, self._name))

    def _info(self, proto: Any) -> TensorInfo:
        kind = proto.type.WhichOneof("value") or "tensor_type"
        if kind != "tensor_type":
            return TensorInfo(proto.name, None, None, kind.removesuffix("_type"))
        tensor = proto.type.tensor_type
        dims = tuple(_dims(tensor.shape)) if tensor.HasField("shape") else None
        if dims is not None and any(isinstance(dim, int) and dim < 0 for dim in dims):
            raise broken(f"{self._name}: {proto.name!r} claims the shape {list(dims)}")
        dtype = element_type(self._onnx, tensor.elem_type)
        kind = "tensor" if dtype is not None else element_name(self._onnx, tensor.elem_type)
        return TensorInfo(proto.name, dtype, dims, kind)


_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
"""Fields of a tensor that hold its elements as numbers."""

MOST_SPARSE_NBYTES = 1 << 28
"""Bytes of the largest sparse tensor that is written out densely."""


def _dims(shape: Any) -> Iterator[Dim]:
    """Yield dims; one without a name is None. Exporters also write it as -1, or as a name of signs, such as ``?``."""
    for dim in shape.dim:
        match dim.WhichOneof("value"):
            case "dim_value":
                yield int(dim.dim_value) if dim.dim_value != -1 else None
            case "dim_param" if any(map(str.isalnum, dim.dim_param)) and dim.dim_param != "-1":
                yield str(dim.dim_param)
            case _:
                yield None


def _inline(onnx: Any, proto: Any, dtype: DType, shape: tuple[int, ...]) -> Array:
    return stored_form(np.asarray(onnx.numpy_helper.to_array(proto)), dtype).reshape(shape)


def _scattered(values: Payload, indices: Payload, shape: tuple[int, ...], name: str) -> Array:
    numbers, places = values.load().reshape(-1), indices.load()
    dense = np.zeros(shape, numbers.dtype)
    try:
        flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)
        dense.reshape(-1)[flat] = numbers
    except (ValueError, IndexError) as error:
        raise broken(f"{name}: a sparse tensor has an index outside of it: {error}") from error
    return dense
