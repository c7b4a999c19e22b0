"""What a worker answers: the outputs of an input, or the error that it ended with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openinfer import errors
from openinfer.batch.frames import decode, encode
from openinfer.dtypes import BY_NAME
from openinfer.errors import ExecutionError, OpenInferError, PluginError
from openinfer.simulate.values import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of one input: outputs by name, or an error.

    Attributes:
        index: place of the input in the batch, from 0.
        name: what messages call it.
    """

    index: int
    name: str
    outputs: Mapping[str, Tensor]
    error: OpenInferError | None = None


def encode_outputs(outputs: Mapping[str, Tensor]) -> bytes:
    """Return the answer that holds outputs, packed types as stored."""
    head = [[name, tensor.dtype.name, tensor.shape] for name, tensor in outputs.items()]
    return encode({"outputs": head}, [tensor.storage for tensor in outputs.values()])


def encode_error(error: Exception) -> bytes:
    """Return the answer that holds an error."""
    if not isinstance(error, OpenInferError):
        error = ExecutionError(f"{type(error).__name__}: {error}")
    place = {name: getattr(error, name, None) for name in _PLACE} if isinstance(error, ExecutionError) else {}
    plugin = {name: getattr(error, name, None) for name in _PLUGIN} if isinstance(error, PluginError) else {}
    return encode({"error": [type(error).__name__, str(error), error.code, {**place, **plugin}]})


_PLACE = ("block", "node_index", "node_desc")
_PLUGIN = ("plugin", "distribution", "hook", "status")


def decode_answer(index: int, name: str, answer: bytes) -> Outcome:
    """Return an answer as the outcome of an input.

    Raises:
        SerializationError: the bytes are not an answer.
    """
    head, arrays = decode(answer)
    if "error" in head:
        return Outcome(index, name, {}, _error(*head["error"]))
    outputs = {
        output: Tensor(BY_NAME[dtype], tuple(shape), array)
        for (output, dtype, shape), array in zip(head["outputs"], arrays, strict=True)
    }
    return Outcome(index, name, outputs)


def _error(kind: str, message: str, code: str, about: Mapping[str, Any]) -> OpenInferError:
    family = getattr(errors, kind, ExecutionError)
    return family(message, **about) if issubclass(family, PluginError) else family(message, code=code, **about)
