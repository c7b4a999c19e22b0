"""Sets of element types, by the names that tables of operators use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BUILTIN, FLOAT, NUMERIC, PACKED_SINT, PACKED_UINT, SINT, UINT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.dtypes import DType


def names(dtypes: Iterable[DType]) -> frozenset[str]:
    """Return the names of element types."""
    return frozenset(dtype.name for dtype in dtypes)


FLOATS = names(FLOAT)
SIGNED = names(SINT)
UNSIGNED = names(UINT)
PACKED_SIGNED = names(PACKED_SINT)
PACKED_UNSIGNED = names(PACKED_UINT)
NUMBERS = names(NUMERIC)
BOOLS = frozenset({"bool"})
BITSETS = frozenset({"bitset"})
TERNARY = frozenset({"t1", "t2"})
EVERY = names(BUILTIN)
INTEGERS = SIGNED | UNSIGNED
