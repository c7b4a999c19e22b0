"""How many outputs of quantised TFLite models differ from LiteRT's, for a folder of files: MLPerf Tiny's, for example.

    python benchmarks/tflite_bits.py FOLDER [--inputs 1000] [--kernels xnnpack|reference|builtin]

It needs `openinfer-core[tflite]`, `openinfer-backend-cpu` and the package `ai-edge-litert`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from openinfer import Simulator, importers

KERNELS = {
    "xnnpack": OpResolverType.AUTO,
    "reference": OpResolverType.BUILTIN_REF,
    "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
}
BATCH = 50


def differences(path: Path, inputs: int, kernels: str) -> tuple[int, int, int]:
    """Return how many codes differ, of how many, and by how many steps at most."""
    interpreter = Interpreter(model_path=str(path), experimental_op_resolver_type=KERNELS[kernels])
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    shape = (BATCH, *source["shape"][1:])
    interpreter.resize_tensor_input(source["index"], shape)
    interpreter.allocate_tensors()
    imported = importers.load(path)
    (name,), (output,) = imported.report.inputs.values(), imported.report.outputs.values()
    numbers = np.random.default_rng(0)
    differ, largest = 0, 0
    with Simulator(imported.model, imported.graph).make_executor() as executor:
        for _ in range(inputs // BATCH):
            x = numbers.integers(-128, 128, shape).astype(np.int8)
            interpreter.set_tensor(source["index"], x)
            interpreter.invoke()
            executor.step(**{name: x})
            distance = np.abs(interpreter.get_tensor(result["index"]).astype(int) - np.asarray(executor.fetch(output)))
            differ += int((distance > 0).sum())
            largest = max(largest, int(distance.max()))
    return differ, inputs // BATCH * distance.size, largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--kernels", choices=KERNELS, default="xnnpack")
    options = parser.parse_args()
    for path in sorted(options.folder.glob("*.tflite")):
        details = Interpreter(model_path=str(path)).get_input_details()
        if len(details) == 1 and details[0]["dtype"] is np.int8:
            differ, count, largest = differences(path, options.inputs, options.kernels)
            print(f"{path.name}: {differ} of {count} outputs differ, by at most {largest}")


if __name__ == "__main__":
    main()
