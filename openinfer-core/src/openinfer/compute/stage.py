"""Stages: tensor expressions over index space, which say what each element is and leave order and memory open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import copysign
from typing import TYPE_CHECKING, TypeAlias

from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var, Within
    from openinfer.dtypes import DType
    from openinfer.expr.linear import Instruction
    from openinfer.expr.tree import Expr, Literal


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand of a computation.

    Attributes:
        name: an identifier.
        shape: extents, outermost first; indices over parameters where they are known at run time only.
    """

    name: str
    dtype: DType
    shape: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """The element of a tensor at some place.

    Attributes:
        tensor: name of the tensor.
        at: one index per dimension.
        dtype: element type of the tensor.
        fill: value of places outside of the tensor, and where a guard does not hold; None: every place lies inside
            for certain, and there is no guard.
        guards: further conditions for reading the element.
    """

    tensor: str
    at: tuple[Index, ...]
    dtype: DType
    fill: Literal | None = None
    guards: tuple[Within, ...] = ()

    @property
    def fills_zeros(self) -> bool:
        """Whether places outside of the tensor are positive zeros, as cleared memory is."""
        return self.fill is not None and self.fill.value == 0 and copysign(1, self.fill.value) > 0

    def fills_with(self, value: int) -> bool:
        """Whether places outside of the tensor are an element, 0 of floats being positive."""
        return self.fill is not None and self.fill.value == value if value else self.fills_zeros

    def _key(self) -> tuple[object, ...]:
        fill = None if self.fill is None else linearise(self.fill)
        return (self.tensor, self.at, self.dtype, fill, self.guards)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Read) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.tensor, self.at))


@dataclass(frozen=True, slots=True)
class Position:
    """The value of an index as a number, such as a place along an axis."""

    at: Index
    dtype: DType


Element: TypeAlias = Read | Position


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """An index that is computed from elements, as ``gather`` needs it.

    Attributes:
        var: the variable that stands for it; its extent says which values are legal.
        value: an i64 over elements that do not use ``var``. A value outside of the extent is an error at run time.
        rule: what the error says: what is legal, and what to do.
    """

    var: Var
    value: Expr
    rule: str


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """An error at run time where ``refused``, a bool over elements, is true; ``rule`` is what it says."""

    refused: Expr
    rule: str


class Order(Enum):
    """In which order the terms of a fold are combined.

    ``SEQUENTIAL`` is row-major order. ``ANY`` allows partial totals, trees and fused multiply-add.
    """

    SEQUENTIAL = "sequential"
    ANY = "any"


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """One total of a fold. In expressions total ``t`` of ``n`` is ``Input(~t)``, and its next term ``Input(~(n + t))``.

    Attributes:
        start: value before the first term, over elements that do not depend on the folded axes; None: the first term.
        term: what each place of the folded axes contributes, over elements.
        combine: the next value of the total, over all totals and terms.
    """

    start: Expr | None
    term: Expr
    combine: Expr

    @property
    def dtype(self) -> DType:
        """The type of the total, which is that of its terms where it has no start."""
        return self.combine.dtype


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction over axes; several totals advance together (a maximum and its place).

    Attributes:
        axes: folded axes, outermost first.
        running: a scan: a value is stored after every step, and ``Stage.value`` and ``Stage.at`` may use the axes.
    """

    axes: tuple[Var, ...]
    totals: tuple[Total, ...]
    order: Order
    running: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """``tensor[at] = value`` for every place of the axes. Stages with one meaning and form compare equal.

    A stage may read the tensor that it writes, at the place that it writes, and it may store at looked-up indices,
    which may contain one place several times (``scatter``). In both cases places are visited in row-major order, so
    that several updates of one element follow one another.

    Attributes:
        tensor: name of the tensor that is written.
        axes: the places that are computed, outermost first.
        elements: what expressions read: ``Input(k)`` is ``elements[k]``.
        value: the element that is stored, of the tensor's type, over elements and (with a fold) totals.
        at: where it is stored: one index per dimension of the tensor.
        lookups: indices computed from elements; one may use those before it.
        checks: conditions that are errors.
    """

    tensor: str
    axes: tuple[Var, ...]
    elements: tuple[Element, ...]
    value: Expr
    at: tuple[Index, ...]
    fold: Fold | None = None
    lookups: tuple[Lookup, ...] = ()
    checks: tuple[Check, ...] = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Stage) and _key(self) == _key(other))

    def __hash__(self) -> int:
        # Stages are often looked up, and comparing two takes long: those of one shape differ in how much they compute.
        return hash((self.tensor, self.axes, self.at, len(linearise(self.value).instructions)))

    @property
    def all_axes(self) -> tuple[Var, ...]:
        """The axes, then those of the fold."""
        return self.axes if self.fold is None else (*self.axes, *self.fold.axes)

    @property
    def tensors_read(self) -> set[str]:
        """The names of the tensors that it reads."""
        return {element.tensor for element in self.elements if isinstance(element, Read)}

    @property
    def folded_lookups(self) -> tuple[Lookup, ...]:
        """Lookups that depend on folded axes, so that they are computed for every term."""
        depends = set(() if self.fold is None else self.fold.axes)
        lookups: list[Lookup] = []
        for lookup in self.lookups:
            if variables_of(lookup.value, self.elements) & depends:
                depends.add(lookup.var)
                lookups.append(lookup)
        return tuple(lookups)

    @property
    def is_sequential(self) -> bool:
        """Whether places are visited in order: the stage updates what it reads, or stores at looked-up indices."""
        return self.stores_at_lookups or any(
            isinstance(element, Read) and element.tensor == self.tensor for element in self.elements
        )

    @property
    def stores_at_lookups(self) -> bool:
        """Whether elements say where results go, so that one place may be written several times, or never."""
        looked_up = {lookup.var for lookup in self.lookups}
        return bool(looked_up) and any(index.variables() & looked_up for index in self.at)


@dataclass(frozen=True, slots=True)
class Computation:
    """What an operator computes: stages that write outputs and temporaries, in an order that respects their reads.

    Attributes:
        parameters: sizes that are known at run time only.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]
    temporaries: tuple[Tensor, ...] = ()
    parameters: tuple[Var, ...] = ()

    def __hash__(self) -> int:
        # Each step of a plan is looked up by its computation: what tells nearly all of them apart is enough.
        return hash((self.name, self.stages))

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of that name.

        Raises:
            KeyError: there is none.
        """
        for tensor in (*self.inputs, *self.outputs, *self.temporaries):
            if tensor.name == name:
                return tensor
        raise KeyError(name)


def places_of(element: Element) -> tuple[Index, ...]:
    """Return the indices that an element uses."""
    if not isinstance(element, Read):
        return (element.at,)
    return (*element.at, *(index for guard in element.guards for index in (guard.index, guard.extent)))


def expressions_of(stage: Stage) -> tuple[Expr, ...]:
    """Return every expression of a stage."""
    totals = () if stage.fold is None else stage.fold.totals
    folded = [part for total in totals for part in (total.start, total.term, total.combine) if part is not None]
    lookups = [lookup.value for lookup in stage.lookups]
    return (stage.value, *folded, *lookups, *(check.refused for check in stage.checks))


def variables_of(expr: Expr, elements: Sequence[Element]) -> set[Var]:
    """Return the variables that the elements of an expression use."""
    used = (elements[number] for number in linearise(expr).inputs if number >= 0)
    return {var for element in used for index in places_of(element) for var in index.variables()}


def _key(stage: Stage) -> tuple[object, ...]:
    """Return what makes stages equal: expressions by their straight-line form, elements in the order of their use."""
    fold = stage.fold
    totals = () if fold is None else fold.totals
    lookups = sorted(stage.lookups, key=lambda lookup: lookup in stage.folded_lookups)
    values = [
        *(lookup.value for lookup in lookups),
        *(total.start for total in totals),
        *(part for total in totals for part in (total.term, total.combine)),
        *(check.refused for check in stage.checks),
        stage.value,
    ]
    programs = [None if value is None else linearise(value).instructions for value in values]
    used = (i.index for program in programs if program for i in program if i.function == "input" and i.index >= 0)
    numbers = {number: position for position, number in enumerate(dict.fromkeys(used))}
    return (
        stage.tensor,
        stage.axes,
        tuple(stage.elements[number] for number in numbers),
        stage.at,
        fold and (fold.axes, fold.order, fold.running, len(totals)),
        tuple((lookup.var, lookup.rule) for lookup in lookups),
        tuple(check.rule for check in stage.checks),
        tuple(program and tuple(_renumbered(i, numbers) for i in program) for program in programs),
    )


def _renumbered(instruction: Instruction, numbers: Mapping[int, int]) -> Instruction:
    index = numbers.get(instruction.index, instruction.index)
    return instruction if index == instruction.index else replace(instruction, index=index)
