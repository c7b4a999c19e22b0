"""Scopes: the meaning of names in integer expressions and scalar settings at one place of a program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.dtypes import Kind
from openinfer.simulate.devices.backend import HostBackend
from openinfer.simulate.program.integers import LoopIndex, checked, integer
from openinfer.simulate.values import scalar_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from openinfer.scalars import Scalar
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.program.integers import IntReader
    from openinfer.simulate.state.cache import Cache
    from openinfer.simulate.state.memory import Memory
    from openinfer.symbolic import IntExpr


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Lookup of names, first hit wins: loop index (innermost first), integer scalar, growth count, size variable.

    Attributes:
        counts: readers of the growth counts of the cache whose brackets hold the expression, by formal.
    """

    memory: Memory
    backend: DeviceBackend
    sizes: Mapping[str, int]
    loops: tuple[LoopIndex, ...] = ()
    counts: Mapping[str, IntReader] = field(default_factory=dict[str, "IntReader"])

    def inside(self, index: LoopIndex) -> Names:
        """Return the names in the body of a loop."""
        return replace(self, loops=(*self.loops, index))

    def inside_brackets(self, cache: Cache) -> Names:
        """Return the names in the brackets of a cache, where its growing extents stand for their counts."""
        return replace(self, counts={formal: partial(cache.count, formal) for formal in cache.autos})

    def index(self, name: str) -> LoopIndex | None:
        """Return the innermost loop index of that name."""
        return next((index for index in reversed(self.loops) if index.name == name), None)

    def integer(self, expr: IntExpr) -> int | IntReader:
        """Return the value of an integer expression, or how to read it, which is an error where it passes 64 bits."""
        reader = integer(expr, self._value)
        return checked(expr, reader) if callable(reader) and not isinstance(reader, LoopIndex) else reader

    def scalars_in(self, *exprs: IntExpr) -> Iterator[str]:
        """Yield the variables that integer expressions read."""
        for expr in exprs:
            for name in symbolic.names(expr):
                if self.index(name) is None and self._is_integer_scalar(name):
                    yield name

    def scalar(self, name: str) -> Callable[[], Scalar]:
        """Return how to read a variable of one element, or a loop index."""
        index = self.index(name)
        if index is not None:
            return index
        return reader(self.backend, self.memory.buffer(name))

    def _value(self, name: str) -> int | IntReader:
        index = self.index(name)
        if index is not None:
            return index
        if not self._is_integer_scalar(name):
            return self.counts[name] if name in self.counts else self.sizes[name]
        read = self.scalar(name)
        return lambda: int(read())

    def _is_integer_scalar(self, name: str) -> bool:
        variable = self.memory.variables.get(name)
        if variable is None or variable.type.shape:
            return False
        return variable.type.dtype.is_integer or variable.type.dtype.kind is Kind.BOOL


def reader(backend: DeviceBackend, buffer: Buffer) -> Callable[[], Scalar]:
    """Return how to read the element of a buffer that has one."""
    quick = backend.scalar_reader(buffer) if isinstance(backend, HostBackend) else None
    if quick is not None:
        return quick
    return lambda: scalar_value(backend.read(buffer), buffer.type.dtype)
