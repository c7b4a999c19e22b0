"""Margins of a dim: which place of the tensor each place of the padded one holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.ops.schema import OpTypeError
from openinfer.ops.shapes import integers, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue

MODES = ("constant", "reflect", "edge", "wrap")


@dataclass(frozen=True, slots=True)
class Margin:
    """A dim of ``size`` places, of which those in ``kept`` get margins of ``before`` and ``after``."""

    size: int
    kept: range
    before: int
    after: int

    @property
    def extent(self) -> int:
        """Number of places of the result."""
        return self.before + dims.length(self.kept) + self.after

    def source(self, place: int, mode: str) -> int | None:
        """Return the place of the tensor from which a place of the result is copied; None: it is the constant."""
        inner, count = place - self.before, len(self.kept)
        if 0 <= inner < count:
            return self.kept[inner]
        if mode == "constant":
            return None
        if mode == "edge":
            return self.kept[0 if inner < 0 else -1]
        if mode == "wrap":
            return self.kept[inner % count]
        period = max(2 * (count - 1), 1)
        return self.kept[min(inner % period, -inner % period)]


def margins(shape: Sequence[int], settings: Mapping[str, SettingValue]) -> tuple[Margin, ...]:
    """Return the margins of each dim.

    Raises:
        OpTypeError: there are not two numbers per dim, or they cut off more than there is, or there is nothing to
            fill a margin from.
    """
    pads, rank = integers(settings.get("pads"), "pads"), len(shape)
    if len(pads) != 2 * rank:
        raise OpTypeError(
            f"pads {shown(pads)} of shape {shown(shape)}: expected {2 * rank}, one before and one after every dim",
            code="setting-type",
            settings=("pads",),
        )
    found = tuple(_margin(*dim) for dim in zip(shape, pads[:rank], pads[rank:], strict=True))
    for axis, margin in enumerate(found):
        if not margin.kept and margin.extent and settings.get("mode") != "constant":
            raise OpTypeError(
                f"dim {axis} of shape {shown(shape)} has nothing to fill a margin from", settings=("pads",)
            )
    return found


def _margin(size: int, before: int, after: int) -> Margin:
    skipped, dropped = dims.max(-before, 0), dims.max(-after, 0)
    kept = dims.range(skipped, size - dropped)
    if skipped + dropped > size:
        raise OpTypeError(f"pads {before} and {after} cut off more than a dim of {size} has", settings=("pads",))
    return Margin(size, kept, dims.max(before, 0), dims.max(after, 0))
