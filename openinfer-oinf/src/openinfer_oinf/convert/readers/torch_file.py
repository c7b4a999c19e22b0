"""Reads PyTorch state dicts (extra `torch`) with the restricted unpickler, which builds tensors and plain data only."""

from __future__ import annotations

import pickle
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...encoding import encoded_blocks
from ...errors import OinfError
from ...quant import QuantParams, QuantScale, QuantZeroPoint
from ...valuetypes import ValueType, value_type
from ..eightbit import f16_of_e4m3fn
from ..model import Blocks, Change, ReadOptions, SourceModel, SourceTensor, optional_module, source_error
from ..torchcheck import check_torch

NAME = "torch"
SUFFIXES = (".pt", ".pth", ".ckpt", ".bin")

_KINDS = {
    "bool": "bool",
    "bfloat16": "bf16",
    "float8_e5m2": "f8",
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
# Dicts that hold the same dicts many times over have more entries than anybody can count.
_ENTRIES = 1 << 20
_QUANTIZED = {"qint8": "i8", "quint8": "u8", "qint32": "i32"}
# What the library raises for files that are not sound.
_BROKEN = (
    *(RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, MemoryError),
    *(AssertionError, ArithmeticError, struct.error),
)


def recognises(head: bytes) -> bool:
    """A state dict is recognised by its name: .npz files are zip files, too."""
    del head
    return False


def read(path: Path, options: ReadOptions) -> SourceModel:
    """The tensors of a state dict, nested dicts joined with dots. Raises `OinfError` (E_SOURCE, E_EXTRA), `OSError`."""
    torch = optional_module("torch", "reading PyTorch files")
    check_torch(path)
    with path.open("rb") as file:
        is_zip = file.read(4) == b"PK\3\4"
    try:
        with warnings.catch_warnings():
            # Raised by the library about its own code.
            warnings.filterwarnings("ignore", "TypedStorage is deprecated", UserWarning)
            # Only the zip form can be mapped; the older one is read into memory.
            loaded: object = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except pickle.UnpicklingError as error:
        message = f"refused by the restricted unpickler, which creates weights only: {_first_line(error)}"
        raise source_error(message) from error
    except _BROKEN as error:
        raise source_error(f"not a sound PyTorch file: {_first_line(error)}") from error
    if not isinstance(loaded, Mapping):
        raise source_error(f"the file holds a {type(loaded).__name__}, not a state dict")
    model = SourceModel(nbytes=path.stat().st_size)
    homes: dict[tuple[object, ...], str] = {}
    for name, value in _flattened(cast("Mapping[object, object]", loaded)):
        if isinstance(value, torch.Tensor):
            _add(model, options, torch, name, cast("Any", value), homes)
        else:
            _add_plain(model, name, value)
    return model


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _flattened(table: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    """Items of a dict and of those in it, by dotted names; one that holds itself is an error."""
    pending: list[tuple[str, object, tuple[int, ...]]] = [("", table, ())]
    seen = 0
    while pending:
        name, value, parents = pending.pop()
        seen += 1
        if seen > _ENTRIES:
            raise source_error(f"more than {_ENTRIES} entries, counting those of dicts each time that they are reached")
        if not isinstance(value, Mapping):
            yield name, value
            continue
        if id(cast("object", value)) in parents or len(parents) > 100:
            raise source_error("a dict that holds itself, or is nested too deep", name)
        inner = cast("Mapping[object, object]", value)
        around = (*parents, id(inner))
        items = [(f"{name}.{key}" if name else str(key), each, around) for key, each in inner.items()]
        pending.extend(reversed(items))


def _add_plain(model: SourceModel, name: str, value: object) -> None:
    if isinstance(value, str):
        model.metadata[f"{name}.utf8"] = value
    elif isinstance(value, bool | float) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 64):
        model.metadata[name] = value
    else:
        model.changes.append(Change("dropped", name, f"a {type(value).__name__}, which is not a weight"))


def _add(
    model: SourceModel, options: ReadOptions, torch: Any, name: str, tensor: Any, homes: dict[tuple[object, ...], str]
) -> None:
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = tuple(int(dim) for dim in tensor.shape)
    if tensor.layout is not torch.strided:
        model.refuse(options, name, f"a {tensor.layout} tensor; make it dense first")
    elif not tensor.is_meta and _is_expanded(tensor):
        message = f"{list(shape)} expanded from fewer elements; save tensor.contiguous() instead"
        model.refuse(options, name, message)
    elif tensor.is_quantized:
        _add_quantized(model, options, torch, name, tensor)
    elif dtype == "float8_e4m3fn":
        change = Change("cast", name, "float8_e4m3fn to f16, which holds its values exactly")
        load = None if tensor.is_meta else lambda: f16_of_e4m3fn()[_numpy(tensor, torch.uint8)].view(np.float16)
        model.tensors.append(_tensor(name, "f16", shape, load, (change,)))
    elif dtype not in _KINDS:
        model.refuse(options, name, f"{dtype} has no value type")
    else:
        changes = () if tensor.is_meta else _copies(name, tensor, homes)
        bits = {"bfloat16": torch.uint16, "float8_e5m2": torch.uint8}.get(dtype)
        load = None if tensor.is_meta else lambda: _numpy(tensor, bits)
        model.tensors.append(_tensor(name, _KINDS[dtype], shape, load, changes))


def _is_expanded(tensor: Any) -> bool:
    """Whether a tensor has more elements than its storage: a stride of zero makes any number of them from one."""
    return bool(tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes())


def _numpy(tensor: Any, bits: Any = None) -> Any:
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return (plain if bits is None else plain.view(bits)).numpy()


def _copies(name: str, tensor: Any, homes: dict[tuple[object, ...], str]) -> tuple[Change, ...]:
    changes: list[Change] = []
    if not tensor.is_contiguous():
        changes.append(Change("copied", name, f"from strides {tuple(tensor.stride())} to C order"))
    place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
    if tensor.numel():
        other = homes.setdefault(place, name)
        if other != name:
            changes.append(Change("copied", name, f"tied to {other}: its values are written twice"))
    return tuple(changes)


def _tensor(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    load: Callable[[], Any] | None,
    changes: tuple[Change, ...],
    quant: QuantParams | None = None,
) -> SourceTensor:
    kind = value_type(dtype)
    stored = None if load is None else lambda: _blocks(load(), kind)
    return SourceTensor(name=name, kind=kind, shape=shape, stored=stored, quant=quant, changes=changes)


def _blocks(array: Any, kind: ValueType) -> Blocks:
    if kind.name in ("bf16", "f8"):
        return iter([array.reshape(-1).view(np.uint8)])
    return encoded_blocks(array, kind)


def _add_quantized(model: SourceModel, options: ReadOptions, torch: Any, name: str, tensor: Any) -> None:
    dtype = _QUANTIZED.get(str(tensor.dtype).removeprefix("torch."))
    scheme = tensor.qscheme()
    if dtype is None or scheme not in (torch.per_tensor_affine, torch.per_channel_affine):
        model.refuse(options, name, f"{tensor.dtype} with {scheme} cannot be expressed; dequantise it first")
        return
    try:
        quant = _quant(torch, tensor, scheme)
    except (OinfError, OverflowError) as error:
        raise source_error(f"quantisation parameters that cannot be stored: {error}", name) from error
    change = Change("cast", name, "scales from f64 to f32")
    shape = tuple(int(dim) for dim in tensor.shape)
    model.tensors.append(_tensor(name, dtype, shape, lambda: _numpy(tensor.int_repr()), (change,), quant))


def _quant(torch: Any, tensor: Any, scheme: Any) -> QuantParams:
    if scheme == torch.per_tensor_affine:
        scale, zero = QuantScale.per_tensor(tensor.q_scale()), QuantZeroPoint.per_tensor(tensor.q_zero_point())
    else:
        axis = int(tensor.q_per_channel_axis())
        scale = QuantScale.per_channel(axis, _numpy(tensor.q_per_channel_scales()).tolist())
        zero = QuantZeroPoint.per_channel(axis, _numpy(tensor.q_per_channel_zero_points()).tolist())
    return QuantParams("asymmetric", scale, zero)
