"""What this machine can do at most, measured: operations by a loop of multiply-adds, bytes by a loop that reads."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forms import FORMS
from generated import CLOCK

if TYPE_CHECKING:
    from pathlib import Path

_ROUNDS = 200
"""Runs of either loop, of which the quickest counts."""

_ACCUMULATORS = 12
"""Vectors that advance together: more than the latency of a multiply-add hides, few enough for 16 registers."""

_SOURCE = """{clock}
#include <stdlib.h>
#include <string.h>

typedef float lanes __attribute__((vector_size({width})));
enum {{ LANES = {width} / 4, ACCUMULATORS = {accumulators}, TURNS = 2000 }};

/* Operations per microsecond: a multiplication and an addition in each lane. */
double most_operations(int rounds, float a, float b, float *result) {{
    double least = 1e30;
    for (int round = 0; round < rounds; ++round) {{
        lanes total[ACCUMULATORS];
        /* Compilers compute equal ones only once. */
        for (int n = 0; n < ACCUMULATORS; ++n) {{ total[n] = (lanes){{0}} + a * (float)n; }}
        const double start = now();
        for (int turn = 0; turn < TURNS; ++turn) {{
            for (int n = 0; n < ACCUMULATORS; ++n) {{ total[n] = total[n] * a + b; }}
        }}
        const double taken = now() - start;
        for (int n = 0; n < ACCUMULATORS; ++n) {{ *result += total[n][0]; }}
        if (taken < least) {{ least = taken; }}
    }}
    return 2.0 * LANES * ACCUMULATORS * TURNS / least;
}}

/* Bytes per microsecond, reading as many again and again. */
double most_bytes(int rounds, size_t nbytes, float *result) {{
    const size_t block = {width} * ACCUMULATORS, blocks = (nbytes + block - 1) / block;
    lanes *const data = aligned_alloc({width}, blocks * block);
    double least = 1e30;
    if (data == NULL) {{ return 0; }}
    memset(data, 0, blocks * block);
    for (int round = 0; round < rounds; ++round) {{
        lanes total[ACCUMULATORS] = {{{{0}}}};
        size_t turns = 0;
        const double start = now();
        do {{
            for (size_t b = 0; b < blocks; ++b) {{
                for (int n = 0; n < ACCUMULATORS; ++n) {{ total[n] += data[b * ACCUMULATORS + n]; }}
            }}
            ++turns;
        }} while (now() - start < 20);
        const double taken = (now() - start) / (double)turns;
        for (int n = 0; n < ACCUMULATORS; ++n) {{ *result += total[n][0]; }}
        if (taken < least) {{ least = taken; }}
    }}
    free(data);
    return (double)(blocks * block) / least;
}}
"""


@dataclass(frozen=True)
class Peak:
    """Operations and bytes read in a microsecond, at most; a multiply-add is two operations."""

    operations: float
    nbytes: float


def peak(folder: Path, nbytes: int) -> Peak:
    """Return what this machine does at most where ``nbytes`` are read again and again.

    The number of bytes decides which of the caches they come from.
    """
    form = FORMS["vector"]
    document = form.arch or {}
    width = 4 * document["target"]["lanes"]
    folder.mkdir()
    (folder / "peaks.c").write_text(_SOURCE.format(clock=CLOCK, width=width, accumulators=_ACCUMULATORS))
    flags = [*document["target"]["flags"], "-std=gnu11", "-O3", "-ffp-contract=fast", "-shared", "-fPIC"]
    subprocess.run([form.compiler, *flags, "-o", "peaks.so", "peaks.c"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "peaks.so"))
    library.most_operations.restype = library.most_bytes.restype = ctypes.c_double
    result = ctypes.c_float(0)
    operations = library.most_operations(_ROUNDS, ctypes.c_float(0.5), ctypes.c_float(1), ctypes.byref(result))
    read = library.most_bytes(_ROUNDS, ctypes.c_size_t(nbytes), ctypes.byref(result))
    return Peak(operations, read)
