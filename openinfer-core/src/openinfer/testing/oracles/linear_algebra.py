"""Products of matrices, entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.accumulating import accumulated
from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.summing import total_of_products

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.legality import Illegal
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.sum_errors import Terms


def multiplied(a: Exact, b: Exact) -> Elements:
    """Return the matrix product over the last two dims; bool is OR of ANDs."""
    rows, columns = (a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ())
    left, right = (a if a.ndim > 1 else a[None]), (b if b.ndim > 1 else b[:, None])
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, (*stack, *left.shape[-2:]))
    right = np.broadcast_to(right, (*stack, *right.shape[-2:]))

    def rule(place: tuple[int, ...]) -> Any:
        at, inner = place[: len(stack)], place[len(stack) :]
        i, j = inner[0] if rows else 0, inner[-1] if columns else 0
        pairs = zip(left[(*at, i)].tolist(), right[(*at, slice(None), j)].tolist(), strict=True)
        if a.dtype == np.bool_:
            return any(x and y for x, y in pairs)
        return total_of_products(pairs) if a.dtype == float else sum(x * y for x, y in pairs)

    return Elements((*stack, *rows, *columns), a.dtype, rule)


def _swapped(x: Exact, swap: SettingValue) -> Exact:
    return np.swapaxes(x, -1, -2) if swap and x.ndim > 1 else x


def _matmul(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    a, b = (np.asarray(values) for values in inputs)
    found = multiplied(_swapped(a, call.settings["trans_a"]), _swapped(b, call.settings["trans_b"]))
    out = call.outputs[0].dtype
    return Elements(found.shape, found.kind, found.rule, lambda values: accumulated(values, call.settings, out))


def _linear(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    x, w, bias = (*inputs, None)[:3]
    found = multiplied(np.asarray(x), _swapped(np.asarray(w), call.settings["trans_w"]))

    def rule(place: tuple[int, ...]) -> Any:
        return found.rule(place) + (0 if bias is None else bias[place[-1]])

    return Elements(found.shape, found.kind, rule)


def _depth(call: OpCall, swap: str | None) -> int:
    """Return the number of products that are added up: the columns of the first factor."""
    first = call.inputs[0]
    if first is None:
        return 0
    return first.shape[-2:][0 if swap is not None and call.settings[swap] else -1]


def inner_dims_differ(inputs: Sequence[TensorType], settings: Mapping[str, SettingValue]) -> bool:
    """Whether matrices have no product, with the dims swapped that settings swap."""
    a, b = (given.shape for given in inputs[:2])
    # Of one dim, the first of the last two is the last.
    inner = a[-2:][0] if settings.get("trans_a") else a[-1]
    is_turned = settings.get("trans_b") or settings.get("trans_w")
    return inner != (b[-1] if is_turned else b[-2:][0])


ORACLES: dict[str, Oracle] = {"matmul": ByElement(_matmul), "linear": ByElement(_linear)}

SUMS: dict[str, Terms] = {
    "matmul": lambda call: _depth(call, "trans_a"),
    "linear": lambda call: _depth(call, None) + 1,
}

ILLEGAL: dict[str, Illegal] = {
    "matmul": inner_dims_differ,
    "linear": inner_dims_differ,
}
