"""Notes on where the extents of declarations come from, shown next to findings about shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from openinfer import symbolic
from openinfer.diagnostics import Related
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.diagnostics import Span
    from openinfer.ir.types import TensorType
    from openinfer.symbolic import IntExpr


class Sized(Protocol):
    """A declaration with its sizes known: a variable, a temporary or a prefix table."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> TensorType: ...
    @property
    def dims(self) -> tuple[IntExpr, ...]: ...
    @property
    def span(self) -> Span | None: ...
    @property
    def inferred(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class SizeNotes:
    """The named sizes of a program; ``overridden`` are those that the caller gave, all others are the model's."""

    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    overridden: frozenset[str] = frozenset()

    def text(self, name: str) -> str:
        """Return the value of a size and where it comes from, such as ``D = 64 from the model``."""
        origin = "the caller" if name in self.overridden else "the model"
        return f"{name} = {self.sizes[name]} from {origin}"

    def on(self, sized: Iterable[Sized], shapes: Mapping[str, tuple[int | None, ...]]) -> Iterator[Related]:
        """Yield a note on each declaration with the sizes of its extents.

        ``shapes`` has the shapes that it has elsewhere, by description: sizes that would be others by them are shown
        with both values.
        """
        for variable in dict.fromkeys(sized):
            if variable.span is None:
                continue
            names = list(dict.fromkeys(name for dim in variable.dims for name in symbolic.names(dim)))
            values = ", ".join(self._compared(name, variable, shapes) for name in names)
            dims = ", ".join(symbolic.text(dim) for dim in variable.dims)
            place = "gets its type here" if variable.inferred else "is declared here"
            note = f"is {variable.type.dtype}[{dims}]: {values}" if names else place
            yield Related(f"`{variable.name}` {note}", variable.span)

    def _compared(self, name: str, variable: Sized, shapes: Mapping[str, tuple[int | None, ...]]) -> str:
        """Return a size with where it comes from, and what it would be by other shapes of the same rank."""
        text = self.text(name)
        for other, shape in shapes.items():
            for dim, extent in zip(variable.dims, shape, strict=False):
                is_other = dim == Name(name) and extent is not None and extent != self.sizes[name]
                if is_other and len(shape) == len(variable.dims):
                    return f"{text}, {extent} from {other}"
        return text
