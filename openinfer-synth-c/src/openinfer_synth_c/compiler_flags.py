"""Flags of the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan

FLAGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"),
    *("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
)
"""Flags of the compiler for every device; contraction to fused multiply-add would change results. Nobody reads errno
or exception flags, and choices between numbers stay in vector registers that way."""

BARE = ("-ffunction-sections", "-fdata-sections", "-DOPENINFER_BARE_METAL")
"""Flags for programs without an operating system: the linker leaves out what nothing calls."""


def compiler_flags(plan: ExecutionPlan) -> tuple[str, ...]:
    """Return the compiler flags for the program of a plan; the flags of its device come last."""
    return FLAGS if plan.arch is None else (*FLAGS, *plan.arch.compiler.flags)


def library_flags(plan: ExecutionPlan) -> tuple[str, ...]:
    """Return the flags of a library, which leave the standard and warnings to the user."""
    return tuple(flag for flag in compiler_flags(plan) if not flag.startswith(("-std=", "-W")))


def portable_flags(plan: ExecutionPlan) -> tuple[str, ...]:
    """Return the flags that a framework adds to its own, which name the core and how far to optimise."""
    return tuple(flag for flag in library_flags(plan) if not flag.startswith(("-m", "-O")))
