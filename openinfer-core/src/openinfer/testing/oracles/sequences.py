"""Evenly spaced numbers, one by one."""

from __future__ import annotations

from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.result_types import as_declared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes

    Given = Sequence[Exact | None]


def _ranged(inputs: Given, call: OpCall) -> Elements:
    del inputs
    settings: Mapping[str, Any] = call.settings
    start, step, limit = settings["start"], settings["step"], settings["limit"]
    shape = call.outputs[0].shape  # what the program declares, where no limit ends the numbers
    if limit is not None:
        numbers = (start + number * step for number in count())
        shape = (sum(1 for _ in takewhile(lambda value: value < limit if step > 0 else value > limit, numbers)),)
    return Elements(shape, _kind(call.outputs[0]), lambda place: start + place[0] * step)


def _iota(inputs: Given, call: OpCall) -> Elements:
    del inputs
    axis = cast("int", call.settings["axis"])
    return Elements(call.outputs[0].shape, _kind(call.outputs[0]), lambda place: place[axis])


def _kind(out: TensorType) -> Any:
    return np.float64 if out.dtype.is_float else object


ORACLES: dict[str, Oracle] = {"range": ByElement(_ranged), "iota": ByElement(_iota)}

RESULT_TYPES: dict[str, ResultTypes] = {
    "range": as_declared,
    "iota": as_declared,
}
