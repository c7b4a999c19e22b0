"""Attention of queries over keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.dims import place_of
from openinfer.ir.types import TensorType
from openinfer.ops.attention import attention, check_mask, folded_attention
from openinfer.ops.attention_stages import Operands, attended
from openinfer.ops.dtype_sets import BOOLS, FLOATS
from openinfer.ops.mixed_floats import widest
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
from openinfer.ops.shapes import needed, optional

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as BuiltOperand
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.attention_stages import Vector
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

CATEGORY = "attention"
_CAUSAL = SettingSpec(
    name="causal", type=SettingType.BOOL, default=False, doc="key j is seen by query i only if j <= i + q_offset"
)
_SCALE = SettingSpec(
    name="scale", type=SettingType.FLOAT, default=None, doc="factor of the products; default 1 / sqrt(D)"
)
_SOFTCAP = SettingSpec(
    name="softcap", type=SettingType.FLOAT, default=0.0, doc="c > 0: products L become c tanh(L / c); 0: they stay"
)


def _sdpa_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    attention(inputs, settings)
    q, k, v = needed(inputs), needed(inputs, 1), needed(inputs, 2)
    mask = optional(inputs, 3)
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))
    return (TensorType(q.dtype, (*q.shape[:-1], v.shape[-1])),)


def _sdpa(k: Builder, call: OpCall) -> None:
    how, (y,) = attention(call.inputs, call.settings), k.outputs
    q, key, v, mask = (*k.inputs, None)[:4]
    dtype = widest(given.dtype for given in (q, key, v, mask) if given is not None and given.dtype.is_float)
    shown = None if mask is None else _by_place(mask, mask.dtype)
    q, key, v = (_by_place(given, dtype) for given in (q, key, v) if given is not None)
    at = k.axes(*y.shape)
    y[at] = attended(k, how, Operands(query=q, key=key, value=v, mask=shown), dtype)(*_whole(at))


def _by_place(given: BuiltOperand, dtype: DType) -> Vector:
    """Return the elements of an operand without its first dims where they are 1; a dim of 1 is broadcast."""

    def element(*at: Index | Var) -> Value:
        ends = at[4 - len(given.shape) :]
        return given[tuple(map(place_of, ends, given.shape))].cast(dtype)

    return element


def _whole(at: Sequence[Var]) -> tuple[Index | Var, ...]:
    return (*(Index() for _ in range(4 - len(at))), *at)


def _attn_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    found = folded_attention(inputs, settings)
    return (TensorType(needed(inputs).dtype, (found.queries, found.heads * found.value_depth)),)


def _attn(k: Builder, call: OpCall) -> None:
    """The projection first, then attention of its rows over keys and values where they lie."""
    how, (y,) = folded_attention(call.inputs, call.settings), k.outputs
    dtype = widest(given.dtype for given in k.given)
    x, key, value, w = (*k.inputs, None)[:4]
    if x is None or key is None or value is None:
        raise OpTypeError("takes x, k and v", of="attn", code="arity")
    rows = x if w is None else _projected(k, x, w, dtype)

    def query(_: Index | Var, head: Index | Var, row: Index | Var, d: Index | Var) -> Value:
        return rows[row, head * how.depth + d].cast(dtype)

    given = Operands(query=query, key=_by_head(key, dtype), value=_by_head(value, dtype))
    i, h, d = k.axes(how.queries, how.heads, how.value_depth)
    y[i, h * how.value_depth + d] = attended(k, how, given, dtype)(Index(), h, i, d)


def _projected(k: Builder, x: BuiltOperand, w: BuiltOperand, dtype: DType) -> BuiltOperand:
    """Return the rows of x times w, in the type that attention is computed in."""
    rows = k.temporary(dtype, x.shape[0], w.shape[1])
    i, j, r = k.axes(x.shape[0], w.shape[1], x.shape[1])
    rows[i, j] = k.sum(x[i, r].cast(dtype) * w[r, j].cast(dtype), (r,))
    return rows


def _by_head(given: BuiltOperand, dtype: DType) -> Vector:
    """Return the elements of keys or values [S,H,D], or [H,D] of a single position."""

    def element(_: Index | Var, head: Index | Var, position: Index | Var, d: Index | Var) -> Value:
        at = (position, head, d) if len(given.shape) == 3 else (head, d)
        return given[at].cast(dtype)

    return element


def _floats(name: str, doc: str, *, optional: bool = False, more: frozenset[str] = frozenset()) -> InputSpec:
    return InputSpec(name=name, dtypes=FLOATS | more, optional=optional, doc=doc)


def _operands(*shapes: tuple[int, ...], mask: Operand | None = None) -> tuple[Operand, ...]:
    return (*(Operand(shape=shape) for shape in shapes), *(() if mask is None else (mask,)))


SDPA = OpSchema(
    name="sdpa",
    summary="softmax(scale q k^T + mask) v by heads; grouped heads share keys; a query that sees no key gives zeros",
    category=CATEGORY,
    inputs=(
        _floats("q", "[B, Hq, Sq, D], or without B, or without B and heads"),
        _floats("k", "[B, Hkv, Sk, D]; Hq is a multiple of Hkv"),
        _floats("v", "[B, Hkv, Sk, Dv]"),
        _floats("mask", "broadcasts to [B, Hq, Sq, Sk]; false hides, floats are added", optional=True, more=BOOLS),
    ),
    dtypes=FLOATS,
    settings=(
        _CAUSAL,
        _SCALE,
        _SOFTCAP,
        SettingSpec(
            name="window",
            type=SettingType.INT,
            default=-1,
            doc="w >= 0: key j is seen by query i only if j >= i + q_offset - w; -1: no such limit",
        ),
        SettingSpec(
            name="q_offset",
            type=SettingType.INT,
            default=None,
            doc="position of the first query among the keys; default kv_len - Sq, the last query sees every key",
        ),
        SettingSpec(
            name="kv_len", type=SettingType.INT, default=None, doc="number of keys that count, from the first; all"
        ),
    ),
    infer=_sdpa_types,
    definition=Compute(_sdpa),
    in_place=True,
    onnx="Attention",
    examples=(
        OpExample(inputs=_operands((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6))),
        OpExample(inputs=_operands((2, 4, 3, 5), (2, 2, 7, 5), (2, 2, 7, 3)), settings={"causal": True}),
        OpExample(inputs=_operands((6, 4, 8), (1, 4, 8), (1, 4, 8)), settings={"causal": True, "window": 1}),
        OpExample(
            inputs=_operands((1, 6, 1, 16), (1, 2, 9, 16), (1, 2, 9, 16)),
            settings={"kv_len": 6, "scale": 0.5, "softcap": 2.0},
        ),
        OpExample(inputs=_operands((2, 6, 1, 8), (2, 3, 5, 8), (2, 3, 5, 4)), settings={"scale": 0.25}),
        OpExample(inputs=_operands((1, 4), (7, 4), (7, 2)), settings={"causal": True, "window": 2}),
        OpExample(inputs=_operands((3, 4), (5, 4), (5, 2)), settings={"causal": True, "q_offset": 0}),
        OpExample(
            inputs=_operands((2, 3, 4), (2, 5, 4), (2, 5, 4), mask=Operand(shape=(3, 5), dtype="bool")),
        ),
        OpExample(
            inputs=_operands((2, 3, 4), (1, 5, 4), (1, 5, 4), mask=Operand(shape=(2, 1, 5), dtype="f32")),
        ),
        OpExample(inputs=_operands((2, 3, 4), (2, 0, 4), (2, 0, 4))),
        OpExample(inputs=_operands((2, 0, 4), (2, 3, 4), (2, 3, 4))),
    ),
)
ATTN = OpSchema(
    name="attn",
    summary="multi-head attention on [rows, heads*dim]: sdpa of x w by heads over k and v, side by side",
    category=CATEGORY,
    inputs=(
        _floats("x", "[R, E]"),
        _floats("k", "[S, Hkv, D], or [Hkv, D] for one position"),
        _floats("v", "[S, Hkv, Dv], or [Hkv, Dv]"),
        _floats("w", "[E, Hq*D], the projection of queries; without it x are the queries", optional=True),
    ),
    dtypes=FLOATS,
    settings=(
        SettingSpec(name="heads", type=SettingType.INT, default=None, doc="number of query heads; default columns / D"),
        replace(_CAUSAL, doc="key j is seen by row i only if j <= i + S - R: the last row sees every key"),
        _SCALE,
        _SOFTCAP,
    ),
    infer=_attn_types,
    definition=Compute(_attn),
    in_place=True,
    examples=(
        OpExample(inputs=_operands((3, 6), (5, 2, 4), (5, 2, 3), (6, 8))),
        OpExample(inputs=_operands((2, 12), (7, 1, 4), (7, 1, 4)), settings={"causal": True, "heads": 3}),
        OpExample(inputs=_operands((4, 8), (2, 4), (2, 4)), settings={"scale": 0.25, "softcap": 1.5}),
        OpExample(inputs=_operands((1, 12), (5, 3, 4), (5, 3, 2))),
        OpExample(
            inputs=(
                Operand(shape=(1, 6)),
                Operand(shape=(9, 2, 4), dtype="f16"),
                Operand(shape=(9, 2, 4), dtype="f16"),
                Operand(shape=(6, 16), dtype="f32"),
            ),
        ),
        OpExample(inputs=_operands((0, 8), (3, 2, 4), (3, 2, 4))),
    ),
)
