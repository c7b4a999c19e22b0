"""Inputs and outputs of programs as they are written on the command line."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import struct
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from openinfer.diagnostics import Diagnostic
from openinfer.errors import DTypeError, ExecutionError, ShapeError
from openinfer.regular_files import head_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType

ZIP = b"PK\x03\x04"
"""How a zip archive begins."""

NPY = b"\x93NUMPY"
"""How an array file begins."""

_IN_JSON = {"inf": "Infinity", "nan": "NaN"}
"""Floats as programs and results have them, and as the JSON of Python does."""

_SPECIAL = re.compile(r"\b(?:inf|nan)\b")


@dataclass(frozen=True, slots=True)
class Input:
    """``NAME=FILE.npy``, ``NAME=random``, ``NAME=zeros`` or ``NAME=VALUE``."""

    name: str
    source: str

    def content(self) -> Any:
        """Return the array of the file or the list, which have a shape of their own; None for what fills any shape.

        Raises:
            ExecutionError: the file cannot be read as an array, or the text is not a value.
        """
        if self.source in ("random", "zeros"):
            return None
        if self._is_file:
            return _array(self.source)
        literal: Any = _literal(self.name, self.source)
        return cast("Any", literal) if isinstance(literal, list) else None

    @property
    def _is_file(self) -> bool:
        return self.source.endswith((".npy", ".npz"))

    def value(
        self,
        wanted: TensorType,
        seed: tuple[int, ...],
        content: Any = None,
        bounds: tuple[float, float] | None = None,
    ) -> Any:
        """Return the value for a variable of that type.

        Args:
            seed: for random ones.
            content: what `content` has returned, if it has been called.
            bounds: least and greatest of random ones; by default those of the type.

        Raises:
            ExecutionError: the file cannot be read as an array, or the text is not a value.
        """
        import numpy as np

        from openinfer.array_types import storage_dtype
        from openinfer.simulate.random import Random

        if self.source == "random":
            return Random.generate(wanted.dtype, wanted.shape, bounds, seed=seed)
        if self.source == "zeros":
            return np.full(wanted.shape, -1 if wanted.dtype.name == "t1" else 0, storage_dtype(wanted.dtype))
        if self._is_file:
            return self._fitting(_viewed(_array(self.source) if content is None else content, wanted), wanted)
        return _repeated(_literal(self.name, self.source), wanted)

    def sizing_value(self, wanted: TensorType, seed: tuple[int, ...]) -> Any:
        """Return the value for a variable whose sizes the value may decide: a file has a shape of its own.

        Raises:
            ExecutionError, DTypeError: as `value` and `entries`.
        """
        return self.entries(wanted.dtype) if self._is_file else self.value(wanted, seed)

    def constant(self) -> Any:
        """Return the value without a type: the array of a file, a number, a list, or the text where it is none.

        Raises:
            ExecutionError: the file cannot be read as an array.
        """
        if self._is_file:
            return _array(self.source)
        try:
            return _literal(self.name, self.source)
        except ExecutionError:
            return self.source

    def entries(self, dtype: DType) -> Any:
        """Return all entries of a table, whose shape a file or list decides.

        Raises:
            ExecutionError: the file cannot be read as an array, or the text is not a list.
            DTypeError: the file holds another element type.
        """
        from openinfer.ir.types import TensorType

        if self._is_file:
            array = _array(self.source)
            wanted = TensorType(dtype, array.shape)
            return self._fitting(_viewed(array, wanted), wanted)
        value = None if self.source in ("random", "zeros") else _literal(self.name, self.source)
        if not isinstance(value, list):
            message = f"`{self.name}` is a table: expected a file ending in .npy or a list, found {self.source!r}"
            raise ExecutionError(message, code="input-value")
        return cast("Any", value)

    def _fitting(self, array: Any, wanted: TensorType) -> Any:
        """Return an array that has the type and shape of the variable."""
        from openinfer.array_types import storage_dtype

        dtype = storage_dtype(wanted.dtype)
        found = f"{self.source!r} holds {array.dtype} of shape {list(array.shape)}, `{self.name}` is declared {wanted}"
        if array.dtype != dtype:
            raise DTypeError(
                found, code="insert-mismatch", diagnostics=(_mismatch(found, self._conversion(array.dtype, dtype)),)
            )
        if array.shape != wanted.shape:
            raise ShapeError(found, code="insert-mismatch", diagnostics=(_mismatch(found, None),))
        return array

    def _conversion(self, held: Any, wanted: Any) -> str | None:
        """Return a command that writes a converted copy of the file, where NumPy can convert its elements."""
        if held.kind not in "biuf" or wanted.isbuiltin != 1:
            return None
        copy = _free_name(self.source, wanted.name)
        command = shlex.join([sys.executable or "python3", "-c", _CONVERT, self.source, copy, wanted.name])
        return f"convert a copy of the file, and give {self.name}={copy}: {command}"


_CONVERT = "import sys, numpy as np; np.save(sys.argv[2], np.load(sys.argv[1]).astype(sys.argv[3]))"


def _free_name(file: str, dtype: str) -> str:
    """Return the name of a file that does not exist, next to another one."""
    stem = f"{file.removesuffix('.npy')}.{dtype}"
    names = itertools.chain([f"{stem}.npy"], (f"{stem}.{number}.npy" for number in itertools.count(2)))
    return next(name for name in names if not Path(name).exists())


def _mismatch(message: str, hint: str | None) -> Diagnostic:
    return Diagnostic(code="insert-mismatch", message=message, hint=hint)


def parse_inputs(texts: Sequence[str], option: str = "--input") -> list[Input]:
    """Return the parts of every ``NAME=SOURCE`` of an option.

    Raises:
        BadParameter: one has no ``=``, or a name occurs twice.
    """
    inputs = [parse_input(text) for text in texts]
    names = [each.name for each in inputs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        takes = "a variable takes one value a step" if option == "--input" else "a variable has one first value"
        raise click.BadParameter(f"{option} {twice}=... is given twice: {takes}")
    return inputs


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

    begin = head_of(file, len(NPY))
    if begin.startswith(ZIP):
        message = f"{file!r} is an archive (.npz): extract the array from it and give that .npy file"
        raise ExecutionError(message, code="input-file")
    if begin != NPY:
        why = f"it begins with {begin!r}, np.save begins with {NPY!r}" if begin else "it is empty"
        raise ExecutionError(f"{file!r} is not an array file (.npy): {why}", code="input-file")
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OverflowError, TypeError, SyntaxError, struct.error, tokenize.TokenError) as error:
        why = "its header is broken, its data are cut off, or it holds Python objects, which are not opened"
        raise ExecutionError(f"{file!r} is not a readable array file (.npy): {why}", code="input-file") from error
    except MemoryError as error:
        message = f"{file!r} says that it holds more than fits in memory"
        raise ExecutionError(message, code="input-file") from error


def _viewed(array: Any, wanted: TensorType) -> Any:
    """Return an array of bf16 or f8, which files hold without a type, as what it is."""
    from openinfer.array_types import storage_dtype

    dtype = storage_dtype(wanted.dtype)
    return array.view(dtype) if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize else array


def _literal(name: str, text: str) -> Any:
    value: Any
    try:
        # Numbers with commas are a list.
        listed = f"[{text}]" if "," in text and text[:1] != "[" else text
        value = json.loads(_SPECIAL.sub(lambda word: _IN_JSON[word[0]], listed))
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, bool | int | float | list):
        return cast("Any", value)
    expected = "a file ending in .npy, random, zeros, a number, true, false or a list"
    message = f"`{name}`: expected {expected}, found {text!r}"
    raise ExecutionError(message, code="input-value")


def _repeated(value: Any, wanted: TensorType) -> Any:
    """Return one number as a value of the whole shape."""
    if isinstance(value, list):
        return cast("Any", value)
    count = wanted.shape.index(0) + 1 if 0 in wanted.shape else len(wanted.shape)
    for extent in reversed(wanted.shape[:count]):
        value = [value] * extent
    return value
