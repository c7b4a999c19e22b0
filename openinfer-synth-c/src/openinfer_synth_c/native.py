"""Code for the processor of this machine: whether the compiler can generate it, and an identification of the
processor."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.scratch import scratch_directory
from openinfer.synth.c_host.toolchain import run_tool

if TYPE_CHECKING:
    from collections.abc import Sequence

NATIVE = "-march=native"
"""Flag for every instruction of this processor. Results are the same: contraction and reassociation stay off."""

LONGEST_ANSWER = 20.0
"""Seconds that a compiler has to say whether it knows the flag."""

_DESCRIPTION = Path("/proc/cpuinfo")

_REPORTED = ("vendor_id", "model name", "flags", "CPU implementer", "CPU part", "Features", "isa", "cpu")
"""Lines that differ between processors and do not change while one runs."""


@cache
def processor() -> str | None:
    """Return what tells this processor from others with other instructions; None where the system does not say."""
    try:
        lines = _DESCRIPTION.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    reported = sorted({line for line in lines if line.partition(":")[0].strip() in _REPORTED})
    return "\n".join(reported) or None


def native_flags(command: Sequence[str]) -> tuple[str, ...]:
    """Return the flag if the compiler of a command, which does not contain it yet, accepts it."""
    return _flags_of(tuple(command))


@cache
def _flags_of(command: tuple[str, ...]) -> tuple[str, ...]:
    with scratch_directory() as directory:
        (directory / "empty.c").write_text("typedef int nothing;\n", encoding="ascii")
        try:
            run_tool([*command, NATIVE, "-c", "-o", "empty.o", "empty.c"], directory, LONGEST_ANSWER, "the C compiler")
        except SynthesisError:
            return ()
    return (NATIVE,)
