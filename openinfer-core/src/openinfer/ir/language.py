"""What the language gives a meaning of its own, for every form of a program: hints, attributes, nesting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.nodes import (
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Loop,
    Op,
    Transfer,
)
from openinfer.ir.values import BoolValue, DTypeListValue, ExprListValue, StrValue
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.values import AttrValue

MAX_NESTING = 100
"""Deepest nesting of loops and scopes."""

ATTRIBUTES = ("init", "reference", "ref", "pattern", "table", "auto_dim", "fixed")
"""Attributes of declarations that the language knows, with the older spelling of ``ref``."""

DTYPE_SETTINGS = ("to", "acc")
"""Settings in which a lone element type name is a type, whatever variables are called."""

KNOWN_HINTS: Mapping[str, tuple[type, str]] = {
    "fuse": (BoolValue, "`true` or `false`"),
    "placement": (StrValue, "a device name in quotes"),
    "group": (StrValue, "a string"),
    "no_reorder": (BoolValue, "`true` or `false`"),
    "fast": (BoolValue, "`true` or `false`"),
    "strict_order": (BoolValue, "`true` or `false`"),
}
"""Hints that the language knows, with the class of their values and how to write one."""

CARRIES_HINTS = (Op, Transfer, CacheRead, CacheWrite, CacheIncrement, CacheDecrement, CacheReset, Loop)
"""Kinds of nodes that have hints."""


def with_variables(setting: str, value: AttrValue) -> AttrValue:
    """Return the value of a setting, where it takes no element types: a list of their names is one of variables."""
    if not isinstance(value, DTypeListValue) or setting in DTYPE_SETTINGS:
        return value
    return ExprListValue(tuple(Name(dtype.name) for dtype in value.dtypes))
