"""How fast 1 GiB is written compared with `numpy.ndarray.tofile` and `fsync` to the same disk, and at what peak memory.

Run where openinfer-oinf is installed: `python benchmarks/oinf/writing.py [FOLDER]`. Prints the best of 7
turns, interleaved (the one that nothing disturbed); every turn replaces the file of the turn before, as `OinfWriter`
does in one step. The peak is read from /proc, so that Linux is needed.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from openinfer_oinf import save_file

GIB = 1 << 30
TURNS = 7

# In a process of its own: what a streamed file, and one from an array at hand, add to the peak of resident memory.
PEAK = """
import sys
from pathlib import Path
import numpy as np
from openinfer_oinf import OinfWriter, save_file
path, way = sys.argv[1:]
rows, columns = 256, 1 << 20
block = np.ones((1, columns), np.float32)
array = np.ones((rows, columns), np.float32) if way == "array" else block
save_file({"w": block}, path)

def kib(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])

Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is resident
before = kib("VmRSS")
if way == "array":
    save_file({"w": array}, path)
elif way == "cast":
    with OinfWriter(path) as writer:
        writer.declare("w", "bf16", (rows, columns))
        writer.write("w", (block for _ in range(rows)))
else:
    with OinfWriter(path) as writer:
        writer.declare("w", "f32", (rows, columns))
        writer.write("w", (block for _ in range(rows)))
print(kib("VmHWM") - before)
"""


def plain_write(array: np.ndarray, path: Path) -> None:
    with path.open("wb") as file:
        array.tofile(file)
        file.flush()
        os.fsync(file.fileno())


def replacing_write(array: np.ndarray, path: Path) -> None:
    """The same job as ours: the old file is there until the new one is complete."""
    temporary = path.with_suffix(".tmp")
    plain_write(array, temporary)
    temporary.replace(path)


def main(folder: Path) -> None:
    array = np.random.default_rng(0).random((256, 1 << 20), np.float32)
    calls = {
        "tofile, fsync": lambda: replacing_write(array, folder / "plain"),
        "save_file": lambda: save_file({"w": array}, folder / "m.oinf"),
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if turn:
                samples[name].append(time.perf_counter() - started)
    best = {name: min(values) for name, values in samples.items()}
    for name, seconds in best.items():
        speed = best["tofile, fsync"] / seconds
        print(
            f"{name:<14} {seconds:6.3f} s  {array.nbytes / GIB / seconds:5.2f} GiB/s   "
            f"{speed:.2f} x the speed of tofile (at least 0.9)"
        )
    for way, what in (
        ("stream", "1 GiB in blocks of 4 MiB"),
        ("cast", "the same, cast to bf16"),
        ("array", "an array of 1 GiB"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(folder / "peak.oinf"), way], capture_output=True, text=True, check=True
        )
        print(f"peak memory above the caller's data, {what}: {int(done.stdout) / 1024:.1f} MiB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as scratch:
        main(Path(scratch))
