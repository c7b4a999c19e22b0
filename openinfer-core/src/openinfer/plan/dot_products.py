"""Products of bytes in dot products of four, on machines that have an instruction for these.

The image stays as it is in memory: where its bytes lie in a row along the folded axis, words of four are read from it;
elsewhere its bytes are read, and words made of them. The weights become words, and the constant part of each sum a
tensor of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, extent_of
from openinfer.compute import Read, Tensor
from openinfer.compute.dot_products import BYTES, dot_products_of, in_dot_products
from openinfer.dtypes import I32
from openinfer.ir.types import TensorType
from openinfer.layout import Digit, Layout, row_major
from openinfer.plan.steps import ValueRef
from openinfer.plan.values import NoMemory, PackedWeight, WeightMemory
from openinfer.plan.words import elements_of, word_array

if TYPE_CHECKING:
    from openinfer.compute import Stage
    from openinfer.compute.dot_products import DotProduct
    from openinfer.plan.steps import ComputeStep, Operand
    from openinfer.plan.values import PlanValue
    from openinfer.plan.words import Array


def with_dot_products(step: ComputeStep, values: list[PlanValue], weights: list[PackedWeight]) -> ComputeStep:
    """Return a step whose products of bytes are dot products; values and weights grow by the constants that it has.

    The layouts of values are known. A tensor of the computation may be words of a value of bytes: `in_words` is its
    layout then.
    """
    for place, stage in enumerate(step.computation.stages):
        products = dot_products_of(stage, _constants(step, values))
        possible = [p for p in products if _is_possible(step, stage, p, values, weights)]
        if possible:
            best = min(possible, key=lambda p: p.image_dim is None and not _is_in_row(step, stage, p, values))
            step = _rewritten(step, place, best, values, weights)
    return step


def in_words(layout: Layout, shape: tuple[Index, ...]) -> Layout:
    """Return the layout of the words of a tensor of bytes, four contiguous bytes each; ``shape`` is that of words."""
    *outer, last = layout.digits
    return Layout(shape, (*outer, Digit(last.dim, 1, Index.of((last.extent.constant or 0) // BYTES))), layout.halo)


def _constants(step: ComputeStep, values: list[PlanValue]) -> frozenset[str]:
    pairs = zip(step.computation.inputs, step.inputs, strict=True)
    return frozenset(tensor.name for tensor, operand in pairs if _weight_of(operand, values) is not None)


def _weight_of(operand: Operand, values: list[PlanValue]) -> int | None:
    """Return the number of the weight that an operand is; None: it is none."""
    if not isinstance(operand, ValueRef):
        return None
    memory = values[operand.value].memory
    return memory.number if isinstance(memory, WeightMemory) else None


def _operand(step: ComputeStep, tensor: str) -> Operand:
    return step.inputs[[each.name for each in step.computation.inputs].index(tensor)]


def _is_possible(
    step: ComputeStep, stage: Stage, product: DotProduct, values: list[PlanValue], weights: list[PackedWeight]
) -> bool:
    """Return whether nothing else reads the weight, and words of the image lie in a row in memory, or are made."""
    x, w = (stage.elements[number] for number in (product.image, product.weight))
    every = [e.tensor for s in step.computation.stages for e in s.elements if isinstance(e, Read)]
    names = {tensor.name for tensor in step.computation.inputs}
    if not isinstance(x, Read) or not isinstance(w, Read) or x.tensor not in names:
        return False
    if every.count(w.tensor) != 1:
        return False
    operand, number = _operand(step, x.tensor), _weight_of(_operand(step, w.tensor), values)
    if number is None or weights[number].layout is not None or not isinstance(operand, ValueRef):
        return False
    if product.image_dim is None:
        return True
    value = values[operand.value]
    # Only the arena is known to begin at a multiple of four bytes.
    if every.count(x.tensor) != 1 or not isinstance(value.memory, NoMemory):
        return False
    extent = extent_of(product.axis)
    if value.layout is None:
        return product.image_dim == len(value.type.shape) - 1 and extent % BYTES == 0
    digits = value.layout.digits
    if sum(digit.dim == product.image_dim for digit in digits) != 1 or digits[-1].dim != product.image_dim:
        return False
    room, has_halo = digits[-1].extent.constant, bool(value.layout.halo) and any(value.layout.halo[product.image_dim])
    return digits[-1].stride == 1 and room is not None and room % BYTES == 0 and room >= extent and not has_halo


def _is_in_row(step: ComputeStep, stage: Stage, product: DotProduct, values: list[PlanValue]) -> bool:
    """Return whether the bytes that make a word are neighbours in memory."""
    x = stage.elements[product.image]
    if not isinstance(x, Read):
        return False
    operand = _operand(step, x.tensor)
    layout = values[operand.value].layout if isinstance(operand, ValueRef) else None
    at = (layout or row_major(step.computation.tensor(x.tensor).shape)).address(x.at)
    return at.coefficient(product.axis) == 1


def _rewritten(
    step: ComputeStep, place: int, product: DotProduct, values: list[PlanValue], weights: list[PackedWeight]
) -> ComputeStep:
    computation, inputs = step.computation, list(step.inputs)
    stage = computation.stages[place]
    x, w = (stage.elements[number] for number in (product.image, product.weight))
    if not isinstance(x, Read) or not isinstance(w, Read) or stage.fold is None:
        raise TypeError("a dot product is the fold of two reads")
    names = [tensor.name for tensor in computation.inputs]
    number = _weight_of(_operand(step, w.tensor), values)
    weight = weights[number or 0]
    codes = elements_of(weight)
    tensors = list(computation.inputs)
    if product.image_dim is not None:
        image = tensors[names.index(x.tensor)]
        words = -(-extent_of(product.axis) // BYTES)
        shape = tuple(Index.of(words) if dim == product.image_dim else n for dim, n in enumerate(image.shape))
        tensors[names.index(x.tensor)] = Tensor(x.tensor, I32, shape)
    packed = word_array(_padded(codes, product.weight_dim), product.weight_dim, 0, 8)
    tensors[names.index(w.tensor)] = Tensor(w.tensor, I32, tuple(map(Index.of, packed.shape)))
    inputs[names.index(w.tensor)] = _constant(packed, weight, values, weights)
    factor = product.offset + _zero(step, stage, product, values, weights)
    name = None
    if factor:
        folded = {dim for dim, index in enumerate(w.at) if index.variables() & set(stage.fold.axes)}
        correction = (-factor * codes.sum(axis=tuple(folded), dtype=np.int64)).astype(np.int32)
        every = {*names, *(t.name for t in (*computation.outputs, *computation.temporaries))}
        name = next(n for number in range(len(every) + 1) if (n := f"x{number}") not in every)
        tensors.append(Tensor(name, I32, tuple(map(Index.of, correction.shape))))
        inputs.append(_constant(correction, weight, values, weights))
    stages = list(computation.stages)
    stages[place] = in_dot_products(stage, product, name)
    made = replace(computation, inputs=tuple(tensors), stages=tuple(stages))
    return replace(step, computation=made, inputs=tuple(inputs))


def _zero(
    step: ComputeStep, stage: Stage, product: DotProduct, values: list[PlanValue], weights: list[PackedWeight]
) -> int:
    """Return the zero point of the image."""
    read = None if product.zero is None else stage.elements[product.zero]
    if not isinstance(read, Read):
        return 0
    return int(elements_of(weights[_weight_of(_operand(step, read.tensor), values) or 0]).reshape(-1)[0])


def _padded(codes: Array, dim: int) -> Array:
    """Return elements with zeros after them along a dimension, up to whole words."""
    after = -codes.shape[dim] % BYTES
    return np.pad(codes, [(0, after if other == dim else 0) for other in range(codes.ndim)]) if after else codes


def _constant(array: Array, of: PackedWeight, values: list[PlanValue], weights: list[PackedWeight]) -> ValueRef:
    """Return a new constant that is made from a weight."""
    type_, memory = TensorType(I32, array.shape), WeightMemory(len(weights))
    data = np.ascontiguousarray(array).astype("<i4").reshape(-1).view(np.uint8).data.toreadonly()
    weights.append(PackedWeight(number=memory.number, source=of.source, type=type_, data=data))
    origin = next(v for v in values if isinstance(v.memory, WeightMemory) and v.memory.number == of.number)
    values.append(replace(origin, number=len(values), type=type_, memory=memory, layout=None))
    return ValueRef(len(values) - 1)
