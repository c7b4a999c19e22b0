"""How long it takes to sum a 256 MiB tensor of a file, compared with `safetensors.numpy.load_file`.

Run where openinfer-oinf and safetensors are installed: `python benchmarks/oinf/loading.py [FOLDER]`. Prints the medians
of 9 turns, interleaved, from a warm page cache: the file is opened, the tensor (f32) taken as a mapped view or as a
private copy, and summed.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file as load_safetensors
from safetensors.numpy import save_file as save_safetensors

from openinfer_oinf import open_oinf, save_file

MIB = 1 << 20
TURNS = 9


def medians(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if turn:
                samples[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in samples.items()}


def view_seconds(path: Path) -> float:
    """From the description of a tensor in an open file to its mapped array."""
    samples: list[float] = []
    with open_oinf(path) as file:
        for _ in range(1000):
            started = time.perf_counter()
            _ = file["w"]
            samples.append(time.perf_counter() - started)
    return statistics.median(samples)


def sum_of_view(path: Path) -> float:
    with open_oinf(path) as file:
        return float(file["w"].sum())


def sum_of_copy(path: Path) -> float:
    with open_oinf(path) as file:
        return float(file.load("w").sum())


def sum_of_safetensors(path: Path) -> float:
    return float(load_safetensors(path)["w"].sum())


def main(folder: Path) -> None:
    ours, theirs = folder / "m.oinf", folder / "m.safetensors"
    array = np.random.default_rng(0).random((64 * MIB,), np.float32)
    save_file({"w": array}, ours)
    save_safetensors({"w": array}, theirs)
    seconds = medians(
        {
            "load_file": lambda: sum_of_safetensors(theirs),
            "mapped view": lambda: sum_of_view(ours),
            "private copy": lambda: sum_of_copy(ours),
        }
    )
    for name, limit in (("load_file", 1.0), ("mapped view", 0.2), ("private copy", 0.6)):
        ratio = seconds[name] / seconds["load_file"]
        print(f"{name:<14} {seconds[name] * 1e3:7.1f} ms   {ratio:.2f} x load_file (at most {limit})")
    print(f"zero-copy view {view_seconds(ours) * 1e6:7.1f} us (at most 20)")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as scratch:
        main(Path(scratch))
