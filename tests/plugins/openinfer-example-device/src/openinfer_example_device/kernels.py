"""Hand-written kernels: each binds its arrays once and returns the call that does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.plugin import OpCall

    Array = npt.NDArray[Any]


def bind_matmul(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
    """Return a call that multiplies matrices, or stacks of them; a transposed input is read through a view."""
    a, b = (
        np.swapaxes(array, -1, -2) if array.ndim > 1 and call.settings.get(name) else array
        for array, name in zip(inputs, ("trans_a", "trans_b"), strict=True)
    )

    def run() -> None:
        np.matmul(a, b, out=outputs[0])

    return run
