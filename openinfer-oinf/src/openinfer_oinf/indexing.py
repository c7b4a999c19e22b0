"""What of a tensor an index asks for: the elements in C order that have to be read, and the index into those."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Rows of one axis, within one index of each axis before it.

    `start` is the element at which row 0 begins, `row_size` its elements and `row_shape` their shape. `rows` are the
    indices along the axis in the order requested, and `before`, `row` and `after` the parts of the index for the axes
    around it: `row` is 0 where one row without its axis is requested.
    """

    start: int
    rows: range
    row_shape: tuple[int, ...]
    before: tuple[int | slice[Any, Any, Any], ...]
    row: int | slice[Any, Any, Any]
    after: tuple[int | slice[Any, Any, Any], ...]

    @property
    def row_size(self) -> int:
        return math.prod(self.row_shape)

    @property
    def span(self) -> range:
        """The rows from the first to the last in the file, those between that are not requested included."""
        return range(min(self.rows[0], self.rows[-1]), max(self.rows[0], self.rows[-1]) + 1)

    @property
    def row_of_span(self) -> int | slice[Any, Any, Any]:
        """The part of the index for the axis when `span` has been read."""
        if isinstance(self.row, int):
            return self.row
        first, last, step = self.rows[0] - self.span.start, self.rows[-1] - self.span.start, self.rows.step
        end = last + (1 if step > 0 else -1)
        return slice(first, None if end < 0 else end, step)


_Part = int | slice


def plain_index(key: object, ndim: int) -> tuple[_Part, ...] | None:
    """The whole numbers and slices of an index, one for each axis; None for indices of other kinds.

    Raises `IndexError` for more parts than axes.
    """
    parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    dots = [at for at, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        return None
    plain: list[_Part] = []
    for part in parts:
        if part is Ellipsis:
            plain += [slice(None)] * (ndim - len(parts) + 1)
        elif isinstance(part, slice):
            plain.append(cast("slice[Any, Any, Any]", part))
        elif isinstance(part, bool) or not hasattr(part, "__index__") or getattr(part, "shape", ()):
            return None
        else:
            plain.append(operator.index(cast("int", part)))
    if len(plain) > ndim:
        raise IndexError(f"{len(plain)} indices for a tensor of {ndim} dimensions")
    return (*plain, *[slice(None)] * (ndim - len(plain)))


def select(index: tuple[_Part, ...], shape: tuple[int, ...]) -> Selection | None:
    """What an index of at least one axis selects, or None where that is nothing. Raises `IndexError`."""
    ranges = [_rows(part, axis, shape[axis]) for axis, part in enumerate(index)]
    if not all(ranges):
        return None
    start, axis = 0, 0
    while axis < len(shape) - 1 and len(ranges[axis]) == 1:
        start += ranges[axis][0] * math.prod(shape[axis + 1 :])
        axis += 1
    kept = [0 if isinstance(part, int) else slice(None) for part in index[: axis + 1]]
    return Selection(
        start=start,
        rows=ranges[axis],
        row_shape=shape[axis + 1 :],
        before=tuple(kept[:-1]),
        row=kept[-1],
        after=index[axis + 1 :],
    )


def selected_shape(index: tuple[_Part, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what an index selects: slices keep their axis, whole numbers do not."""
    return tuple(len(range(dim)[part]) for part, dim in zip(index, shape, strict=True) if isinstance(part, slice))


def _rows(part: _Part, axis: int, dim: int) -> range:
    if isinstance(part, slice):
        return range(dim)[part]
    if not -dim <= part < dim:
        raise IndexError(f"index {part} is out of bounds for axis {axis} with {dim} elements")
    at = part % dim
    return range(at, at + 1)
