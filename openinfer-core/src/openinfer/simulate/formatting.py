"""Values for people (``specification: runtime.values.1``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.boundary import public

if TYPE_CHECKING:
    from collections.abc import Callable

SHOWN_WHOLE = 4
"""Most values that are shown without leaving some out."""

LEAST_PLAIN, MOST_PLAIN = 0.1, 1e6
"""Magnitudes that two decimals show well; the second is not included."""


@public
def format_truncated(values: Any, *, packed: bool = False) -> str:
    """Return ``{a, b, c}``, or the first and last two of more than four values: ``{a, b ... c, d}``.

    Floats have two decimals, integers and bools are plain; with ``packed``, bytes are two hexadecimal digits.
    """
    return _truncated(values, _packed if packed else _element)


def format_significant(values: Any) -> str:
    """Return what `format_truncated` does, with three digits for floats that two decimals would hide or draw out.

    ``{0.50, 1.23e-05}``: zero and magnitudes from 0.1 to a million keep their two decimals.
    """
    return _truncated(values, _significant)


def _truncated(values: Any, text: Callable[[Any], str]) -> str:
    flat = np.asarray(values).reshape(-1)
    shown = [text(flat[index]) for index in _shown(flat.size)]
    if flat.size <= SHOWN_WHOLE:
        return f"{{{', '.join(shown)}}}"
    return f"{{{', '.join(shown[:2])} ... {', '.join(shown[2:])}}}"


def _shown(count: int) -> list[int]:
    return list(range(count)) if count <= SHOWN_WHOLE else [0, 1, count - 2, count - 1]


def _packed(value: Any) -> str:
    return f"0x{int(value.item()) & 0xFF:02x}"


def _element(value: Any) -> str:
    plain = value.item()
    if isinstance(plain, bool):
        return str(plain).lower()
    return str(plain) if isinstance(plain, int) else f"{float(plain):.2f}"


def _significant(value: Any) -> str:
    plain = value.item()
    is_plain = isinstance(plain, int) or plain == 0 or LEAST_PLAIN <= abs(plain) < MOST_PLAIN
    return _element(value) if is_plain else f"{float(plain):.3g}"
