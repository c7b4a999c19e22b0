"""Data that a plan computes from its weights: constants, and tables whose entries follow those of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.ir.types import TensorType
from openinfer.plan.steps import TableRef, ValueRef
from openinfer.plan.values import NoMemory, PackedWeight, PlanValue, Role, WeightMemory, WeightTable
from openinfer.plan.weights import bytes_of
from openinfer.plan.words import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.layout import Layout
    from openinfer.plan.steps import Operand

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class PlanData:
    """The values, weights and tables of a plan; all three grow by what is computed from them."""

    values: list[PlanValue]
    weights: list[PackedWeight]
    tables: list[WeightTable]

    def arrays(self, operand: Operand) -> list[Array] | None:
        """Return the elements of a constant, or of each entry of a table; None: it is neither, or has a layout."""
        numbers = self._numbers(operand)
        if numbers is None or any(self.weights[number].layout is not None for number in numbers):
            return None
        return [elements_of(self.weights[number]) for number in numbers]

    def temporary(self, name: str, type_: TensorType, layout: Layout | None = None) -> int:
        """Return the number of a new value, which lives inside of the program only."""
        number = len(self.values)
        self.values.append(
            PlanValue(number=number, name=name, type=type_, role=Role.TEMPORARY, memory=NoMemory(), layout=layout)
        )
        return number

    def scalar(self, operand: Operand) -> float | int | None:
        """Return the only element of a constant; None: it is none, or has several, or no finite number."""
        arrays = self.arrays(operand) if isinstance(operand, ValueRef) else None
        if arrays is None or arrays[0].size != 1 or arrays[0].dtype.kind not in "iuf":
            return None
        number: float | int = arrays[0].reshape(-1)[0].item()
        return number if np.isfinite(number) else None

    def constant(self, operands: Sequence[Operand], function: Callable[..., Array], dtype: DType) -> Operand:
        """Return what `combined` returns for constants, or for entries of one table."""
        made = self.combined(operands, function, dtype)
        if made is None:
            raise ValueError("the tables of constants do not go together")
        return made

    def combined(
        self, operands: Sequence[Operand], function: Callable[..., Array], dtype: DType
    ) -> ValueRef | TableRef | None:
        """Return the operand that a function of the elements of constants is; None: their tables do not go together.

        Args:
            operands: constants and entries of tables; the first one gives the result its name.
            dtype: element type of what the function returns.
        """
        references = [operand for operand in operands if isinstance(operand, TableRef)]
        if not references:
            return ValueRef(self._value([self._only(operand) for operand in operands], operands[0], function, dtype))
        if not self.go_together(references):
            return None
        reference = references[0]
        first = self._table(reference)

        def entry(at: int | None, fixed: int | None) -> int | None:
            numbers = [self._entry(operand, at, fixed) for operand in operands]
            constants = [number for number in numbers if number is not None]
            return self._weight(constants, function, dtype) if len(constants) == len(numbers) else None

        entries = tuple(entry(at, None) for at in range(len(first.entries)))
        fixed = [(at, entry(None, number)) for number, (at, _) in enumerate(first.fixed)]
        made = [number for number in (*entries, *(number for _, number in fixed)) if number is not None]
        if not made:
            return None
        number = max(table.number for table in self.tables) + 1
        table = replace(
            first,
            number=number,
            name=f"{first.name}.{number}",
            type=self.weights[made[0]].type,
            entries=entries,
            fixed=tuple((at, number) for at, number in fixed if number is not None),
        )
        self.tables.append(table)
        return replace(reference, table=table.number)

    def go_together(self, references: Sequence[TableRef]) -> bool:
        """Return whether entries of tables always have one place: that of the same indices."""
        places = {_places(self._table(reference)) for reference in references}
        return len({(ref.indices, ref.checked) for ref in references}) <= 1 and len(places) <= 1

    def _numbers(self, operand: Operand) -> list[int] | None:
        if isinstance(operand, TableRef):
            table = self._table(operand)
            return [number for number in (*table.entries, *(n for _, n in table.fixed)) if number is not None]
        if not isinstance(operand, ValueRef):
            return None
        memory = self.values[operand.value].memory
        return [memory.number] if isinstance(memory, WeightMemory) else None

    def _table(self, operand: TableRef) -> WeightTable:
        return next(table for table in self.tables if table.number == operand.table)

    def _only(self, operand: Operand) -> int:
        numbers = self._numbers(operand)
        if numbers is None or len(numbers) != 1:
            raise TypeError(f"{operand} is not a constant")
        return numbers[0]

    def _entry(self, operand: Operand, at: int | None, fixed: int | None) -> int | None:
        """Return the weight that an operand is for an entry of its table."""
        if not isinstance(operand, TableRef):
            return self._only(operand)
        table = self._table(operand)
        return table.entries[at] if at is not None else table.fixed[fixed or 0][1]

    def _value(self, numbers: Sequence[int], of: Operand, function: Callable[..., Array], dtype: DType) -> int:
        if not isinstance(of, ValueRef):
            raise TypeError(f"{of} is not a value")
        weight, number = self._weight(numbers, function, dtype), len(self.values)
        origin = self.values[of.value]
        memory = WeightMemory(weight)
        self.values.append(replace(origin, number=number, type=self.weights[weight].type, memory=memory, layout=None))
        return number

    def _weight(self, numbers: Iterable[int], function: Callable[..., Array], dtype: DType) -> int:
        sources = [self.weights[number] for number in numbers]
        array = function(*map(elements_of, sources))
        number, type_ = len(self.weights), TensorType(dtype, array.shape)
        self.weights.append(PackedWeight(number=number, source=sources[0].source, type=type_, data=bytes_of(array)))
        return number


def _places(table: WeightTable) -> tuple[object, ...]:
    """Return what tables have in common whose entries go together."""
    return (table.starts, table.extents, tuple(at for at, _ in table.fixed))
