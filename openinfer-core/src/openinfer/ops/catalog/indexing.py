"""Elements at places that other tensors name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dims import one_of, surely
from openinfer.dtypes import DType, Kind
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import EVERY, INTEGERS
from openinfer.ops.elementwise import work_type
from openinfer.ops.places import counted_from_end, looked_up, refuse_all
from openinfer.ops.scalar_settings import scalar_setting
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
from openinfer.ops.shapes import axis_of, integer, needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder
    from openinfer.compute import Operand as Tensor
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.scalars import Scalar

    Settings = Mapping[str, SettingValue]

CATEGORY = "indexing"
AXIS = SettingSpec(name="axis", type=SettingType.INT, default=0, doc="the dim of x that is indexed")
_INDICES = InputSpec(name="indices", dtypes=INTEGERS, doc="negative ones count from the end")


def check_alongside(x: TensorType, indices: TensorType, axis: int) -> None:
    """Check indices that name one place along an axis for each of their positions.

    Raises:
        OpTypeError: they have another rank than x, or are longer than it in another dim.
    """
    fits = len(indices.shape) == len(x.shape) and all(
        n == axis or extent <= own for n, (extent, own) in enumerate(zip(indices.shape, x.shape, strict=True))
    )
    if not fits:
        raise OpTypeError(f"indices are {indices}: expected the shape of x, {x}, or less in dims other than {axis}")


def tuple_dims(x: TensorType, indices: TensorType, batch: int = 0) -> slice:
    """Return the dims of x that the tuples in the last dim of ``indices`` name, after ``batch`` common ones.

    A scalar is a tuple of one. Their numbers decide the form of the result: those that are known at run time only are
    followed to every dim.

    Raises:
        OpTypeError: there is no such dim, it is longer than x has dims, or the common dims differ.
    """
    most = max(len(indices.shape), 1) - 1
    if not 0 <= batch <= most:
        message = f"batch_dims is {batch}, expected 0..{most} for indices {indices}"
        raise OpTypeError(message, code="setting-type", settings=("batch_dims",))
    batch = one_of(batch, range(most + 1))
    if indices.shape[:batch] != x.shape[:batch]:
        raise OpTypeError(f"x is {x} and indices are {indices}: their first {batch} dims must be the same")
    length = indices.shape[-1] if indices.shape else 1
    if not 1 <= length <= len(x.shape) - batch:
        raise OpTypeError(
            f"indices are {indices}: their last dim, the length of a tuple, must be 1 to {len(x.shape) - batch} "
            f"for x {x}"
        )
    return slice(batch, batch + one_of(length, range(1, len(x.shape) - batch + 1)))


def _gather_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, indices = needed(inputs), needed(inputs, 1)
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    return (TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)


def _embedding_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    ids, table = needed(inputs), needed(inputs, 1)
    if not table.shape:
        raise OpTypeError(f"takes a table of rows, found {table}", of="embedding")
    return (TensorType(table.dtype, (*ids.shape, *table.shape[1:])),)


def _gather_elements_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, indices = needed(inputs), needed(inputs, 1)
    check_alongside(x, indices, axis_of(integer(settings.get("axis"), "axis"), len(x.shape)))
    return (TensorType(x.dtype, indices.shape),)


def _gather_nd_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, indices = needed(inputs), needed(inputs, 1)
    named = tuple_dims(x, indices, integer(settings.get("batch_dims"), "batch_dims"))
    return (TensorType(x.dtype, (*indices.shape[:-1], *x.shape[named.stop :])),)


def hot_value(settings: Settings, name: str, dtype: DType) -> Scalar:
    """Return the setting ``on`` or ``off`` as an element of the output.

    Raises:
        OpTypeError: the type does not hold it.
    """
    value = scalar_setting(settings, name, dtype)
    if dtype.kind is Kind.TERNARY and dtype.bits == 1 and value == 0:
        raise OpTypeError(f"setting {name!r} is 0; for {dtype} it takes -1 or 1", code="setting-type", settings=(name,))
    return value


def _one_hot_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    indices, depth = needed(inputs), integer(settings.get("depth"), "depth")
    if not declared:
        raise OpTypeError("takes the dtype of its output, which is not known here", of="one_hot")
    if depth < 0:
        raise OpTypeError(f"depth is {depth}, expected at least 0", code="setting-type", settings=("depth",))
    dtype = declared[0].dtype
    for name in ("on", "off"):
        hot_value(settings, name, dtype)
    axis = axis_of(integer(settings.get("axis"), "axis"), len(indices.shape) + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    return (TensorType(dtype, shape),)


def _gather(k: Builder, call: OpCall) -> None:
    x, indices = k.given
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(x.shape))
    _slices(k, x, indices, axis, needed(call.inputs).shape[axis], negative=True)


def _embedding(k: Builder, call: OpCall) -> None:
    ids, table = k.given
    _slices(k, table, ids, 0, needed(call.inputs, 1).shape[0], negative=False)


def _slices(k: Builder, x: Tensor, indices: Tensor, axis: int, extent: int, *, negative: bool) -> None:
    """Store the slices of x along an axis of ``extent`` that indices name, their dims in place of the axis."""
    (y,) = k.outputs
    if surely(lambda: extent == 0):
        refuse_all(k, y)
        return
    before, named, after = k.axes(*x.shape[:axis]), k.axes(*indices.shape), k.axes(*x.shape[axis + 1 :])
    place = looked_up(k, indices[named], extent, negative=negative)
    y[(*before, *named, *after)] = x[(*before, place, *after)]


def _gather_elements(k: Builder, call: OpCall) -> None:
    (x, indices), (y,) = k.given, k.outputs
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(x.shape))
    extent = needed(call.inputs).shape[axis]
    if surely(lambda: extent == 0):
        refuse_all(k, y)
        return
    at = k.axes(*indices.shape)
    place = looked_up(k, indices[at], extent)
    y[at] = x[(*at[:axis], place, *at[axis + 1 :])]


def _gather_nd(k: Builder, call: OpCall) -> None:
    (x, indices), (y,) = k.given, k.outputs
    source, tuples = needed(call.inputs), needed(call.inputs, 1)
    named = tuple_dims(source, tuples, integer(call.settings.get("batch_dims"), "batch_dims"))
    extents = source.shape[named]
    if any(surely(lambda extent=extent: extent == 0) for extent in extents):
        refuse_all(k, y)
        return
    at, inner = k.axes(*tuples.shape[:-1]), k.axes(*source.shape[named.stop :])
    places = looked_up_tuple(k, indices, at, extents)
    y[(*at, *inner)] = x[(*at[: named.start], *places, *inner)]


def looked_up_tuple(k: Builder, indices: Tensor, at: Sequence[Var], extents: Sequence[int]) -> tuple[Var, ...]:
    """Return the places in dims of ``extents`` that the tuple at a position of ``indices`` names."""
    if not indices.shape:
        return (looked_up(k, indices[()], extents[0]),)
    return tuple(looked_up(k, indices[(*at, number)], extent) for number, extent in enumerate(extents))


def _one_hot(k: Builder, call: OpCall) -> None:
    (indices,), (y,) = k.given, k.outputs
    wide, out = work_type(y.dtype), call.outputs[0]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(out.shape))
    on, off = (k.constant(hot_value(call.settings, name, y.dtype), wide) for name in ("on", "off"))
    at = k.axes(*y.shape)
    place = counted_from_end(k, indices[(*at[:axis], *at[axis + 1 :])], out.shape[axis])
    y[at] = k.apply(tree.select, k.apply(tree.eq, place, k.position(at[axis])), on, off)


def _index(shape: tuple[int, ...], low: int, high: int, dtype: str = "i64") -> Operand:
    return Operand(shape=shape, dtype=dtype, low=low, high=high)


GATHER = OpSchema(
    name="gather",
    summary="slices of x along a dim, as indices name them: the dims of indices take the place of that dim",
    category=CATEGORY,
    inputs=(InputSpec(name="x"), _INDICES),
    dtypes=EVERY,
    settings=(AXIS,),
    infer=_gather_types,
    definition=Compute(_gather),
    in_place=True,
    aliases=("take",),
    onnx="Gather",
    examples=(
        OpExample(inputs=(Operand(shape=(5, 3)), _index((2, 2), -5, 4))),
        OpExample(inputs=(Operand(shape=(3, 7, 2)), _index((4,), 0, 6, "u8")), settings={"axis": -2}),
        OpExample(inputs=(Operand(shape=(5,)), _index((), -5, 4, "i32"))),
        OpExample(inputs=(Operand(shape=(5, 3)), _index((0,), 0, 4))),
    ),
)
EMBEDDING = OpSchema(
    name="embedding",
    summary="the row of a table for each id; ids must be 0 to R-1, for R rows",
    category=CATEGORY,
    inputs=(
        InputSpec(name="ids", dtypes=INTEGERS, doc="0 to R - 1"),
        InputSpec(name="table", doc="[R, ...]"),
    ),
    dtypes=EVERY,
    infer=_embedding_types,
    definition=Compute(_embedding),
    in_place=True,
    onnx="Gather",
    examples=(
        OpExample(inputs=(_index((2, 3), 0, 6), Operand(shape=(7, 5)))),
        OpExample(inputs=(_index((), 0, 4, "u16"), Operand(shape=(5, 3)))),
        OpExample(inputs=(_index((0,), 0, 4), Operand(shape=(5, 3)))),
        OpExample(inputs=(_index((5,), 0, 4), Operand(shape=(5, 3)))),
    ),
)
GATHER_ELEMENTS = OpSchema(
    name="gather_elements",
    summary="for each position of indices the element of x there, with the place along a dim that the index names",
    category=CATEGORY,
    inputs=(InputSpec(name="x"), _INDICES),
    dtypes=EVERY,
    settings=(AXIS,),
    infer=_gather_elements_types,
    definition=Compute(_gather_elements),
    in_place=True,
    onnx="GatherElements",
    examples=(
        OpExample(inputs=(Operand(shape=(5, 3)), _index((7, 3), -5, 4))),
        OpExample(inputs=(Operand(shape=(3, 5, 2)), _index((2, 4, 2), 0, 4, "u32")), settings={"axis": 1}),
        OpExample(inputs=(Operand(shape=(5,)), _index((0,), 0, 4))),
    ),
)
GATHER_ND = OpSchema(
    name="gather_nd",
    summary="slices of x at the places that tuples in the last dim of indices, or a scalar, name",
    category=CATEGORY,
    inputs=(InputSpec(name="x"), _INDICES),
    dtypes=EVERY,
    settings=(
        SettingSpec(name="batch_dims", type=SettingType.INT, default=0, doc="first dims that x and indices share"),
    ),
    infer=_gather_nd_types,
    definition=Compute(_gather_nd),
    in_place=True,
    onnx="GatherND",
    examples=(
        OpExample(inputs=(Operand(shape=(5, 7)), _index((3, 2), -5, 4))),
        OpExample(inputs=(Operand(shape=(5, 3, 2)), _index((2, 2, 1), -5, 4, "i8"))),
        OpExample(inputs=(Operand(shape=(2, 5, 6)), _index((2, 3, 1), 0, 4)), settings={"batch_dims": 1}),
        OpExample(inputs=(Operand(shape=(5, 3)), _index((0, 2), 0, 2))),
        OpExample(inputs=(Operand(shape=(5, 3)), _index((), -5, 4))),
    ),
)
ONE_HOT = OpSchema(
    name="one_hot",
    summary="a dim of its own for each index, with on at the place it names and off elsewhere; dtype of the output",
    category=CATEGORY,
    inputs=(
        InputSpec(
            name="indices", dtypes=INTEGERS, doc="-depth to -1 count from the end; for others outside nothing is on"
        ),
    ),
    dtypes=EVERY,
    settings=(
        SettingSpec(name="depth", type=SettingType.INT, doc="extent of the dim"),
        SettingSpec(name="on", type=SettingType.SCALAR, default=1, doc="element at the place that an index names"),
        SettingSpec(name="off", type=SettingType.SCALAR, default=0, doc="element elsewhere"),
        SettingSpec(name="axis", type=SettingType.INT, default=-1, doc="place of the dim in the result"),
    ),
    infer=_one_hot_types,
    definition=Compute(_one_hot),
    onnx="OneHot",
    examples=(
        OpExample(
            inputs=(_index((2, 3), -7, 7),),
            settings={"depth": 5},
            outputs=(Operand(shape=(2, 3, 5)),),
            dtypes=EVERY - {"t1", "i1"},
        ),
        OpExample(
            inputs=(_index((4,), 0, 5, "u8"),),
            settings={"depth": 4, "on": 0, "off": 1, "axis": 0},
            outputs=(Operand(shape=(4, 4)),),
            dtypes=EVERY - {"t1", "i1"},
        ),
        OpExample(
            inputs=(_index((3,), -3, 3, "i8"),),
            settings={"depth": 3, "on": -1, "off": 0},
            outputs=(Operand(shape=(3, 3)),),
            dtypes=frozenset({"i1", "i8", "f32"}),
        ),
        OpExample(
            inputs=(_index((5,), 0, 5, "u64"),),
            settings={"depth": 3, "off": -1},
            outputs=(Operand(shape=(5, 3)),),
            dtypes=frozenset({"t1", "t2", "f16"}),
        ),
    ),
)
