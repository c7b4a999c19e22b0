"""Stages that read and write low floats as f32 which hold the same numbers.

What a low float rounds is rounded as before: a wide tensor has no other numbers than a narrow one. So a widened number
that is rounded to the same type again, or the larger of two, is itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.compute.stage import Read
from openinfer.dtypes import F32
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute.stage import Check, Computation, Element, Fold, Lookup, Stage
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr

_CHOOSES = {"minimum": 0, "maximum": 0, "select": 1, "neg": 0, "absolute": 0}
"""Functions whose result is one of their operands but for its sign, with the number of operands that choose."""


def with_wide_tensors(computation: Computation, low: Mapping[str, DType]) -> Computation:
    """Return a computation that has tensors in f32, by their names; ``low`` has the types that they had."""

    def widened(tensor_name: str, dtype: DType) -> DType:
        return F32 if tensor_name in low else dtype

    return replace(
        computation,
        inputs=tuple(replace(t, dtype=widened(t.name, t.dtype)) for t in computation.inputs),
        outputs=tuple(replace(t, dtype=widened(t.name, t.dtype)) for t in computation.outputs),
        temporaries=tuple(replace(t, dtype=widened(t.name, t.dtype)) for t in computation.temporaries),
        stages=tuple(_with_wide_elements(stage, low) for stage in computation.stages),
    )


def _with_wide_elements(stage: Stage, low: Mapping[str, DType]) -> Stage:
    wide = {
        number: element.dtype
        for number, element in enumerate(stage.elements)
        if isinstance(element, Read) and element.tensor in low
    }
    if not wide and stage.tensor not in low:
        return stage
    rewriting = _Rewriting(wide)
    value = tree.Apply("cast", (stage.value,), F32) if stage.tensor in low else stage.value
    return replace(
        stage,
        elements=tuple(_wide(element) if number in wide else element for number, element in enumerate(stage.elements)),
        value=rewriting.of(value),
        fold=None if stage.fold is None else rewriting.fold(stage.fold),
        lookups=tuple(map(rewriting.lookup, stage.lookups)),
        checks=tuple(map(rewriting.check, stage.checks)),
    )


def _wide(element: Element) -> Element:
    if not isinstance(element, Read) or element.fill is None:
        return replace(element, dtype=F32)
    return replace(element, dtype=F32, fill=tree.literal(element.fill.value, F32))


class _Rewriting:
    """Rewrites the expressions of a stage whose elements of some numbers are f32, once low floats."""

    def __init__(self, wide: Mapping[int, DType]) -> None:
        self._wide = wide
        # Shared parts stay shared: their number may grow exponentially without.
        self._made: dict[int, tuple[Expr, Expr]] = {}

    def fold(self, fold: Fold) -> Fold:
        totals = (
            replace(
                total,
                start=None if total.start is None else self.of(total.start),
                term=self.of(total.term),
                combine=self.of(total.combine),
            )
            for total in fold.totals
        )
        return replace(fold, totals=tuple(totals))

    def lookup(self, lookup: Lookup) -> Lookup:
        return replace(lookup, value=self.of(lookup.value))

    def check(self, check: Check) -> Check:
        return replace(check, refused=self.of(check.refused))

    def of(self, expr: Expr) -> Expr:
        """Return an expression over the wide elements."""
        if id(expr) not in self._made:
            self._made[id(expr)] = (expr, self._rewritten(expr))
        return self._made[id(expr)][1]

    def _rewritten(self, expr: Expr) -> Expr:
        match expr:
            case tree.Input(number, dtype) if number in self._wide:
                return tree.Apply("cast", (tree.Input(number, F32),), dtype)
            case tree.Apply(function, args, dtype):
                made = tree.Apply(function, tuple(map(self.of, args)), dtype)
                return self._once_rounded(made)
            case _:
                return expr

    def _once_rounded(self, expr: tree.Apply) -> Expr:
        """Return a number itself where it is rounded to a type that has it, and widened again."""
        match expr:
            case tree.Apply("cast", (tree.Apply("cast", (number,), low),), dtype) if (
                dtype is F32 and number.dtype is F32 and low.is_low_float and self._is_one_of(number, low)
            ):
                return number
            case _:
                return expr

    def _is_one_of(self, expr: Expr, low: DType) -> bool:
        """Return whether an f32 is certainly a number that a low float has."""
        match expr:
            case tree.Input(number, _):
                return self._wide.get(number) is low
            case tree.Literal(value, _):
                return bool(storage_dtype(low).type(value) == np.float32(value))
            case tree.Apply("cast", (number,), _):
                return number.dtype is low
            case tree.Apply(function, args, _) if function in _CHOOSES:
                return all(self._is_one_of(arg, low) for arg in args[_CHOOSES[function] :])
            case _:
                return False
