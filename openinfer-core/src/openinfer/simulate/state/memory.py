"""The interface of compiled statements to the variables of a program (``specification: runtime.memory``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from openinfer.errors import DynamicUnsetError, ExecutionError
from openinfer.ir.resolved import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.bound_calls import BoundCall
    from openinfer.ir.resolved import PrefixTable, ResolvedVar
    from openinfer.simulate.devices.backend import Buffer
    from openinfer.simulate.state.buffers import Content
    from openinfer.simulate.state.caches import SharedCache
    from openinfer.simulate.state.initial import InitialValues
    from openinfer.simulate.state.varying import Varying

    Saved: TypeAlias = tuple[Content, bool]
    """The content of a variable, and whether it holds a value."""


class Memory(Protocol):
    """Buffers by variable, made when first requested."""

    @property
    def variables(self) -> Mapping[str, ResolvedVar]: ...

    @property
    def tables(self) -> Mapping[str, PrefixTable]: ...

    @property
    def initial(self) -> InitialValues:
        """Makes buffers with initial values."""
        ...

    @property
    def conditional(self) -> frozenset[str]:
        """Temporaries, and dynamic variables without ``@init``: they may be absent."""
        ...

    @property
    def available(self) -> set[str]:
        """Those conditional variables that hold a value."""
        ...

    def is_cache(self, name: str) -> bool:
        """Whether a variable is a table or growing matrix."""
        ...

    def is_fixed(self, name: str) -> bool:
        """Whether a variable never changes: a constant, or a volatile one that no statement writes."""
        ...

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of a plain variable or temporary; of a varying one, that of the declared shape."""
        ...

    def varying(self, name: str) -> Varying | None:
        """Return a variable to which ``cache.read`` may give another shape; None for others."""
        ...

    def current(self, name: str) -> Buffer:
        """Return the buffer that holds the value of a plain variable or temporary at this moment."""
        ...

    def cache(self, name: str) -> SharedCache:
        """Return a persistent table or growing matrix."""
        ...

    def entry(self, name: str, indices: tuple[int, ...]) -> Buffer:
        """Return an entry of a prefix table.

        Raises:
            ExecutionError: an index is negative, or the model has no tensor of that name.
            DTypeError, ShapeError: the model's tensor has another type than the declaration.
        """
        ...

    def restore(self, name: str) -> BoundCall:
        """Return the call that gives a plain persistent variable its initial value."""
        ...

    def save(self, name: str) -> Saved:
        """Return a copy of what a plain variable or temporary holds."""
        ...

    def load(self, name: str, saved: Saved) -> None:
        """Give a plain variable or temporary what `save` returned."""
        ...


def unset(memory: Memory, names: Iterable[str]) -> ExecutionError:
    """Return the error for reading variables that hold no value."""
    name = min(names)
    if memory.variables[name].storage is Storage.TEMPORARY:
        first = "anything has written it" if memory.variables[name].inferred else "its `assign` has run"
        message = f"temporary `{name}` is used before {first} in this step"
        return ExecutionError(message, code="temporary-unset")
    return DynamicUnsetError(f"dynamic `{name}` holds no value in this step: insert one before it, or declare @init")
