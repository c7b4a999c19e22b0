"""Reads TFLite files. Nothing in a file is trusted: every offset, length and position is checked before its use."""

from __future__ import annotations

import math
import struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.diagnostics import shortened
from openinfer.dtypes import BY_NAME
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.failures import broken
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.tflite_files.naming import readable, unique, without_root
from openinfer.importers.tflite_files.package import tflite_module
from openinfer.importers.tflite_files.source import Operator, Quantisation, Subgraph, Tensor, TfliteModel
from openinfer.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.tflite_files.source import Option

IDENTIFIER = b"TFL3"

MOST_NBYTES = 1 << 34
"""Bytes of the largest file that is read."""

MOST_DIMS = 8
"""Dims of a tensor with the most of them: TFLite's own kernels take no more."""

MOST_NESTED = 16
"""How deep subgraphs run one another at most."""

_DTYPES = {
    "FLOAT64": "f64",
    "FLOAT32": "f32",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "BOOL": "bool",
    "RESOURCE": "i32",
    **{f"INT{bits}": f"i{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"UINT{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
"""Element types by the names in TFLite's enumeration; OpenInfer has no counterpart for the others.

A resource is a number that stands for a variable.
"""

_DAMAGE = (struct.error, ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What the FlatBuffers package raises where an offset or a length points out of the file, or to something else."""


def read_model(path: Path) -> TfliteModel:
    """Return the model of a file.

    Raises:
        ModelImportError: the file cannot be read, is damaged, or has what OpenInfer has no counterpart for.
        MissingDependencyError: the package ``tflite`` is not installed.
    """
    try:
        data = read_regular(path, MOST_NBYTES)
    except OSError as error:
        raise broken(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    return parsed(data, path.stem, repr(str(path)))


def parsed(data: bytes, name: str, title: str) -> TfliteModel:
    """Return the model that bytes are; ``title`` is how messages call the file.

    Raises:
        ModelImportError: as for `read_model`.
    """
    if data[4:8] != IDENTIFIER:
        raise broken(f"{title} is not a TFLite model: expected TFL3 at byte 4, found {data[4:8]!r}")
    tflite = tflite_module()
    try:
        return _Reader(tflite, data).model(name)
    except ModelImportError as error:
        raise ModelImportError(f"{title}: {error}", code=error.code) from error
    except _DAMAGE as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message = f"{title} is damaged: an offset or a length leaves the file ({shortened(reason, 200)})"
        raise broken(message) from error


class _Reader:
    def __init__(self, tflite: Any, data: bytes) -> None:
        self._tflite = tflite
        self._data = data
        self._ops = _names(tflite.BuiltinOperator)
        self._types = _names(tflite.TensorType)
        self._option_types = _names(tflite.BuiltinOptions)
        self._root = tflite.Model.GetRootAs(data, 0)

    def model(self, name: str) -> TfliteModel:
        root = self._root
        if root.Version() != 3:
            raise broken(f"the schema has version {root.Version()}, expected 3")
        count = self._length("subgraphs", root.SubgraphsLength())
        if not count:
            raise broken("there is no subgraph")
        graphs: dict[int, Subgraph] = {}
        self._read(0, count, graphs, ())
        if not graphs[0].outputs:
            raise broken("the model has no output")
        producer = _text(root.Description()).strip(" .")
        return TfliteModel(name, producer, graphs[0], graphs)

    def _read(self, number: int, count: int, graphs: dict[int, Subgraph], outer: tuple[int, ...]) -> None:
        """Read a subgraph, and those that its operators run; others have no part in an inference."""
        if not 0 <= number < count:
            raise broken(f"an operator runs subgraph {number}, of {count}")
        if number in outer:
            raise broken(f"subgraph {number} runs itself")
        if len(outer) > MOST_NESTED:
            raise broken(f"subgraphs run one another more than {MOST_NESTED} deep")
        if number not in graphs:
            graphs[number] = self._subgraph(number)
        for inner in {inner for operator in graphs[number].operators for inner in operator.subgraphs}:
            self._read(inner, count, graphs, (*outer, number))

    def _subgraph(self, number: int) -> Subgraph:
        graph = self._root.Subgraphs(number)
        operators = tuple(self._operators(graph))
        names = self._tensor_names(graph, number)
        tensors = tuple(self._tensor(graph.Tensors(n), *names[n]) for n in range(len(names)))
        for operator in operators:
            self._check_positions(operator, len(tensors))
        inputs, outputs = (
            self._positions(f"{kind} of subgraph {number}", _integers(vector), len(tensors))
            for kind, vector in (("inputs", graph.InputsAsNumpy()), ("outputs", graph.OutputsAsNumpy()))
        )
        return Subgraph(tensors, operators, inputs, outputs)

    def _length(self, what: str, count: int) -> int:
        # Every element of a vector of tables takes four bytes at least.
        if not 0 <= count <= len(self._data) // 4:
            raise broken(f"there are {count} {what} in a file of {len(self._data)} bytes")
        return count

    # Operators

    def _operators(self, graph: Any) -> Iterator[Operator]:
        codes: list[str] = [
            self._code(n) for n in range(self._length("operator codes", self._root.OperatorCodesLength()))
        ]
        for index in range(self._length("operators", graph.OperatorsLength())):
            operator = graph.Operators(index)
            code = int(operator.OpcodeIndex())
            if not 0 <= code < len(codes):
                raise broken(f"operator {index} has code {code}, of {len(codes)}")
            yield Operator(
                op=codes[code],
                index=index,
                inputs=_integers(operator.InputsAsNumpy()),
                outputs=_integers(operator.OutputsAsNumpy()),
                options=self._options(operator),
                intermediates=_integers(operator.IntermediatesAsNumpy()),
            )

    def _code(self, number: int) -> str:
        code = self._root.OperatorCodes(number)
        # Codes beyond 127 are in the wide field, and files of old converters have the narrow one alone.
        value = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self._ops.get(value, f"operator {value}")
        return f"CUSTOM {_text(code.CustomCode())}".strip() if name == "CUSTOM" else name

    def _options(self, operator: Any) -> Mapping[str, Option]:
        kind = self._option_types.get(operator.BuiltinOptionsType(), "NONE")
        union = operator.BuiltinOptions()
        if union is None or kind == "NONE":
            return MappingProxyType({})
        options = getattr(self._tflite, kind)()
        options.Init(union.Bytes, union.Pos)
        members: list[str] = dir(options)
        fields = [name for name in members if name[0].isupper() and not name.startswith("GetRoot")]
        vectors = {name.removesuffix("AsNumpy") for name in fields if name.endswith("AsNumpy")}
        values: dict[str, Option] = {}
        for field in fields:
            if field in vectors:
                values[field] = _integers(getattr(options, f"{field}AsNumpy")())
            elif not field.endswith(("AsNumpy", "Length", "IsNone", "BufferHasIdentifier")) and field != "Init":
                value = getattr(options, field)()
                values[field] = value if isinstance(value, int | float) else _text(value)
        return MappingProxyType(values)

    def _check_positions(self, operator: Operator, count: int) -> None:
        title = f"{operator.op} {operator.index}"
        self._positions(f"inputs of {title}", operator.inputs, count, least=-1)
        self._positions(f"outputs of {title}", operator.outputs, count)
        self._positions(f"intermediates of {title}", operator.intermediates, count, least=-1)

    def _positions(self, what: str, positions: tuple[int, ...], count: int, least: int = 0) -> tuple[int, ...]:
        beyond = next((position for position in positions if not least <= position < count), None)
        if beyond is not None:
            raise broken(f"the {what} name tensor {beyond}, of {count}")
        return positions

    # Tensors

    def _tensor_names(self, graph: Any, number: int) -> list[tuple[str, str]]:
        """Return a unique name and the path of every tensor; a signature names inputs and outputs."""
        count = self._length("tensors", graph.TensorsLength())
        paths = without_root([readable(_text(graph.Tensors(n).Name())) for n in range(count)])
        names = list(paths)
        for position, name in self._signature_names(number):
            if 0 <= position < count and name:
                names[position] = name
        return list(zip(unique(names), paths, strict=True))

    def _signature_names(self, number: int) -> Iterator[tuple[int, str]]:
        for place in range(self._length("signatures", self._root.SignatureDefsLength())):
            signature = self._root.SignatureDefs(place)
            if signature.SubgraphIndex() != number:
                continue
            for read, length in (
                (signature.Outputs, signature.OutputsLength()),
                (signature.Inputs, signature.InputsLength()),
            ):
                for entry in range(self._length("names in a signature", length)):
                    named = read(entry)
                    yield named.TensorIndex(), readable(_text(named.Name()))
            return

    def _tensor(self, tensor: Any, name: str, path: str) -> Tensor:
        kind = self._types.get(tensor.Type(), str(tensor.Type()))
        title = f"tensor {shortened(name)!r}"
        if kind not in _DTYPES:
            message = f"{title} has the element type {kind}, which OpenInfer does not have"
            raise ModelImportError(message, code="import-unsupported")
        if tensor.Sparsity() is not None:
            message = f"{title} is sparse: convert the model without sparse tensors"
            raise ModelImportError(message, code="import-unsupported")
        dtype = BY_NAME[_DTYPES[kind]]
        shape = _integers(tensor.ShapeAsNumpy())
        dims = self._dims(title, shape, _integers(tensor.ShapeSignatureAsNumpy()))
        payload = self._payload(title, tensor.Buffer(), dtype, shape)
        return Tensor(
            name=name,
            path=path,
            dtype=dtype,
            dims=shape if payload is not None else dims,
            quantisation=self._quantisation(title, tensor, dims),
            payload=payload,
            is_variable=bool(tensor.IsVariable()),
            is_resource=kind == "RESOURCE",
        )

    def _dims(self, title: str, shape: tuple[int, ...], signature: tuple[int, ...]) -> tuple[int | None, ...]:
        if len(shape) > MOST_DIMS:
            raise broken(f"{title} has {len(shape)} dims, expected at most {MOST_DIMS}")
        if signature and len(signature) != len(shape):
            raise broken(f"{title} has {len(shape)} dims, and a signature of {len(signature)}")
        if any(extent < 0 for extent in shape):
            raise broken(f"{title} has the shape {list(shape)}")
        if any(extent < -1 for extent in signature):
            raise broken(f"{title} has the shape signature {list(signature)}")
        return tuple(None if known == -1 else extent for extent, known in zip(shape, signature or shape, strict=True))

    def _payload(self, title: str, buffer: int, dtype: DType, shape: tuple[int, ...]) -> Payload | None:
        count = self._length("buffers", self._root.BuffersLength())
        if not 0 <= buffer < max(count, 1):
            raise broken(f"{title} has buffer {buffer}, of {count}")
        # Buffer 0 is empty by definition: tensors that are computed share it.
        if not buffer:
            return None
        data = self._bytes(title, self._root.Buffers(buffer))
        if not data.size:
            return None
        elements = math.prod(shape)
        expected = (elements * dtype.bits + 7) // 8
        if data.size != expected:
            message = f"{title}, {dtype}{list(shape)}, has {data.size} bytes of numbers, expected {expected}"
            raise broken(message)
        return Payload(dtype, shape, lambda: _decoded(data, dtype, shape))

    def _bytes(self, title: str, buffer: Any) -> Array:
        offset, size = buffer.Offset(), buffer.Size()
        if offset <= 1:
            data = buffer.DataAsNumpy()
            return np.zeros(0, np.uint8) if isinstance(data, int) else data
        # Files above 2 GiB have their numbers after the FlatBuffers part.
        if offset + size > len(self._data):
            message = f"{title} has numbers up to byte {offset + size}, of {len(self._data)}"
            raise broken(message)
        return np.frombuffer(self._data, np.uint8, size, offset)

    def _quantisation(self, title: str, tensor: Any, dims: Sequence[int | None]) -> Quantisation | None:
        parameters = tensor.Quantization()
        if parameters is None or not parameters.ScaleLength():
            return None
        scale = np.asarray(parameters.ScaleAsNumpy(), np.float32)
        zero: Array = np.zeros(scale.size, np.int64)
        if parameters.ZeroPointLength():
            zero = np.asarray(parameters.ZeroPointAsNumpy(), np.int64)
        axis = parameters.QuantizedDimension()
        if zero.size != scale.size:
            raise broken(f"{title} has {scale.size} scales and {zero.size} zero points")
        if scale.size > 1 and not (0 <= axis < len(dims) and dims[axis] == scale.size):
            raise broken(f"{title}, {list(dims)}, has {scale.size} scales along dim {axis}")
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise broken(f"{title} has scales that are not positive numbers")
        return Quantisation(scale, zero, axis if scale.size > 1 else 0)


def _decoded(data: Any, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return numbers one element each, from little-endian bytes; of i4, the low half of a byte comes first."""
    if dtype.bits == 4:
        halves = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)[: math.prod(shape)]
        return ((halves.astype(np.int8) ^ 8) - 8).reshape(shape)
    return np.frombuffer(data.tobytes(), storage_dtype(dtype)).reshape(shape)


def _names(enumeration: Any) -> dict[int, str]:
    return {
        number: name
        for name in dir(enumeration)
        if name[0] != "_" and isinstance(number := getattr(enumeration, name), int)
    }


def _integers(vector: Any) -> tuple[int, ...]:
    """Return a vector as a tuple; the package returns 0 for one that is missing."""
    return () if isinstance(vector, int) else tuple(cast("Array", vector).tolist())


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")
