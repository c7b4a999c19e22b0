"""Data movement: elements keep their codes and take other places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dims import from_end, surely
from openinfer.dims import max as largest
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import EVERY
from openinfer.ops.moving import move
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
from openinfer.ops.shapes import axis_of, integer, integers, needed, shown
from openinfer.ops.views import same_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Definition, InferTypes

    Settings = Mapping[str, SettingValue]

CATEGORY = "movement"


def permutation(settings: Settings, rank: int) -> tuple[int, ...]:
    """Return the ``perm`` of a transposition: input dim by output dim; the dims reversed by default.

    Raises:
        OpTypeError: it is not a permutation of the dims.
    """
    given = settings.get("perm")
    if given is None:
        return tuple(reversed(range(rank)))
    dims = integers(given, "perm")
    found = tuple(axis_of(dim, rank, "dim", setting="perm") for dim in dims)
    if sorted(found) != list(range(rank)):
        raise OpTypeError(f"perm {shown(dims)} is not a permutation of {rank} dims", settings=("perm",))
    return found


def _transpose_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    return (TensorType(x.dtype, tuple(x.shape[dim] for dim in permutation(settings, len(x.shape)))),)


def _reshape_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    x, given = needed(inputs), settings.get("shape")
    if given is None and not declared:
        raise OpTypeError(
            "without the setting 'shape' takes the shape of its output, which is not known here", of="reshape"
        )
    shape = declared[0].shape if given is None else _inferred(x.shape, integers(given, "shape"))
    if math.prod(shape) != x.count:
        raise OpTypeError(
            f"{x} has {x.count} elements, shape {shown(shape)} has {math.prod(shape)}", settings=("shape",)
        )
    return (TensorType(x.dtype, shape),)


def _inferred(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return the wanted shape with a written 0 replaced by the input's dim, and one -1 by what is left."""
    inferred = [dim_number for dim_number, dim in enumerate(wanted) if not surely(lambda dim=dim: dim != -1)]
    is_written = any(surely(lambda dim=wanted[dim_number]: dim == -1) for dim_number in inferred)
    is_open = len(inferred) > 1 and not is_written
    if len(inferred) > 1 and is_written:
        inferred = [dim_number for dim_number in inferred if wanted[dim_number] == -1]
    if any(dim < -1 for dim in wanted) or (len(inferred) > 1 and is_written):
        raise OpTypeError(
            f"shape {shown(wanted)} may have one -1, and no dim below", code="setting-type", settings=("shape",)
        )
    if any(_copies(dim) and dim_number >= len(shape) for dim_number, dim in enumerate(wanted)):
        raise OpTypeError(
            f"shape {shown(wanted)} copies a dim (0) that the input {shown(shape)} does not have", settings=("shape",)
        )
    filled = [shape[dim_number] if _copies(dim) else +dim for dim_number, dim in enumerate(wanted)]
    if is_open:
        return _inferred_one_of(inferred, shape, filled)
    for dim_number in inferred:
        others, total = math.prod((*filled[:dim_number], *filled[dim_number + 1 :])), math.prod(shape)
        rest = total // others if others != 0 and total % others == 0 else None
        # A dim of run time may be -1 or what is left: both have the same form.
        if rest is not None and from_end(wanted[dim_number], rest + 1) == rest:
            filled[dim_number] = rest
        elif others != 0 or wanted[dim_number] == -1:
            raise OpTypeError(
                f"{total} elements of shape {shown(shape)} do not fill shape {shown(wanted)}", settings=("shape",)
            )
    return tuple(filled)


def _inferred_one_of(open_dims: Sequence[int], shape: tuple[int, ...], wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the wanted shape, of which any one of the open dims may be -1 when the program runs.

    All of them have one form: a dim of -1 counts from the end of what is left, and the number of elements is checked.
    """
    for dim_number in open_dims:
        for other_number, other in enumerate(wanted):
            # None is below -1: this refuses a second -1, and a 0, which leaves nothing to infer a dim from.
            if other_number != dim_number and wanted[dim_number] + other < 0:
                raise OpTypeError(
                    f"shape {shown(wanted)} may have one -1, and no 0 together with it",
                    code="setting-type",
                    settings=("shape",),
                )
    filled, total = list(wanted), math.prod(shape)
    for dim_number in open_dims:
        others = math.prod((*wanted[:dim_number], *wanted[dim_number + 1 :]))
        filled[dim_number] = from_end(wanted[dim_number], total // largest(others, 1) + 1)
    return tuple(filled)


def _copies(dim: int) -> bool:
    """Whether a dim is a 0 that is written: one that is computed, or a size that may be 0, is an extent."""
    return type(dim) is int and dim == 0


def _flatten_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    axis = integer(settings.get("axis"), "axis")
    place = len(x.shape) if axis == len(x.shape) else axis_of(axis, len(x.shape))
    return (TensorType(x.dtype, (math.prod(x.shape[:place]), math.prod(x.shape[place:]))),)


def _same_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    return (needed(inputs),)


def _of(shape: tuple[int, ...], settings: Settings | None = None, declared: tuple[int, ...] | None = None) -> OpExample:
    outputs = () if declared is None else (Operand(shape=declared),)
    return OpExample(inputs=(Operand(shape=shape),), settings=settings or {}, outputs=outputs)


def _same_order(k: Builder, call: OpCall) -> None:
    (x,), (y,) = k.given, k.outputs
    move(k, x, y, same_order(needed(call.inputs).shape, call.outputs[0].shape))


def _transpose(k: Builder, call: OpCall) -> None:
    (x,), (y,) = k.given, k.outputs
    at = k.axes(*y.shape)
    placed = dict(zip(permutation(call.settings, len(at)), at, strict=True))
    y[at] = x[tuple(placed[dim] for dim in range(len(at)))]


def _movement(
    name: str,
    infer: InferTypes,
    *,
    definition: Definition,
    summary: str,
    examples: tuple[OpExample, ...],
    settings: tuple[SettingSpec, ...] = (),
    aliases: tuple[str, ...] = (),
    onnx: str,
) -> OpSchema:
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x"),),
        dtypes=EVERY,
        settings=settings,
        infer=infer,
        definition=definition,
        in_place=True,
        aliases=aliases,
        onnx=onnx,
        examples=examples,
    )


TRANSPOSE = _movement(
    "transpose",
    _transpose_types,
    definition=Compute(_transpose),
    summary="dim i of the result is dim perm[i] of x",
    examples=(
        _of((3, 5)),
        _of((2, 3, 5), {"perm": (1, 2, 0)}),
        _of((3, 1, 5, 7), {"perm": (0, -1, 1, 2)}),
        _of((2, 0, 3), {"perm": (2, 0, 1)}),
        _of((33, 70)),
        _of(()),
    ),
    settings=(
        SettingSpec(
            name="perm",
            type=SettingType.INT_LIST,
            default=None,
            aliases=("dims",),
            doc="dims of x in the order of the result; default reversed",
        ),
    ),
    aliases=("permute",),
    onnx="Transpose",
)
RESHAPE = _movement(
    "reshape",
    _reshape_types,
    definition=Compute(_same_order, in_order=True),
    summary="the elements in row-major order under another shape",
    examples=(
        _of((2, 3, 5), {"shape": (5, 6)}),
        _of((2, 3, 5), {"shape": (0, -1)}),
        _of((3, 5), {"shape": (15,)}),
        _of((1, 1), {"shape": ()}),
        _of((2, 0, 3), {"shape": (3, 0, 2)}),
        _of((7, 3), None, (3, 7)),
    ),
    settings=(
        SettingSpec(
            name="shape",
            type=SettingType.INT_LIST,
            default=None,
            doc="a written 0 copies the dim of x, a computed one is 0; one -1 is what is left; default the declared "
            "shape of the output",
        ),
    ),
    onnx="Reshape",
)
FLATTEN = _movement(
    "flatten",
    _flatten_types,
    definition=Compute(_same_order, in_order=True),
    summary="a matrix: the dims before the axis, and the rest",
    examples=(
        _of((2, 3, 5)),
        _of((2, 3, 5), {"axis": 0}),
        _of((2, 3, 5), {"axis": -1}),
        _of((2, 3), {"axis": 2}),
        _of((3, 0, 5), {"axis": 2}),
        _of((), {"axis": 0}),
    ),
    settings=(SettingSpec(name="axis", type=SettingType.INT, default=1, doc="first dim of the columns"),),
    onnx="Flatten",
)
IDENTITY = _movement(
    "identity",
    _same_types,
    definition=Compute(_same_order, in_order=True),
    summary="an independent copy",
    examples=(_of((3, 5)), _of((2, 0, 3)), _of((257,)), _of(())),
    aliases=("copy",),
    onnx="Identity",
)
