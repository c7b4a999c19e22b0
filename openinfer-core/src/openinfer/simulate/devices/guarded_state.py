"""Programs of third parties' devices that keep their state: every call guarded, and what they return checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.plugins.crossing import crossing, fault, guarded_methods, members, wrong
from openinfer.plugins.structure import Structure
from openinfer.simulate.devices.programs import Fault, StateProgram

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plugins.crossing import Owner
    from openinfer.simulate.devices.programs import Array

_FAULTS = Structure(Fault, names={})


class GuardedState:
    """Wraps the `StateProgram` of a third party.

    Raises:
        PluginError: a method is missing.
    """

    def __init__(
        self, owner: Owner, what: str, program: object, plan: ExecutionPlan, *, passing: tuple[type[BaseException], ...]
    ) -> None:
        self._owner, self._what = owner, what
        self._methods = guarded_methods(owner, what, program, members(StateProgram), passing=passing)
        self._states = {state.name: state.type for state in plan.states}
        self._sizes = [register.name for register in plan.registers if register.is_kept]
        self._varying = {port.name: port.type for port in plan.outputs if port.extents is not None}

    def step(self) -> Fault | None:
        """Run a step; see `StateProgram.step`."""
        outcome = self._methods["step"]()
        unfit = _FAULTS.misfit(outcome, Fault | None)
        if unfit is not None:
            raise fault(self._owner, f"step of {self._what}: {unfit}")
        return outcome

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of results; see `StateProgram.shapes`."""
        shapes = self._table("shapes")
        if not all(name in self._varying and _fits(shape, self._varying[name]) for name, shape in shapes.items()):
            raise fault(self._owner, f"shapes of {self._what} {wrong(shapes, 'shapes of results that vary, by name')}")
        return shapes

    def reset(self) -> None:
        """Give all variables their initial values."""
        self._methods["reset"]()

    def get(self) -> dict[str, Array]:
        """Return all variables; see `StateProgram.get`."""
        arrays = self._table("get")
        for name, kind in self._states.items():
            if not _is_stored(arrays.get(name), kind):
                message = f"get of {self._what} has no array for the variable {name}, {kind} in storage form"
                raise fault(self._owner, message)
        unsized = next((name for name in self._sizes if not _is_size(arrays.get(name))), None)
        if unsized is not None:
            raise fault(self._owner, f"get of {self._what} has no integer for {unsized}, how far an index has grown")
        return arrays

    def set(self, values: Mapping[str, Array]) -> None:
        """Give all variables their values."""
        self._methods["set"](values)

    def _table(self, method: str) -> dict[str, Any]:
        returned = self._methods[method]()
        with crossing(self._owner, f"reading what {method} of {self._what} returned"):
            table = dict(cast("Mapping[str, Any]", returned)) if isinstance(returned, Mapping) else None
        if table is None:
            raise fault(self._owner, f"{method} of {self._what} {wrong(returned, 'a mapping by name')}")
        return table


def _is_stored(value: Any, kind: TensorType) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    array = cast("Array", value)
    shape = (kind.nbytes,) if kind.dtype.is_packed else kind.shape
    return array.shape == shape and array.dtype == (np.uint8 if kind.dtype.is_packed else storage_dtype(kind.dtype))


def _is_size(value: Any) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    array = cast("Array", value)
    return array.shape == () and array.dtype.kind in "iu" and bool(array >= 0)


def _fits(shape: Any, room: TensorType) -> bool:
    """Return whether a shape is one of no more elements than there is room for."""
    if type(shape) is not tuple or not all(
        type(size) is int and size >= 0 for size in cast("tuple[object, ...]", shape)
    ):
        return False
    extents = cast("tuple[int, ...]", shape)
    return len(extents) == len(room.shape) and all(map(int.__le__, extents, room.shape))
