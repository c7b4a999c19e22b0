"""Schedules of depthwise windows over bytes whose channels lie in lanes: copies of rows, and sums of products."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from openinfer.affine import Var, extent_of
from openinfer.compute import Read
from openinfer.compute.byte_columns import sum_of_bytes
from openinfer.compute.joined_products import VECTOR
from openinfer.loops import Bind, Buffer
from openinfer.lower.accesses import access
from openinfer.schedule import Loop, Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute import Stage
    from openinfer.compute.byte_columns import ByteColumns
    from openinfer.layout import Layout

TOTALS = 4
"""Lanes of a vector of i32."""

PLACES = 2
"""Neighbouring places of a tile: with the weights of a row of a window, their totals are what the registers hold."""


def block_of(channels: Var) -> int:
    """Return how many channels are copied at a time."""
    return gcd(extent_of(channels), VECTOR)


def copied_in_lanes(copy: Stage, channels: Var) -> Schedule:
    """Return the schedule of a copy with channels in lanes."""
    block = gcd(extent_of(channels), VECTOR * 8 // copy.value.dtype.bits)
    others = (Loop(axis) for axis in copy.axes if axis != channels)
    return Schedule((*others, Loop(channels, block), Loop(channels, 1, Bind.LANES)))


def is_contiguous(stage: Stage, parts: ByteColumns, layouts: Mapping[str, Layout]) -> bool:
    """Whether the channels of an image, and those of the result, lie next to one another."""
    image = stage.elements[parts.image]
    if not isinstance(image, Read) or extent_of(parts.channels) % TOTALS:
        return False
    addresses = layouts[image.tensor].address(image.at), layouts[stage.tensor].address(stage.at)
    return all(address.coefficient(parts.channels) == 1 for address in addresses)


def has_border(stage: Stage, parts: ByteColumns, layouts: Mapping[str, Layout]) -> bool:
    """Whether an image has all that windows read in memory, what lies past its border among it."""
    image = stage.elements[parts.image]
    if not isinstance(image, Read):
        raise TypeError("the image of a sum is read")
    layout = layouts[image.tensor]
    read = access(image, {image.tensor: Buffer(image.tensor, image.dtype, layout.size)}, layouts)
    return not read.tests({})


def sums_in_lanes(stage: Stage, channels: Var) -> Schedule:
    """Return the schedule of sums with channels in lanes, past whose totals the elements of the image move."""
    parts = sum_of_bytes(stage)
    image = None if parts is None else stage.elements[parts.image]
    if parts is None or stage.fold is None or not isinstance(image, Read):
        raise TypeError(f"{stage.tensor} has no windows")
    walked = [[axis for axis in index.variables() if axis != channels] for index in image.at]
    along = next((axes for axes in reversed(walked) if axes), list[Var]())
    places = [axis for axis in stage.axes if axis in along]
    taps = [axis for axis in stage.fold.axes if axis in along]
    others = [axis for axis in stage.fold.axes if axis not in along]
    own = (axis for axis in stage.axes if axis != channels and axis not in places)
    serial = (*map(Loop, own), *(Loop(axis, PLACES) for axis in places), Loop(channels, TOTALS), *map(Loop, others))
    written = (Loop(axis, 1, Bind.UNROLL) for axis in (*taps, *places))
    return Schedule((*serial, *written, Loop(channels, 1, Bind.LANES)), stream=parts.image)
