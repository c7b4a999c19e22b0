"""The same elements in another order or under another shape."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle


def _reshaped(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    return (np.asarray(inputs[0]).reshape(call.outputs[0].shape),)


def _transposed(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x, perm = np.asarray(inputs[0]), call.settings["perm"]
    order: Any = perm if isinstance(perm, tuple) else tuple(reversed(range(x.ndim)))
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for place in np.ndindex(*found.shape):
        source = [0] * x.ndim
        for position, axis in enumerate(order):
            source[axis] = place[position]
        found[place] = x[tuple(source)]
    return (found,)


ORACLES: dict[str, Oracle] = {
    "reshape": _reshaped,
    "flatten": _reshaped,
    "identity": _reshaped,
    "transpose": _transposed,
}
