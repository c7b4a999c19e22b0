"""Weights of a foreign file as a converter sees them: tensors that are read when they are written, and metadata."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..encoding import as_array, default_type, encoded_blocks
from ..errors import MISSING_EXTRA, Finding, OinfError
from ..quant import QuantParams
from ..valuetypes import ValueType

BLOCK_NBYTES = 1 << 24

Blocks = Iterator[NDArray[np.uint8]]
ChangeKind = Literal["renamed", "cast", "dropped", "copied"]


@dataclass(frozen=True)
class Change:
    """Something that is not the same in the result: `name` is that of the source, `detail` says what became of it."""

    kind: ChangeKind
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} {printable_name(self.name)}: {self.detail}"


def printable_name(name: str) -> str:
    """A name from a foreign file with control characters and everything beyond ASCII as escapes."""
    return "".join(char if " " <= char <= "~" else char.encode("unicode_escape").decode() for char in name)


@dataclass(frozen=True, kw_only=True)
class SourceTensor:
    """A tensor of a foreign file. `stored` yields its bytes as the container stores `kind`, whole elements at a time.

    `stored` is None for a declaration without data. `changes` are what reading it alters (a cast, a copy).
    """

    name: str
    kind: ValueType
    shape: tuple[int, ...]
    stored: Callable[[], Blocks] | None
    quant: QuantParams | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """`raw`: keep what has no value type as bytes; `exact_blocks`: GGUF blocks as integers with a scale each;
    `skip_unsupported`: leave out, and report, what cannot be converted; `member_nbytes`: limit of a packed .npz member.
    """

    raw: bool = False
    exact_blocks: bool = False
    skip_unsupported: bool = False
    member_nbytes: int = 1 << 36


@dataclass(kw_only=True)
class SourceModel:
    """What a foreign file holds; closing it lets go of the file."""

    tensors: list[SourceTensor] = field(default_factory=list[SourceTensor])
    metadata: dict[str, object] = field(default_factory=dict[str, object])
    changes: list[Change] = field(default_factory=list[Change])
    resources: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> SourceModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resources.close()

    def refuse(self, options: ReadOptions, name: str, why: str) -> None:
        """Raise `OinfError` (E_SOURCE) for something that cannot be converted, or drop it if that was asked for."""
        if not options.skip_unsupported:
            raise source_error(f"{why} (skip_unsupported leaves it out)", name)
        self.changes.append(Change("dropped", name, why))


def source_error(message: str, name: str | None = None) -> OinfError:
    """The error for a source that is broken, or holds what a container cannot."""
    return OinfError(Finding(code="E_SOURCE", message=message, entry=None if name is None else printable_name(name)))


def optional_module(name: str, purpose: str) -> Any:
    """A module of an optional extra of the same name. Raises `OinfError` (E_EXTRA) when it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = f"{purpose} needs the package {name}: pip install 'openinfer-oinf[{name}]'"
        raise OinfError(Finding(code=MISSING_EXTRA, message=message)) from error


def array_tensor(
    name: str, shape: Sequence[int], dtype: np.dtype[Any], load: Callable[[], Array], changes: tuple[Change, ...] = ()
) -> SourceTensor:
    """A tensor that `load` gives as an array when it is written. Raises `OinfError` (E_DTYPE) for other dtypes."""
    kind = default_type(as_array(np.empty(0, dtype)))
    dims = tuple(int(dim) for dim in shape)
    return SourceTensor(name=name, kind=kind, shape=dims, stored=lambda: encoded_blocks(load(), kind), changes=changes)


def read_sizes(weights: Mapping[str, SourceTensor]) -> int:
    """Bytes that tensors take as containers store them."""
    return sum(
        each.kind.stored_nbytes(int(np.prod(each.shape, dtype=object)))
        for each in weights.values()
        if each.stored is not None
    )
