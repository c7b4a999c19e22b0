"""Call operators on cpu with random types, shapes and settings, in memory that is guarded on both sides:
`python openinfer-core/fuzz/fuzz_kernels.py [--calls N] [--seed S] [--op NAME]`.

Every call runs three times on the same inputs, with other bytes around them, in the outputs and in scratch memory, and
once without being bound to its buffers where that is possible. All have to give the same, leave inputs and guards as
they are, or fail with one of the package's own errors; in at most a second, and without any other exception or warning.
Prints how many calls of which outcome there were. Exit codes: 0 all went well, 1 a call broke a rule.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import OpenInferError
from openinfer.ir.types import TensorType
from openinfer.ops.calls import OpCall
from openinfer.packing import pack
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import kernel_table
from openinfer.simulate.devices.binding import Binder
from openinfer.testing.random_programs.calls import Drawn, endless, inputs_of
from openinfer_backend_cpu.backend import CpuBackend
from openinfer_backend_cpu.buffers import CpuBuffer
from openinfer_backend_cpu.workspace import Workspace

Array = np.ndarray[Any, Any]

GUARD = 4096
"""Bytes on each side of a buffer, a multiple of every alignment."""

SLOWEST = 1.0
MOST_SHOWN = 20


class BrokenRuleError(Exception):
    """What is wrong about how a call went."""


@dataclass(slots=True)
class Guarded:
    """Memory in which every byte that no buffer owns has one value."""

    filler: int
    blocks: list[tuple[Array, int]] = field(default_factory=list)

    def array(self, kind: TensorType) -> Array:
        """Return an array in storage form, of undefined content, with guards around it."""
        nbytes = kind.nbytes
        block = np.full(nbytes + 2 * GUARD, self.filler, np.uint8)
        self.blocks.append((block, nbytes))
        inside = block[GUARD : GUARD + nbytes]
        return inside if kind.dtype.is_packed else inside.view(storage_dtype(kind.dtype)).reshape(kind.shape)

    def check(self) -> None:
        for block, nbytes in self.blocks:
            around = np.concatenate([block[:GUARD], block[GUARD + nbytes :]])
            if (around != self.filler).any():
                raise BrokenRuleError("wrote outside of a buffer")


class DirtyWorkspace(Workspace):
    """Scratch memory whose content is that of the filler."""

    def __init__(self, filler: int) -> None:
        super().__init__()
        self._filler = filler

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        taken = super().take(shape, dtype)
        taken.reshape(-1).view(np.uint8).fill(self._filler)
        return taken


class DirtyBackend(CpuBackend):
    """The device, with scratch memory that is not clean."""

    def __init__(self, filler: int) -> None:
        super().__init__()
        self._workspace = DirtyWorkspace(filler)


ENVIRONMENT = Environment.default()
TABLE = kernel_table(ENVIRONMENT, ENVIRONMENT.devices["cpu"])


def run(backend: CpuBackend, call: OpCall, sources: list[CpuBuffer | None], targets: list[CpuBuffer]) -> None:
    """Run a call that is bound to its buffers."""
    Binder(ENVIRONMENT, TABLE, backend).bind(call, sources, targets)()


def run_directly(backend: CpuBackend, call: OpCall, sources: list[CpuBuffer | None], targets: list[CpuBuffer]) -> None:
    """Run a call as of buffers that come and go, where its kernel takes such."""
    binder = Binder(ENVIRONMENT, TABLE, backend)
    direct = binder.direct(binder.prepare(call))
    if direct is None:
        run(backend, call, sources, targets)
    else:
        direct(sources, targets)


def outcome(
    drawn: Drawn, inputs: list[Array | None], filler: int, runner: Callable[..., None]
) -> tuple[str, list[bytes]]:
    """Run a call, and return the code of its error or "done", and the bytes of its outputs.

    Raises:
        BrokenRuleError: it broke a rule.
    """
    memory, backend = Guarded(filler), DirtyBackend(filler)
    sources: list[CpuBuffer | None] = []
    for kind, array in zip(drawn.call.inputs, inputs, strict=True):
        sources.append(None if kind is None or array is None else _source(memory, kind, array))
    targets = [CpuBuffer(kind, memory.array(kind)) for kind in drawn.call.outputs]
    before = [None if source is None else source.array.tobytes() for source in sources]
    code = "done"
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            runner(backend, drawn.call, sources, targets)
        except OpenInferError as error:
            code = error.code
    memory.check()
    if before != [None if source is None else source.array.tobytes() for source in sources]:
        raise BrokenRuleError("changed an input")
    return code, [] if code != "done" else [_seen(target) for target in targets]


def _source(memory: Guarded, kind: TensorType, array: Array) -> CpuBuffer:
    held = memory.array(kind)
    np.copyto(held, pack(array, kind.dtype) if kind.dtype.is_packed else array)
    held.flags.writeable = False
    return CpuBuffer(kind, held)


def _seen(target: CpuBuffer) -> bytes:
    """Return the bytes of an output, one NaN for all."""
    array = target.array
    if target.type.dtype.is_float:
        with np.errstate(all="ignore"):
            array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.tobytes()


def check(drawn: Drawn, random: Random) -> str:
    """Return how a call ended.

    Raises:
        BrokenRuleError: it broke a rule.
    """
    inputs = inputs_of(drawn, random)
    begun = time.process_time()
    try:
        first, second = (outcome(drawn, inputs, filler, run) for filler in (0x00, 0xFF))
        third = outcome(drawn, inputs, 0xA5, run_directly)
    except BrokenRuleError:
        raise
    except Exception as error:
        raise BrokenRuleError(f"{type(error).__name__}: {error}") from error
    if time.process_time() - begun > 3 * SLOWEST:
        raise BrokenRuleError(f"took {time.process_time() - begun:.1f} s")
    if first != second:
        raise BrokenRuleError("depends on what lies around its inputs, in its outputs or in scratch memory")
    if third != first:
        raise BrokenRuleError("does something else on buffers that it is not bound to")
    return first[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append", help="only this operator; may be given several times")
    options = parser.parse_args()
    names = sorted(options.op or ENVIRONMENT.ops)
    random = Random(options.seed)  # noqa: S311
    outcomes, broken = Counter[str](), list[str]()
    for number, drawn in enumerate(endless([ENVIRONMENT.op(name) for name in names], random)):
        if number == options.calls:
            break
        try:
            outcomes[check(drawn, random)] += 1
        except BrokenRuleError as error:
            broken.append(f"{drawn}: {error}")
    for code, times in outcomes.most_common():
        print(f"{times:8} {code}")
    print(f"{len(broken):8} broke a rule")
    print("\n".join(broken[:MOST_SHOWN]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
