"""Stages of a program as text: where each ends, and what its comment says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.values import Call

LONGEST_LINE = 110
"""Characters of the longest line with a comment at its end."""

HEAVY = (
    "conv1d",
    "conv2d",
    "conv_transpose2d",
    "linear",
    "matmul",
    "sdpa",
    "attn",
    "qmatmul",
    "lstm_cell",
    "gru_cell",
)
"""Operators that start a stage where the model does not name stages."""


def stage_end(calls: Sequence[Call], start: int) -> int:
    """Return where a stage ends: with the module that the model names, or before the next heavy operator."""
    end = start + 1
    stage = calls[start].stage
    while end < len(calls) and calls[end].stage == stage:
        if not stage and calls[end].op in HEAVY:
            break
        end += 1
    return end


def label(calls: Sequence[Call]) -> str:
    ops = list(dict.fromkeys(call.op for call in calls))
    return ", ".join(ops[:4]) + (", ..." if len(ops) > 4 else "")


def comment(text: str) -> str:
    """Return text that cannot end a comment, on one line."""
    return "".join(character if character.isprintable() else "?" for character in text)
