"""Names of a loop program."""

from __future__ import annotations

from collections import Counter

from openinfer.affine import Var


class Names:
    """Names that a loop program does not have yet."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._next: Counter[str] = Counter()
        self._looked_up: set[str] = set()

    def new(self, prefix: str) -> str:
        """Return a prefix with the lowest number that makes it a new name."""
        while True:
            name = f"{prefix}{self._next[prefix]}"
            self._next[prefix] += 1
            if name not in self._taken:
                self._taken.add(name)
                return name

    def lookup(self, var: Var) -> Var:
        """Return a variable for a computed index: stages may look up one index each, in one block of the program."""
        if var.name not in self._looked_up:
            self._looked_up.add(var.name)
            return var
        return Var(self.new(f"{var.name}_"), var.extent)
