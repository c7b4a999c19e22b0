"""Computations with sizes of run time, from what an operator computes at sizes that are numbers.

Definitions of operators count with numbers. At several sizes they make the same stages with other numbers in them: a
number that is a polynomial in the sizes, at most linear in each, becomes that polynomial. What differs otherwise, or in
more than numbers, has no such form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Remainder, Var, Within
from openinfer.compute.stage import Computation, Fold, Position, Read, expressions_of
from openinfer.compute.verify import verify
from openinfer.dtypes import I32, I64
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine.index import Atom
    from openinfer.compute.stage import Element, Stage, Tensor
    from openinfer.expr.tree import Expr

Sizes = dict[str, int]

_NUMBER = re.compile(r"(-?\d+)")


class ParametricError(ValueError):
    """Computations at several sizes have no common form; the message says what differs."""


class UnevenError(ParametricError):
    """A number is not a polynomial in the sizes, as a quotient is not."""


def trials(bases: Mapping[str, Sequence[int]]) -> list[Sizes]:
    """Return the sizes at which `Family` needs to know what is computed.

    Args:
        bases: three different values of each parameter, by name.
    """
    first = {name: values[0] for name, values in bases.items()}
    found = [first, *({**first, name: values[1]} for name, values in bases.items())]
    found += [{**first, **{name: bases[name][1] for name in pair}} for pair in combinations(bases, 2)]
    return [*found, {name: values[2] for name, values in bases.items()}]


@dataclass(frozen=True, slots=True)
class Family:
    """Numbers, indices and computations as functions of parameters, from what they are at `trials`.

    Attributes:
        parameters: by name.
        trials: sizes, in the order of all samples.
    """

    parameters: Mapping[str, Var]
    trials: Sequence[Sizes]

    def number(self, values: Sequence[int]) -> Index:
        """Return the polynomial that has some values at the trials.

        Raises:
            ParametricError: none of the form that is looked for has.
        """
        if len(set(values)) == 1:
            return Index.of(values[0])
        first, names = self.trials[0], list(self.parameters)
        steps = {name: self.trials[1 + place][name] - first[name] for place, name in enumerate(names)}
        total = Index.of(values[0])
        slopes: dict[str, int] = {}
        for place, name in enumerate(names):
            slopes[name] = self._exact(values[1 + place] - values[0], steps[name], values)
            total = total + (Index.of(self.parameters[name]) - first[name]) * slopes[name]
        for place, (one, other) in enumerate(combinations(names, 2), 1 + len(names)):
            rest = values[place] - values[0] - slopes[one] * steps[one] - slopes[other] * steps[other]
            mixed = self._exact(rest, steps[one] * steps[other], values)
            offsets = [Index.of(self.parameters[name]) - first[name] for name in (one, other)]
            total = total + offsets[0] * offsets[1] * mixed
        for sizes, value in zip(self.trials, values, strict=True):
            if total.evaluate(sizes) != value:
                raise UnevenError(f"the number {values[0]} does not grow evenly with {', '.join(names)}")
        return total

    def _exact(self, change: int, step: int, values: Sequence[int]) -> int:
        if step == 0:
            return 0
        if change % step:
            raise UnevenError(f"the number {values[0]} does not grow evenly with {', '.join(self.parameters)}")
        return change // step

    def computation(self, samples: Sequence[Computation]) -> Computation:
        """Return the computation that is each of the samples at its trial.

        Raises:
            ParametricError: there is none.
            ComputationError: it may reach past its tensors.
        """
        first = samples[0]
        for field in ("name", "inputs", "outputs", "temporaries", "stages"):
            self._alike([getattr(each, field) if field == "name" else len(getattr(each, field)) for each in samples])
        made = Computation(
            first.name,
            tuple(self._tensor([s.inputs[i] for s in samples]) for i in range(len(first.inputs))),
            tuple(self._tensor([s.outputs[i] for s in samples]) for i in range(len(first.outputs))),
            tuple(self._stage([s.stages[i] for s in samples]) for i in range(len(first.stages))),
            tuple(self._tensor([s.temporaries[i] for s in samples]) for i in range(len(first.temporaries))),
            tuple(self.parameters.values()),
        )
        verify(made)
        return made

    def _alike(self, found: Sequence[object]) -> None:
        if any(each != found[0] for each in found):
            raise ParametricError(f"{found[0]} at some sizes is {found[-1]} at others")

    def _tensor(self, samples: Sequence[Tensor]) -> Tensor:
        self._alike([(s.name, s.dtype, len(s.shape)) for s in samples])
        return replace(samples[0], shape=self._indices([s.shape for s in samples], {}))

    def _stage(self, samples: Sequence[Stage]) -> Stage:
        first = samples[0]
        self._alike([(s.tensor, len(s.axes), len(s.elements), len(s.at), s.fold is None) for s in samples])
        self._alike([(len(s.checks), [lookup.var.name for lookup in s.lookups]) for s in samples])
        variables = self._variables([_bound(s) for s in samples])
        fold = first.fold
        if fold is not None:
            axes = tuple(variables[axis.name] for axis in fold.axes)
            self._alike([s.fold and (s.fold.order, s.fold.running, len(s.fold.totals)) for s in samples])
            fold = Fold(axes, fold.totals, fold.order, fold.running)
        elements = [self._element([s.elements[i] for s in samples], variables) for i in range(len(first.elements))]
        expressions = _Expressions(self, elements)
        rows = [expressions_of(s) for s in samples]
        self._alike([len(row) for row in rows])
        made = iter([expressions.common(column) for column in zip(*rows, strict=True)])
        value = next(made)
        if fold is not None:
            totals = [
                replace(
                    total,
                    start=None if total.start is None else next(made),
                    term=next(made),
                    combine=next(made),
                )
                for total in fold.totals
            ]
            fold = replace(fold, totals=tuple(totals))
        lookups = [
            replace(
                each,
                var=variables[each.var.name],
                value=next(made),
                rule=self._rule([s.lookups[i].rule for s in samples]),
            )
            for i, each in enumerate(first.lookups)
        ]
        return replace(
            first,
            axes=tuple(variables[axis.name] for axis in first.axes),
            elements=tuple(elements),
            value=value,
            at=self._indices([s.at for s in samples], variables),
            fold=fold,
            lookups=tuple(lookups),
            checks=tuple(
                replace(check, refused=next(made), rule=self._rule([s.checks[i].rule for s in samples]))
                for i, check in enumerate(first.checks)
            ),
        )

    def _rule(self, samples: Sequence[str]) -> str:
        """Return what is said of values that are refused, with the numbers in it as polynomials."""
        words = [_NUMBER.split(sample) for sample in samples]
        self._alike([each[::2] for each in words])
        numbers = [str(self.number([int(each) for each in column])) for column in list(zip(*words, strict=True))[1::2]]
        return "".join(word + number for word, number in zip(words[0][::2], (*numbers, ""), strict=True))

    def _variables(self, samples: Sequence[Sequence[Var]]) -> dict[str, Var]:
        self._alike([[var.name for var in s] for s in samples])
        found: dict[str, Var] = {}
        for column in zip(*samples, strict=True):
            extents = [var.extent for var in column]
            numbers = [extent for extent in extents if isinstance(extent, int)]
            if len(numbers) < len(extents):
                raise ParametricError(f"{column[0].name} has no extent")
            extent = self.number(numbers)
            known = extent.constant
            found[column[0].name] = Var(column[0].name, extent if known is None else known)
        return found

    def _element(self, samples: Sequence[Element], variables: Mapping[str, Var]) -> Element:
        first = samples[0]
        if isinstance(first, Position):
            positions = [s for s in samples if isinstance(s, Position)]
            self._alike([s.dtype if isinstance(s, Position) else None for s in samples])
            return Position(self._index([s.at for s in positions], variables), first.dtype)
        reads = [s for s in samples if isinstance(s, Read)]
        fills = [None if s.fill is None else linearise(s.fill) for s in reads]
        self._alike([(s.tensor, s.dtype, len(s.at), len(s.guards)) if isinstance(s, Read) else None for s in samples])
        self._alike(fills)
        guards = tuple(
            Within(
                self._index([s.guards[i].index for s in reads], variables),
                self._index([s.guards[i].extent for s in reads], variables),
            )
            for i in range(len(first.guards))
        )
        return replace(first, at=self._indices([s.at for s in reads], variables), guards=guards)

    def _indices(self, samples: Sequence[tuple[Index, ...]], variables: Mapping[str, Var]) -> tuple[Index, ...]:
        return tuple(self._index(list(column), variables) for column in zip(*samples, strict=True))

    def _index(self, samples: Sequence[Index], variables: Mapping[str, Var]) -> Index:
        """Return the index that is each of the samples at its trial; a missing term has the factor 0 there."""
        terms = [{tuple(map(_key, atoms)): (atoms, factor) for atoms, factor in s.terms} for s in samples]
        if any(len(found) < len(s.terms) for found, s in zip(terms, samples, strict=True)):
            raise ParametricError(f"{samples[0]} has terms of one form")
        total = Index()
        for key in dict.fromkeys(key for found in terms for key in found):
            factor = self.number([found[key][1] if key in found else 0 for found in terms])
            present = [found[key][0] for found in terms if key in found]
            for place in range(len(key)):
                factor = factor * self._atom([atoms[place] for atoms in present], len(samples), variables)
            total = total + factor
        return total

    def _atom(self, samples: Sequence[Atom], count: int, variables: Mapping[str, Var]) -> Index:
        first = samples[0]
        if isinstance(first, Var):
            return Index.of(variables[first.name])
        if len(samples) < count:
            raise ParametricError(f"{first.text} is there at some sizes only")
        parts = [s for s in samples if isinstance(s, Quotient | Remainder)]
        of, by = (self._index([getattr(s, part) for s in parts], variables) for part in ("of", "by"))
        try:
            return of // by if isinstance(first, Quotient) else of % by
        except ValueError as error:
            raise ParametricError(str(error)) from error


class _Expressions:
    """The expressions of a stage. A number that differs becomes the position of an index, a new element."""

    def __init__(self, family: Family, elements: list[Element]) -> None:
        self._family = family
        self._elements = elements

    def common(self, samples: Sequence[Expr]) -> Expr:
        return self._common(samples, {})

    def _common(self, samples: Sequence[Expr], done: dict[int, Expr]) -> Expr:
        first = samples[0]
        if id(first) not in done:
            done[id(first)] = self._made(samples, done)
        return done[id(first)]

    def _made(self, samples: Sequence[Expr], done: dict[int, Expr]) -> Expr:
        first = samples[0]
        if isinstance(first, tree.Apply):
            applied = [s for s in samples if isinstance(s, tree.Apply)]
            if any(s.function != first.function or len(s.args) != len(first.args) for s in applied):
                raise ParametricError(f"it computes {first.function} at some sizes only")
            if len(applied) < len(samples):
                raise ParametricError(f"it computes {first.function} at some sizes only")
            args = [self._common([s.args[i] for s in applied], done) for i in range(len(first.args))]
            return tree.Apply(first.function, tuple(args), first.dtype)
        if len({linearise(s) for s in samples}) == 1:
            return first
        values = [s.value for s in samples if isinstance(s, tree.Literal) and s.dtype in (I32, I64)]
        if len(values) < len(samples):
            raise ParametricError("it computes with other numbers at other sizes")
        self._elements.append(Position(self._family.number([int(value) for value in values]), first.dtype))
        return tree.Input(len(self._elements) - 1, first.dtype)


def _bound(stage: Stage) -> list[Var]:
    """Return the variables that a stage binds."""
    folded = () if stage.fold is None else stage.fold.axes
    return [*stage.axes, *folded, *(lookup.var for lookup in stage.lookups)]


def _key(atom: Atom) -> object:
    """Return what an atom is, whatever numbers are in it."""
    if isinstance(atom, Var):
        return atom.name
    return type(atom).__name__, frozenset(tuple(map(_key, atoms)) for atoms, _ in atom.of.terms)
