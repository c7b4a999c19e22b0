"""Rules for shapes that operators share: broadcasting, axes, reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.dims import from_end, joined, one_of, surely
from openinfer.ops.schema import OpTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType

    Shape = tuple[int, ...]


def shown(shape: Sequence[int]) -> str:
    """Return a shape as programs write it."""
    return f"[{','.join(map(str, shape))}]"


def broadcast(*shapes: Shape) -> Shape:
    """Return the common shape: right-aligned, missing dims count as 1, a dim of 1 stretches (also to 0).

    Raises:
        OpTypeError: ``shape-mismatch``, two dims differ and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[int] = []
    for axis, extents in enumerate(zip(*padded, strict=True)):
        common, mismatch = common_extent(extents)
        if mismatch is not None:
            listed = " and ".join(map(shown, shapes))
            message = f"shapes {listed} do not broadcast: dim {axis - rank} is {common} against {mismatch}"
            raise OpTypeError(message)
        result.append(common)
    return tuple(result)


def common_extent(extents: Sequence[int]) -> tuple[int, int | None]:
    """Return what extents broadcast to, and one that is neither equal to it nor 1, or None where all are."""
    whole = joined(extents)
    if whole is not None:
        return whole
    common = 1
    for extent in extents:
        if surely(lambda common=common: common == 1):
            common = extent
        elif surely(lambda extent=extent: extent == 1) or extent == common:
            continue
        elif common == 1:
            common = extent
        elif extent != 1:
            return common, extent
    return common, None


def axis_of(axis: int, rank: int, what: str = "axis", *, setting: str = "axis") -> int:
    """Return an axis counted from the front; negative ones count from the end. ``setting`` is where it was given.

    The number of a dim decides the form of a result, so that one known at run time only is followed to every dim.

    Raises:
        OpTypeError: ``shape-mismatch``, it is out of range.
    """
    if not -rank <= axis < rank:
        legal = f"{-rank}..{rank - 1}" if rank else "none: the input is a scalar"
        raise OpTypeError(f"{what} {axis} is out of range for rank {rank} (legal: {legal})", settings=(setting,))
    return one_of(from_end(axis, rank), range(rank))


def axes_of(axes: SettingValue, rank: int) -> Shape:
    """Return the axes of a reduction, ascending; None or an empty list means all of them.

    Raises:
        OpTypeError: one is out of range or named twice.
    """
    given = (axes,) if isinstance(axes, int) else axes
    if not isinstance(given, tuple) or not given:
        return tuple(range(rank))
    found = [axis_of(integer(axis, "axes"), rank, setting="axes") for axis in given]
    if len(set(found)) < len(found):
        raise OpTypeError(
            f"axes {shown([integer(a, 'axes') for a in given])} name one dim twice (rank {rank})", settings=("axes",)
        )
    return tuple(sorted(found))


def folds_nothing(shape: Shape, axes: Sequence[int]) -> bool:
    """Whether the result of a fold over some axes has an element, and its slices have none."""
    # One question for each axis: a program with sizes is refused where one of two answers leads to an error.
    one_if_filled = dims.min((1, *reduced(shape, tuple(axes), keepdims=False)))
    return any(shape[axis] < one_if_filled for axis in axes)


def reduced(shape: Shape, axes: Shape, *, keepdims: bool) -> Shape:
    """Return the shape after a reduction: the axes removed, or kept as 1."""
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def integer(value: object, name: str) -> int:
    """Return a setting that must be an integer.

    Raises:
        OpTypeError: ``setting-type``.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise OpTypeError(f"setting {name!r} takes an integer, found {value!r}", code="setting-type", settings=(name,))
    return value


def integers(value: SettingValue, name: str) -> Shape:
    """Return a setting that must be a list of integers; a single one is a list of one.

    Raises:
        OpTypeError: ``setting-type``.
    """
    return tuple(integer(item, name) for item in (value if isinstance(value, tuple) else (value,)))


def needed(inputs: Sequence[TensorType | None], position: int = 0) -> TensorType:
    """Return the type of an input that must be there.

    Raises:
        OpTypeError: ``arity``, it was left out.
    """
    found = optional(inputs, position)
    if found is None:
        raise OpTypeError(f"input number {position + 1} is missing", code="arity")
    return found


def optional(inputs: Sequence[TensorType | None], position: int) -> TensorType | None:
    """Return the type of an input that may be left out."""
    return inputs[position] if position < len(inputs) else None
