"""Rows as images of one row: how operators on [N, C, L] are those on [N, C, 1, L]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.types import TensorType
from openinfer.ops.shapes import integers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import SettingValue

_NEUTRAL = {"stride": 1, "dilation": 1, "kernel": 1}


def lifted(type: TensorType) -> TensorType:
    """Return the type of rows [..., L] as images [..., 1, L]."""
    return TensorType(type.dtype, (*type.shape[:-1], 1, type.shape[-1]))


def lifted_settings(settings: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """Return settings of windows over rows as those over images of one row; others stay.

    They have been checked: one number each, but two for padding, which may be a name.
    """
    found = dict(settings)
    for name, neutral in _NEUTRAL.items():
        if name in settings:
            found[name] = (neutral, *integers(settings[name], name))
    padding = settings.get("padding")
    if padding is not None and not isinstance(padding, str):
        values = integers(padding, "padding")
        found["padding"] = (0, values[0], 0, values[-1])
    return found
