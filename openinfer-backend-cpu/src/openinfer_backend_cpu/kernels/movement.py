"""Operators that move elements and compute nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("reshape")
@kernel("flatten")
@kernel("identity")
def reshape(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """The elements of x in row-major order, in another shape."""
    del call, workspace
    return partial(np.copyto, outputs[0], inputs[0].reshape(outputs[0].shape))


@kernel("transpose")
def transpose(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Dimension i of the output is dimension ``perm[i]`` of x; reversed order without ``perm``."""
    del workspace
    perm = cast("tuple[int, ...] | None", call.settings.get("perm"))
    return partial(np.copyto, outputs[0], inputs[0].transpose(perm if perm else None))
