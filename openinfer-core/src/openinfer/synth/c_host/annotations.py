"""Annotations in generated C that only the analyser Eva reads: what it follows value by value, and bounds to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.synth.c_host.lines import Lines


def write_split(code: Lines, names: Sequence[str]) -> None:
    """Append that the analyser follows each value of some variables by itself, up to `write_merge`.

    It knows an interval for each variable, and no relation between two that both vary.
    """
    code.line(*(f"/*@ split {name}; */" for name in names))


def write_merge(code: Lines, names: Sequence[str]) -> None:
    """Append the end of what `write_split` begins."""
    code.line(*(f"/*@ merge {name}; */" for name in reversed(names)))


def bound_hint(code: Lines, bound: int) -> None:
    """Append a bound that the analyser tries before it assumes that a loop makes values as large as their type."""
    code.line(f'/*@ widen_hints "all", {bound}; */')
