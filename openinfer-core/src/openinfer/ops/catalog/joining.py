"""Several tensors side by side in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import EVERY
from openinfer.ops.schema import (
    Compute,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import axis_of, integer, needed, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import DefineStages, InferTypes

    Settings = Mapping[str, SettingValue]

CATEGORY = "movement"


def _concat_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    first, given = needed(inputs), [needed(inputs, place) for place in range(len(inputs))]
    axis = axis_of(integer(settings.get("axis"), "axis"), len(first.shape))
    kept = _without(first.shape, axis)
    for place, other in enumerate(given):
        if len(other.shape) != len(first.shape) or _without(other.shape, axis) != kept:
            raise OpTypeError(
                f"input 1 of concat is {first} and input {place + 1} is {other}: only dim {axis} may differ"
            )
    joined = sum(each.shape[axis] for each in given)
    return (TensorType(first.dtype, (*first.shape[:axis], joined, *first.shape[axis + 1 :])),)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _stack_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    first, given = needed(inputs), [needed(inputs, place) for place in range(len(inputs))]
    for place, other in enumerate(given):
        if other.shape != first.shape:
            raise OpTypeError(
                f"inputs of stack have one shape: first {shown(first.shape)}, number {place + 1} {shown(other.shape)}"
            )
    axis = axis_of(integer(settings.get("axis"), "axis"), len(first.shape) + 1)
    return (TensorType(first.dtype, (*first.shape[:axis], len(given), *first.shape[axis:])),)


def _concat(k: Builder, call: OpCall) -> None:
    axis, start = axis_of(integer(call.settings.get("axis"), "axis"), len(call.outputs[0].shape)), Index()
    for x in k.given:
        at = k.axes(*x.shape)
        k.outputs[0][(*at[:axis], at[axis] + start, *at[axis + 1 :])] = x[at]
        start = start + x.shape[axis]


def _stack(k: Builder, call: OpCall) -> None:
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(call.outputs[0].shape))
    for number, x in enumerate(k.given):
        at = k.axes(*x.shape)
        k.outputs[0][(*at[:axis], number, *at[axis:])] = x[at]


def _joining(
    name: str,
    infer: InferTypes,
    define: DefineStages,
    axis: SettingSpec,
    summary: str,
    onnx: str,
    examples: tuple[OpExample, ...],
) -> OpSchema:
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x", variadic=True),),
        dtypes=EVERY,
        settings=(axis,),
        infer=infer,
        definition=Compute(define),
        in_place=True,
        onnx=onnx,
        examples=examples,
    )


def _example(axis: int, *shapes: tuple[int, ...]) -> OpExample:
    return OpExample(inputs=tuple(Operand(shape=shape) for shape in shapes), settings={"axis": axis})


CONCAT = _joining(
    "concat",
    _concat_types,
    _concat,
    SettingSpec(name="axis", type=SettingType.INT, doc="the dim along which they are joined"),
    "the inputs one after the other along a dim",
    "Concat",
    (
        _example(0, (3, 2), (1, 2), (2, 2)),
        _example(-1, (2, 3, 1), (2, 3, 4)),
        _example(1, (2, 3)),
        _example(0, (3,), (0,), (4,)),
    ),
)
STACK = _joining(
    "stack",
    _stack_types,
    _stack,
    SettingSpec(name="axis", type=SettingType.INT, default=0, doc="the dim of the result that counts the inputs"),
    "the inputs along a dim of its own",
    "Unsqueeze, Concat",
    (
        OpExample(inputs=(Operand(shape=(3, 2)), Operand(shape=(3, 2)))),
        _example(-1, (3, 2), (3, 2), (3, 2)),
        _example(1, (3,), (3,)),
        _example(0, (), (), ()),
    ),
)
