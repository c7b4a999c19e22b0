"""Rotary position embeddings: the sines of a position first, then every pair that they turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F64, I64
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ops.mixed_floats import widest
from openinfer.ops.rotary import Rotary, frequencies, rope_cached_plan, rope_plan
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.indices import nothing_to_index
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.dtypes import DType
    from openinfer_synth_c.site import KernelSite

NUMBERS_A_LINE = 6


@kernel("rope", dtypes=(*FLOATS, *INTEGERS))
def rope(site: KernelSite) -> None:
    """Pairs turned by the position times their frequency; angles are computed in double precision."""
    code, how = site.code, rope_plan(site.call.inputs, site.call.settings)
    pos, dtype = site.input(1), widest([site.input(0).type.dtype])
    _table(site, frequencies(how, site.call.settings))

    def angle(position: str) -> None:
        code.line(f"const double place = {code.cast(pos.at(position), pos.type.dtype, F64)};")
        with code.loops((for_head("p", how.pairs),)):
            code.line("const double angle = place * frequencies[p];")
            for name, filled in (("cos", "cosines"), ("sin", "sines")):
                value = code.noted(call_text(name, (F64,), F64, ("angle",)))
                code.line(f"{filled}[p] = {code.cast(f'({value})', F64, dtype)};")

    _turn(site, how, dtype, angle)


def _table(site: KernelSite, numbers: tuple[float, ...]) -> None:
    code = site.code
    texts = [literal_text(F64, number) for number in numbers] or ["0.0"]
    code.line(f"static const double frequencies[{len(texts)}] = {{")
    for start in range(0, len(texts), NUMBERS_A_LINE):
        code.line(f"    {', '.join(texts[start : start + NUMBERS_A_LINE])},")
    code.line("};")


@kernel("rope_cached", dtypes=(*FLOATS, *INTEGERS))
def rope_cached(site: KernelSite) -> None:
    """Pairs turned by given cosines and sines; a position without a row ends the step with ``MODEL_INDEX``."""
    code, how = site.code, rope_cached_plan(site.call.inputs, site.call.settings)
    x, cos, sin, pos = site.input(0), site.input(1), site.input(2), site.optional(3)
    dtype = widest(bound.type.dtype for bound in (x, cos, sin))
    rows = cos.type.shape[0]
    if pos is not None and nothing_to_index(site, pos, rows):
        return

    def row(position: str) -> None:
        if pos is None:
            code.line(f"const size_t row = {position};")
        else:
            code.line(f"int64_t place = {code.cast(pos.at(position), pos.type.dtype, I64)};")
            if pos.type.dtype.minimum != 0:
                code.line(f"if (place < 0) {{ place += {rows}; }}")
            code.line(
                f"if (place < 0 || place >= {rows}) {{ return MODEL_INDEX; }}", "const size_t row = (size_t)place;"
            )
        with code.loops((for_head("p", how.pairs),)):
            for name, table in (("cosines", cos), ("sines", sin)):
                value = code.cast(table.at(flat(("row", "p"), (how.pairs, 1))), table.type.dtype, dtype)
                code.line(f"{name}[p] = {value};")

    _turn(site, how, dtype, row)


def _turn(site: KernelSite, how: Rotary, dtype: DType, prepare: Callable[[str], None]) -> None:
    """Append the loops: positions outermost, with ``prepare`` filling cosines and sines, then all other dims."""
    code, shape = site.code, site.input(0).type.shape
    counters = [f"i{axis}" for axis in range(len(shape) - 1)]
    outer = [0, how.axis] if how.batched else [how.axis]
    inner = [axis for axis in range(len(shape) - 1) if axis not in outer]
    kind = c_type(dtype)
    with code.loops(for_head(counters[axis], shape[axis]) for axis in outer):
        code.scratch(kind, "cosines", how.pairs)
        code.scratch(kind, "sines", how.pairs)
        prepare(flat([counters[axis] for axis in outer], contiguous([shape[axis] for axis in outer])))
        with code.loops(for_head(counters[axis], shape[axis]) for axis in inner):
            _pairs(site, how, dtype, counters)


def _pairs(site: KernelSite, how: Rotary, dtype: DType, counters: list[str]) -> None:
    code, x = site.code, site.input(0)
    kind, out = c_type(dtype), site.call.outputs[0].dtype
    strides = contiguous(x.type.shape)

    def store(place: str, value: str) -> None:
        site.store.write(code, (*counters, place), code.cast(f"({value})", dtype, out))

    def element(place: str) -> str:
        return code.cast(x.at(flat((*counters, place), strides)), x.type.dtype, dtype)

    first, second = ("(2 * p)", "(2 * p + 1)") if how.interleaved else ("p", f"(p + {how.pairs})")
    with code.loops((for_head("p", how.pairs),)):
        code.line(f"const {kind} a = {element(first)};", f"const {kind} b = {element(second)};")
        store(first, "a * cosines[p] - b * sines[p]")
        store(second, "b * cosines[p] + a * sines[p]")
    if 2 * how.pairs < x.type.shape[-1]:
        with code.loops((for_head("p", x.type.shape[-1], 2 * how.pairs),)):
            code.line(f"const {kind} rest = {element('p')};")
            store("p", "rest")
