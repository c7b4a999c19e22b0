"""Weights of a foreign file as a converter sees them: tensors that are read when they are written, and metadata."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import MISSING_EXTRA, Finding, OinfError, printable
from ..installing import install_command
from ..quant import QuantParams
from ..valuetypes import ValueType

BLOCK_NBYTES = 1 << 24
# The smallest blocks of GGUF grow twentyfold when they are decoded.
LARGEST_GROWTH = 32

Blocks = Iterator[NDArray[np.uint8]]
ChangeKind = Literal["renamed", "cast", "dropped", "copied", "filled"]


@dataclass(frozen=True)
class Change:
    """Something that is not the same in the result: `name` is that of the source, `detail` says what became of it."""

    kind: ChangeKind
    name: str
    detail: str

    def __str__(self) -> str:
        return printable(f"{self.kind} {self.name}: {self.detail}")


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
    `skip_unsupported`: leave out, and report, what cannot be converted; `unpacked_nbytes`: bytes that the tensors may
    take in all although the source is less than a 32nd part of that.
    """

    raw: bool = False
    exact_blocks: bool = False
    skip_unsupported: bool = False
    unpacked_nbytes: int = 1 << 30


@dataclass(kw_only=True)
class SourceModel:
    """What a foreign file of `nbytes` bytes holds; closing it lets go of the file.

    The keys of texts have `.utf8` added, as containers want them.
    """

    nbytes: int
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
        """Raise `OinfError` (E_SOURCE) for something that cannot be converted, or drop it if that was requested."""
        if not options.skip_unsupported:
            raise source_error(f"{why} (skip_unsupported leaves it out)", name)
        self.changes.append(Change("dropped", name, why))


def source_error(message: str, name: str | None = None) -> OinfError:
    """The error for a source that is broken, or holds what a container cannot; both texts may quote the source."""
    entry = None if name is None else printable(name)
    return OinfError(Finding(code="E_SOURCE", message=printable(message), entry=entry))


def optional_module(name: str, purpose: str) -> Any:
    """A module of an optional extra of the same name. Raises `OinfError` (E_EXTRA) when it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = f"{purpose} needs the package {name}: {install_command(f'openinfer-oinf[{name}]')}"
        raise OinfError(Finding(code=MISSING_EXTRA, message=message)) from error


def read_sizes(tensors: Iterable[SourceTensor]) -> int:
    """Bytes that tensors take as containers store them."""
    return sum(each.kind.stored_nbytes(math.prod(each.shape)) for each in tensors if each.stored is not None)


def require_justified(model: SourceModel, options: ReadOptions) -> None:
    """Raise `OinfError` (E_SOURCE) for tensors that take far more room than their source gives reason for.

    Packed members, datasets that were never written and payloads with many names can stand for any number of bytes.
    """
    allowed = max(options.unpacked_nbytes, LARGEST_GROWTH * model.nbytes)
    total = 0
    for tensor in model.tensors:
        total += read_sizes([tensor])
        if total > allowed:
            message = (
                f"the tensors up to this one take {total} bytes, and the source has {model.nbytes}: a file that "
                f"unpacks to so much is refused unless ReadOptions.unpacked_nbytes (--unpacked-limit) allows it"
            )
            raise source_error(message, tensor.name)
