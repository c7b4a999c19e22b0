"""Index inputs: checked against the extent that they index, and counted from the front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


class OutOfRangeError(OpenInferError):
    """An index input is out of range, or the exponent of an integer is negative."""

    default_code = "out-of-range"


def places(
    indices: Array, extent: int, what: str, workspace: Workspace, *, negative: bool = True
) -> tuple[Array, BoundCall]:
    """Return scratch memory for indices from 0, and the call that checks the given indices and writes them there.

    ``what`` names the operator and what is indexed. The call raises `OutOfRangeError` for an index
    that is out of range: the range starts at ``-extent`` if ``negative`` indices count from the end.
    """
    found = workspace.take(indices.shape, np.dtype(np.int64))
    lowest = -extent if negative else 0

    def run() -> None:
        if not indices.size:
            return
        low, high = int(indices.min()), int(indices.max())
        if low < lowest or high >= extent:
            raise _out_of_range(indices, high if high >= extent else low, lowest, extent, what)
        np.copyto(found, indices, casting="unsafe")
        if low < 0:
            np.add(found, extent, out=found, where=found < 0)

    return found, run


def _out_of_range(indices: Array, index: int, lowest: int, extent: int, what: str) -> OutOfRangeError:
    position = [int(place) for place in np.argwhere(indices == index)[0]]
    where = f" at {position}" if indices.ndim else ""
    legal = f"{lowest}..{extent - 1}" if extent else "none: there is nothing to index"
    return OutOfRangeError(f"{what}: index {index}{where} is out of range (legal: {legal})")
