"""Extents and settings of attention (``specification: operators.attention``).

Backends use `attention` and `folded_attention` too, so that the rules for shapes and the kernels cannot disagree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dims import stretches
from openinfer.ops.schema import OpTypeError
from openinfer.ops.shapes import integer, needed, optional, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType

    Inputs = Sequence[TensorType | None]
    Settings = Mapping[str, SettingValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """An attention: query ``i`` of head ``h`` reads the keys of head ``h // group``.

    Attributes:
        batch, heads, kv_heads, queries, keys: extents; ``keys`` counts those in memory.
        depth: elements of a query and of a key.
        value_depth: elements of a value.
        stated_scale: factor of the products of queries and keys; None: 1 / sqrt(depth).
        softcap: bound of the scaled products; 0 for none.
        valid: number of keys that count, from the first.
        causal: whether key ``j`` is seen by query ``i`` only if ``j <= i + offset``.
        window: key ``j`` is seen by query ``i`` only if ``j >= i + offset - window``; None for no such limit.
        offset: position of the first query among the keys.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    depth: int
    value_depth: int
    stated_scale: float | None
    softcap: float
    valid: int
    causal: bool
    window: int | None
    offset: int

    @property
    def scale(self) -> float:
        """Factor of the products of queries and keys."""
        return 1 / math.sqrt(max(self.depth, 1)) if self.stated_scale is None else self.stated_scale

    @property
    def group(self) -> int:
        """Number of query heads that share a head of keys and values."""
        return self.heads // self.kv_heads if self.kv_heads else 0

    def seen(self, query: int) -> range:
        """Return the keys that a query may read, before any mask."""
        last = max(0, min(self.valid, query + self.offset + 1)) if self.causal else self.valid
        first = 0 if self.window is None else min(last, max(0, query + self.offset - self.window))
        return range(first, last)


def attention(inputs: Inputs, settings: Settings) -> Attention:
    """Return the attention of q [B,Hq,Sq,D] over k [B,Hkv,Sk,D] and v [B,Hkv,Sk,Dv]; rank 3: no B, rank 2: no heads.

    Raises:
        OpTypeError: the shapes do not fit together, or a setting does not fit them.
    """
    q, k, v = (needed(inputs, number) for number in range(3))
    rank = len(q.shape)
    if not 2 <= rank <= 4 or len(k.shape) != rank or len(v.shape) != rank:
        raise OpTypeError(f"q, k and v have rank 4 [B,H,S,D], 3 or 2, all the same; found {q}, {k}, {v}")
    (batch, heads, queries, depth), keys, values = (_whole(kind.shape) for kind in (q, k, v))
    if (keys[0], keys[3]) != (batch, depth):
        raise OpTypeError(f"k is {k}: its batch and last dim must be those of q {q}")
    if values[:3] != keys[:3]:
        raise OpTypeError(f"v is {v}: all but its last dim must be those of k {k}")
    _check_heads(heads, keys[1])
    return _attention((batch, heads, keys[1], queries, keys[2], depth, values[3]), settings)


def folded_attention(inputs: Inputs, settings: Settings) -> Attention:
    """Return the attention of rows x [R,E] times w [E,Hq*D] (or of x itself) over k [S,Hkv,D] and v [S,Hkv,Dv].

    Raises:
        OpTypeError: the shapes do not fit together, or a setting does not fit them.
    """
    x, k, v = (needed(inputs, number) for number in range(3))
    w = optional(inputs, 3)
    if len(x.shape) != 2:
        raise OpTypeError(f"x is {x}, expected [R, E]: one row for each query")
    if len(k.shape) not in (2, 3) or len(v.shape) != len(k.shape):
        raise OpTypeError(f"k and v are {k} and {v}, expected [S,Hkv,D] and [S,Hkv,Dv], or both without S")
    keys, kv_heads, depth = k.shape if len(k.shape) == 3 else (1, *k.shape)
    if v.shape[:-1] != k.shape[:-1]:
        raise OpTypeError(f"v is {v}: all but its last dim must be those of k {k}")
    if w is not None and (len(w.shape) != 2 or w.shape[0] != x.shape[1]):
        raise OpTypeError(f"w is {w}, expected [E, Hq*D] with the E of x {x}")
    columns = x.shape[1] if w is None else w.shape[1]
    heads = _folded_heads(columns, depth, settings.get("heads"))
    _check_heads(heads, kv_heads)
    return _attention((1, heads, kv_heads, x.shape[0], keys, depth, v.shape[-1]), settings)


def _folded_heads(columns: int, depth: int, given: SettingValue) -> int:
    if not depth or columns % depth:
        raise OpTypeError(f"{columns} columns of queries are not a multiple of the {depth} elements of a key")
    heads = columns // depth
    if given is not None and given != heads:
        raise OpTypeError(
            f"heads is {given}, but {columns} columns hold {heads} heads of {depth} elements", settings=("heads",)
        )
    return heads


def _whole(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*(1 for _ in range(4 - len(shape))), *shape)


def _check_heads(heads: int, kv_heads: int) -> None:
    if heads and (not kv_heads or heads % kv_heads):
        raise OpTypeError(f"{heads} query heads are not a multiple of {kv_heads} key and value heads")


def _attention(extents: tuple[int, ...], settings: Settings) -> Attention:
    batch, heads, kv_heads, queries, keys, depth, value_depth = extents
    valid = _optional(settings, "kv_len", keys)
    if not 0 <= valid <= keys:
        raise OpTypeError(f"kv_len is {valid}, expected 0..{keys}: k has {keys} keys", settings=("kv_len",))
    window = _optional(settings, "window", -1)
    scale = settings.get("scale")
    softcap = settings.get("softcap")
    return Attention(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys,
        depth=depth,
        value_depth=value_depth,
        stated_scale=float(scale) if isinstance(scale, int | float) else None,
        softcap=float(softcap) if isinstance(softcap, int | float) else 0.0,
        valid=valid,
        causal=bool(settings.get("causal")),
        window=window if window >= 0 else None,
        offset=_optional(settings, "q_offset", valid - queries),
    )


def _optional(settings: Settings, name: str, default: int) -> int:
    value = settings.get(name)
    return default if value is None else integer(value, name)


def check_mask(mask: TensorType, weights: tuple[int, ...]) -> None:
    """Check that a mask broadcasts to the weights of an attention, [B,Hq,Sq,Sk] or without its first dims.

    Raises:
        OpTypeError: it does not.
    """
    ends = weights[max(len(weights) - len(mask.shape), 0) :]
    if len(mask.shape) > len(weights) or not all(map(stretches, mask.shape, ends)):
        raise OpTypeError(f"mask is {mask}, expected a shape that broadcasts to {shown(weights)}")
