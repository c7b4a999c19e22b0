"""Bits of integers in two's complement; truth values of bool."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import U8
from openinfer.testing.oracles.arithmetic import each
from openinfer.testing.result_types import fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes


def _bits(on_integer: Callable[..., Any], on_bool: Callable[..., Any]) -> Oracle:
    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        del call
        given = [values for values in inputs if values is not None]
        return (on_bool(*given) if given[0].dtype == np.bool_ else each(on_integer, *given),)

    return oracle


def _shift(rule: Callable[[int, int], int]) -> Oracle:
    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        places = min(max(int(str(call.settings["bits"])), 0), 64)
        return (each(lambda x: rule(x, places), np.asarray(inputs[0])),)

    return oracle


def _popcount(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    width = next(given.dtype.bits for given in call.inputs if given is not None)
    return (each(lambda x: bin(x % 2**width).count("1"), np.asarray(inputs[0])),)


ORACLES: dict[str, Oracle] = {
    "and": _bits(operator.and_, np.logical_and),
    "or": _bits(operator.or_, np.logical_or),
    "xor": _bits(operator.xor, np.logical_xor),
    "not": _bits(operator.invert, np.logical_not),
    "shl": _shift(operator.lshift),
    "shr": _shift(operator.rshift),
    "popcount": _popcount,
}

RESULT_TYPES: dict[str, ResultTypes] = {
    "popcount": fixed(U8),
}
