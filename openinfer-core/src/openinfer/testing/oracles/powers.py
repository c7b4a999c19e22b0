"""Powers: IEEE 754 for floats, exact for integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle


def power(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    """Integers come back modulo 2^64: their powers have more digits than memory holds."""
    a, b = (np.asarray(given) for given in inputs)
    if call.outputs[0].dtype.is_float:
        return (np.power(a, b),)
    first, second = np.broadcast_arrays(a, b)
    result: Any = np.empty(first.shape, object)
    for place in np.ndindex(*first.shape):
        result[place] = pow(int(first[place]), int(second[place]), 1 << 64)
    return (result,)


ORACLES: dict[str, Oracle] = {"pow": power}
