"""A TFLite model as plain data. Formats: the FlatBuffers schema of TensorFlow Lite, version 3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

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
    """

    name: str
    path: str
    dtype: DType
    dims: tuple[int | None, ...]
    quantisation: Quantisation | None
    payload: Payload | None
    is_variable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator: inputs and outputs are positions in the tensors of its graph, -1 for an input left out."""

    op: str
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Option]
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TfliteModel:
    """The main subgraph of a model."""

    name: str
    producer: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
