"""Times of single operators on the device vulkan, and their ratio to those of another checkout.

    python benchmarks/vulkan/operators.py --json new.json
    python benchmarks/vulkan/operators.py --against old.json

``old.json`` is what the first form wrote in the other checkout, on the same machine. ``--small`` takes sizes that a
software device carries out in seconds. Each time is the least of several rounds of calls that are queued together;
bytes are those of inputs and outputs on the device.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.simulate.devices.binding import Binder
from openinfer_backend_vulkan.backend import VulkanBackend

ROUNDS = 7

CASES: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "add": ("add", ["f32[4096,4096]", "f32[4096,4096]"], {}),
    "transpose": ("transpose", ["f32[4096,4096]"], {}),
    "transpose of heads": ("transpose", ["f32[8,2048,16,64]"], {"perm": (0, 2, 1, 3)}),
    "concat": ("concat", ["f32[4096,2048]", "f32[4096,2048]"], {"axis": 1}),
    "slice": ("slice", ["f32[4096,4096]"], {"starts": (1,), "ends": (4000,), "axes": (1,)}),
    "tile": ("tile", ["f32[1024,1024]"], {"repeats": (4, 4)}),
    "triu": ("triu", ["f32[4096,4096]"], {}),
    "pad": ("pad", ["f32[64,64,56,56]"], {"pads": (0, 0, 1, 1, 0, 0, 1, 1)}),
    "gather": ("gather", ["f32[32000,1024]", "i32[4096]"], {}),
    "embedding": ("embedding", ["i32[4096]", "f32[32000,1024]"], {}),
    "gather_elements": ("gather_elements", ["f32[4096,1024]", "i32[4096,1024]"], {"axis": 0}),
    "resize2d nearest": ("resize2d", ["f32[8,64,56,56]"], {"size": (112, 112), "mode": "nearest"}),
    "resize2d linear": ("resize2d", ["f32[8,64,56,56]"], {"size": (112, 112), "mode": "linear"}),
    "cumsum": ("cumsum", ["f32[4096,1024]"], {"axis": 1}),
    "argmax_axis": ("argmax_axis", ["f32[4096,1024]"], {"axis": 1}),
    "sum_axis": ("sum_axis", ["f32[4096,4096]"], {"axes": (1,)}),
    "softmax": ("softmax", ["f32[4096,4096]"], {"axis": 1}),
    "layer_norm": ("layer_norm", ["f32[4096,4096]", "f32[4096]", "f32[4096]"], {}),
    "matmul": ("matmul", ["f32[1024,1024]", "f32[1024,1024]"], {}),
    "matmul vector": ("matmul", ["f32[1,4096]", "f32[4096,4096]"], {}),
    "linear": ("linear", ["f32[128,1024]", "f32[1024,4096]", "f32[4096]"], {}),
    "einsum": ("einsum", ["f32[16,512,64]", "f32[16,512,64]"], {"equation": "hid,hjd->hij"}),
    "conv2d": ("conv2d", ["f32[8,64,56,56]", "f32[64,64,3,3]"], {"padding": 1}),
    "conv2d depthwise": ("conv2d", ["f32[8,64,112,112]", "f32[64,1,3,3]"], {"padding": 1, "groups": 64}),
    "conv_transpose2d": ("conv_transpose2d", ["f32[8,64,28,28]", "f32[64,64,3,3]"], {"stride": 2}),
    "max_pool2d": ("max_pool2d", ["f32[8,64,112,112]"], {"kernel": 3, "stride": 2}),
    "avg_pool2d": ("avg_pool2d", ["f32[8,64,112,112]"], {"kernel": 3, "stride": 2}),
    "sdpa": ("sdpa", ["f32[1,12,256,64]", "f32[1,12,256,64]", "f32[1,12,256,64]"], {}),
    "sdpa of one query": ("sdpa", ["f32[1,12,1,64]", "f32[1,12,1024,64]", "f32[1,12,1024,64]"], {}),
}


def typed(text: str, divisor: int) -> TensorType:
    """Return a type, with long dims divided for slow devices."""
    name, _, extents = text.removesuffix("]").partition("[")
    shape = tuple(int(extent) for extent in extents.split(","))
    return TensorType(BY_NAME[name], tuple(e // divisor if e >= 128 else e for e in shape))


def seconds(backend: VulkanBackend, call: Any, calls: int) -> float:
    """Return the least time of a call among rounds of calls that are queued together."""
    best = float("inf")
    for number in range(ROUNDS + 1):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        backend.synchronize()
        taken = (time.perf_counter() - start) / calls
        best = min(best, taken) if number else best
    return best


def timed(backend: VulkanBackend, binder: Binder, case: str, divisor: int, calls: int) -> dict[str, float]:
    op, types, settings = CASES[case]
    kinds = [typed(text, divisor) for text in types]
    rng = np.random.default_rng(1)
    arrays = [
        rng.integers(0, 4, kind.shape).astype("i4") if kind.dtype.name == "i32" else rng.random(kind.shape, np.float32)
        for kind in kinds
    ]
    call = call_of(binder.schema(op), kinds, settings)
    inputs = [backend.upload(kind, array) for kind, array in zip(kinds, arrays, strict=True)]
    outputs = [backend.allocate(kind) for kind in call.outputs]
    start = time.perf_counter()
    bound = binder.bind(call, inputs, outputs)
    bound()
    backend.synchronize()
    first = time.perf_counter() - start
    nbytes = sum(kind.nbytes for kind in (*kinds, *call.outputs))
    return {"seconds": seconds(backend, bound, calls), "first": first, "nbytes": nbytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="where to write the times")
    parser.add_argument("--against", type=Path, help="times of another checkout")
    parser.add_argument("--small", action="store_true", help="sizes for a software device")
    parser.add_argument("--only", help="cases with this word in their name")
    given = parser.parse_args()
    environment = Environment.default()
    backend = VulkanBackend()
    binder = Binder(environment, kernel_table(environment, environment.device("vulkan")), backend)
    other: dict[str, dict[str, float]] = json.loads(given.against.read_text()) if given.against else {}
    found: dict[str, dict[str, float]] = {}
    print(f"{'':22}{'first call':>12}{'each':>14}{'GB/s':>9}{'of the other':>14}")
    for case in CASES:
        if given.only and given.only not in case:
            continue
        one = found[case] = timed(backend, binder, case, 8 if given.small else 1, 3 if given.small else 50)
        ratio = f"{one['seconds'] / other[case]['seconds']:.2f}" if case in other else ""
        rate = one["nbytes"] / one["seconds"] / 1e9
        print(f"{case:22}{one['first'] * 1e3:9.1f} ms{one['seconds'] * 1e6:11.1f} us{rate:9.1f}{ratio:>14}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    backend.close()


if __name__ == "__main__":
    main()
