"""Powers: IEEE 754 for floats, exact for integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.refused import Element

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.refused import RefusedElements


def power(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    """Integers come back modulo 2^64: their powers have more digits than memory holds."""
    first, second = np.broadcast_arrays(*(np.asarray(given) for given in inputs))
    if call.outputs[0].dtype.is_float:
        # A copy of the exponents: NumPy has the square root for a half that is broadcast, which differs at -inf and -0.
        return (np.power(first, second.copy()),)
    result: Any = np.empty(first.shape, object)
    for place in np.ndindex(*first.shape):
        result[place] = pow(int(first[place]), int(second[place]), 1 << 64)
    return (result,)


def _negative_exponents(call: OpCall) -> Iterator[Element]:
    exponent = call.inputs[1]
    if exponent is not None and exponent.dtype.minimum:
        yield Element(1, -1)
        yield Element(1, exponent.dtype.minimum)


ORACLES: dict[str, Oracle] = {"pow": power}

REFUSED: dict[str, RefusedElements] = {
    "pow": _negative_exponents,
}
