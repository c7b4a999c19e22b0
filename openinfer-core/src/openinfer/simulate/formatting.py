"""Values for people (runtime specification, section 16)."""

from __future__ import annotations

from typing import Any

import numpy as np

SHOWN_WHOLE = 4
"""Most values that are shown without leaving some out."""


def format_truncated(values: Any, *, packed: bool = False) -> str:
    """Return ``{a, b, c}``, or the first and last two of more than four values: ``{a, b ... c, d}``.

    Floats have two decimals, integers and bools are plain; with ``packed``, bytes are two hexadecimal digits.
    """
    flat = np.asarray(values).reshape(-1)
    shown = [_element(flat[index], packed) for index in _shown(flat.size)]
    if flat.size <= SHOWN_WHOLE:
        return f"{{{', '.join(shown)}}}"
    return f"{{{', '.join(shown[:2])} ... {', '.join(shown[2:])}}}"


def _shown(count: int) -> list[int]:
    return list(range(count)) if count <= SHOWN_WHOLE else [0, 1, count - 2, count - 1]


def _element(value: Any, packed: bool) -> str:
    plain = value.item()
    if packed:
        return f"0x{int(plain) & 0xFF:02x}"
    if isinstance(plain, bool):
        return str(plain).lower()
    return str(plain) if isinstance(plain, int) else f"{float(plain):.2f}"
