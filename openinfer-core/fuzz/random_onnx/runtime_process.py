"""The process in which onnxruntime runs models: it may crash or hang without harm to the fuzzer.

Reads pickled pairs of a model and lists of inputs from standard input, and writes the outputs of each, or a message.
"""

from __future__ import annotations

import importlib
import os
import pickle
import struct
import sys
from typing import Any

HEADER = struct.Struct("=q")
"""The number of bytes of a message, before each message."""

FATAL = 4
"""Level of messages of onnxruntime that are printed."""


def main() -> None:
    """Answer requests until standard input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    # What libraries print must not mix with replies.
    os.dup2(2, 1)
    while header := sys.stdin.buffer.read(HEADER.size):
        model, runs = pickle.loads(sys.stdin.buffer.read(HEADER.unpack(header)[0]))  # noqa: S301 - of the fuzzer
        reply = pickle.dumps(_outputs(model, runs))
        replies.write(HEADER.pack(len(reply)) + reply)
        replies.flush()


def _outputs(model: bytes, runs: list[dict[str, Any]]) -> list[list[Any]] | str:
    onnxruntime: Any = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return [session.run(None, inputs) for inputs in runs]
    except Exception as error:  # noqa: BLE001 - whatever it raises is its refusal
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
