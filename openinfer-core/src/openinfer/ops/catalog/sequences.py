"""Evenly spaced numbers, from no inputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from openinfer import dims
from openinfer.dims import NeedsNumberError, is_size
from openinfer.dtypes import F64, I64, U64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import NUMBERS
from openinfer.ops.schema import Compute, Operand, OpExample, OpSchema, OpTypeError, SettingSpec, SettingType
from openinfer.ops.shapes import axis_of, integer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Builder, Value
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

CATEGORY = "sequences"


def _declared(op: str, declared: Sequence[TensorType]) -> TensorType:
    if not declared:
        raise OpTypeError("takes the type of its output, which is not known here", of=op)
    if declared[0].dtype.name not in NUMBERS:
        raise OpTypeError(f"yields numbers, the output is {declared[0]}", of=op, code="dtype-unsupported")
    return declared[0]


def spacing(settings: Settings, dtype: DType) -> tuple[float, float]:
    """Return start and step of a range, integers for an integer type.

    Raises:
        OpTypeError: one is not a number that the type has, or the step is 0.
    """
    start, step = _number(settings, "start", dtype), _number(settings, "step", dtype)
    if step == 0:
        raise OpTypeError("setting 'step' is 0", code="setting-type", settings=("step",))
    return start, step


def _number(settings: Settings, name: str, dtype: DType) -> Any:
    """Return a setting as a number that the type has, or as a size."""
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OpTypeError(f"setting {name!r} takes a number, found {value!r}", code="setting-type", settings=(name,))
    if is_size(value):
        return value
    if dtype.is_float and math.isfinite(value):
        return float(value)
    if dtype.is_float or isinstance(value, float):
        wanted = "a finite number" if dtype.is_float else "an integer"
        raise OpTypeError(
            f"setting {name!r} is {value!r}; for {dtype} it takes {wanted}", code="setting-type", settings=(name,)
        )
    return value


def _range_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del inputs
    out = _declared("range", declared)
    start, step = spacing(settings, out.dtype)
    if settings.get("limit") is None:
        if len(out.shape) != 1:
            raise OpTypeError(f"yields one dim, the output is {out}", of="range")
        return (out,)
    limit = _number(settings, "limit", out.dtype)
    if any(is_size(bound) for bound in (start, limit, step)):
        first, end, stride = map(_whole, (start, limit, step))
        return (TensorType(out.dtype, (dims.max(-((first - end) // stride), 0),)),)
    room = limit - start
    if out.dtype.is_float and math.isinf(room / step):
        raise OpTypeError(
            f"has no end: limit - start is {room}, step {step}",
            of="range",
            code="setting-type",
            settings=("start", "limit", "step"),
        )
    count = math.ceil(room / step) if out.dtype.is_float else -(-room // step)
    return (TensorType(out.dtype, (dims.max(count, 0),)),)


def _whole(bound: float) -> int:
    """Return a bound as an integer, or as the size that it is.

    Raises:
        NeedsNumberError: it is a fraction, and another bound is known at run time only.
    """
    if isinstance(bound, float) and not bound.is_integer():
        raise NeedsNumberError(f"a range with the bound {bound} has sizes as bounds, which takes integers")
    return int(bound) if isinstance(bound, float) else bound


def _iota_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del inputs
    out = _declared("iota", declared)
    axis_of(integer(settings.get("axis"), "axis"), len(out.shape))
    return (out,)


def _range(k: Builder, call: OpCall) -> None:
    (y,) = k.outputs
    start, step = spacing(call.settings, y.dtype)
    (place,) = at = k.axes(*y.shape)
    if y.dtype.is_float:
        y[at] = _spaced(k, k.position(place, F64), start, step)
    else:
        first, distance = (_wrapped(k, number) for number in (start, step))
        y[at] = first + k.position(place, U64) * distance


def _wrapped(k: Builder, number: float) -> Value:
    """Return an integer modulo 2**64."""
    if is_size(number):
        return k.constant(number, I64).cast(U64)
    return k.constant(int(number) % 2**64, U64)


def _spaced(k: Builder, place: Value, start: float, step: float) -> Value:
    if is_size(start) or is_size(step) or start or step > 0:
        return k.constant(start, F64) + place * k.constant(step, F64)
    # GCC takes 0 - i for -i, which is -0 where i is 0.
    return k.apply(tree.select, k.apply(tree.eq, place, k.constant(0, F64)), k.constant(0, F64), place * step)


def _iota(k: Builder, call: OpCall) -> None:
    (y,) = k.outputs
    at = k.axes(*y.shape)
    y[at] = k.position(at[axis_of(integer(call.settings.get("axis"), "axis"), len(at))], I64)


def _example(*shape: int, **settings: SettingValue) -> OpExample:
    return OpExample(inputs=(), settings=settings, outputs=(Operand(shape=shape),))


RANGE = OpSchema(
    name="range",
    summary="start + i * step for i from 0 on, below limit; of the dtype of the output, integers wrapping",
    category=CATEGORY,
    inputs=(),
    dtypes=NUMBERS,
    settings=(
        SettingSpec(name="start", type=SettingType.NUMBER, default=0, doc="first number"),
        SettingSpec(
            name="limit",
            type=SettingType.NUMBER,
            default=None,
            doc="where to stop, exclusive; default: fill the declared output",
        ),
        SettingSpec(name="step", type=SettingType.NUMBER, default=1, doc="distance, not 0"),
    ),
    infer=_range_types,
    definition=Compute(_range),
    aliases=("arange",),
    onnx="Range",
    examples=(
        _example(5, limit=5),
        _example(3, start=7, limit=0, step=-3),
        _example(7, start=-3),
        _example(0, limit=-1),
    ),
)
IOTA = OpSchema(
    name="iota",
    summary="each element is its index along `axis`; of the type of the output, integers wrapping",
    category=CATEGORY,
    inputs=(),
    dtypes=NUMBERS,
    settings=(SettingSpec(name="axis", type=SettingType.INT, default=0, doc="the dim"),),
    infer=_iota_types,
    definition=Compute(_iota),
    onnx="Range, Expand",
    examples=(_example(3, 5), _example(2, 3, 7, axis=-1), _example(0)),
)
