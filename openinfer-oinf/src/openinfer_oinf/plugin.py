"""Entry point of the distribution: the model format that core loads. The only module here that imports core."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import ModelFormatSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from openinfer.model import MetadataValue, ModelContents, Quantisation, VarInfo

    from .errors import OinfError
    from .quant import QuantParams
    from .reader import OinfFile
    from .tensor import StoredTensor

OPENINFER_API = 1


@hookimpl
def openinfer_model_formats() -> Iterable[ModelFormatSpec]:
    yield ModelFormatSpec(
        name="oinf",
        suffixes=(".oinf",),
        magic=b"OINF\x00",
        open="openinfer_oinf.plugin:OinfStore",
        save="openinfer_oinf.plugin:save",
        codes="openinfer_oinf.codes:MEANINGS",
    )


class OinfStore:
    """A container as core reads models (`openinfer.model.ModelStore`).

    Raises:
        openinfer.errors.ModelError: the file is not a valid container; every error found in it is a diagnostic, with
            its offset in the message.
    """

    def __init__(self, path: Path) -> None:
        from .errors import OinfError
        from .reader import open_oinf

        try:
            self._file: OinfFile = open_oinf(path)
        except (OinfError, OSError) as error:
            raise _model_error(error, str(path)) from error
        self._path = str(path)

    @property
    def sizevars(self) -> Mapping[str, int]:
        return self._file.sizevars

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        from openinfer.model import MetadataValue

        typed = {name: self._file.metadata.typed(name) for name in self._file.metadata}
        return MappingProxyType({name: MetadataValue(item.dtype, item.value) for name, item in typed.items()})

    @property
    def tensors(self) -> Mapping[str, VarInfo]:
        return MappingProxyType({tensor.name: _info(tensor) for tensor in self._file.tensors()})

    def values(self, name: str) -> npt.NDArray[Any]:
        from .errors import OinfError

        try:
            return self._file[name]
        except OinfError as error:
            raise _model_error(error, self._path) from error

    def stored(self, name: str) -> npt.NDArray[Any]:
        from .errors import OinfError

        try:
            self._file.tensor(name).check()
            return self._file.raw(name)
        except OinfError as error:
            raise _model_error(error, self._path) from error

    def quantisation(self, name: str) -> Quantisation:
        """Return which reals the integers of a tensor with a quant payload stand for."""
        from openinfer.errors import ModelError

        from .errors import OinfError

        tensor = self._file.tensor(name)
        try:
            quant = tensor.quant
        except OinfError as error:
            raise _model_error(error, self._path) from error
        if quant is None:
            message = f"{self._path}: tensor {name!r} has no quant payload"
            raise ModelError(message, code="unbound", file=self._path, table="tensors", name=name)
        return _quantisation(quant)

    def close(self) -> None:
        self._file.close()


def save(path: Path, contents: ModelContents) -> None:
    """Write a container, replacing an older one in one step.

    Raises:
        openinfer.errors.ModelError: the contents or the path cannot be written.
    """
    from .errors import OinfError
    from .writer import OinfWriter

    try:
        with OinfWriter(path, allow_case_collisions=True, checksums=contents.checksums) as writer:
            for name, size in contents.sizevars.items():
                writer.sizevar(name, size)
            for name, text in contents.metadata.items():
                writer.metadata(name, text)
            for name, (dtype, shape, _) in contents.tensors.items():
                writer.declare(name, dtype.name, shape)
            for name, (_, _, given) in sorted(contents.tensors.items()):
                writer.write_raw(name, _bytes_of(given() if callable(given) else given))
    except (OinfError, OSError) as error:
        raise _model_error(error, str(path)) from error


def _bytes_of(stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bytes of an array in C order, without a copy if it is contiguous."""
    import numpy as np

    return np.ascontiguousarray(stored).reshape(-1).view(np.uint8)


def _quantisation(quant: QuantParams) -> Quantisation:
    """The parameters in core's form: one value for the tensor is an array of rank 0."""
    from openinfer.model import Quantisation

    axis = quant.scale.axis
    shape = () if axis is None else quant.scale.values.shape
    zero_point = quant.zero_point
    return Quantisation(
        axis=axis,
        scale=quant.scale.values.reshape(shape),
        zero_point=None if zero_point is None else zero_point.values.reshape(shape),
    )


def _info(tensor: StoredTensor) -> VarInfo:
    from openinfer.dtypes import dtype_named
    from openinfer.model import VarInfo

    return VarInfo(
        name=tensor.name,
        dtype=dtype_named(tensor.dtype),
        shape=tensor.shape,
        has_data=tensor.has_data,
        offset=tensor.offset if tensor.has_data else None,
        nbytes=tensor.nbytes,
        quantised=tensor.has_quant and dtype_named(tensor.dtype).is_integer,
    )


def _model_error(error: OinfError | OSError, path: str) -> Exception:
    from openinfer.diagnostics import Diagnostic
    from openinfer.errors import ModelError

    if isinstance(error, OSError):
        return ModelError(f"{path}: {error.strerror or error}", code="model-file", file=path)
    found = [Diagnostic(code=each.code, message=f"{path}: {each.text}") for each in error.errors]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    message = f"{path}: {error.first.text}{more}"
    return ModelError(message, code=error.code, diagnostics=found, file=path, table=error.table, name=error.entry)
