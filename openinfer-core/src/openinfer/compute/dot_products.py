"""Sums of products of bytes, four at a time: both operands are read as words along one folded axis.

Where the bytes of the image do not share a word in memory, as those below one another in a window, a word is made of
them. It takes a few instructions, which the terms of neighbouring windows share.

``sum (x - z) w`` over bytes is ``sum dot4(x + b, w) - (b + z) sum w``, where ``b`` is 128 for bytes with sign, whose
highest bit is changed for it, and 0 for others. The second sum is a constant for each result where ``w`` is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, extent_of
from openinfer.compute.stage import Read, Total
from openinfer.compute.substitution import moved
from openinfer.dtypes import I8, I32, U8, Kind
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from openinfer.compute.stage import Element, Fold, Stage
    from openinfer.expr.tree import Expr

BYTES = 4
"""Elements of a word."""


@dataclass(frozen=True, slots=True)
class DotProduct:
    """The bytes that the terms of a fold multiply, and the axis along which four share a word.

    Attributes:
        image: number of the element ``x``.
        weight: that of ``w``, which is a constant.
        zero: that of ``z``; None: there is none.
        axis: the folded axis; no other element uses it.
        image_dim, weight_dim: the dimensions that it walks. ``image_dim`` is None where words are made of bytes.
        offset: ``b`` of the formula of this module: 128 for bytes with sign, 0 for others.
        signed: whether bytes of the image are multiplied with their sign.
    """

    image: int
    weight: int
    zero: int | None
    axis: Var
    image_dim: int | None
    weight_dim: int
    offset: int
    signed: bool


@dataclass(frozen=True, slots=True)
class _Factors:
    """The numbers of ``x``, ``w`` and ``z`` in `DotProduct`."""

    image: int
    weight: int
    zero: int | None


def dot_products_of(stage: Stage, constants: frozenset[str], *, signed: bool = False) -> tuple[DotProduct, ...]:
    """Return the ways in which the terms of a stage multiply four bytes at a time, the best first.

    Nothing unless they are products of bytes with a constant. Words that are read are better than those made of bytes,
    and of these such that use all four of them.

    Args:
        constants: names of the tensors that are known.
        signed: whether the machine multiplies two bytes with sign, in place of one without and one with sign.
    """
    fold, factors = stage.fold, _factors_of(stage, constants)
    if fold is None or factors is None:
        return ()
    x, w = stage.elements[factors.image], stage.elements[factors.weight]
    if not isinstance(x, Read) or not isinstance(w, Read):
        return ()
    if signed and x.dtype is not I8:
        return ()
    offset = 128 if x.dtype is I8 and not signed else 0
    whole: list[DotProduct] = []
    made: list[DotProduct] = []
    for axis in _free_axes(stage, fold, factors):
        dims = [_alone(axis, read) for read in (x, w)]
        if dims[1] is None:
            continue
        product = DotProduct(factors.image, factors.weight, factors.zero, axis, dims[0], dims[1], offset, signed)
        if dims[0] is not None:
            whole.append(product)
        if extent_of(axis) == BYTES - 1 or extent_of(axis) % BYTES == 0:
            made.append(replace(product, image_dim=None))
    return (*whole, *sorted(made, key=lambda product: extent_of(product.axis) % BYTES))


def _factors_of(stage: Stage, constants: frozenset[str]) -> _Factors | None:
    fold = stage.fold
    if fold is None or fold.running or len(fold.totals) != 1 or stage.lookups or stage.checks:
        return None
    match fold.totals[0]:
        case Total(tree.Literal(0) | tree.Input(), tree.Apply("mul", (left, right), dtype), combine) if dtype is I32:
            if linearise(combine) != linearise(tree.add(tree.Input(~0, I32), tree.Input(~1, I32))):
                return None
        case _:
            return None
    return _factors(stage, left, right, constants) or _factors(stage, right, left, constants)


def _factors(stage: Stage, first: Expr, second: Expr, constants: frozenset[str]) -> _Factors | None:
    """Return ``x - z`` and ``w``, if that is what two factors are."""
    weight, (image, zero) = _cast_input(second), _difference(first)
    if weight is None or image is None:
        return None
    x, w = stage.elements[image], stage.elements[weight]
    z = None if zero is None else stage.elements[zero]
    if not isinstance(x, Read) or not isinstance(w, Read) or x.dtype not in (I8, U8) or x.tensor in constants:
        return None
    if w.tensor not in constants or w.fill is not None or x.guards:
        return None
    if not (w.dtype.kind is Kind.SIGNED or (w.dtype.kind is Kind.UNSIGNED and w.dtype.bits < 8)):
        return None
    # What lies outside of the image counts for nothing, but z times w would.
    if zero is not None and (not isinstance(z, Read) or z.tensor not in constants or z.at or x.fill is not None):
        return None
    if any(number in linearise(stage.value).inputs for number in (image, weight)):
        return None
    return _Factors(image, weight, zero)


def _free_axes(stage: Stage, fold: Fold, factors: _Factors) -> list[Var]:
    """Return the folded axes that nothing but the image and the weight uses."""
    own = (factors.image, factors.weight)
    others = [e for number, e in enumerate(stage.elements) if number not in own and isinstance(e, Read)]
    used = {axis for e in others for index in e.at for axis in index.variables()}
    return [axis for axis in fold.axes if isinstance(axis.extent, int) and axis.extent >= 2 and axis not in used]


def _cast_input(expr: Expr) -> int | None:
    match expr:
        case tree.Apply("cast", (tree.Input(number, _),), _) if number >= 0:
            return number
        case _:
            return None


def _difference(expr: Expr) -> tuple[int | None, int | None]:
    """Return the numbers of x and z in ``x - z``, or of x alone."""
    match expr:
        case tree.Apply("sub", (x, z), _):
            zero = _cast_input(z)
            return (None, None) if zero is None else (_cast_input(x), zero)
        case _:
            return _cast_input(expr), None


def _alone(axis: Var, read: Read) -> int | None:
    """Return the dimension of which an axis is the index, if it occurs nowhere else in a read."""
    dims = [dim for dim, index in enumerate(read.at) if axis in index.variables()]
    return dims[0] if len(dims) == 1 and read.at[dims[0]] == Index.of(axis) else None


def in_dot_products(stage: Stage, product: DotProduct, correction: str | None) -> Stage:
    """Return a stage that multiplies four bytes at a time.

    Its weight has words where it had four elements along the axis, and so has the image unless words are made of its
    bytes. The sums begin with ``correction``, a tensor of i32 of the shape of the results along the axes of the weight
    that are not folded, and what they begin with otherwise; None: with that alone.
    """
    fold, x, w = stage.fold, stage.elements[product.image], stage.elements[product.weight]
    if fold is None or not isinstance(x, Read) or not isinstance(w, Read):
        raise TypeError("a dot product is the fold of two reads")
    taken = {var.name for var in stage.all_axes}
    name = next(n for number in count() if (n := f"i{number}") not in taken)
    quotient = Var(name, -(-extent_of(product.axis) // BYTES))
    elements: list[Element] = list(stage.elements)
    elements[product.weight] = Read(w.tensor, _words(w, product.weight_dim, quotient), I32)
    image: Expr
    if product.image_dim is None:
        image = _gathered(elements, product, quotient)
    else:
        fill = None if x.fill is None else tree.literal(repeated_byte(int(x.fill.value)), I32)
        elements[product.image] = Read(x.tensor, _words(x, product.image_dim, quotient), I32, fill, x.guards)
        image = tree.Input(product.image, I32)
    if product.offset:
        image = tree.bit_xor(image, tree.literal(-(1 << 31) + 0x00808080, I32))
    start = fold.totals[0].start
    if correction is not None:
        added = tree.Input(len(elements), I32)
        elements.append(Read(correction, own_places(stage, product), I32))
        start = tree.add(start, added) if isinstance(start, tree.Input) else added
    dot = tree.sdot4 if product.signed else tree.dot4
    term = dot(image, tree.Input(product.weight, I32), tree.literal(0, I32))
    axes = tuple(quotient if axis == product.axis else axis for axis in fold.axes)
    total = Total(start, term, fold.totals[0].combine)
    return replace(stage, elements=tuple(elements), fold=replace(fold, axes=axes, totals=(total,)))


def repeated_byte(byte: int) -> int:
    """Return the i32 of which every byte is one."""
    return int.from_bytes(bytes([byte & 0xFF] * BYTES), "little", signed=True)


def _gathered(elements: list[Element], product: DotProduct, quotient: Var) -> Expr:
    """Return the word of the bytes that an image has along an axis; elements grow by the reads of these."""
    read = elements[product.image]
    parts: list[Expr] = [tree.literal(0, read.dtype)] * BYTES
    for term in range(min(extent_of(product.axis), BYTES)):
        number = len(elements) if term else product.image
        part = moved(read, {product.axis: quotient * BYTES + term})
        if term:
            elements.append(part)
        else:
            elements[number] = part
        parts[term] = tree.Input(number, read.dtype)
    return tree.word(*parts)


def own_places(stage: Stage, product: DotProduct) -> tuple[Index, ...]:
    """Return the places of the weight in the dimensions that no folded axis walks."""
    w, folded = stage.elements[product.weight], () if stage.fold is None else stage.fold.axes
    if not isinstance(w, Read):
        raise TypeError("the weight of a dot product is read")
    return tuple(index for index in w.at if not index.variables() & set(folded))


def _words(read: Read, dim: int, quotient: Var) -> tuple[Index, ...]:
    return (*read.at[:dim], Index.of(quotient), *read.at[dim + 1 :])
