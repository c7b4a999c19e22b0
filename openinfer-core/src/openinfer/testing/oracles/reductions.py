"""Reductions over axes, position by position (``specification: operators.numbers.5``)."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import I64, DType, Kind
from openinfer.testing.accumulating import accumulated
from openinfer.testing.result_types import fixed
from openinfer.testing.summing import total

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.legality import Illegal
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes
    from openinfer.testing.sum_errors import Terms

    Settings = Mapping[str, SettingValue]


def axes_of(settings: Settings, rank: int, name: str = "axes") -> tuple[int, ...]:
    """Return the reduced axes in ascending order; all of them if none are given."""
    given: Any = settings[name]
    listed = (given,) if isinstance(given, int) else tuple(given or range(rank))
    return tuple(sorted(axis % rank for axis in listed))


def folded(x: Exact, axes: Sequence[int], rule: Callable[[list[Any]], Any], *, keepdims: bool) -> Exact:
    """Return a rule applied to the elements of each slice, in row-major order."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    found = np.empty([x.shape[axis] for axis in kept], dtype=object)
    for place in product(*(range(x.shape[axis]) for axis in kept)):
        where: list[Any] = [slice(None)] * x.ndim
        for axis, index in zip(kept, place, strict=True):
            where[axis] = index
        found[place] = rule(np.asarray(x[tuple(where)]).reshape(-1).tolist())
    typed = found if x.dtype == object else found.astype(x.dtype)
    return typed.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)]) if keepdims else typed


def _reduced(rule: Callable[[list[Any], Settings, TensorType], Any]) -> Oracle:
    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        x = np.asarray(inputs[0])
        found = folded(
            x,
            axes_of(call.settings, x.ndim),
            lambda items: rule(items, call.settings, call.outputs[0]),
            keepdims=bool(call.settings["keepdims"]),
        )
        return (accumulated(found, call.settings, call.outputs[0].dtype),)

    return oracle


def _sum(items: list[Any], settings: Settings, out: TensorType) -> Any:
    del settings, out
    return total(items) if isinstance(next(iter(items), 0.0), float) else sum(items)


def _mean(items: list[Any], settings: Settings, out: TensorType) -> Any:
    if isinstance(next(iter(items), 0.0), float):
        return total(items) / len(items) if items else math.nan
    dtype = _first(settings) or out.dtype
    low = 0 if dtype.kind is Kind.UNSIGNED else -(1 << 63)
    wrapped = (sum(items) - low) % (1 << 64) + low
    return abs(wrapped) // len(items) * (1 if wrapped >= 0 else -1)


def _first(settings: Settings) -> DType | None:
    given = settings.get("acc")
    first = given[0] if isinstance(given, tuple) else given
    return first if isinstance(first, DType) else None


def _prod(items: list[Any], settings: Settings, out: TensorType) -> Any:
    del settings, out
    return math.prod(items)


def _any(items: list[Any], settings: Settings, out: TensorType) -> Any:
    del settings, out
    return any(items)


def _all(items: list[Any], settings: Settings, out: TensorType) -> Any:
    del settings, out
    return all(items)


def _norm(items: list[Any], settings: Settings, out: TensorType) -> Any:
    del settings, out
    return math.sqrt(total([item * item for item in items]))


def _best(items: list[Any], *, greatest: bool, loud: bool, first: bool = True) -> int:
    """Return the position of the extremum: a NaN wins in first position, or everywhere when ``loud``."""
    nans = [n for n, item in enumerate(items) if item != item]
    if nans and (loud or nans[0] == 0):
        return nans[0] if first or not loud else nans[-1]
    best = 0
    for position, item in enumerate(items):
        better = item > items[best] if greatest else item < items[best]
        if better or (not first and item == items[best]):
            best = position
    return best


def _extremum(*, greatest: bool) -> Oracle:
    def rule(items: list[Any], settings: Settings, out: TensorType) -> Any:
        del out
        return items[_best(items, greatest=greatest, loud=settings["nan"] == "propagate")]

    return _reduced(rule)


def _position(*, greatest: bool) -> Oracle:
    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        x = np.asarray(inputs[0])

        def rule(items: list[Any]) -> int:
            loud, first = call.settings["nan"] == "propagate", bool(call.settings["select_first"])
            return _best(items, greatest=greatest, loud=loud, first=first)

        axes = axes_of(call.settings, x.ndim, "axis")
        return (folded(x.astype(object), axes, rule, keepdims=bool(call.settings["keepdims"])),)

    return oracle


def _sums_ternaries(inputs: Sequence[TensorType], settings: Settings) -> bool:
    return inputs[0].dtype.kind is Kind.TERNARY and settings.get("acc") is None


def _has_empty_slices(inputs: Sequence[TensorType], settings: Settings) -> bool:
    shape = inputs[0].shape
    axes = axes_of({"axes": None, **settings}, len(shape))
    slices = math.prod(extent for axis, extent in enumerate(shape) if axis not in axes)
    return slices > 0 and any(not shape[axis] for axis in axes)


def _has_empty_slices_of_integers(inputs: Sequence[TensorType], settings: Settings) -> bool:
    return not inputs[0].dtype.is_float and _has_empty_slices(inputs, settings)


ORACLES: dict[str, Oracle] = {
    "sum_axis": _reduced(_sum),
    "mean_axis": _reduced(_mean),
    "prod_axis": _reduced(_prod),
    "max_axis": _extremum(greatest=True),
    "min_axis": _extremum(greatest=False),
    "argmax_axis": _position(greatest=True),
    "argmin_axis": _position(greatest=False),
    "any_axis": _reduced(_any),
    "all_axis": _reduced(_all),
    "l2_axis": _reduced(_norm),
}

RESULT_TYPES: dict[str, ResultTypes] = {
    "argmax_axis": fixed(I64),
    "argmin_axis": fixed(I64),
}


def _slice(call: OpCall) -> int:
    """Return the number of elements of a slice."""
    x = call.inputs[0]
    return 1 if x is None else math.prod(x.shape[axis] for axis in axes_of(call.settings, len(x.shape)))


SUMS: dict[str, Terms] = {"mean_axis": _slice, "sum_axis": _slice}

ILLEGAL: dict[str, Illegal] = {
    "sum_axis": _sums_ternaries,
    "mean_axis": _has_empty_slices_of_integers,
    "max_axis": _has_empty_slices,
    "min_axis": _has_empty_slices,
}
