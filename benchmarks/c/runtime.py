"""A network in ONNX Runtime: one thread, inputs and outputs bound beforehand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime

if TYPE_CHECKING:
    from nets import Net


class Runtime:
    """A network in ONNX Runtime."""

    def __init__(self, net: Net) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(net.onnx_model, options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        given = {**net.inputs, **net.past}
        for name, array in given.items():
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for output in self._session.get_outputs():
            value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, np.float32)
            self._binding.bind_ortvalue_output(output.name, value)
        self.outputs = dict(zip(net.outputs, self._session.run(list(net.outputs), given), strict=True))
        self.run(3)

    def run(self, count: int) -> list[float]:
        """Return the microseconds of each of some steps."""
        times: list[float] = []
        for _ in range(count):
            start = time.perf_counter_ns()
            self._session.run_with_iobinding(self._binding)
            times.append((time.perf_counter_ns() - start) * 1e-3)
        return times
