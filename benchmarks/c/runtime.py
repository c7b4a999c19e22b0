"""A network in ONNX Runtime: one thread, inputs and outputs bound beforehand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

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
        inputs = {net.onnx_names.get(name, name): array for name, array in {**net.inputs, **net.past}.items()}
        for name, array in inputs.items():
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        names = [output.name for output in self._session.get_outputs()]
        outputs = dict(zip(names, self._session.run(names, inputs), strict=True))
        for name, array in outputs.items():
            value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype)
            self._binding.bind_ortvalue_output(name, value)
        self.outputs = dict(zip(net.outputs, outputs.values(), strict=False))
        self.run(3)

    def run(self, count: int) -> list[float]:
        """Return the microseconds of each of some steps."""
        times: list[float] = []
        for _ in range(count):
            start = time.perf_counter_ns()
            self._session.run_with_iobinding(self._binding)
            times.append((time.perf_counter_ns() - start) * 1e-3)
        return times
