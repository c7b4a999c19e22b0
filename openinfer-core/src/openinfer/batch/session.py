"""A session: the executor of one worker, which answers requests one after the other."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from openinfer.array_types import storage_dtype
from openinfer.batch.answers import encode_error, encode_outputs
from openinfer.batch.frames import decode_values
from openinfer.batch.job import ReceivedJob
from openinfer.errors import ExecutionError, PluginError, StepStateError
from openinfer.model import Model, ModelLoader
from openinfer.scratch import scratch_directory
from openinfer.simulate.simulator import Simulator

if TYPE_CHECKING:
    from openinfer.batch.job import Job
    from openinfer.simulate.execute.executor import Executor
    from openinfer.simulate.values import Tensor


class Session:
    """Runs inputs of a job, one at a time, on an executor of its own.

    Raises:
        OpenInferError: the program does not fit, or the device cannot be used here.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._resources = ExitStack()
        self._lock = threading.Lock()
        simulator = Simulator(
            job.model,
            job.graph,
            device=job.device,
            strict=job.strict,
            trace=False,
            timer=False,
            echo=False,
            sizes=job.sizes,
            limits=job.limits,
            environment=job.environment,
            placement=job.placement,
        )
        self._simulator = simulator
        self._executor: Executor | None = simulator.make_executor()
        self._used = False

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Open a job that came from another process (`Job.to_bytes`).

        Raises:
            ModelError: the model cannot be opened.
            OpenInferError: as for the constructor.
        """
        received = ReceivedJob.from_bytes(data)
        with ExitStack() as opening:
            session = cls(received.job(_opened(received, opening)))
            session._resources = opening.pop_all()
        return session

    def run(self, request: bytes) -> bytes:
        """Run one input (`frames.encode_values`); return its outputs, or why there are none (`answers`)."""
        with self._lock:
            try:
                return encode_outputs(self._outputs(decode_values(request)))
            except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this input, and the rest go on
                self._after(error)
                return encode_error(error)

    def close(self) -> None:
        """Release device and model, once no input is running."""
        with self._lock:
            if self._executor is not None:
                self._executor.close()
                self._executor = None
            self._resources.close()

    def _outputs(self, values: dict[str, Any]) -> dict[str, Tensor]:
        executor = self._ready()
        values = {name: _viewed(value, executor, name) for name, value in values.items()}
        for _ in range(self._job.steps):
            executor.insert(values)
            executor.step()
        names = self._job.outputs or tuple(executor.outputs()) or executor.written()
        return {name: executor.result(name) for name in names}

    def _ready(self) -> Executor:
        """Return the executor, with the persistent memory that the next input is to find."""
        if self._executor is None:
            self._executor = self._simulator.make_executor()
        elif self._used and not self._job.carries_state:
            self._executor.reset()
        self._used = True
        return self._executor

    def _after(self, error: Exception) -> None:
        """Let go of an executor that a mistake, rather than an input, may have left in any condition."""
        sound = isinstance(error, ExecutionError) and not isinstance(error, StepStateError | PluginError)
        if not sound and not self._job.carries_state and self._executor is not None:
            self._executor.close()
            self._executor = None


def opened(job: bytes) -> tuple[Session | None, bytes]:
    """Open a job that came from another process (`Job.to_bytes`).

    Returns:
        The session, None where there is none, and the answer for the other process: no outputs, or the error.
    """
    try:
        session = Session.from_bytes(job)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other process raises it, which ends the batch
        return None, encode_error(error)
    return session, encode_outputs({})


def _viewed(value: Any, executor: Executor, name: str) -> Any:
    """Return an array of bf16 or f8, which NumPy's files hold without a type, as what it is."""
    kind = getattr(value, "dtype", None)
    if kind is None or kind.kind != "V" or kind.names is not None:
        return value
    dtype = storage_dtype(executor.input_type(name).dtype)
    return value.view(dtype) if kind.itemsize == dtype.itemsize else value


def _opened(received: ReceivedJob, resources: ExitStack) -> Model:
    """Open the model that came with a job; ``resources`` closes it."""
    model, arrays = received.model, received.arrays
    if "path" in model:
        return resources.enter_context(ModelLoader.open(model["path"]))
    if "suffix" in model:
        folder = resources.enter_context(scratch_directory())
        file = folder / f"model{model['suffix']}"
        arrays[0].tofile(file)
        return resources.enter_context(ModelLoader.open(file))
    metadata: dict[str, Any] = {
        name: arrays[item["array"]] if "array" in item else item["value"] for name, item in model["metadata"].items()
    }
    tensors: dict[str, Any] = {name: arrays[place] for name, place in model["tensors"].items()}
    return resources.enter_context(Model.from_arrays(tensors, sizevars=model["sizevars"], metadata=metadata))
