"""Compiling and running many programs in C at once; what does not compile or crashes is found and left out."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.simulate.values import Tensor
from openinfer.testing.random_programs.running import Failed, Step
from openinfer.testing.random_programs.sample import Sample
from openinfer_synth_c.library import FLAGS
from openinfer_synth_c.native import native_flags
from random_programs.c_units import EXTENT, Written, driver_of, job_of, sizes_of, unit_of

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
SANITIZERS = ("-g1", "-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
"""Lines are enough for the messages: gcc takes five times as long where it follows variables too (``-g``)."""

DEVICE = "device"
"""The level of optimisation with which device c compiles."""

IN_UNIT = 16
"""Programs of a translation unit."""

LONGEST_BUILD, LONGEST_RUN = 600.0, 60.0
SHOWN = 1_500
"""Characters of messages that are kept."""

_TOLD = re.compile(
    r"error: [^\n]*\[-Werror[,=]([^\]]+)\]|error: ([^\n]*)|(?:AddressSanitizer|runtime error): ([^\n]{,60})"
)
_OF_SOURCE = re.compile(r"redefinition|redeclar|conflicting types|multiple definition")
"""Messages of compilers and linkers about names that collide; they also fail when time or memory runs out."""

_VARYING = re.compile(r"'[^']*'|(?:on|at|in|of) (?:unknown )?address.*|-?\d+")

STATUS = {2: "out-of-range", 4: "cache-limit", 5: "shape-mismatch"}
"""Codes of the errors that a program in C ends a step with, by its status."""

STATUS_OF = {"model-data": STATUS[2], "cache-index": STATUS[2], "insert-mismatch": STATUS[5]}
"""Codes that a program in C has no status of its own for: indices of tables and caches are out of range, and sizes of a
step do not fit."""


@dataclass(frozen=True, slots=True)
class Build:
    """A way to compile."""

    compiler: str
    level: str
    sanitize: bool = False

    def __str__(self) -> str:
        return f"{self.compiler} -{self.level}{' sanitized' if self.sanitize else ''}"

    def command(self) -> list[str]:
        """Return the compiler with its flags."""
        if self.level == DEVICE:
            own = [flag for flag in FLAGS if flag not in ("-fPIC", "-shared")]
            flags = [*own, *native_flags((self.compiler,))]
        else:
            flags = ["-std=c99", f"-{self.level}", "-ffp-contract=off"]
        return [self.compiler, *flags, *WARNINGS, *(SANITIZERS if self.sanitize else ())]


@dataclass(frozen=True, slots=True)
class Given:
    """A program in C with the sample that it comes from."""

    program: Written
    sample: Sample


class CollisionError(Exception):
    """Programs that compile apart and not together: names at file scope that `unit_of` does not tell apart."""


def run_batch(given: Sequence[Given], build: Build) -> list[tuple[Step, ...] | str]:
    """Compile programs together and run them; return the steps of each, or why it has none.

    Raises:
        CollisionError: each compiles alone.
    """
    if not given:
        return []
    with tempfile.TemporaryDirectory(prefix="openinfer-") as name:
        folder = Path(name)
        said = _built(given, build, folder)
        if said is None:
            return run_built(given, folder)
    if len(given) == 1:
        return [f"does not compile: {said}"]
    middle = len(given) // 2
    outcomes = [*run_batch(given[:middle], build), *run_batch(given[middle:], build)]
    if not any(isinstance(outcome, str) for outcome in outcomes) and _OF_SOURCE.search(said):
        raise CollisionError(said)
    return outcomes


def _built(given: Sequence[Given], build: Build, folder: Path) -> str | None:
    """Compile programs; return what the compiler says where it fails."""
    files = driver_of(len(given))
    for start in range(0, len(given), IN_UNIT):
        numbered = {start + place: each.program for place, each in enumerate(given[start : start + IN_UNIT])}
        files[f"unit{start}.c"] = unit_of(numbered)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="ascii")
    sources = sorted(name for name in files if name.endswith(".c"))
    command = [*build.command(), "-o", "batch", *sources, "-lm"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_BUILD,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the compiler took more than {LONGEST_BUILD:g} s"
    return None if done.returncode == 0 else done.stderr[:SHOWN]


def run_built(given: Sequence[Given], folder: Path) -> list[tuple[Step, ...] | str]:
    """Run the compiled programs of a folder, again after each one that ends the process."""
    (folder / "job").write_bytes(
        b"".join(job_of(number, each.program, each.sample) for number, each in enumerate(given))
    )
    outcomes: list[tuple[Step, ...] | str] = []
    while len(outcomes) < len(given):
        said = _run(folder, len(outcomes))
        outcomes += _complete(given, (folder / "results").read_bytes(), len(outcomes))
        (folder / "results").unlink()
        if len(outcomes) < len(given):
            outcomes.append(said or "ended without a message")
    return outcomes


def _run(folder: Path, first: int) -> str:
    """Run programs from one on; return what the process said where it failed."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1"}
    (folder / "results").touch()
    command = [str(folder / "batch"), "job", "results", str(first)]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=LONGEST_RUN, check=False
        )
    except subprocess.TimeoutExpired:
        return f"hangs: runs longer than {LONGEST_RUN:g} s"
    if done.returncode == 0:
        return ""
    ended = signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
    return f"crashes ({ended}): {done.stderr.decode('utf-8', 'replace')[:SHOWN]}"


def _complete(given: Sequence[Given], data: bytes, first: int) -> Iterator[tuple[Step, ...]]:
    """Yield the steps of the programs that ran to their end, one after the other."""
    place = 0
    for number in range(first, len(given)):
        plan, steps = given[number].program.plan, list[Step]()
        length = 24 + sum(size for port in plan.outputs for size in sizes_of(port))
        if len(data) < place + length * len(given[number].sample.steps):
            return
        for _ in given[number].sample.steps:
            status = struct.unpack_from("=3q", data, place)[2]
            steps.append(_results(given[number].program, data, place + 24) if status == 0 else Failed(_code(status)))
            place += length
        yield tuple(steps)


def compiler_failed(outcome: str) -> bool:
    """Return whether a compiler reports an error of its own where a program does not compile."""
    return "internal compiler error" in outcome


def manner_of(outcome: str) -> str:
    """Return how a program fails to compile or run, alike for failures that are alike."""
    way = outcome.split(":")[0]
    reported = _TOLD.search(outcome)
    if reported is None:
        return way
    return f"{way} [{_VARYING.sub('', reported[1] or reported[2] or reported[3]).strip()}]"


def _code(status: int) -> str:
    return STATUS.get(status, f"status {status}")


def _results(program: Written, data: bytes, place: int) -> Step:
    found: dict[str, Tensor] = {}
    for port in program.plan.outputs:
        size, *more = sizes_of(port)
        type_, start = port.type, place
        place += size + sum(more)
        if port.extents is not None:
            shape = tuple(np.frombuffer(data[start + size : place], EXTENT).tolist())
            type_ = replace(type_, shape=shape)
            if type_.nbytes > size:
                return Failed(f"shape {list(shape)} of {port.name}, at most {port.type}")
        stored = np.dtype(np.uint8) if type_.dtype.is_packed else storage_dtype(type_.dtype)
        array = np.frombuffer(data[start : start + type_.nbytes], stored)
        array = array if type_.dtype.is_packed else array.reshape(type_.shape)
        found[port.name] = Tensor(type_.dtype, type_.shape, array)
    return found
