"""Watch expressions: what they show, and whether that has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.errors import ExecutionError
from openinfer.inspect import conditions
from openinfer.inspect.conditions import Access
from openinfer.simulate.formatting import format_significant

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from openinfer.inspect.conditions import Expression
    from openinfer.inspect.evaluation import Values

    Array: TypeAlias = npt.NDArray[Any]

ABSENT = "no value"


@dataclass(frozen=True, slots=True)
class Watch:
    """An expression that is shown when it changes: a variable, an element or entry, or anything `conditions` has."""

    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A watch expression that has another value than before; as people read values.

    Attributes:
        where: the statement that changed it.
    """

    watch: Watch
    before: str
    after: str
    where: str

    def __str__(self) -> str:
        return f"{self.watch.text}: {self.before} -> {self.after} ({self.where})"


class Watched:
    """A watch expression with what it was last.

    Raises:
        ExecutionError: ``bad-condition``, the text is not an expression.
    """

    def __init__(self, watch: Watch, values: Values) -> None:
        self.watch = watch
        self.expression: Expression = conditions.parse(watch.text)
        self.names = frozenset(access.name for access in conditions.accesses(self.expression))
        self._values = values
        self._value, self.shown = self._seen()

    def concerns(self, written: Iterable[str], indices: Iterable[str]) -> bool:
        """Whether a statement that writes these variables can have changed it, or a loop that counts these indices."""
        return not self.names.isdisjoint(written) or not self.names.isdisjoint(indices) or self._is_indexed()

    def change(self, where: str) -> Change | None:
        """Look again after a statement; return what has changed. NaN equals NaN."""
        before, known = self.shown, self._value
        self._value, self.shown = self._seen()
        return None if _is_same(known, self._value) else Change(self.watch, before, self.shown, where)

    def _is_indexed(self) -> bool:
        return any(access.indices for access in conditions.accesses(self.expression))

    def _seen(self) -> tuple[Array | None, str]:
        try:
            if isinstance(self.expression, Access):
                tensor = self._values.tensor(self.expression)
                return _comparable(tensor.array), shown(tensor.array)
            value = self._values.evaluate(self.expression)
        except ExecutionError:
            return None, ABSENT
        return _comparable(value), shown(value)


def _comparable(array: Array) -> Array:
    """Return a copy of an array of a type in which NumPy can tell NaNs."""
    return np.array(array, np.float64 if array.dtype.kind not in "biu" else array.dtype)


def _is_same(before: Array | None, after: Array | None) -> bool:
    if before is None or after is None:
        return before is after
    return np.array_equal(before, after, equal_nan=before.dtype.kind == "f" and after.dtype.kind == "f")


def shown(value: object) -> str:
    """Return what an expression is worth as text: a plain number, or as `format_significant` has it."""
    array = np.asarray(value)
    if array.shape:
        return format_significant(array)
    plain = array.item()
    return str(plain).lower() if isinstance(plain, bool) else f"{plain:.9g}" if isinstance(plain, float) else str(plain)
