"""How long opening a container takes, compared with `safetensors.safe_open`, and what a large one costs.

Run where openinfer-oinf and safetensors are installed: `python benchmarks/oinf/opening.py [FOLDER]`. Prints processor
time (nothing waits for a disk), the best of 25 interleaved turns: 10,000 tensors of 15 elements, opened with every
check of the index; then as many tensors in a sparse file of 4 GiB, with what opening it adds to resident memory.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file as save_safetensors

from openinfer_oinf import OinfWriter, open_oinf

TENSORS = 10_000
TURNS = 25
GIB = 1 << 30


def write_container(path: Path, shape: tuple[int, ...], *, filled: bool) -> None:
    """A file of `TENSORS` f32 tensors; without `filled` the payloads are a hole of the file."""
    names = [f"model.layers.{at // 8}.block.{at % 8}.weight" for at in range(TENSORS)]
    with OinfWriter(path) as writer:
        for name in names:
            writer.declare(name, "f32", shape)
        if filled:
            for name in sorted(names):
                writer.write(name, np.ones(shape, np.float32))
            return
        plan = writer.plan()
        writer.discard()
    with path.open("wb") as file:
        file.write(plan.index)
        file.truncate(plan.file_size)


def best_of_turns(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 1):
        for name, call in calls.items():
            started = time.process_time()
            call()
            if turn:
                samples[name].append(time.process_time() - started)
    return {name: min(values) for name, values in samples.items()}


def opened(path: Path) -> int:
    with open_oinf(path) as file:
        return len(file)


def opened_by_safetensors(path: Path) -> int:
    with safe_open(path, framework="np") as file:
        return len(file.keys())


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def main(folder: Path) -> None:
    small, large, other = folder / "small.oinf", folder / "large.oinf", folder / "small.safetensors"
    write_container(small, (3, 5), filled=True)
    write_container(large, (GIB // TENSORS + 1,), filled=False)
    save_safetensors(
        {f"model.layers.{at // 8}.block.{at % 8}.weight": np.ones((3, 5), np.float32) for at in range(TENSORS)}, other
    )
    seconds = best_of_turns(
        {
            "open_oinf": lambda: opened(small),
            "safe_open": lambda: opened_by_safetensors(other),
            "open_oinf, 4 GiB": lambda: opened(large),
        }
    )
    ratio = seconds["open_oinf"] / seconds["safe_open"]
    print(f"{TENSORS} tensors: open_oinf {seconds['open_oinf'] * 1e3:.1f} ms (at most 40), safe_open ", end="")
    print(f"{seconds['safe_open'] * 1e3:.1f} ms, ratio {ratio:.2f} (at most 3)")
    ratio = seconds["open_oinf, 4 GiB"] / seconds["open_oinf"]
    print(
        f"{large.stat().st_size / GIB:.1f} GiB sparse, as many tensors: {seconds['open_oinf, 4 GiB'] * 1e3:.1f} ms, "
        f"{ratio:.2f} x the small file (about 1)"
    )
    before = resident_kib()
    with open_oinf(large) as file:
        index = resident_kib() - before
        _ = file[next(iter(file))]
    print(
        f"resident memory grew by {index / 1024:.1f} MiB on opening it; "
        f"its index alone has {file.index.header.offset_data / 1024**2:.1f} MiB"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as scratch:
        main(Path(scratch))
