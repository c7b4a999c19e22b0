"""Zero points of images, taken out of sums of products: ``sum (x - z) w`` is ``sum x w - z sum w``.

The second sum is a constant for each result where ``w`` and ``z`` are constants, so that the total begins with it, and
with a bias that is added to the total anyway. Places past the border of the image, which count for nothing in the
first form, hold ``z`` in the second. All of it is exact modulo 2^32, as sums of i32 are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within
from openinfer.compute.exact_sums import factors_of_sum
from openinfer.compute.modular_sums import with_used_elements
from openinfer.compute.stage import Read
from openinfer.dtypes import I32
from openinfer.expr import tree

if TYPE_CHECKING:
    from openinfer.compute.stage import Computation, Fold, Stage
    from openinfer.expr.tree import Expr


@dataclass(frozen=True, slots=True)
class OffsetSum:
    """A sum of the products of an image with weights, less the zero point of the image.

    Attributes:
        image, weight: numbers of the elements.
        zero: number of the zero point; None: the image has none.
        bias: number of an element that the total is added to, and to nothing else; None: there is none.
    """

    image: int
    weight: int
    zero: int | None
    bias: int | None


def offset_sum(stage: Stage, computation: Computation) -> OffsetSum | None:
    """Return the parts of a sum of products of small integers; None: it is something else, or its border is."""
    factors = None if stage.lookups or stage.checks else factors_of_sum(stage)
    if factors is None:
        return None
    for image, weight in (factors, factors[::-1]):
        x, z = _difference(image)
        w = _cast_input(weight)
        if x is None or w is None or not _is_read_whole(stage, computation, w):
            continue
        if _is_border(stage, computation, x, z):
            return OffsetSum(x, w, z, _bias(stage))
    return None


def without_zero_point(stage: Stage, parts: OffsetSum, zero: int, start: str) -> Stage:
    """Return a stage whose total begins with a tensor, and whose image holds its zero point past the border.

    Args:
        zero: the value of the zero point.
        start: name of an i32 of the shape of the weight without its folded dimensions: its bias, less ``zero`` times
            the sum of the weights.
    """
    fold, x, w = stage.fold, stage.elements[parts.image], stage.elements[parts.weight]
    if fold is None or not isinstance(x, Read) or not isinstance(w, Read):
        raise TypeError("a sum of products is the fold of two reads")
    elements = list(stage.elements)
    if x.fill is not None and parts.zero is not None:
        elements[parts.image] = replace(x, fill=tree.literal(zero, x.dtype), guards=())
    first = tree.Input(len(elements), I32)
    elements.append(Read(start, own_places(w, fold), I32))
    term = tree.mul(*(tree.cast(tree.Input(n, stage.elements[n].dtype), I32) for n in (parts.image, parts.weight)))
    total = replace(fold.totals[0], start=first, term=term)
    value = stage.value if parts.bias is None else _without_bias(stage.value, parts.bias)
    made = replace(stage, elements=tuple(elements), value=value, fold=replace(fold, totals=(total,)))
    return with_used_elements(made)


def own_places(weight: Read, fold: Fold) -> tuple[Index, ...]:
    """Return the places of a weight in the dimensions that no folded axis walks."""
    return tuple(index for index in weight.at if not index.variables() & set(fold.axes))


def _is_border(stage: Stage, computation: Computation, image: int, zero: int | None) -> bool:
    """Whether a zero point counts where its image is read, and neither counts past the border, which it can fill."""
    x = stage.elements[image]
    if not isinstance(x, Read):
        return False
    if zero is None:
        return True
    z = stage.elements[zero]
    if not isinstance(z, Read) or z.at:
        return False
    if x.fill is None or z.fill is None:
        return x.fill is None and z.fill is None
    border = map(Within, x.at, computation.tensor(x.tensor).shape)
    is_same = {test for test in border if not test.is_certain} == {test for test in z.guards if not test.is_certain}
    return is_same and x.fills_zeros and z.fills_zeros and not x.guards and z.dtype is x.dtype


def _is_read_whole(stage: Stage, computation: Computation, number: int) -> bool:
    """Whether a sum reads each element of a weight once: folded axes walk whole dims, one each."""
    read, fold = stage.elements[number], stage.fold
    if not isinstance(read, Read) or read.fill is not None or fold is None:
        return False
    shape = computation.tensor(read.tensor).shape
    walked = [(at, size) for at, size in zip(read.at, shape, strict=True) if at.variables() & set(fold.axes)]
    whole = [(Index.of(axis), Index.of(axis.extent)) for axis in fold.axes if axis.extent is not None]
    return len(walked) == len(fold.axes) and set(walked) == set(whole)


def _bias(stage: Stage) -> int | None:
    """Return the element that the total is added to where it is used once; None: there is none."""
    biases: set[int | None] = set()
    _collect(stage.value, biases)
    return biases.pop() if len(biases) == 1 else None


def _collect(expr: Expr, biases: set[int | None]) -> None:
    """Add the elements that a total is added to, and None for other uses of it."""
    if _added(expr) is not None:
        biases.add(_added(expr))
    elif isinstance(expr, tree.Input):
        biases |= {None} if expr.index == ~0 else set()
    elif isinstance(expr, tree.Apply):
        for operand in expr.args:
            _collect(operand, biases)


def _added(expr: Expr) -> int | None:
    match expr:
        case tree.Apply("add", (tree.Input(a), tree.Input(b)), dtype) if dtype is I32 and ~0 in (a, b):
            other = b if a == ~0 else a
            return other if other >= 0 else None
        case _:
            return None


def _without_bias(expr: Expr, bias: int) -> Expr:
    if _added(expr) == bias:
        return tree.Input(~0, I32)
    if isinstance(expr, tree.Apply):
        return tree.Apply(expr.function, tuple(_without_bias(a, bias) for a in expr.args), expr.dtype)
    return expr


def _difference(factor: Expr) -> tuple[int | None, int | None]:
    """Return the numbers of x and z in ``x - z``, or of x alone."""
    match factor:
        case tree.Apply("sub", (x, z), _):
            image, zero = _cast_input(x), _cast_input(z)
            return (None, None) if zero is None else (image, zero)
        case _:
            return _cast_input(factor), None


def _cast_input(expr: Expr) -> int | None:
    match expr:
        case tree.Apply("cast", (tree.Input(number, _),), _) if number >= 0:
            return number
        case _:
            return None
