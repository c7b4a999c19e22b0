"""Generated C beside ONNX Runtime: random weights, one thread, batch 1; ratios above 1 are slower than it.

Each form is a device file and a compiler with its flags. Results are compared first. The forms and ONNX Runtime then
take turns in one process, in many short rounds; printed are the median of each and the median of the rounds' ratios.
``--layers`` prints the time of each step of the program and its share of the machine's peak instead.

Run: python benchmarks/c/beside_onnxruntime.py [NET ...] [--form FORM ...] [--rounds N] (packages onnx and onnxruntime)
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from nets import NETS, Net

import openinfer as oi

Array = np.ndarray
ROUND_S = 0.05
"""Seconds that one form runs before the next has its turn."""

TIMER = """
#define _POSIX_C_SOURCE 199309L
#include <time.h>
#include "model.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Microseconds of each of n steps. */
int time_steps(const struct model_inputs *inputs, const struct model_outputs *outputs, double *times, int n) {
    for (int i = 0; i < n; ++i) {
        const double start = now();
        const int status = (int)model_step(inputs, outputs);
        if (status != 0) { return status; }
        times[i] = now() - start;
    }
    return 0;
}
"""


@dataclass(frozen=True)
class Form:
    """A device file or profile, or none for the default, with further flags of the compiler."""

    arch: str | None
    compiler: str = "gcc"
    flags: tuple[str, ...] = ()


FORMS = {
    "vector": Form("host"),
    "c99": Form("host-c99"),
    "default": Form(None),
    "clang": Form("host", "clang"),
}


class Generated:
    """A network as generated C in this process."""

    def __init__(self, net: Net, form: Form, folder: Path) -> None:
        started = time.perf_counter()
        synthesis = oi.Synthesizer("c", arch=form.arch).synthesize(oi.Model.from_arrays(net.weights), net.program)
        self.plan_s = time.perf_counter() - started
        synthesis.emit(folder)
        self.arena_nbytes = synthesis.plan.arena_nbytes
        self.source_nbytes = _source_nbytes(folder / "model.c")
        (folder / "timer.c").write_text(TIMER)
        started = time.perf_counter()
        flags = [*_flags(folder / "Makefile"), *form.flags]
        library = folder / "model.so"
        subprocess.run(
            [form.compiler, *flags, "-shared", "-fPIC", "-o", str(library), "model.c", "timer.c", "-lm"],
            cwd=folder,
            check=True,
        )
        self.compile_s = time.perf_counter() - started
        self._library = ctypes.CDLL(str(library))
        weights = folder / "weights.bin"
        if weights.exists():
            self._weights = _aligned(np.frombuffer(weights.read_bytes(), np.uint8))
            self._library.model_set_weights(ctypes.c_void_p(self._weights.ctypes.data))
        plan = synthesis.plan
        self._inputs = [_aligned(net.inputs[port.name]) for port in plan.inputs]
        self.outputs = {port.name: _aligned(np.zeros(port.type.shape, np.float32)) for port in plan.outputs}
        self._in = (ctypes.c_void_p * len(self._inputs))(*(a.ctypes.data for a in self._inputs))
        self._out = (ctypes.c_void_p * len(self.outputs))(*(a.ctypes.data for a in self.outputs.values()))
        self.run(3)

    def run(self, count: int) -> list[float]:
        """Return the microseconds of each of some steps."""
        times = (ctypes.c_double * count)()
        status = self._library.time_steps(self._in, self._out, times, count)
        if status != 0:
            raise SystemExit(f"the step ended with status {status}")
        return list(times)


class Runtime:
    """A network in ONNX Runtime, inputs and outputs bound beforehand."""

    def __init__(self, net: Net) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(net.onnx_model, options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        for name, array in net.inputs.items():
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for output in self._session.get_outputs():
            value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, np.float32)
            self._binding.bind_ortvalue_output(output.name, value)
        self.outputs = dict(zip(net.outputs, self._session.run(list(net.outputs), dict(net.inputs)), strict=True))
        self.run(3)

    def run(self, count: int) -> list[float]:
        times: list[float] = []
        for _ in range(count):
            start = time.perf_counter_ns()
            self._session.run_with_iobinding(self._binding)
            times.append((time.perf_counter_ns() - start) * 1e-3)
        return times


def _aligned(array: Array) -> Array:
    """Return a copy at an address that is a multiple of 64."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    made = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _flags(makefile: Path) -> list[str]:
    line = next(line for line in makefile.read_text().splitlines() if line.startswith("CFLAGS"))
    return line.split("=", 1)[1].split()


def _source_nbytes(source: Path) -> int:
    """Return the size of the source without the numbers of its weights."""
    return sum(len(line) + 1 for line in source.read_text().splitlines() if line.lstrip()[:1] not in "-0123456789")


def _check(net: Net, found: dict[str, Array], expected: dict[str, Array], form: str) -> None:
    for name, right in expected.items():
        scale = float(np.abs(right).max())
        error = float(np.abs(found[name] - right.reshape(found[name].shape)).max()) / scale
        if not error <= net.tolerance:
            raise SystemExit(f"{net.name}, {form}: {name} differs by {error:.1e} of its largest element")


def measured(net: Net, forms: Sequence[str], rounds: int) -> None:
    """Print one line per form of a network."""
    with tempfile.TemporaryDirectory() as scratch:
        runtime = Runtime(net)
        programs = {name: Generated(net, FORMS[name], Path(scratch) / name) for name in forms}
        for name, program in programs.items():
            _check(net, program.outputs, runtime.outputs, name)
        runners: dict[str, Runtime | Generated] = {"": runtime, **programs}
        counts = {name: max(3, int(ROUND_S * 1e6 / min(r.run(5)))) for name, r in runners.items()}
        medians: dict[str, list[float]] = {name: [] for name in runners}
        minima = dict.fromkeys(runners, float("inf"))
        for number in range(rounds):
            for name in list(runners) if number % 2 else list(runners)[::-1]:
                times = runners[name].run(counts[name])
                medians[name].append(statistics.median(times))
                minima[name] = min(minima[name], *times)
    median = statistics.median(medians[""])
    print(f"{net.name}: onnxruntime {median:.1f} µs (least {minima['']:.1f}), {net.multiply_adds} multiply-adds")
    for name, program in programs.items():
        ratio = statistics.median(a / b for a, b in zip(medians[name], medians[""], strict=True))
        print(
            f"  {name:8} {statistics.median(medians[name]):9.1f} µs (least {minima[name]:.1f})"
            f"  ratio {ratio:.3f} (of the least {minima[name] / minima['']:.3f})"
            f"  arena {program.arena_nbytes}  source {program.source_nbytes / 1024:.0f} KB"
            f"  plan {program.plan_s:.2f} s  cc {program.compile_s:.1f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("nets", nargs="*", metavar="NET", help=f"of {', '.join(NETS)}; all by default")
    parser.add_argument("--form", action="append", choices=FORMS, help="device file and compiler; all by default")
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    for name in given.nets or NETS:
        if name not in NETS:
            parser.error(f"no network {name!r}: there are {', '.join(NETS)}")
        measured(NETS[name](), given.form or tuple(FORMS), given.rounds)


if __name__ == "__main__":
    main()
