"""What the latest step returned, copied only when it is about to be overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openinfer.simulate.state.host import Host
    from openinfer.simulate.values import Tensor


class Results:
    """Results of a step by name; those that have no copy are read from memory."""

    def __init__(self) -> None:
        self._copies: dict[str, Tensor | None] = {}

    def begin(self, names: Iterable[str] = ()) -> None:
        """Begin with the names that a step returned, without copies."""
        self._copies = dict.fromkeys(names)

    def keep(self, host: Host, names: Iterable[str] | None = None) -> None:
        """Copy those of some variables, by default all, before they change."""
        for name in self._copies if names is None else names:
            if name in self._copies and self._copies[name] is None:
                self._copies[name] = host.result(name)

    def value(self, name: str, host: Host) -> Tensor:
        """Return a result."""
        return self._copies[name] or host.result(name)

    def __contains__(self, name: str) -> bool:
        return name in self._copies

    def __iter__(self) -> Iterator[str]:
        return iter(self._copies)
