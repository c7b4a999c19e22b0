"""Runs models in onnxruntime, in a process of its own."""

from __future__ import annotations

import pickle
import selectors
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import onnx

from openinfer.importers.onnx_files.reading import OLDEST_OPSET
from random_onnx.graphs import Source, model_of
from random_onnx.runtime_process import HEADER

Array = np.ndarray[Any, Any]

PROCESS = Path(__file__).with_name("runtime_process.py")

LONGEST_S = 20.0
"""Time that a model may take."""


class RefusedError(Exception):
    """Onnxruntime does not run a model, or crashes, or hangs."""


@dataclass(slots=True)
class Runtime:
    """A process that runs models; it is started on demand, and again after a crash."""

    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, model: bytes, runs: Sequence[Mapping[str, Array]]) -> list[list[Any]]:
        """Return the outputs of a model for each set of inputs.

        Raises:
            RefusedError: onnxruntime does not run it, crashes or hangs.
        """
        request = pickle.dumps((model, [dict(inputs) for inputs in runs]))
        reply = self._reply(request)
        if isinstance(reply, str):
            raise RefusedError(reply)
        return reply

    def newest_opset(self) -> int:
        """Return the newest version of operators that onnxruntime and the package ``onnx`` both have."""
        x = np.zeros(1, np.float32)
        node = onnx.helper.make_node("Identity", ["x"], ["y"])
        for opset in range(onnx.defs.onnx_opset_version(), OLDEST_OPSET, -1):
            with suppress(RefusedError):
                model = model_of(opset, [node], {"x": Source(x, is_known=False)}, {"y": x})
                self.run(model.SerializeToString(), [{"x": x}])
                return opset
        raise RefusedError("onnxruntime runs no version of ONNX's operators that is imported")

    def _reply(self, request: bytes) -> list[list[Any]] | str:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(PROCESS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        target, source = self._process.stdin, self._process.stdout
        assert target is not None  # noqa: S101 - pipes were requested
        assert source is not None  # noqa: S101
        try:
            target.write(HEADER.pack(len(request)))
            target.write(request)
            header = self._read(source, HEADER.size)
            return pickle.loads(self._read(source, HEADER.unpack(header)[0]))  # noqa: S301 - of our own process
        except (BrokenPipeError, EOFError):
            status = self._end()
            return f"crashes with status {status}"
        except TimeoutError:
            self._end()
            return f"hangs: runs longer than {LONGEST_S:g} s"

    def _read(self, source: IO[bytes], count: int) -> bytes:
        data = b""
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            while len(data) < count:
                if not selector.select(LONGEST_S):
                    raise TimeoutError
                part = source.read(count - len(data))
                if not part:
                    raise EOFError
                data += part
        return data

    def _end(self) -> int:
        """End the process, and return its status."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        with process:
            # One that crashed has closed its output, and may not have been waited for.
            try:
                return process.wait(0.5)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait()
