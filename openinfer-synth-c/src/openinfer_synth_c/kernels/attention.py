"""Attention, one query of one head after the other: products with the keys, softmax, weighted sum of the values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ops.attention import Attention, attention, folded_attention
from openinfer.ops.mixed_floats import widest
from openinfer.ops.strides import broadcast_strides, contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import FLOATS, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite

LANES = 8
"""Sums that run side by side in a product of query and key, which compilers turn into vector instructions."""


@dataclass(frozen=True, slots=True)
class _Heads:
    """Where an operand has the vector of a batch entry, head and position: strides in elements."""

    bound: Bound
    batch: int
    head: int
    position: int

    def start(self, head: str, position: str) -> str:
        return flat(("b", head, position), (self.batch, self.head, self.position))


@dataclass(frozen=True, slots=True)
class _Loop:
    """An attention being written.

    Attributes:
        dtype: type that it is computed in.
        store: appends the store of an element of the result, given its place in the vector and its value.
    """

    site: KernelSite
    how: Attention
    dtype: DType
    queries: _Heads
    keys: _Heads
    values: _Heads
    mask: Bound | None
    store: Callable[[str, str], None]

    def read(self, bound: Bound, index: str) -> str:
        return self.site.code.cast(bound.at(index), bound.type.dtype, self.dtype)

    def function(self, name: str, *texts: str) -> str:
        call = call_text(name, (self.dtype,) * len(texts), self.dtype, texts)
        return self.site.code.noted(call)

    def literal(self, value: float) -> str:
        return literal_text(self.dtype, value)


@kernel("sdpa", dtypes=(*FLOATS, BOOL))
def sdpa(site: KernelSite) -> None:
    """Attention of q [B,Hq,Sq,D] over k and v, with their first dims left out where they are 1."""
    how = attention(site.call.inputs, site.call.settings)
    out = site.call.outputs[0]
    dtype = _computed(site)

    def store(element: str, value: str) -> None:
        coordinates = ("b", "h", "i", element)[4 - len(out.shape) :]
        site.store.write(site.code, coordinates, site.code.cast(value, dtype, out.dtype))

    def heads(number: int, extents: tuple[int, int, int]) -> _Heads:
        bound = site.input(number)
        return _Heads(bound, *contiguous((1, *extents))[:3])

    q, k, v = (site.input(number).type.shape for number in range(3))
    loop = _Loop(
        site,
        how,
        dtype,
        heads(0, (how.heads, how.queries, q[-1])),
        heads(1, (how.kv_heads, how.keys, k[-1])),
        heads(2, (how.kv_heads, how.keys, v[-1])),
        site.optional(3),
        store,
    )
    _write(loop)


def _without_projection(call: OpCall) -> bool:
    return len(call.inputs) < 4 or call.inputs[3] is None


@kernel("attn", dtypes=FLOATS, supports=_without_projection)
def attn(site: KernelSite) -> None:
    """Attention of rows with heads folded into columns over k [S,H,D] and v, which are read where they lie."""
    how = folded_attention(site.call.inputs, site.call.settings)
    dtype, out = _computed(site), site.call.outputs[0].dtype

    def store(element: str, value: str) -> None:
        column = flat(("h", element), (how.value_depth, 1))
        site.store.write(site.code, ("i", f"({column})"), site.code.cast(value, dtype, out))

    loop = _Loop(
        site,
        how,
        dtype,
        _Heads(site.input(0), 0, how.depth, how.heads * how.depth),
        _Heads(site.input(1), 0, how.depth, how.kv_heads * how.depth),
        _Heads(site.input(2), 0, how.value_depth, how.kv_heads * how.value_depth),
        None,
        store,
    )
    _write(loop)


def _computed(site: KernelSite) -> DType:
    given = (bound.type.dtype for bound in site.inputs if bound is not None)
    return widest(dtype for dtype in given if dtype.is_float)


def _write(loop: _Loop) -> None:
    how, code = loop.how, loop.site.code
    kind = c_type(loop.dtype)
    with code.loops((for_head("b", how.batch), for_head("h", how.heads), for_head("i", how.queries))):
        # Compilers and analysers cannot see that a range of keys that the query decides is written before it is read.
        code.scratch(kind, "weights", how.valid, start=loop.literal(0))
        code.line(f"{kind} top = {loop.literal(-math.inf)};")
        _range(loop)
        if how.depth:
            code.line(f"const size_t query = {loop.queries.start('h', 'i')};")
        with code.loops((for_head("j", "last", "first"),)):
            _weight(loop)
        _result(loop)


def _range(loop: _Loop) -> None:
    """Append the range of keys that the query may look at."""
    how, code = loop.how, loop.site.code
    code.line(f"size_t first = 0, last = {how.valid};")
    if how.causal or how.window is not None:
        code.line(f"const int64_t position = (int64_t)i + {_signed(how.offset)};")
    if how.causal:
        code.line(f"if (position < {how.valid}) {{ last = position < 0 ? 0 : (size_t)position + 1; }}")
        code.line(f"if (last > {how.valid}) {{ last = {how.valid}; }}")
    if how.window is not None:
        code.line(f"if (position > {how.window}) {{ first = (size_t)(position - {how.window}); }}")
        code.line("if (first > last) { first = last; }")


def _signed(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"


def _weight(loop: _Loop) -> None:
    """Append the computation of one weight before its softmax; -inf for a key that the mask hides."""
    how, code = loop.how, loop.site.code
    kind = c_type(loop.dtype)
    hides = loop.mask is not None and loop.mask.type.dtype is BOOL
    if loop.mask is not None and hides:
        with code.braces(f"if (!{_mask_at(loop, loop.mask)})"):
            code.line(f"weights[j] = {loop.literal(-math.inf)};", "continue;")
    if how.depth:
        code.line(f"const size_t key = {loop.keys.start(_shared_head(loop), 'j')};")
    _product(loop)
    code.line(f"{kind} weight = {loop.literal(how.scale)} * product;")
    if how.softcap > 0:
        cap = loop.literal(how.softcap)
        code.line(f"weight = {cap} * {loop.function('tanh', f'(weight / {cap})')};")
    if loop.mask is not None and not hides:
        code.line(f"weight += {code.cast(_mask_at(loop, loop.mask), loop.mask.type.dtype, loop.dtype)};")
    # A NaN stays the greatest once it is.
    code.line("weights[j] = weight;", "if (weight > top || weight != weight) { top = weight; }")


def _shared_head(loop: _Loop) -> str:
    """Return the head of keys and values, which some heads of queries share."""
    return "h" if loop.how.group == 1 else f"(h / {loop.how.group})"


def _mask_at(loop: _Loop, mask: Bound) -> str:
    weights = (loop.how.batch, loop.how.heads, loop.how.queries, loop.how.keys)
    return mask.at(flat(("b", "h", "i", "j"), broadcast_strides(mask.type.shape, weights)))


def _product(loop: _Loop) -> None:
    """Append ``product``, that of query and key."""
    code, depth = loop.site.code, loop.how.depth
    kind, zero = c_type(loop.dtype), loop.literal(0)
    code.line(f"{kind} product = {zero};")
    whole = depth - depth % LANES
    if whole:
        code.line(f"{kind} lanes[{LANES}] = {{{zero}}};")
        with code.loops((f"for (size_t d = 0; d < {whole}; d += {LANES})", for_head("n", LANES))):
            q, k = (loop.read(part.bound, f"{at} + d + n") for part, at in _factors(loop))
            code.line(f"lanes[n] += {q} * {k};")
        code.line(f"for (size_t n = 0; n < {LANES}; ++n) {{ product += lanes[n]; }}")
    if whole < depth:
        with code.loops((for_head("d", depth, whole),)):
            q, k = (loop.read(part.bound, f"{at} + d") for part, at in _factors(loop))
            code.line(f"product += {q} * {k};")


def _factors(loop: _Loop) -> tuple[tuple[_Heads, str], tuple[_Heads, str]]:
    return (loop.queries, "query"), (loop.keys, "key")


def _result(loop: _Loop) -> None:
    """Append the sum of the values by weight; zeros for a query that sees no key."""
    how, code = loop.how, loop.site.code
    kind, zero = c_type(loop.dtype), loop.literal(0)
    code.scratch(kind, "result", how.value_depth)
    code.line(f"{kind} total = {zero};")
    with code.loops((for_head("d", how.value_depth),)):
        code.line(f"result[d] = {zero};")
    hidden = f"weights[j] == {loop.literal(-math.inf)}"
    with code.loops((for_head("j", "last", "first"),)):
        code.line(f"if ({hidden}) {{ continue; }}")
        code.line(f"const {kind} weight = {loop.function('exp', '(weights[j] - top)')};", "total += weight;")
        code.line(f"const size_t value = {loop.values.start(_shared_head(loop), 'j')};")
        with code.loops((for_head("d", how.value_depth),)):
            code.line(f"result[d] += weight * {loop.read(loop.values.bound, 'value + d')};")
    with code.loops((for_head("d", how.value_depth),)):
        code.line(f"const {kind} mean = top == {loop.literal(-math.inf)} ? {zero} : result[d] / total;")
        loop.store("d", "mean")
