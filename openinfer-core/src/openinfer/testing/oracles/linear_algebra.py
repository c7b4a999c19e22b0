"""Products of matrices, entry by entry."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.accumulating import accumulated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle


def product(a: Exact, b: Exact) -> Exact:
    """Return the matrix product over the last two dims; bool is OR of ANDs."""
    if a.dtype == np.bool_:
        return np.matmul(a, b)
    row, column = a.ndim == 1, b.ndim == 1
    left, right = (a[None] if row else a), (b[:, None] if column else b)
    # Summation in Python: exact for integers, in order for floats.
    terms = left[..., :, :, None] * right[..., None, :, :]
    zero: Any = 0 if a.dtype == object else 0.0
    found = np.full((*terms.shape[:-2], terms.shape[-1]), zero, dtype=a.dtype)
    for k in range(terms.shape[-2]):
        found = found + terms[..., k, :]
    found = found[..., 0, :] if row else found
    return found[..., 0] if column else found


def _swapped(x: Exact, swap: SettingValue) -> Exact:
    return np.swapaxes(x, -1, -2) if swap and x.ndim > 1 else x


def _matmul(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    a, b = (np.asarray(values) for values in inputs)
    found = product(_swapped(a, call.settings["trans_a"]), _swapped(b, call.settings["trans_b"]))
    return (accumulated(np.asarray(found), call.settings, call.outputs[0].dtype),)


def _linear(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x, w, bias = (*inputs, None)[:3]
    found = product(np.asarray(x), _swapped(np.asarray(w), call.settings["trans_w"]))
    return (np.asarray(found if bias is None else found + bias),)


ORACLES: dict[str, Oracle] = {"matmul": _matmul, "linear": _linear}
