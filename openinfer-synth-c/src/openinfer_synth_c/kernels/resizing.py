"""Images of other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import c_type
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import FLOATS, kernel

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer_synth_c.site import KernelSite


def _takes(call: OpCall) -> bool:
    return call.settings.get("mode") == "nearest"


def _mixes(call: OpCall) -> bool:
    return call.settings.get("mode") == "linear"


@kernel("resize2d", supports=_takes)
def nearest(site: KernelSite) -> None:
    """The element at floor(place * in / out) of each dim."""
    code, x, out = site.code, site.input(0), site.call.outputs[0].shape
    rows, columns = x.type.shape[2:]
    with code.loops(for_head(c, n) for c, n in zip("ncpq", out, strict=True)):
        place = flat(("n", "c", f"(p * {rows} / {out[2]})", f"(q * {columns} / {out[3]})"), contiguous(x.type.shape))
        site.store.write(code, ("n", "c", "p", "q"), x.at(place))


@kernel("resize2d", dtypes=FLOATS, supports=_mixes)
def linear(site: KernelSite) -> None:
    """The mixture of the four elements around (place + 1/2) * in / out - 1/2, rows first."""
    code, x, out = site.code, site.input(0), site.call.outputs[0].shape
    kind, strides = x.c_type, contiguous(x.type.shape)
    heads = [for_head(c, n) for c, n in zip("ncpq", out, strict=True)]
    with code.loops(heads[:3]):
        _between(site, "p", x.type.shape[2], out[2])
        with code.loops(heads[3:]):
            _between(site, "q", x.type.shape[3], out[3])
            for end in ("low", "high"):
                first, second = (x.at(flat(("n", "c", f"p_{row}", f"q_{end}"), strides)) for row in ("low", "high"))
                code.line(f"const {kind} {end} = {first} * (1 - p_share) + {second} * p_share;")
            code.line(f"const {kind} mixed = low * (1 - q_share) + high * q_share;")
            site.store.write(code, ("n", "c", "p", "q"), "mixed")


def _between(site: KernelSite, counter: str, size: int, result: int) -> None:
    """Append the two places around a place of the result, and its distance from the first."""
    code, kind = site.code, c_type(site.input(0).type.dtype)
    at = f"{counter}_at"
    code.line(
        f"double {at} = ((double){counter} + 0.5) * {size} / {result} - 0.5;",
        f"if ({at} < 0) {{ {at} = 0; }}",
        f"if ({at} > {size - 1}) {{ {at} = {size - 1}; }}",
        f"const size_t {counter}_low = (size_t){at};",
        f"const size_t {counter}_high = {counter}_low + 1 < {size} ? {counter}_low + 1 : {counter}_low;",
        f"const {kind} {counter}_share = ({kind})({at} - (double){counter}_low);",
    )
