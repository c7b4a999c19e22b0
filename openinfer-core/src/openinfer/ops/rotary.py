"""Extents and settings of rotary position embeddings (``specification: operators.attention``); used by backends too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ops.schema import OpTypeError
from openinfer.ops.shapes import axis_of, integer, needed, optional, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType

    Inputs = Sequence[TensorType | None]
    Settings = Mapping[str, SettingValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """Pairs of elements of x [..., D] rotated by angles that depend on the position.

    Attributes:
        axis: dim of x that counts positions.
        pairs: number of pairs that are rotated, in the first ``2 * pairs`` elements.
        interleaved: whether a pair is two neighbours; otherwise it is an element of the first half and its like in the
            second.
        batched: whether positions, or sines, have a row for each index of the first dim of x.
    """

    axis: int
    pairs: int
    interleaved: bool
    batched: bool


def rope_plan(inputs: Inputs, settings: Settings) -> Rotary:
    """Return how rope turns x.

    Raises:
        OpTypeError: the inputs do not fit together.
    """
    x, pos = needed(inputs), needed(inputs, 1)
    how = _rotary(x, settings, batched=len(pos.shape) > 1)
    _check_positions("pos", pos, x, how)
    factor_and_base(settings)
    return how


def rope_cached_plan(inputs: Inputs, settings: Settings) -> Rotary:
    """Return how rope_cached turns x.

    Raises:
        OpTypeError: the inputs do not fit together.
    """
    x, cos, sin = (needed(inputs, number) for number in range(3))
    pos = optional(inputs, 3)
    if cos.shape != sin.shape:
        raise OpTypeError(f"cos and sin have one shape, found {cos} and {sin}")
    if pos is None:
        how = _rotary(x, settings, batched=len(cos.shape) > 2)
        _check_positions("cos", cos, x, how, how.pairs)
        return how
    how = _rotary(x, settings, batched=len(pos.shape) > 1)
    _check_positions("pos", pos, x, how)
    if len(cos.shape) != 2 or cos.shape[1] != how.pairs:
        raise OpTypeError(f"cos is {cos}, expected a row of {how.pairs} for each position: [P, {how.pairs}]")
    return how


def frequencies(how: Rotary, settings: Settings) -> tuple[float, ...]:
    """Return the angle of each pair at position 1: ``freq_scale * base ** (-2i / r)``, in double precision."""
    factor, base = factor_and_base(settings)
    return tuple(factor * base ** (-pair / how.pairs) for pair in range(how.pairs))


def factor_and_base(settings: Settings) -> tuple[float, float]:
    """Return ``freq_scale`` and ``base``.

    Raises:
        OpTypeError: they are not numbers, or the base has no powers.
    """
    base, factor = (settings.get(name) for name in ("base", "freq_scale"))
    if not isinstance(base, int | float) or not isinstance(factor, int | float):
        raise OpTypeError(
            f"base and freq_scale are {base!r} and {factor!r}, expected numbers",
            code="setting-type",
            settings=("base", "freq_scale"),
        )
    if not 1e-300 < base < math.inf:
        raise OpTypeError(
            f"base is {base!r}, expected a finite number above 1e-300", code="setting-type", settings=("base",)
        )
    return float(factor), float(base)


def _rotary(x: TensorType, settings: Settings, *, batched: bool) -> Rotary:
    """Return how x is rotated.

    Raises:
        OpTypeError: x has too few dims, or ``rotary_dim`` or ``seq_axis`` does not fit it.
    """
    rank = len(x.shape)
    if rank < 2:
        raise OpTypeError(f"x is {x}, expected [..., S, D]: at least two dims")
    axis = axis_of(integer(settings.get("seq_axis"), "seq_axis"), rank, "seq_axis", setting="seq_axis")
    if axis == rank - 1 or (batched and axis == 0):
        taken = "the elements that are rotated" if axis else "the batch"
        raise OpTypeError(f"seq_axis {axis} of x {x} is taken by {taken}", settings=("seq_axis",))
    dim = integer(settings.get("rotary_dim"), "rotary_dim") or x.shape[-1]
    if not 0 <= dim <= x.shape[-1] or dim % 2:
        raise OpTypeError(
            f"{dim} elements of x {x} cannot be rotated in pairs: expected an even number, at most D",
            settings=("rotary_dim",),
        )
    return Rotary(axis=axis, pairs=dim // 2, interleaved=bool(settings.get("interleaved")), batched=batched)


def _check_positions(name: str, given: TensorType, x: TensorType, how: Rotary, *last: int) -> None:
    """Check that an input has a place for each position, [S, ...] or [B, S, ...].

    Raises:
        OpTypeError: it has not.
    """
    wanted = (*x.shape[:1], x.shape[how.axis], *last) if how.batched else (x.shape[how.axis], *last)
    if given.shape != wanted:
        raise OpTypeError(f"{name} is {given}, expected shape {shown(wanted)} for x {x}")
