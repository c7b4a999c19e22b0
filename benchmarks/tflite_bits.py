"""How many outputs of quantised TFLite models differ from LiteRT's, for a folder of files: MLPerf Tiny's, for example.

    python benchmarks/tflite_bits.py FOLDER [--inputs 1000] [--kernels KERNELS] [--requantize f32|fixed|tflite]

KERNELS is xnnpack, reference or builtin for LiteRT's (the package `ai-edge-litert`), or micro for those of TFLite Micro
(the package `tflite-micro`). It also needs `openinfer-core[tflite]` and `openinfer-backend-cpu`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openinfer import Simulator, importers

RESOLVERS = {"xnnpack": "AUTO", "reference": "BUILTIN_REF", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"}
BATCH = 50


def runner(path: Path, kernels: str) -> tuple[Callable[[Any], Any], tuple[int, ...]]:
    """Return what runs a model, and the shape of inputs that it takes."""
    if kernels == "micro":
        runtime = importlib.import_module("tflite_micro.python.tflite_micro.runtime")
        micro = runtime.Interpreter.from_file(str(path))

        def run(x: Any) -> Any:
            micro.set_input(x, 0)
            micro.invoke()
            return micro.get_output(0)

        return run, tuple(micro.get_input_details(0)["shape"])
    runtime = importlib.import_module("ai_edge_litert.interpreter")
    resolver = getattr(runtime.OpResolverType, RESOLVERS[kernels])
    interpreter = runtime.Interpreter(model_path=str(path), experimental_op_resolver_type=resolver)
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    shape = (BATCH, *source["shape"][1:])
    interpreter.resize_tensor_input(source["index"], shape)
    interpreter.allocate_tensors()

    def invoked(x: Any) -> Any:
        interpreter.set_tensor(source["index"], x)
        interpreter.invoke()
        return interpreter.get_tensor(result["index"])

    return invoked, shape


def differences(imported: importers.ImportedModel, path: Path, inputs: int, kernels: str) -> tuple[int, int, int]:
    """Return how many codes differ, of how many, and by how many steps at most."""
    run, shape = runner(path, kernels)
    (name,), (output,) = imported.report.inputs.values(), imported.report.outputs.values()
    numbers = np.random.default_rng(0)
    differ, count, largest = 0, 0, 0
    with Simulator(imported.model, imported.graph).make_executor() as executor:
        for _ in range(inputs // shape[0]):
            x = numbers.integers(-128, 128, shape).astype(np.int8)
            executor.step(**{name: x})
            distance = np.abs(run(x).astype(int) - np.asarray(executor.fetch(output)))
            differ, count = differ + int((distance > 0).sum()), count + distance.size
            largest = max(largest, int(distance.max()))
    return differ, count, largest


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare quantised TFLite models with LiteRT.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--kernels", choices=[*RESOLVERS, "micro"], default="xnnpack")
    parser.add_argument("--requantize", default="f32", help="as for openinfer import")
    options = parser.parse_args()
    for path in sorted(options.folder.glob("*.tflite")):
        imported = importers.load(path, requantize=options.requantize)
        inputs = list(imported.report.inputs.values())
        if len(inputs) == 1 and imported.graph.vars[inputs[0]].dtype.name == "i8":
            differ, count, largest = differences(imported, path, options.inputs, options.kernels)
            print(f"{path.name}: {differ} of {count} outputs differ, by at most {largest}", flush=True)


if __name__ == "__main__":
    main()
