"""Products of bytes in dot products of four, on machines that have an instruction for these.

The image stays as it is in memory: where its bytes lie in a row along the folded axis, words of four are read from it;
elsewhere its bytes are read, and words made of them. The weights become words, and the constant part of each sum a
tensor of its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, extent_of
from openinfer.compute import Read, Tensor
from openinfer.compute.dot_products import BYTES, dot_products_of, in_dot_products, repeated_byte
from openinfer.dtypes import I32
from openinfer.layout import Digit, Layout, row_major
from openinfer.plan.step_edits import (
    free_name,
    operands_by_tensor,
    tensors_of,
    with_further_input,
    with_input,
    with_stage,
)
from openinfer.plan.steps import ValueRef
from openinfer.plan.values import InputMemory, NoMemory, ViewMemory
from openinfer.plan.words import word_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Stage
    from openinfer.compute.dot_products import DotProduct
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import ComputeStep, Operand
    from openinfer.plan.values import Memory, PlanValue
    from openinfer.plan.words import Array


def with_dot_products(step: ComputeStep, data: PlanData, *, signed: bool = False, are_made: bool = True) -> ComputeStep:
    """Return a step whose products of bytes are dot products; the data of its plan grows by the constants that it has.

    The layouts of values are known. A tensor of the computation may be words of a value of bytes: `in_words` is its
    layout then.

    Args:
        signed: whether the machine multiplies two bytes with sign.
        are_made: whether words may be made of bytes that do not lie in a row.
    """
    for number, stage in enumerate(step.computation.stages):
        products = dot_products_of(stage, _constants(step, data), signed=signed)
        possible = [p for p in products if _is_possible(step, stage, p, data) and (are_made or p.image_dim is not None)]
        if possible:
            best = min(possible, key=lambda p: p.image_dim is None and not _is_in_row(step, stage, p, data))
            step = _rewritten(step, number, best, data)
    return step


def in_words(layout: Layout, shape: tuple[Index, ...]) -> Layout:
    """Return the layout of the words of a tensor of bytes, four contiguous bytes each; ``shape`` is that of words."""
    *outer, last = layout.digits
    words = Digit(last.dim, 1, last.extent // BYTES)
    return Layout(shape, (*outer, words), layout.halo, repeated_byte(layout.fill))


def in_bytes(layout: Layout) -> Layout:
    """Return the layout of the bytes of a tensor of words in row-major order, which `in_words` takes back."""
    *outer, last = layout.digits
    shape = (*layout.shape[:-1], layout.shape[-1] * BYTES)
    return Layout(shape, (*outer, Digit(last.dim, 1, last.extent * BYTES)))


def layouts_of_step(step: ComputeStep, values: Sequence[PlanValue]) -> dict[str, Layout]:
    """Return where the tensors of a step lie; those of words lie in the bytes of their values."""
    operands = operands_by_tensor(step)
    return {
        tensor.name: _layout_of(operands[tensor.name], tensor, values) or row_major(tensor.shape)
        for tensor in tensors_of(step.computation)
    }


def _layout_of(operand: Operand, tensor: Tensor, values: Sequence[PlanValue]) -> Layout | None:
    value = values[operand.value] if isinstance(operand, ValueRef) else None
    if value is None or value.layout is None:
        return None
    if isinstance(value.memory, ViewMemory):
        return replace(value.layout, shape=tensor.shape)
    return value.layout if value.type.dtype is tensor.dtype else in_words(value.layout, tensor.shape)


def _constants(step: ComputeStep, data: PlanData) -> frozenset[str]:
    pairs = zip(step.computation.inputs, step.inputs, strict=True)
    return frozenset(tensor.name for tensor, operand in pairs if data.arrays(operand))


def unaligned_images(step: ComputeStep, data: PlanData) -> tuple[int, ...]:
    """Return the values of the caller that a step with products of signed bytes reads in words from a copy."""
    images: list[int] = []
    for stage in step.computation.stages:
        for product in dot_products_of(stage, _constants(step, data), signed=True):
            x = stage.elements[product.image]
            if product.image_dim is None or not isinstance(x, Read):
                continue
            if _is_possible(step, stage, product, data, InputMemory):
                images.extend(o.value for o in (operands_by_tensor(step)[x.tensor],) if isinstance(o, ValueRef))
    return tuple(dict.fromkeys(images))


def _is_possible(
    step: ComputeStep, stage: Stage, product: DotProduct, data: PlanData, memory: type[Memory] = NoMemory
) -> bool:
    """Return whether nothing else reads the weight, and words of the image lie in a row in memory, or are made.

    Args:
        memory: where words are read from. Only the arena is known to begin at a multiple of four bytes.
    """
    x, w = (stage.elements[number] for number in (product.image, product.weight))
    every = [e.tensor for s in step.computation.stages for e in s.elements if isinstance(e, Read)]
    names = {tensor.name for tensor in step.computation.inputs}
    if not isinstance(x, Read) or not isinstance(w, Read) or x.tensor not in names:
        return False
    if every.count(w.tensor) != 1:
        return False
    operand = operands_by_tensor(step)[x.tensor]
    if not data.arrays(operands_by_tensor(step)[w.tensor]) or not isinstance(operand, ValueRef):
        return False
    if product.image_dim is None:
        return True
    value = data.values[operand.value]
    if every.count(x.tensor) != 1 or not isinstance(value.memory, memory):
        return False
    extent = extent_of(product.axis)
    if value.layout is None:
        return product.image_dim == len(value.type.shape) - 1 and extent % BYTES == 0
    digits = value.layout.digits
    if sum(digit.dim == product.image_dim for digit in digits) != 1 or digits[-1].dim != product.image_dim:
        return False
    room, has_halo = digits[-1].extent.constant, bool(value.layout.halo) and any(value.layout.halo[product.image_dim])
    return digits[-1].stride == 1 and room is not None and room % BYTES == 0 and room >= extent and not has_halo


def _is_in_row(step: ComputeStep, stage: Stage, product: DotProduct, data: PlanData) -> bool:
    """Return whether the bytes that make a word are neighbours in memory."""
    x = stage.elements[product.image]
    if not isinstance(x, Read):
        return False
    operand = operands_by_tensor(step)[x.tensor]
    layout = data.values[operand.value].layout if isinstance(operand, ValueRef) else None
    at = (layout or row_major(step.computation.tensor(x.tensor).shape)).address(x.at)
    return at.coefficient(product.axis) == 1


def _rewritten(step: ComputeStep, number: int, product: DotProduct, data: PlanData) -> ComputeStep:
    stage = step.computation.stages[number]
    x, w = (stage.elements[number] for number in (product.image, product.weight))
    if not isinstance(x, Read) or not isinstance(w, Read) or stage.fold is None:
        raise TypeError("a dot product is the fold of two reads")
    operands = operands_by_tensor(step)
    weight, factor, name = operands[w.tensor], product.offset + _zero(operands, stage, product, data), None
    if product.image_dim is not None:
        words = -(-extent_of(product.axis) // BYTES)
        image = step.computation.tensor(x.tensor).shape
        shape = tuple(Index.of(words) if dim == product.image_dim else n for dim, n in enumerate(image))
        step = with_input(step, Tensor(x.tensor, I32, shape), operands[x.tensor])
    packed = data.constant([weight], partial(_words, product.weight_dim), I32)
    step = with_input(step, Tensor(w.tensor, I32, _shape(packed, data)), packed)
    if factor:
        folded = tuple(dim for dim, index in enumerate(w.at) if index.variables() & set(stage.fold.axes))
        correction = data.constant([weight], partial(_correction, factor, folded), I32)
        name = free_name(step.computation, "x")
        step = with_further_input(step, Tensor(name, I32, _shape(correction, data)), correction)
    return with_stage(step, number, in_dot_products(stage, product, name))


def _words(dim: int, codes: Array) -> Array:
    return word_array(_padded(codes, dim), dim, 0, 8)


def _correction(factor: int, folded: tuple[int, ...], codes: Array) -> Array:
    """Return what sums begin with whose image was changed by ``factor``."""
    return np.asarray(-factor * codes.sum(axis=folded, dtype=np.int64)).astype(np.int32)


def _zero(operands: Mapping[str, Operand], stage: Stage, product: DotProduct, data: PlanData) -> int:
    """Return the zero point of the image."""
    read = None if product.zero is None else stage.elements[product.zero]
    arrays = data.arrays(operands[read.tensor]) if isinstance(read, Read) else None
    return int(arrays[0].reshape(-1)[0]) if arrays else 0


def _shape(operand: Operand, data: PlanData) -> tuple[Index, ...]:
    return tuple(map(Index.of, (data.arrays(operand) or [])[0].shape))


def _padded(codes: Array, dim: int) -> Array:
    """Return elements with zeros after them along a dimension, up to whole words."""
    after = -codes.shape[dim] % BYTES
    return np.pad(codes, [(0, after if other == dim else 0) for other in range(codes.ndim)]) if after else codes
