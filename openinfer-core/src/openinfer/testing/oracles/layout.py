"""The same elements in another order or under another shape."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.testing.oracle import Exact, Oracle

    Settings = Mapping[str, SettingValue]


def _reshaped(inputs: Sequence[Exact | None], settings: Settings, outputs: Sequence[TensorType]) -> tuple[Exact, ...]:
    del settings
    return (np.asarray(inputs[0]).reshape(outputs[0].shape),)


def _transposed(inputs: Sequence[Exact | None], settings: Settings, outputs: Sequence[TensorType]) -> tuple[Exact, ...]:
    x, perm = np.asarray(inputs[0]), settings["perm"]
    order: Any = perm if isinstance(perm, tuple) else tuple(reversed(range(x.ndim)))
    found = np.empty(outputs[0].shape, dtype=x.dtype)
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
