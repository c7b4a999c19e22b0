"""A TFLite model as plain data. Formats: the FlatBuffers schema of TensorFlow Lite, version 3."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.source import Payload

Option: TypeAlias = "int | float | bool | str | tuple[int | float, ...]"
"""A field of an operator's options; empty tuple for a missing vector."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantisation:
    """Real values are ``scale * (code - zero)``.

    Attributes:
        scale: one f32, or one for each index of the axis.
        zero: zero points, as many as scales.
        axis: the dim that scales go along, where there are several.
    """

    scale: npt.NDArray[np.float32]
    zero: npt.NDArray[np.int64]
    axis: int

    @property
    def is_per_channel(self) -> bool:
        return self.scale.size > 1


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a subgraph.

    Attributes:
        name: a readable name, unique within the model.
        path: the names that the file gives it, without what converters add.
        dims: extents; None for one that is known when the model runs.
        payload: its numbers, where the file has them.
        is_variable: whether its value is kept from one inference to the next.
        is_resource: whether it names a variable, by a number.
    """

    name: str
    path: str
    dtype: DType
    dims: tuple[int | None, ...]
    quantisation: Quantisation | None
    payload: Payload | None
    is_variable: bool
    is_resource: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator: inputs and outputs are positions in the tensors of its graph, -1 for an input left out."""

    op: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Option]
    intermediates: tuple[int, ...] = ()

    @property
    def subgraphs(self) -> tuple[int, ...]:
        """Numbers of the subgraphs that the operator runs, in the order of its options."""
        return tuple(int(cast("int", self.options.get(name, 0))) for name in _SUBGRAPHS.get(self.op, ()))


_SUBGRAPHS = MappingProxyType(
    {
        "CALL_ONCE": ("InitSubgraphIndex",),
        "IF": ("ThenSubgraphIndex", "ElseSubgraphIndex"),
        "WHILE": ("CondSubgraphIndex", "BodySubgraphIndex"),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """Operators in their order, with the tensors that they read and write; inputs and outputs are positions."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TfliteModel:
    """A model.

    Attributes:
        main: the subgraph that an inference runs.
        subgraphs: by number, those that operators run.
    """

    name: str
    producer: str
    main: Subgraph
    subgraphs: Mapping[int, Subgraph]
