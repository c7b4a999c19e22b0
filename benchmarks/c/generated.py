"""A network as generated C in this process: planned, emitted, compiled, loaded."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import openinfer as oi
from openinfer.array_types import storage_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forms import Form
    from nets import Net

    from openinfer.plan.execution_plan import ExecutionPlan

Array = np.ndarray

CLOCK = """
#define _POSIX_C_SOURCE 199309L
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
"""
"""A function that returns microseconds."""

_NO_STATE = "static int rewound(void) { return 1; }"

_STATE = """
int set_variable(const char *name, const void *value, size_t nbytes);
int set_variable(const char *name, const void *value, size_t nbytes) {
    enum model_variable variable;
    const int status = (int)model_find(name, &variable);
    return status ? status : (int)model_set(&instance, variable, value, nbytes);
}

/* Give counters the values that they have before every step. */
static int rewound(void) {
    {counters}
    return 1;
}
"""
"""Persistent variables: those that the measurement sets."""

_TIMER = f"""{CLOCK}
#include "model.h"

static struct model instance;

int set_up(const void *weights);
int set_up(const void *weights) {{
    (void)weights;
    return (int)model_init(&instance{{weights}});
}}

{{state}}
/* Microseconds of each of n steps. */
int time_steps(const struct model_inputs *inputs, const struct model_outputs *outputs, double *times, int n) {{
    for (int i = 0; i < n; ++i) {{
        if (!rewound()) {{ return -1; }}
        const double start = now();
        const int status = (int)model_step(&instance, inputs, outputs);
        if (status != 0) {{ return status; }}
        times[i] = now() - start;
    }}
    return 0;
}}
"""


class Generated:
    """A network as generated C.

    Args:
        folder: where files are written; it is made.
        changed: returns the source that is compiled in place of the emitted one, for measurements within a step.

    Attributes:
        plan_s, compile_s: seconds to plan and emit, and of a core to compile the model alone.
        source_nbytes: size of the source without the numbers of its weights.
        text_nbytes: size of the machine code, without constants.
    """

    def __init__(
        self, net: Net, form: Form, folder: Path, changed: Callable[[ExecutionPlan, str], str] | None = None
    ) -> None:
        model = net.model(folder.with_suffix(".oinf"))
        started = time.perf_counter()
        synthesizer = oi.Synthesizer("c", arch=form.arch, limits=net.limits, strict_order=form.strict_order)
        synthesis = synthesizer.synthesize(model, net.program)
        self.plan_s = time.perf_counter() - started
        self.plan = synthesis.plan
        synthesis.emit(folder)
        source = folder / "model.c"
        self.source_nbytes = _source_nbytes(source)
        if changed is not None:
            source.write_text(changed(self.plan, source.read_text()))
        weights = folder / "weights.bin"
        given = ", weights" if weights.exists() else ""
        (folder / "timer.c").write_text(_TIMER.replace("{weights}", given).replace("{state}", _state_text(net)))
        self.flags = [*_flags(folder / "Makefile"), *form.flags]
        before = _compiling_s()
        _call([form.compiler, *self.flags, "-fPIC", "-c", "-o", "model.o", "model.c"], folder)
        self.compile_s = _compiling_s() - before
        self.text_nbytes = _text_nbytes(folder / "model.o")
        _call([form.compiler, *self.flags, "-shared", "-fPIC", "-o", "model.so", "model.o", "timer.c", "-lm"], folder)
        self.library = ctypes.CDLL(str(folder / "model.so"))
        self._weights = aligned(np.frombuffer(weights.read_bytes() if weights.exists() else b"", np.uint8))
        status = self.library.set_up(ctypes.c_void_p(self._weights.ctypes.data))
        if status != 0:
            raise SystemExit(f"the model cannot be initialised: status {status}")
        for name, array in net.state.items():
            held = np.ascontiguousarray(array)
            pointer, nbytes = ctypes.c_void_p(held.ctypes.data), ctypes.c_size_t(held.nbytes)
            status = self.library.set_variable(name.encode(), pointer, nbytes)
            if status != 0:
                raise SystemExit(f"persistent {name} cannot be set: status {status}")
        self._inputs = [aligned(net.inputs[port.name]) for port in self.plan.inputs]
        self.outputs = {
            port.name: aligned(np.zeros(port.type.shape, storage_dtype(port.type.dtype))) for port in self.plan.outputs
        }
        self._in = (ctypes.c_void_p * len(self._inputs))(*(a.ctypes.data for a in self._inputs))
        self._out = (ctypes.c_void_p * len(self.outputs))(*(a.ctypes.data for a in self.outputs.values()))
        self.run(3)

    def run(self, count: int) -> list[float]:
        """Return the microseconds of each of some steps."""
        times = (ctypes.c_double * count)()
        status = self.library.time_steps(self._in, self._out, times, count)
        if status != 0:
            raise SystemExit(f"the step ended with status {status}")
        return list(times)


def _state_text(net: Net) -> str:
    """Return the functions that set persistent variables."""
    if not net.state:
        return _NO_STATE
    lines = [
        f"{{ const int64_t to = {int(net.state[name])};"
        f' if (set_variable("{name}", &to, sizeof to) != 0) {{ return 0; }} }}'
        for name in net.counters
    ]
    return _STATE.replace("{counters}", "\n    ".join(lines))


def aligned(array: Array) -> Array:
    """Return a copy at an address that is a multiple of 64."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    made = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _compiling_s() -> float:
    """Return the seconds that processors have spent in compilers so far: others may keep these busy, too."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _call(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


def _flags(makefile: Path) -> list[str]:
    line = next(line for line in makefile.read_text().splitlines() if line.startswith("CFLAGS"))
    return line.split("=", 1)[1].split()


def _source_nbytes(source: Path) -> int:
    return sum(len(line) + 1 for line in source.read_text().splitlines() if line.lstrip()[:1] not in "-0123456789")


def _text_nbytes(file: Path) -> int:
    listed = subprocess.run(["size", "-A", str(file)], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return sum(int(row[1]) for row in rows if row and row[0].startswith(".text"))
