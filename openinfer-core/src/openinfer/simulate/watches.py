"""Watch expressions: what they show, and whether that has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import ExecutionError
from openinfer.simulate import conditions
from openinfer.simulate.conditions import Access
from openinfer.simulate.formatting import format_truncated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.simulate.conditions import Expression
    from openinfer.simulate.evaluation import Values

ABSENT = "no value"


@dataclass(frozen=True, slots=True)
class Watch:
    """An expression that is shown when it changes: a variable, an element or entry, or anything `conditions` has."""

    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A watch expression that has another value than before; as people read values."""

    watch: Watch
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.watch.text}: {self.before} -> {self.after}"


class Watched:
    """A watch expression with what it was last.

    Raises:
        ExecutionError: ``bad-condition``, the text is no expression.
    """

    def __init__(self, watch: Watch, values: Values) -> None:
        self.watch = watch
        self.expression: Expression = conditions.parse(watch.text)
        self.names = frozenset(access.name for access in conditions.accesses(self.expression))
        self._values = values
        self._bytes, self.shown = self._seen()

    def concerns(self, written: Iterable[str], indices: Iterable[str]) -> bool:
        """Whether a statement that writes these variables can have changed it, or a loop that counts these indices."""
        return not self.names.isdisjoint(written) or not self.names.isdisjoint(indices) or self._is_indexed()

    def change(self) -> Change | None:
        """Look again; return what has changed."""
        before, stored = self.shown, self._bytes
        self._bytes, self.shown = self._seen()
        return None if stored == self._bytes else Change(self.watch, before, self.shown)

    def _is_indexed(self) -> bool:
        return any(access.indices for access in conditions.accesses(self.expression))

    def _seen(self) -> tuple[bytes | None, str]:
        try:
            if isinstance(self.expression, Access):
                tensor = self._values.tensor(self.expression)
                return tensor.storage.tobytes(), shown(tensor.array)
            value = self._values.evaluate(self.expression)
        except ExecutionError:
            return None, ABSENT
        return value.tobytes(), shown(value)


def shown(value: object) -> str:
    """Return what an expression is worth as text: a plain number, or as `format_truncated` has it."""
    array = np.asarray(value)
    if array.shape:
        return format_truncated(array)
    plain = array.item()
    return str(plain).lower() if isinstance(plain, bool) else f"{plain:.9g}" if isinstance(plain, float) else str(plain)
