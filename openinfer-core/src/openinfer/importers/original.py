"""What a model is compared with: the same model, run by another program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]


class Original(Protocol):
    """A model as another program runs it."""

    @property
    def runner(self) -> str:
        """What runs it, for people."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by their names in the model."""
        ...

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every value that nodes write, by name."""
        ...


@runtime_checkable
class DoubtedOriginal(Protocol):
    """An original that can be wrong itself."""

    @property
    def guards_overflow(self) -> bool:
        """Whether results are infinite or NaN only where the model's are."""
        ...

    def unoptimised(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs as computed without optimisations; nothing where there are none."""
        ...
