"""Broadcasting of extents that are sizes: one form for equal extents and for those that are 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.affine import Index, Var
from openinfer.dims.asking import CURRENT
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.dim import index_of, made
from openinfer.dims.lets import Let, LetKind, common, stride

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims.asking import Asked


def joined(extents: Sequence[Any]) -> tuple[Any, Any] | None:
    """Return the extent that some broadcast to, and one that is neither equal to it nor 1, or None where all are.

    None: the rule that runs asks which of them are 1, or that is certain.
    """
    asked = CURRENT.get()
    if asked is None or not asked.joins:
        return None
    apart = [extent for extent in map(index_of, extents) if _is_one(extent, asked) is not True]
    apart = list(dict.fromkeys(apart))
    wide = [extent for extent in apart if _is_one(extent, asked) is False]
    if len(apart) == len(wide) or _are_equal(apart, asked):
        return None
    # A number that is not 1 is what the others broadcast to.
    whole = min(wide, key=lambda extent: extent.constant is None) if wide else common(apart)
    mismatch = next((extent for extent in _tested(whole, apart) if not _stretches(extent, whole, asked)), None)
    return made(whole, asked), None if mismatch is None else made(mismatch, asked)


def stretches(extent: Any, whole: Any) -> bool:
    """Return whether a dim of ``extent`` broadcasts to one of ``whole``: it is equal, or 1."""
    asked = CURRENT.get()
    if asked is None or not asked.joins:
        return extent in (1, whole)
    own, other = index_of(extent), index_of(whole)
    is_certain = _is_one(own, asked) or asked.certain(Condition(other - own, Relation.EQUAL))
    return is_certain or _stretches(own, other, asked)


def stride_of(extent: Any) -> Any:
    """Return how far one place of a broadcast dim is from the next where a dim of ``extent`` is broadcast: 0 or 1."""
    asked, index = CURRENT.get(), index_of(extent)
    return int(extent != 1) if asked is None else made(_stride(index, asked), asked)


def place_of(place: Index | Var, extent: Index) -> Index:
    """Return the place in a dim of ``extent`` that belongs to an axis of what it is broadcast to."""
    if extent.constant == 1:
        return Index()
    index, asked = Index.of(place), CURRENT.get()
    axis = next(iter(index.variables()), None)
    if asked is None or not asked.joins or axis is None or axis.extent is None or index != Index.of(axis):
        return index
    is_whole = asked.certain(Condition(extent - axis.extent, Relation.EQUAL))
    return index if is_whole else index * _stride(extent, asked)


def broadcast_parts(index: Index) -> tuple[Index, ...]:
    """Return the extents of which an index demands that they are equal or 1; none: it is not a guard of `joined`."""
    for var in index.variables():
        if isinstance(var, Let) and var.kind is LetKind.STRIDE:
            (extent,) = var.parts
            rest = index.substituted({var: Index()})
            # The sign of an equation is open.
            factor = index.substituted({var: Index.of(1)}) - rest
            whole = next((side for side in (factor + extent, extent - factor) if _is_apart(side, extent)), None)
            if rest == Index() and whole is not None:
                let = next((var for var in whole.variables() if whole == Index.of(var)), None)
                return let.parts if isinstance(let, Let) and let.kind is LetKind.COMMON else (whole, extent)
    return ()


def _is_apart(whole: Index, extent: Index) -> bool:
    return not extent.variables() & whole.variables()


def _tested(whole: Index, extents: Sequence[Index]) -> list[Index]:
    """Return the extents that may differ from what is common, which is the first of its parts that is not 1."""
    let = next(iter(whole.variables()), None)
    first = let.parts[0] if isinstance(let, Let) and whole == Index.of(let) else whole
    return [extent for extent in extents if extent != first]


def _stretches(extent: Index, whole: Index, asked: Asked) -> bool:
    return asked.decide(Condition((whole - extent) * _stride(extent, asked), Relation.EQUAL))


def _stride(extent: Index, asked: Asked) -> Index:
    is_one = _is_one(extent, asked)
    return stride(extent) if is_one is None else Index.of(int(not is_one))


def _is_one(extent: Index, asked: Asked) -> bool | None:
    return asked.certain(Condition(extent - 1, Relation.EQUAL))


def _are_equal(extents: Sequence[Index], asked: Asked) -> bool:
    return all(asked.certain(Condition(extents[0] - extent, Relation.EQUAL)) for extent in extents[1:])
