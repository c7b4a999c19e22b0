"""How a computation is written down: tensors are indexed by axes, and results are stored.

k.axes and k.fold make variables, ``tensor[index, ...]`` reads an element, ``tensor[index, ...] = value`` ends a stage:

a, b = k.inputs
i, j = k.axes(3, 4)
r = k.axis(5)
k.outputs[0][i, j] = k.sum(a[i, r] * b[r, j], over=(r,))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, TypeAlias, cast

from openinfer.affine import Index, Var, Within
from openinfer.compute.parameters import parameters_of
from openinfer.compute.stage import (
    Check,
    Computation,
    Fold,
    Lookup,
    Order,
    Position,
    Read,
    Stage,
    Tensor,
    Total,
    places_of,
)
from openinfer.diagnostics import counted
from openinfer.dims import is_size
from openinfer.dtypes import I32, I64
from openinfer.errors import OpenInferError
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from openinfer.compute.stage import Element
    from openinfer.dims import Dim
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.scalars import Scalar

Place: TypeAlias = "Index | Var | int"


class ComputationError(OpenInferError):
    """A computation is written wrongly: a mistake in an operator's definition."""

    default_code = "expression"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A scalar of a stage that is built, with the arithmetic of `openinfer.expr.tree`.

    Operands are of one type; a Python number stands for a constant of that type.

    Raises:
        ExprError: types do not go together.
    """

    expr: Expr

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    def cast(self, dtype: DType) -> Value:
        """Return the value as another type, converted as `openinfer.expr.tree.cast` says."""
        return Value(tree.cast(self.expr, dtype))

    def __add__(self, other: Value | Scalar) -> Value:
        return Value(tree.add(self.expr, self._operand(other)))

    def __radd__(self, other: Scalar) -> Value:
        return Value(tree.add(self._operand(other), self.expr))

    def __sub__(self, other: Value | Scalar) -> Value:
        return Value(tree.sub(self.expr, self._operand(other)))

    def __rsub__(self, other: Scalar) -> Value:
        return Value(tree.sub(self._operand(other), self.expr))

    def __mul__(self, other: Value | Scalar) -> Value:
        return Value(tree.mul(self.expr, self._operand(other)))

    def __rmul__(self, other: Scalar) -> Value:
        return Value(tree.mul(self._operand(other), self.expr))

    def __truediv__(self, other: Value | Scalar) -> Value:
        return Value(tree.div(self.expr, self._operand(other)))

    def __rtruediv__(self, other: Scalar) -> Value:
        return Value(tree.div(self._operand(other), self.expr))

    def __neg__(self) -> Value:
        return Value(tree.neg(self.expr))

    def __lt__(self, other: Value | Scalar) -> Value:
        return Value(tree.lt(self.expr, self._operand(other)))

    def __le__(self, other: Value | Scalar) -> Value:
        return Value(tree.le(self.expr, self._operand(other)))

    def __gt__(self, other: Value | Scalar) -> Value:
        return Value(tree.gt(self.expr, self._operand(other)))

    def __ge__(self, other: Value | Scalar) -> Value:
        return Value(tree.ge(self.expr, self._operand(other)))

    def __bool__(self) -> bool:
        raise ComputationError("a value is known at run time only: choose with k.apply(tree.select, ...)")

    def _operand(self, other: Value | Scalar) -> Expr:
        return other.expr if isinstance(other, Value) else tree.literal(other, self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A tensor of the computation that is built."""

    builder: Builder
    tensor: Tensor

    @property
    def shape(self) -> tuple[Index, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def __getitem__(self, at: Place | tuple[Place, ...]) -> Value:
        """Read the element at some place, which must lie inside for certain: `within` reads anywhere.

        Raises:
            ComputationError: wrong number of indices.
        """
        return self.builder.element(Read(self.tensor.name, self._place(at), self.dtype))

    def within(self, *at: Place, fill: Scalar, where: Sequence[Within] = ()) -> Value:
        """Read the element at some place, ``fill`` outside of the tensor and where a condition does not hold."""
        value = tree.literal(fill, self.dtype)
        return self.builder.element(Read(self.tensor.name, self._place(at), self.dtype, value, tuple(where)))

    def __setitem__(self, at: Place | tuple[Place, ...], value: Value) -> None:
        """Store a value at a place for every value of the axes in it, converted to the tensor's type: a stage.

        Raises:
            ComputationError: wrong number of indices; or totals of different folds in one value.
        """
        self.builder.store(self.tensor, self._place(at), value)

    def _place(self, at: Place | tuple[Place, ...]) -> tuple[Index, ...]:
        indices = tuple(Index.of(index) for index in (at if isinstance(at, tuple) else (at,)))
        if len(indices) != len(self.tensor.shape):
            rank = len(self.tensor.shape)
            raise ComputationError(f"{self.tensor.name} has {rank} dims, found {len(indices)} indices")
        return indices


class Builder:
    """Collects the stages of a computation.

    Attributes:
        inputs, outputs: the operands; None for an optional input that is left out.
        given: the inputs without those that are left out.
    """

    def __init__(self, name: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> None:
        self._name = name
        self._given = tuple(tensor for tensor in inputs if tensor is not None)
        self._written = tuple(outputs)
        self.inputs = tuple(None if tensor is None else Operand(self, tensor) for tensor in inputs)
        self.given = tuple(operand for operand in self.inputs if operand is not None)
        self.outputs = tuple(Operand(self, tensor) for tensor in outputs)
        self._temporaries: list[Tensor] = []
        self._stages: list[Stage] = []
        self._elements: dict[Element, tree.Input] = {}
        self._folds: dict[int, tuple[Fold, int]] = {}
        self._lookups: dict[Var, Lookup] = {}
        self._checks: list[Check] = []
        self._names = count()

    def axis(self, extent: int | Index | Var, name: str | None = None) -> Var:
        """Return a variable with the values from 0 to ``extent`` - 1."""
        size = Index.of(extent)
        constant = size.constant
        number = next(self._names)
        return Var(name or f"i{number}", size if constant is None else constant)

    def axes(self, *extents: int | Index | Var) -> tuple[Var, ...]:
        """Return one variable per extent."""
        return tuple(self.axis(extent) for extent in extents)

    def temporary(self, dtype: DType, *shape: int | Index | Var) -> Operand:
        """Return a temporary tensor of the computation."""
        tensor = Tensor(f"t{len(self._temporaries)}", dtype, tuple(Index.of(extent) for extent in shape))
        self._temporaries.append(tensor)
        return Operand(self, tensor)

    def constant(self, value: Scalar | Dim, dtype: DType) -> Value:
        """Return a constant, rounded to its type; it may be a size that is known at run time only."""
        if is_size(value):
            return self.position(value.index, dtype) if dtype in (I32, I64) else self.position(value.index).cast(dtype)
        return Value(tree.literal(cast("Scalar", value), dtype))

    def position(self, at: Place, dtype: DType = I64) -> Value:
        """Return the value of an index as a number."""
        return self.element(Position(Index.of(at), dtype))

    def apply(self, function: Callable[..., Expr], *operands: Value) -> Value:
        """Return a function of `openinfer.expr.tree` of some values."""
        return Value(function(*(operand.expr for operand in operands)))

    def element(self, element: Element) -> Value:
        """Return the value of an element; equal elements are one."""
        if element not in self._elements:
            self._elements[element] = tree.Input(len(self._elements), element.dtype)
        return Value(self._elements[element])

    def lookup(self, value: Value, extent: int | Index | Var, rule: str) -> Var:
        """Return a variable whose value is computed; a value outside of ``[0, extent)`` is an error at run time."""
        var = self.axis(extent)
        self._lookups[var] = Lookup(var, value.cast(I64).expr, rule)
        return var

    def refuse(self, refused: Value, rule: str) -> None:
        """Make it an error at run time that the bool ``refused`` is true, in the stage that is stored next."""
        self._checks.append(Check(refused.expr, rule))

    def sum(self, term: Value, over: Sequence[Var], order: Order = Order.ANY) -> Value:
        """Return the sum of a term over axes, in the term's type."""
        return self.fold(term, over, tree.add, start=0, order=order)

    def fold(
        self,
        term: Value,
        over: Sequence[Var],
        combine: Callable[[Expr, Expr], Expr],
        *,
        start: Scalar | Value | None = None,
        order: Order = Order.SEQUENTIAL,
        running: bool = False,
    ) -> Value:
        """Return the fold of a term over axes by ``combine(total, term)``, from ``start`` or the first term."""
        (total,) = self.folds(
            (term,), over, lambda t, e: (combine(t[0], e[0]),), (start,), order=order, running=running
        )
        return total

    def folds(
        self,
        terms: Sequence[Value],
        over: Sequence[Var],
        combine: Callable[[Sequence[Expr], Sequence[Expr]], Sequence[Expr]],
        starts: Sequence[Scalar | Value | None],
        *,
        order: Order = Order.SEQUENTIAL,
        running: bool = False,
    ) -> tuple[Value, ...]:
        """Return totals that advance together: ``combine(totals, terms)`` returns the next totals.

        Raises:
            ComputationError: the numbers of terms, starts and next totals differ.
        """
        types = [term.dtype for term in terms]
        totals = [tree.Input(~number, dtype) for number, dtype in enumerate(types)]
        added = [tree.Input(~(number + len(types)), dtype) for number, dtype in enumerate(types)]
        following = tuple(combine(totals, added))
        if not len(terms) == len(starts) == len(following):
            counts = f"{counted(len(terms), 'term')} and {counted(len(starts), 'start')}"
            message = f"`folds` has {counts}, and `combine` returns {counted(len(following), 'total')}"
            raise ComputationError(f"{self._name}: {message}: each total needs one term, one start and one next total")
        made = tuple(
            Total(_start(start, term.dtype), term.expr, combined)
            for start, term, combined in zip(starts, terms, following, strict=True)
        )
        fold = Fold(tuple(over), made, order, running)
        return tuple(self._total(fold, number, dtype) for number, dtype in enumerate(types))

    def _total(self, fold: Fold, number: int, dtype: DType) -> Value:
        leaf = ~len(self._folds)
        self._folds[leaf] = (fold, number)
        return Value(tree.Input(leaf, dtype))

    def store(self, tensor: Tensor, at: tuple[Index, ...], value: Value) -> None:
        """Append the stage that stores ``value``; `Operand.__setitem__` is its usual form."""
        stored = tree.cast(value.expr, tensor.dtype)
        checks, self._checks = self._checks, []
        fold = self._fold_of((stored, *(check.refused for check in checks)))
        stage = _Renumbering(self._elements, self._lookups, self._folds).stage(tensor.name, at, stored, fold, checks)
        self._stages.append(stage)

    def _fold_of(self, values: Iterable[Expr]) -> Fold | None:
        """Return the fold whose totals a stage uses: one, whose terms use no totals themselves."""
        folds = [self._folds[number][0] for value in values for number in linearise(value).inputs if number < 0]
        parts = [part for fold in folds for total in fold.totals for part in (total.start, total.term) if part]
        nested = any(number < 0 for part in parts for number in linearise(part).inputs)
        if nested or any(fold is not folds[0] for fold in folds):
            raise ComputationError("one stage uses totals of different folds: store one of them in a temporary first")
        return folds[0] if folds else None

    def computation(self) -> Computation:
        """Return what was collected.

        Raises:
            ComputationError: a value is refused, but no stage is stored after it.
        """
        if self._checks:
            raise ComputationError(f"refused values ({self._checks[0].rule}) belong to the stage stored after them")
        made = Computation(
            name=self._name,
            inputs=self._given,
            outputs=self._written,
            stages=tuple(self._stages),
            temporaries=tuple(self._temporaries),
        )
        return replace(made, parameters=parameters_of(made))


def _start(start: Scalar | Value | None, dtype: DType) -> Expr | None:
    if isinstance(start, Value):
        return start.expr
    if start is None:
        return None
    return tree.literal(start, dtype)


class _Renumbering:
    """Makes a stage of expressions whose inputs are numbered throughout the builder."""

    def __init__(
        self,
        elements: Mapping[Element, tree.Input],
        lookups: Mapping[Var, Lookup],
        folds: Mapping[int, tuple[Fold, int]],
    ) -> None:
        self._by_number = {leaf.index: element for element, leaf in elements.items()}
        self._all_lookups = lookups
        self._folds = folds
        self._numbers: dict[int, int] = {}
        self._lookups: dict[Var, Lookup] = {}

    def stage(
        self, tensor: str, at: tuple[Index, ...], value: Expr, fold: Fold | None, checks: Sequence[Check]
    ) -> Stage:
        self._find_lookups(at)
        totals = () if fold is None else tuple(self._total(total) for total in fold.totals)
        made = None if fold is None else Fold(fold.axes, totals, fold.order, fold.running)
        kept = tuple(Check(self._expression(check.refused), check.rule) for check in checks)
        stored = self._expression(value)
        elements = tuple(self._by_number[number] for number in self._numbers)
        looked_up = tuple(self._lookups.values())
        axes = _axes_of(at, elements, looked_up, () if fold is None else fold.axes)
        return Stage(tensor, axes, elements, stored, at, made, looked_up, kept)

    def _total(self, total: Total) -> Total:
        start = None if total.start is None else self._expression(total.start)
        return Total(start, self._expression(total.term), total.combine)

    def _expression(self, expr: Expr) -> Expr:
        replaced: dict[int, Expr] = {}
        for number in linearise(expr).inputs:
            if number < 0:
                fold, total_number = self._folds[number]
                replaced[number] = tree.Input(~total_number, fold.totals[total_number].dtype)
            else:
                element = self._by_number[number]
                replaced[number] = tree.Input(self._number(number), element.dtype)
        return tree.substitute(expr, replaced)

    def _number(self, number: int) -> int:
        if number not in self._numbers:
            element = self._by_number[number]
            self._find_lookups(places_of(element))
            self._numbers.setdefault(number, len(self._numbers))
        return self._numbers[number]

    def _find_lookups(self, indices: Iterable[Index]) -> None:
        """Take up the lookups whose variables occur, those that they need first."""
        for var in _ordered(indices):
            lookup = self._all_lookups.get(var)
            if lookup is not None and var not in self._lookups:
                value = self._expression(lookup.value)
                self._lookups[var] = Lookup(var, value, lookup.rule)


def _ordered(indices: Iterable[Index]) -> Iterator[Var]:
    for index in indices:
        # Names end with numbers: i9 comes before i10.
        yield from sorted(index.variables(), key=lambda var: (len(var.name), var.name))


def _axes_of(
    at: Sequence[Index], elements: Sequence[Element], lookups: Sequence[Lookup], folded: Sequence[Var]
) -> tuple[Var, ...]:
    """Return the axes in order: those of the place that is stored first, then others that elements use.

    A looked-up index stands for the axes that it is computed from.
    """
    by_var = {lookup.var: lookup for lookup in lookups}

    def expanded(indices: Iterable[Index]) -> Iterator[Var]:
        for var in _ordered(indices):
            if var in by_var:
                numbers = (number for number in linearise(by_var[var].value).inputs if number >= 0)
                yield from expanded(index for number in numbers for index in places_of(elements[number]))
            else:
                yield var

    places = [*at, *(index for e in elements for index in places_of(e))]
    axes = dict.fromkeys(var for var in expanded(places) if var.extent is not None and var not in folded)
    return tuple(axes)
