"""Buffers of plain variables and temporaries on one device, each made when first requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakMethod

from openinfer.simulate.state.varying import Varying

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from openinfer.ir.resolved import ResolvedVar
    from openinfer.ir.types import TensorType
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend

    Content: TypeAlias = tuple[TensorType, npt.NDArray[Any]]
    """The type and elements of a variable, in storage form."""


class Buffers:
    """Buffers by variable.

    Attributes:
        made: the buffers that were requested; of varying variables, those of the declared shape.
        made_varying: the varying variables that were requested.
    """

    def __init__(
        self, variables: Mapping[str, ResolvedVar], backend: DeviceBackend, make: Callable[[ResolvedVar], Buffer]
    ) -> None:
        self.made: dict[str, Buffer] = {}
        self.made_varying: dict[str, Varying] = {}
        self._variables = variables
        self._backend = backend
        # The owner of the method owns these buffers too: through a cycle their memory would stay until the garbage
        # collector runs, which counts objects and not their bytes.
        self._make = WeakMethod(make)

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of a variable; of a varying one, that of the declared shape."""
        if name not in self.made:
            make = self._make()
            if make is None:
                raise ReferenceError(f"`{name}`: the memory that its buffer is for is gone")
            self.made[name] = make(self._variables[name])
        return self.made[name]

    def varying(self, name: str) -> Varying | None:
        """Return a variable to which ``cache.read`` may give another shape; None for others."""
        if not self._variables[name].varying:
            return None
        if name not in self.made_varying:
            self.made_varying[name] = Varying(self.buffer(name), self._backend)
        return self.made_varying[name]

    def current(self, name: str) -> Buffer:
        """Return the buffer that holds the value of a variable at this moment."""
        varying = self.varying(name)
        return self.buffer(name) if varying is None else varying.current

    def read(self, name: str) -> Content:
        """Return a copy of what a variable holds."""
        buffer = self.current(name)
        return buffer.type, self._backend.read(buffer)

    def write(self, name: str, content: Content) -> None:
        """Give a variable what `read` returned."""
        kind, array = content
        varying = self.varying(name)
        buffer = self.buffer(name) if varying is None else varying.buffer(kind)
        self._backend.write(buffer, array)
        if varying is not None:
            varying.hold(buffer)
