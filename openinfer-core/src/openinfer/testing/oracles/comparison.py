"""Comparisons and choices."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import BOOL, I8
from openinfer.testing.oracles.arithmetic import each
from openinfer.testing.result_types import fixed, of_input

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes


def _compared(rule: Callable[[Any, Any], Any]) -> Oracle:
    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        del call
        a, b = (np.asarray(values) for values in inputs)
        return (np.asarray(rule(a, b)).astype(np.bool_),)

    return oracle


def _chosen(where: int, yes: int, no: int) -> Oracle:
    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        del call
        given = [np.asarray(values) for values in inputs]
        return (np.where(np.asarray(given[where] != 0).astype(np.bool_), given[yes], given[no]),)

    return oracle


def _sign(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    del call
    x = np.asarray(inputs[0])
    return (each(lambda value: (value > 0) - (value < 0), x),)


def _is_neg(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    del call
    x = np.asarray(inputs[0])
    return (np.signbit(x) if x.dtype == np.float64 else np.asarray(x < 0).astype(np.bool_),)


ORACLES: dict[str, Oracle] = {
    "eq": _compared(operator.eq),
    "ne": _compared(operator.ne),
    "lt": _compared(operator.lt),
    "le": _compared(operator.le),
    "gt": _compared(operator.gt),
    "ge": _compared(operator.ge),
    "filter": _chosen(2, 0, 1),
    "where": _chosen(0, 1, 2),
    "sign": _sign,
    "is_neg": _is_neg,
}

RESULT_TYPES: dict[str, ResultTypes] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "is_neg"), fixed(BOOL)),
    "where": of_input(1),
    "sign": fixed(I8),
}
