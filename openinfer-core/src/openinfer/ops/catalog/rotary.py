"""Rotary position embeddings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.dims import surely
from openinfer.dtypes import F64, I64
from openinfer.expr import tree
from openinfer.ops.dtype_sets import FLOATS, INTEGERS
from openinfer.ops.mixed_floats import widest
from openinfer.ops.places import looked_up, refuse_all
from openinfer.ops.rotary import factor_and_base, rope_cached_plan, rope_plan
from openinfer.ops.schema import (
    Compute,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as Tensor
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.rotary import Rotary

    Settings = Mapping[str, SettingValue]

CATEGORY = "attention"
_TURN = 2.0**64
"""Units in which angles are counted, as integers of 64 bits."""
_ROTARY_DIM = SettingSpec(
    name="rotary_dim", type=SettingType.INT, default=0, doc="number r of elements that are rotated, even; 0: all"
)
_INTERLEAVED = SettingSpec(
    name="interleaved",
    type=SettingType.BOOL,
    default=False,
    doc="whether pairs are neighbours; otherwise an element of the first half and its like in the second",
)
_SEQ_AXIS = SettingSpec(name="seq_axis", type=SettingType.INT, default=-2, doc="dim of x that counts positions")
_IMAGE = InputSpec(name="x", dtypes=FLOATS, doc="[..., S, D]")


def _rope_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    rope_plan(inputs, settings)
    return (needed(inputs),)


def _rope_cached_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    rope_cached_plan(inputs, settings)
    return (needed(inputs),)


def _rope(k: Builder, call: OpCall) -> None:
    x, pos = k.given
    how, wide = rope_plan(call.inputs, call.settings), widest([x.dtype])
    steps = _turns_a_step(k, how, *factor_and_base(call.settings))
    cos, sin = (k.temporary(wide, *pos.shape, how.pairs) for _ in "cs")
    for table, function in ((cos, tree.cos), (sin, tree.sin)):
        *place, pair = k.axes(*table.shape)
        angle = pos[tuple(place)].cast(I64) * steps[pair]
        table[(*place, pair)] = k.apply(function, angle.cast(wide) * (2 * math.pi / _TURN))

    def sines(place: tuple[Var, ...], pair: Var) -> tuple[Value, Value]:
        return cos[(*place, pair)], sin[(*place, pair)]

    _turn(k, how, wide, sines)


def _turns_a_step(k: Builder, how: Rotary, factor: float, base: float) -> Tensor:
    """Return the part of a turn, -1/2 to 1/2, that a position adds to the angle of each pair, in units of 2^-64.

    Products of 64 bits with positions drop whole turns, so that angles of positions of any size need no long reduction
    and no double precision.
    """
    steps = k.temporary(I64, how.pairs)
    pair = k.axis(how.pairs)
    exponent = k.position(pair, F64) * -1.0 / k.constant(dims.max(how.pairs, 1), F64)
    turns = k.apply(tree.power, k.constant(base, F64), exponent) * (factor / (2 * math.pi))
    part = turns - k.apply(tree.floor, turns + 0.5)
    steps[pair] = (part * _TURN).cast(I64)
    return steps


def _rope_cached(k: Builder, call: OpCall) -> None:
    x, cos, sin, *given = k.given
    how, wide = rope_cached_plan(call.inputs, call.settings), widest(each.dtype for each in (x, cos, sin))
    rows = needed(call.inputs, 1).shape[0]
    if given and surely(lambda: rows == 0):
        refuse_all(k, k.outputs[0])
        return

    def sines(place: tuple[Var, ...], pair: Var) -> tuple[Value, Value]:
        row = (looked_up(k, given[0][place], rows),) if given else place
        return cos[(*row, pair)].cast(wide), sin[(*row, pair)].cast(wide)

    _turn(k, how, wide, sines)


def _turn(k: Builder, how: Rotary, wide: DType, sines: Callable[[tuple[Var, ...], Var], tuple[Value, Value]]) -> None:
    """Append the stages of both elements of each pair, and of what is not rotated.

    ``sines`` returns cosine and sine for a position, [S] or [B, S], and a pair.
    """
    (x, *_), (y,) = k.given, k.outputs
    for second in (False, True):
        *at, pair = k.axes(*x.shape[:-1], how.pairs)
        first_at, second_at = (pair * 2, pair * 2 + 1) if how.interleaved else (pair, pair + how.pairs)
        cos, sin = sines((at[0], at[how.axis]) if how.batched else (at[how.axis],), pair)
        a, b = (x[(*at, place)].cast(wide) for place in (first_at, second_at))
        y[(*at, second_at if second else first_at)] = b * cos + a * sin if second else a * cos - b * sin
    *at, rest = k.axes(*x.shape[:-1], x.shape[-1] - 2 * how.pairs)
    y[(*at, rest + 2 * how.pairs)] = x[(*at, rest + 2 * how.pairs)]


def _positions(*shape: int, dtype: str = "i64", high: int = 40) -> Operand:
    return Operand(shape=shape, dtype=dtype, low=0, high=high)


_POSITIONS = "[S] or [B, S], positions; the angle of position p may be off by about p * 1e-15"

ROPE = OpSchema(
    name="rope",
    summary="pairs (a, b) rotated: (a cos t - b sin t, b cos t + a sin t), t = pos freq_scale base^(-2i/r) for pair i",
    category=CATEGORY,
    inputs=(_IMAGE, InputSpec(name="pos", dtypes=INTEGERS, doc=_POSITIONS)),
    dtypes=FLOATS,
    settings=(
        SettingSpec(name="base", type=SettingType.FLOAT, default=10000.0, doc="base of the frequencies"),
        _ROTARY_DIM,
        _INTERLEAVED,
        SettingSpec(name="freq_scale", type=SettingType.FLOAT, default=1.0, doc="factor of every angle"),
        _SEQ_AXIS,
    ),
    infer=_rope_types,
    definition=Compute(_rope),
    in_place=True,
    onnx="RotaryEmbedding",
    examples=(
        OpExample(inputs=(Operand(shape=(2, 3, 5, 8)), _positions(5))),
        OpExample(inputs=(Operand(shape=(2, 3, 5, 6)), _positions(2, 5, dtype="i32")), settings={"rotary_dim": 4}),
        OpExample(inputs=(Operand(shape=(3, 4)), _positions(3, dtype="u8")), settings={"interleaved": True}),
        OpExample(inputs=(Operand(shape=(5, 2, 8)), _positions(5)), settings={"seq_axis": 0, "base": 500.0}),
        OpExample(
            inputs=(Operand(shape=(1, 7, 6)), _positions(7)),
            settings={"rotary_dim": 4, "interleaved": True, "freq_scale": 0.5},
        ),
        OpExample(inputs=(Operand(shape=(2, 0, 4)), _positions(0))),
    ),
)
ROPE_CACHED = OpSchema(
    name="rope_cached",
    summary="pairs (a, b) rotated: (a cos - b sin, b cos + a sin), with tables of sines",
    category=CATEGORY,
    inputs=(
        _IMAGE,
        InputSpec(name="cos", dtypes=FLOATS, doc="[P, r/2] with pos, else [S, r/2] or [B, S, r/2]"),
        InputSpec(name="sin", dtypes=FLOATS, doc="as cos"),
        InputSpec(name="pos", dtypes=INTEGERS, optional=True, doc="[S] or [B, S], rows of cos and sin"),
    ),
    dtypes=FLOATS,
    settings=(_ROTARY_DIM, _INTERLEAVED, _SEQ_AXIS),
    infer=_rope_cached_types,
    definition=Compute(_rope_cached),
    in_place=True,
    onnx="RotaryEmbedding",
    examples=(
        OpExample(
            inputs=(Operand(shape=(2, 3, 5, 8)), *(Operand(shape=(9, 4)) for _ in "cs"), _positions(5, high=8)),
        ),
        OpExample(
            inputs=(
                Operand(shape=(2, 3, 5, 6)),
                *(Operand(shape=(7, 2), dtype="f32") for _ in "cs"),
                Operand(shape=(2, 5), dtype="i32", low=-7, high=6),
            ),
            settings={"rotary_dim": 4, "interleaved": True},
        ),
        OpExample(inputs=(Operand(shape=(2, 3, 5, 6)), *(Operand(shape=(2, 5, 3)) for _ in "cs"))),
        OpExample(inputs=(Operand(shape=(5, 2, 6)), *(Operand(shape=(5, 3)) for _ in "cs")), settings={"seq_axis": 0}),
        OpExample(inputs=(Operand(shape=(0, 4)), *(Operand(shape=(3, 2)) for _ in "cs"), _positions(0))),
    ),
)
