"""Arithmetic of two or three numbers (``specification: operators.numbers``)."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.accumulating import accumulated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle


def each(rule: Callable[..., Any], *values: Exact) -> Exact:
    """Return a rule applied element by element over broadcast arrays of Python numbers."""
    found = np.empty(np.broadcast_shapes(*(v.shape for v in values)), dtype=object)
    rows = np.broadcast_arrays(*values)
    found.reshape(-1)[:] = [rule(*items) for items in zip(*(row.reshape(-1).tolist() for row in rows), strict=True)]
    return found


def by_class(on_float: Callable[..., Any], on_integer: Callable[..., Any], on_bool: Callable[..., Any]) -> Oracle:
    """Return the oracle of an operator with a rule for each class of types; float rules take whole arrays."""

    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        given = [values for values in inputs if values is not None]
        if given[0].dtype == np.bool_:
            return (on_bool(*given),)
        found = on_float(*given) if given[0].dtype == np.float64 else each(on_integer, *given)
        return (accumulated(found, call.settings, call.outputs[0].dtype),)

    return oracle


def masked(on_float: Callable[..., Any], on_integer: Callable[..., Any]) -> Oracle:
    """Return the oracle of a division: the mask is true where the last input is zero."""

    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        given, mask = [values for values in inputs if values is not None], call.settings.get("div_by_zero_mask")
        if given[0].dtype == np.float64:
            found = on_float(*given)
            return (found if mask in (None, "ieee") else np.where(given[-1] == 0, float(str(mask)), found),)
        zero = 0 if mask is None or mask != mask else mask
        return (each(lambda *items: zero if items[-1] == 0 else on_integer(*items), *given),)

    return oracle


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor_div(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    def euclid(a: int, b: int) -> int:
        return a // b if b > 0 else -(a // -b)

    return masked(np.divide, operator.floordiv if call.settings["mode"] == "floor" else euclid)(inputs, call)


def _modulo(a: Exact, b: Exact) -> Exact:
    remainder = np.fmod(a, b)
    moved = np.where((remainder != 0) & ((remainder < 0) != (b < 0)), remainder + b, remainder)
    return np.where(b == 0, np.nan, moved)


def _fma(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    a, b, c = (np.asarray(values) for values in inputs)
    return (rounded(a * b, call.outputs[0]) + c,)


def rounded(values: Exact, out: TensorType) -> Exact:
    """Return floats rounded to the type that results of type ``out`` are computed in."""
    return values if out.dtype.bits == 64 else values.astype(np.float32).astype(np.float64)


def _extremum(pick: Callable[[Any, Any], Any], quiet: Callable[..., Any], loud: Callable[..., Any]) -> Oracle:
    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        a, b = (np.asarray(values) for values in inputs)
        if a.dtype == np.float64:
            return ((loud if call.settings["nan"] == "propagate" else quiet)(a, b),)
        return (each(pick, a, b),)

    return oracle


def _other_than_nan(pick: Callable[[Exact, Exact], Exact]) -> Callable[[Exact, Exact], Exact]:
    return lambda a, b: np.where(np.isnan(a), b, np.where(np.isnan(b), a, pick(a, b)))


def _nothing(*values: Exact) -> Exact:
    raise AssertionError(f"the operator takes no such type, found {values}")


def _square(x: Exact) -> Exact:
    return x * x


ORACLES: dict[str, Oracle] = {
    "add": by_class(operator.add, operator.add, np.logical_or),
    "sub": by_class(operator.sub, operator.sub, _nothing),
    "mul": by_class(operator.mul, operator.mul, np.logical_and),
    "neg": by_class(np.negative, operator.neg, _nothing),
    "abs": by_class(np.abs, abs, _nothing),
    "square": by_class(_square, lambda x: x * x, _nothing),
    "mod": by_class(_modulo, lambda a, b: a % b if b else 0, _nothing),
    "div": masked(np.divide, _truncated),
    "rem": masked(np.fmod, lambda a, b: a - b * _truncated(a, b)),
    "floor_div": _floor_div,
    "recip": masked(lambda x: 1.0 / x, _nothing),
    "fma": _fma,
    "min": _extremum(min, _other_than_nan(np.minimum), np.minimum),
    "max": _extremum(max, _other_than_nan(np.maximum), np.maximum),
}
