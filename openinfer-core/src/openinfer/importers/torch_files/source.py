"""A program of `torch.export` as plain data: what the rest of the importer sees of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import DType

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Payload, TensorInfo
    from openinfer.importers.torch_files.symbols import Range


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a node: a tensor, several, or an integer that depends on sizes."""

    name: str


Argument: TypeAlias = "bool | float | str | DType | Ref | tuple[Argument, ...] | None"
"""An argument of an operator."""


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator.

    Attributes:
        op: its name with its overload, such as ``aten.add.Tensor``.
        name: what the program calls its result.
        arguments: by the names of its schema, defaults included.
        results: type of each tensor that it returns; none where it returns an integer.
        stage: the module that it belongs to, such as ``layer1.0.conv1``.
        foreign: an element type of its results that OpenInfer does not have, as PyTorch calls it; empty: there is none.
    """

    op: str
    name: str
    arguments: Mapping[str, Argument]
    results: tuple[TensorInfo, ...] = ()
    stage: str = ""
    foreign: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A parameter, buffer or constant; ``name`` is its path in the module, such as ``layer1.0.conv1.weight``."""

    name: str
    payload: Payload


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A buffer that the program writes.

    Attributes:
        name: its path in the module.
        payload: what it holds before the first step.
        result: the value that it has after a step.
    """

    name: str
    payload: Payload
    result: Ref


@dataclass(frozen=True, slots=True, eq=False)
class TorchProgram:
    """A program.

    Attributes:
        inputs: tensors that a step is given.
        weights: by the name that operators read them under.
        buffers: those that the program writes, likewise.
        outputs: what people call each result, and the result.
        ranges: values of each dimension that may vary, by its name.
        folded: operators whose values are among the weights.
    """

    name: str
    producer: str
    operators: tuple[Operator, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[tuple[str, Argument], ...]
    weights: Mapping[str, Weight] = field(default_factory=dict[str, Weight])
    buffers: Mapping[str, Buffer] = field(default_factory=dict[str, Buffer])
    ranges: Mapping[str, Range] = field(default_factory=dict[str, "Range"])
    folded: int = 0
