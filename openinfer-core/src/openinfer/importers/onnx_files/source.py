"""An ONNX model as plain data: what the rest of the importer sees of it.

Numbers stay in the file or in the parsed message until they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.diagnostics import shortened

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType

    Array: TypeAlias = npt.NDArray[Any]

Dim: TypeAlias = "int | str | None"
"""An extent, the name or expression of one that is known later, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class Payload:
    """The elements of a tensor in C order; ``load`` returns them, packed types with one element per byte."""

    dtype: DType
    shape: tuple[int, ...]
    load: Callable[[], Array]

    @property
    def count(self) -> int:
        """Number of elements."""
        number = 1
        for extent in self.shape:
            number *= extent
        return number


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Type of a named value; ``dims`` is None where not even the rank is known."""

    name: str
    dtype: DType | None
    dims: tuple[Dim, ...] | None
    kind: str = "tensor"


@dataclass(frozen=True, slots=True, eq=False)
class SourceNode:
    """A node: ``opset`` is the version of its domain, ``proto`` the message it was read from."""

    op: str
    domain: str
    name: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: Any

    @property
    def title(self) -> str:
        """The node as messages call it."""
        label = shortened(self.name or (self.outputs[0] if self.outputs else ""))
        domain = f"{self.domain}." if self.domain else ""
        return f"{domain}{self.op} {label!r}"


@dataclass(frozen=True, slots=True, eq=False)
class SourceGraph:
    """A graph, or a body of a control flow node."""

    name: str
    nodes: tuple[SourceNode, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    payloads: Mapping[str, Payload]
    types: Mapping[str, TensorInfo] = field(default_factory=dict[str, TensorInfo])


@dataclass(frozen=True, slots=True, eq=False)
class SourceModel:
    """A model with the version of each operator set that it uses, and notes on how it was read."""

    name: str
    graph: SourceGraph
    opsets: Mapping[str, int]
    producer: str
    notes: tuple[str, ...] = ()
