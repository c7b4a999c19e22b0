"""How many elements a second are packed, unpacked and rounded, compared with ml_dtypes where it does the same.

Run where openinfer-oinf and ml_dtypes are installed, on one core: `taskset -c 0 python benchmarks/oinf/encoding.py`.
Prints the best of at least 7 turns, and of a second of them, over 64 Mi elements (32 Mi floats): the fastest turn is
the one that nothing disturbed. What counts is the time that the thread had the core: other programs show only in what
they take of caches and memory. Packing includes the check of the range.
"""

import time
from collections.abc import Callable

import ml_dtypes
import numpy as np

from openinfer_oinf.encoding import encode
from openinfer_oinf.packing import unpack
from openinfer_oinf.valuetypes import value_type

TURNS = 7
SECONDS = 1.0
PACKED = {"i4": (-8, 8), "u4": (0, 16), "i2": (-2, 2), "u2": (0, 4), "i1": (-1, 1), "u1": (0, 2), "t2": (-1, 2)}
FLOATS = {"bf16": (ml_dtypes.bfloat16, 0.7), "f8": (ml_dtypes.float8_e5m2, 0.3)}


def speed(call: Callable[[], object], count: int) -> float:
    """Billions of elements a second."""
    turns: list[float] = []
    while len(turns) < TURNS or sum(turns) < SECONDS:
        started = time.thread_time()
        call()
        turns.append(time.thread_time() - started)
    return count / min(turns) / 1e9


def main() -> None:
    rng = np.random.default_rng(0)
    count = 64 << 20
    for name, (low, high) in PACKED.items():
        kind = value_type(name)
        values = rng.integers(low, high, count, np.uint8 if name[0] == "u" else np.int8)
        stored = encode(values, kind)
        packing = speed(lambda values=values, kind=kind: encode(values, kind), count)
        unpacking = speed(lambda stored=stored, kind=kind: unpack(stored, kind, 0, count), count)
        print(f"{name:<5} packs {packing:5.2f} G/s, unpacks {unpacking:5.2f} G/s (at least 2.5)")
    floats = rng.standard_normal(32 << 20, np.float32)
    for name, (theirs, least) in FLOATS.items():
        kind = value_type(name)
        ours = speed(lambda kind=kind: encode(floats, kind), floats.size)
        other = speed(lambda theirs=theirs: floats.astype(theirs), floats.size)
        print(f"{name:<5} rounds {ours:5.2f} G/s (at least {least}), {ours / other:.2f} x ml_dtypes ({other:.2f} G/s)")


if __name__ == "__main__":
    main()
