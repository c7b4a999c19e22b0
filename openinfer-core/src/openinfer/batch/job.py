"""What every worker of a batch gets once: program, model and how to run them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.batch.frames import decode, encode
from openinfer.errors import ModelError, PluginError
from openinfer.ir.graph import MemoryKind
from openinfer.serialize import GraphDeserialize, GraphSerialize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.ir.graph import Graph
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment

START_SECONDS = 120.0
"""How long a worker may take to be ready by default."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A program that is to be run over many inputs.

    Attributes:
        outputs: what is returned for every input; empty for what ``return`` names, else what the program writes.
        steps: steps that are run for every input, with the same values.
        keep_state: whether persistent memory goes on from input to input of a worker.
        send_model: whether workers get the bytes of the model's file instead of its path.
        environment: what plugins offer, where the caller does not use the default.
        start_timeout: seconds in which a worker has to start, import, and open the job; None: nothing was requested.
    """

    graph: Graph
    model: Model
    device: str = "cpu"
    sizes: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    outputs: tuple[str, ...] = ()
    steps: int = 1
    keep_state: bool = False
    strict: bool = False
    placement: bool = False
    send_model: bool = False
    environment: Environment | None = None
    start_timeout: float | None = None

    @property
    def start_seconds(self) -> float:
        """Seconds in which a worker has to be ready: ``start_timeout``, or the default; see `Runner.start`."""
        return START_SECONDS if self.start_timeout is None else self.start_timeout

    @property
    def carries_state(self) -> bool:
        """Whether an input may find something that another one left."""
        return self.keep_state and any(decl.kind is MemoryKind.PERSISTENT for decl in self.graph.vars.values())

    def to_bytes(self) -> bytes:
        """Return the job for a worker in another process: the graph as JSON, the model as its path or as bytes.

        Raises:
            PluginError: the job has an environment of its own, which only this process has.
            ModelError: the model is neither a file nor made of plain arrays.
        """
        if self.environment is not None:
            message = "an `environment=` of this program cannot be sent to other processes: use the runner in-process"
            raise PluginError(message)
        arrays: list[npt.NDArray[Any]] = []
        head = {
            "graph": GraphSerialize.json(self.graph),
            "model": _model_head(self.model, arrays, send=self.send_model),
            "device": self.device,
            "sizes": dict(self.sizes),
            "limits": dict(self.limits),
            "outputs": self.outputs,
            "steps": self.steps,
            "keep_state": self.keep_state,
            "strict": self.strict,
            "placement": self.placement,
        }
        return encode(head, arrays)


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedJob:
    """A job as a worker in another process gets it.

    Attributes:
        model: how the model came: ``path``, ``suffix`` of a file whose bytes are the first array, or its parts.
        options: the remaining attributes of `Job`.
    """

    graph: Graph
    model: Mapping[str, Any]
    arrays: Sequence[npt.NDArray[Any]]
    options: Mapping[str, Any]

    @staticmethod
    def from_bytes(data: bytes) -> ReceivedJob:
        """Read what `Job.to_bytes` wrote."""
        head, arrays = decode(data)
        graph = GraphDeserialize.from_json(head.pop("graph"))
        model = head.pop("model")
        return ReceivedJob(graph, model, arrays, {**head, "outputs": tuple(head["outputs"])})

    def job(self, model: Model) -> Job:
        """Return the job with the opened model."""
        return Job(graph=self.graph, model=model, **self.options)


def _model_head(model: Model, arrays: list[npt.NDArray[Any]], *, send: bool) -> dict[str, Any]:
    """Return how the model is sent; arrays that go with it are added to ``arrays``."""
    if model.path is None:
        return _parts(model, arrays)
    if not send:
        return {"path": str(model.path.absolute())}
    arrays.append(np.fromfile(model.path, np.uint8))
    return {"suffix": Path(model.path).suffix}


def _parts(model: Model, arrays: list[npt.NDArray[Any]]) -> dict[str, Any]:
    infos = model.tensors.values()
    unfit = next((info.name for info in infos if info.dtype.is_packed or info.quantised or not info.has_data), None)
    if unfit is not None:
        message = f"tensor {unfit!r} of {model.name} cannot be sent to other processes: open the model from a file"
        raise ModelError(message)

    def numbered(array: npt.NDArray[Any]) -> int:
        arrays.append(array)
        return len(arrays) - 1

    return {
        "sizevars": dict(model.sizevars),
        "tensors": {name: numbered(model.load_tensor(name)) for name in model.tensors},
        "metadata": {
            name: {"array": numbered(np.asarray(item.value))} if hasattr(item.value, "shape") else {"value": item.value}
            for name, item in model.typed_metadata.items()
        },
    }
