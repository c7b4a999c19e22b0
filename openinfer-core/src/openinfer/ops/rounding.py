"""Rounding of floats to integers, by the names of the modes that operators take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.ops.schema import OpTypeError

if TYPE_CHECKING:
    from openinfer.expr.tree import Expr

MODES = (
    *("trunc", "floor", "ceil", "nearest", "down", "up"),
    *("half_even", "half_odd", "half_up", "half_down", "half_away"),
)


def rounded(x: Expr, mode: str) -> Expr:
    """Return a float rounded to an integer: the sign of zero is kept, NaN and infinities stay.

    ``nearest`` is ``half_away``, ``down`` is ``floor`` and ``up`` is ``ceil``; the ``half_`` modes round to the nearest
    integer and say where halves go (``half_up``: toward +inf, ``half_down``: toward -inf).

    Raises:
        OpTypeError: ``setting-type``, there is no such mode.
    """
    direct = {"trunc": tree.trunc, "floor": tree.floor, "down": tree.floor, "ceil": tree.ceil, "up": tree.ceil}
    if mode in direct:
        return direct[mode](x)
    if mode == "half_even":
        return tree.round_even(x)
    if mode not in MODES:
        raise OpTypeError(
            f"unknown rounding mode {mode!r}; known: {', '.join(MODES)}", code="setting-type", settings=("mode",)
        )
    return _nearest(x, mode)


def _nearest(x: Expr, mode: str) -> Expr:
    """Return the nearest integer; the fraction of a float is exact, so halves are found exactly."""
    whole = tree.trunc(x)
    fraction, half = tree.absolute(tree.sub(x, whole)), tree.literal(0.5, x.dtype)
    away = tree.gt(fraction, half)
    tie = tree.eq(fraction, half)
    away = tree.logical_or(
        away, tie if mode in ("nearest", "half_away") else tree.logical_and(tie, _tie(x, whole, mode))
    )
    one, minus_one = tree.literal(1, x.dtype), tree.literal(-1, x.dtype)
    return tree.select(away, tree.add(whole, tree.select(tree.sign_bit(x), minus_one, one)), whole)


def _tie(x: Expr, whole: Expr, mode: str) -> Expr:
    """Return whether a half is rounded away from zero."""
    if mode == "half_up":
        return tree.logical_not(tree.sign_bit(x))
    if mode == "half_down":
        return tree.sign_bit(x)
    halved = tree.mul(whole, tree.literal(0.5, x.dtype))
    return tree.eq(tree.trunc(halved), halved)  # half_odd: away from an even number
