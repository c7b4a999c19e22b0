"""Computations that only copy: the elements of an operand in row-major order, under another shape or the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient
from openinfer.affine.index import Remainder
from openinfer.compute.stage import Read
from openinfer.expr.tree import Input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine.index import Atom
    from openinfer.compute.stage import Computation


def keeps_order(computation: Computation) -> bool:
    """Whether the one output has the elements of the one input in their order; False where that is not certain."""
    if not len(computation.inputs) == len(computation.outputs) == len(computation.stages) == 1:
        return False
    (source,), (target,), (stage,) = computation.inputs, computation.outputs, computation.stages
    if stage.fold is not None or stage.lookups or stage.checks or stage.tensor != target.name:
        return False
    if not isinstance(stage.value, Input) or not 0 <= stage.value.index < len(stage.elements):
        return False
    read = stage.elements[stage.value.index]
    if not isinstance(read, Read) or read.tensor != source.name or read.fill is not None:
        return False
    if _size(source.shape) != _size(target.shape):
        return False
    single = {axis: Index() for axis in stage.axes if axis.extent == 1}
    places = ((read.at, source.shape), (stage.at, target.shape))
    first, second = (_expanded(_address(at, shape).substituted(single)) for at, shape in places)
    return first == second


def _size(shape: Sequence[Index]) -> Index:
    size = Index.of(1)
    for extent in shape:
        size = size * extent
    return size


def _address(at: Sequence[Index], shape: Sequence[Index]) -> Index:
    address = Index()
    for index, extent in zip(at, shape, strict=True):
        address = address * extent + index
    return address


def _expanded(index: Index) -> Index:
    """Return an index with ``a % b`` written as ``a - b * (a // b)``: digits of one number add up to it again."""
    total = Index()
    for atoms, factor in index.terms:
        product = Index.of(factor)
        for atom in atoms:
            product = product * _without_remainder(atom)
        total = total + product
    return total


def _without_remainder(atom: Atom) -> Index:
    match atom:
        case Remainder(of, by):
            inner = _expanded(of)
            return inner - _quotient(inner, by) * by
        case Quotient(of, by):
            return _quotient(_expanded(of), by)
        case _:
            return Index.of(atom)


def _quotient(of: Index, by: Index) -> Index:
    """Return ``of // by``, where ``(a + b // c) // d`` is ``(a * c + b) // (c * d)``."""
    for atoms, factor in of.terms:
        match atoms:
            case (Quotient(inner, divisor) as atom,) if factor == 1:
                return _quotient((of - Index.of(atom)) * divisor + inner, by * divisor)
            case _:
                continue
    return of // by
