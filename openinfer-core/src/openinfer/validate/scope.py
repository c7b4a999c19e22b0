"""What names mean at one place of a program: sizes, variables, tables and the loop indices around it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.dtypes import I64, Kind
from openinfer.ir.resolved import Storage
from openinfer.ir.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.errors import OpenInferError
    from openinfer.ir.resolved import PrefixTable, ResolvedVar
    from openinfer.model import Model
    from openinfer.ops.calls import OpCall
    from openinfer.validate.signature import Matched

LOOP_INDEX_TYPE = TensorType(I64)
"""A loop index that is read as a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Names visible to a statement.

    Attributes:
        names: every name that is declared or assigned, rightly or not.
        inferable: names that are outputs and have no declaration.
        uninferred: why those of them without a type have none, if an operator yields them.
        matched: signatures that were found right while types were inferred, by node index.
        calls: calls whose rule yielded types without declarations, and so whatever is declared, by node index.
        indices: loop indices around the statement with the values they take (half-open), where those are known.
    """

    model: Model
    sizes: Mapping[str, int]
    variables: Mapping[str, ResolvedVar]
    tables: Mapping[str, PrefixTable]
    names: frozenset[str]
    inferable: frozenset[str] = frozenset()
    uninferred: Mapping[str, OpenInferError] = field(default_factory=dict[str, "OpenInferError"])
    matched: Mapping[int, Matched] = field(default_factory=dict[int, "Matched"])
    calls: Mapping[int, OpCall] = field(default_factory=dict[int, "OpCall"])
    indices: Mapping[str, range | None]

    def declared(self, *names: str) -> tuple[ResolvedVar | PrefixTable, ...]:
        """Return the variables and tables of these names."""
        candidates = (self.variables.get(name) or self.tables.get(name) for name in names)
        return tuple(declared for declared in candidates if declared is not None)

    def type_of(self, name: str) -> TensorType | None:
        """Return the type of a value by its name; None where there is none, or its declaration is wrong."""
        if name in self.indices:
            return LOOP_INDEX_TYPE
        declared = self.variables.get(name) or self.tables.get(name)
        return None if declared is None else declared.type

    def inside_loop(self, index: str, values: range | None) -> Scope:
        """Return the scope of a loop body."""
        return replace(self, indices={**self.indices, index: values})

    def is_size(self, name: str) -> bool:
        """Whether a name in an integer expression means a size variable (loop indices and scalars come first)."""
        return name not in self.indices and not self._is_integer_scalar(name) and name in self.sizes

    def _is_integer_scalar(self, name: str) -> bool:
        variable = self.variables.get(name)
        if variable is None or variable.type.count != 1 or variable.type.shape:
            return False
        return variable.type.dtype.is_integer or variable.type.dtype.kind is Kind.BOOL

    def integer_problem(self, name: str) -> str | None:
        """Return why an integer expression cannot use a name, or None (``specification: language.expressions.2``)."""
        if name in self.indices or name in self.sizes or self._is_integer_scalar(name):
            return None
        variable = self.variables.get(name)
        if variable is not None:
            return f"`{name}` is {variable.type}, expected an integer scalar"
        names = [*self.indices, *self.sizes, *(n for n in self.variables if self._is_integer_scalar(n))]
        hint = did_you_mean(name, names)
        return f"`{name}` is not a loop index, integer scalar or size variable" + (f"; {hint}" if hint else "")

    def scalar_problem(self, name: str) -> str | None:
        """Return why a name cannot be the value of a scalar setting, or None."""
        variable = self.variables.get(name)
        if name in self.indices:
            return None
        if variable is None:
            return f"unknown variable `{name}`"
        if variable.storage is Storage.PERSISTENT:
            return f"`{name}` is persistent: read it with cache.read first"
        if variable.type.count != 1:
            return f"`{name}` is {variable.type}, expected one element"
        return f"`{name}` is ternary: it cannot be a setting" if variable.type.dtype.kind is Kind.TERNARY else None
