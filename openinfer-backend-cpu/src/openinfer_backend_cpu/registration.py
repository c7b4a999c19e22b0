"""What a kernel of this device is; those of the package `kernels` are found by a scan of its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from openinfer.plugins.kernel_modules import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

__all__ = ["Bind", "direct", "direct_form", "kernel", "stored", "stored_inputs"]

_STORED = "openinfer_stored_inputs"
_DIRECT = "openinfer_direct_form"


class Bind(Protocol):
    """A kernel: prepares a call on given arrays. Scratch memory comes from ``workspace``, or is allocated here.

    Arrays have the shapes of ``call`` and the NumPy type of their element type; packed types come unpacked, as int8 or
    uint8 (inputs named by `stored`: as their bytes), and results are reduced to their width afterwards. No output is
    one of the inputs. The call that is returned computes as IEEE 754 says and leaves NumPy's floating-point warnings as
    its caller set them.
    """

    def __call__(
        self,
        call: OpCall,
        inputs: Sequence[npt.NDArray[np.generic] | None],
        outputs: Sequence[npt.NDArray[np.generic]],
        workspace: Workspace,
    ) -> BoundCall: ...


class Direct(Protocol):
    """The direct form of a kernel: prepares what depends on types and settings alone; None where that is not enough.

    What it returns takes arrays of those types; otherwise it is as `Bind` has it.
    """

    def __call__(
        self, call: OpCall, workspace: Workspace
    ) -> Callable[[Sequence[Array | None], Sequence[Array]], object] | None: ...


def direct(form: Direct) -> Callable[[Bind], Bind]:
    """Give a kernel a direct form, for operands whose memory changes with every call, such as views of a cache."""

    def mark(bind: Bind) -> Bind:
        setattr(bind, _DIRECT, form)
        return bind

    return mark


def direct_form(bind: Bind) -> Direct | None:
    """Return the direct form of a kernel."""
    return getattr(bind, _DIRECT, None)


def stored(*inputs: int) -> Callable[[Bind], Bind]:
    """Let a kernel have these inputs in storage form: packed types as their packed bytes, in one dimension."""

    def mark(bind: Bind) -> Bind:
        setattr(bind, _STORED, frozenset(inputs))
        return bind

    return mark


def stored_inputs(bind: Bind) -> frozenset[int]:
    """Return the numbers of the inputs that a kernel takes in storage form."""
    return getattr(bind, _STORED, frozenset[int]())
