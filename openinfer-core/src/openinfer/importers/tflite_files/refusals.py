"""Operators that have no translator, and why."""

from __future__ import annotations

from types import MappingProxyType

_FLOW = "calls of subgraphs other than branches and loops"
_TEXT = "strings and hash tables have no counterpart"

_SEQUENCES = "sequences whose state is within the model"

REASONS = MappingProxyType(
    {
        "BIDIRECTIONAL_SEQUENCE_LSTM": _SEQUENCES,
        "BIDIRECTIONAL_SEQUENCE_RNN": _SEQUENCES,
        "LSTM": _SEQUENCES,
        "RNN": _SEQUENCES,
        "UNIDIRECTIONAL_SEQUENCE_RNN": _SEQUENCES,
        "CALL": _FLOW,
        "HASHTABLE": _TEXT,
        "HASHTABLE_FIND": _TEXT,
        "HASHTABLE_IMPORT": _TEXT,
        "HASHTABLE_LOOKUP": _TEXT,
        "HASHTABLE_SIZE": _TEXT,
        "LSH_PROJECTION": _TEXT,
        "SKIP_GRAM": _TEXT,
    }
)


def refusal(op: str) -> str:
    """Return why an operator without a translator cannot be imported."""
    if op.startswith("CUSTOM"):
        return "a custom operator, which only the program that made the file defines"
    return REASONS.get(op, "no operator implements it")
