"""Inputs and outputs of `openinfer run` as they are written on the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType

ZIP = b"PK\x03\x04"
"""How a zip archive begins."""


@dataclass(frozen=True, slots=True)
class Input:
    """``NAME=FILE.npy``, ``NAME=random``, ``NAME=zeros`` or ``NAME=VALUE``."""

    name: str
    source: str

    def value(self, wanted: TensorType, seed: tuple[int, ...]) -> Any:
        """Return the value for a variable of that type; ``seed`` is for random ones.

        Raises:
            ExecutionError: the file cannot be read as an array, or the text is no value.
        """
        import numpy as np

        from openinfer.model import storage_dtype
        from openinfer.simulate.random import Random

        if self.source == "random":
            return Random.generate(wanted.dtype, wanted.shape, seed=seed)
        if self.source == "zeros":
            return np.full(wanted.shape, -1 if wanted.dtype.name == "t1" else 0, storage_dtype(wanted.dtype))
        if self.source.endswith(".npy"):
            return _viewed(_array(self.source), wanted)
        return _repeated(_literal(self.name, self.source), wanted)


def parse_input(text: str) -> Input:
    """Return the parts of ``NAME=SOURCE``.

    Raises:
        BadParameter: there is no ``=``.
    """
    name, equals, source = text.partition("=")
    if not equals or not name.strip() or not source.strip():
        raise click.BadParameter(f"expected NAME=FILE.npy, NAME=random, NAME=zeros or NAME=VALUE, found {text!r}")
    return Input(name.strip(), source.strip())


def parse_output(text: str) -> tuple[str, Path | None]:
    """Return the variable and the file of ``NAME`` or ``NAME=FILE.npy``."""
    name, equals, file = text.partition("=")
    if not name.strip() or (equals and not file.strip()):
        raise click.BadParameter(f"expected NAME or NAME=FILE.npy, found {text!r}")
    return name.strip(), Path(file.strip()) if equals else None


def _array(file: str) -> Any:
    import numpy as np

    with Path(file).open("rb") as stream:
        if stream.read(len(ZIP)) == ZIP:
            message = f"{file!r} is an archive (.npz): extract the array from it and give that .npy file"
            raise ExecutionError(message, code="input-file")
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OverflowError) as error:
        raise ExecutionError(f"{file!r} is no array file (.npy): {error}", code="input-file") from error
    except MemoryError as error:
        message = f"{file!r} says that it holds more than fits in memory: {error}"
        raise ExecutionError(message, code="input-file") from error


def _viewed(array: Any, wanted: TensorType) -> Any:
    """Return an array of bf16 or f8, which files hold without a type, as what it is."""
    from openinfer.model import storage_dtype

    dtype = storage_dtype(wanted.dtype)
    return array.view(dtype) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize else array


def _literal(name: str, text: str) -> Any:
    special = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
    if text in special:
        return special[text]
    value: Any
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, bool | int | float | list):
        return cast("Any", value)
    message = (
        f"`{name}`: expected a file ending in .npy, random, zeros, a number, true, false or a list, found {text!r}"
    )
    raise ExecutionError(message, code="input-value")


def _repeated(value: Any, wanted: TensorType) -> Any:
    """Return one number as a value of the whole shape."""
    if isinstance(value, list):
        return cast("Any", value)
    for extent in reversed(wanted.shape):
        value = [value] * extent
    return value
