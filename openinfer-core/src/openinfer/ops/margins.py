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
    """A dim of ``size`` places with pads: below 0, they cut places off; above, they add some to what is kept."""

    size: int
    pad_before: int
    pad_after: int

    @property
    def first(self) -> int:
        """The first place that is kept, if any is."""
        return dims.max(-self.pad_before, 0)

    @property
    def count(self) -> int:
        """Number of places that are kept."""
        return self.size - self.first - dims.max(-self.pad_after, 0)

    @property
    def kept(self) -> range:
        """The places that are kept."""
        return range(self.first, self.first + self.count)

    @property
    def before(self) -> int:
        """Number of places before those that are kept."""
        return dims.max(self.pad_before, 0)

    @property
    def after(self) -> int:
        """Number of places after those that are kept."""
        return dims.max(self.pad_after, 0)

    @property
    def extent(self) -> int:
        """Number of places of the result."""
        return self.size + self.pad_before + self.pad_after

    def source(self, place: int, mode: str) -> int | None:
        """Return the place of the tensor from which a place of the result is copied; None: it is the constant."""
        inner, count = place - self.before, self.count
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
        # One question instead of two, so that sizes have one form: is there a place, and nothing kept?
        if settings.get("mode") != "constant" and margin.count < dims.min(margin.extent, 1):
            raise OpTypeError(
                f"dim {axis} of shape {shown(shape)} has nothing to fill a margin from", settings=("pads",)
            )
    return found


def _margin(size: int, before: int, after: int) -> Margin:
    # Clipped pads cut off more than there is exactly where one pad does, or both together.
    if size < -before or size < -after or size < -before - after:
        raise OpTypeError(f"pads {before} and {after} cut off more than a dim of {size} has", settings=("pads",))
    return Margin(size, before, after)
