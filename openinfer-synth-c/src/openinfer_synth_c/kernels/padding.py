"""Margins around tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.ops.catalog.padding import pad_value
from openinfer.ops.margins import margins
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.margins import Margin
    from openinfer.scalars import Scalar
    from openinfer_synth_c.site import KernelSite


@kernel("pad")
def pad(site: KernelSite) -> None:
    """Each element from its place in x, or the value where it has none."""
    code, x, settings = site.code, site.input(0), site.call.settings
    found, mode = margins(x.type.shape, settings), str(settings.get("mode"))
    shape, dtype = site.call.outputs[0].shape, site.call.outputs[0].dtype
    counters = [f"i{axis}" for axis in range(len(shape))]
    with code.loops(for_head(counter, extent) for counter, extent in zip(counters, shape, strict=True)):
        if mode == "constant":
            places = [f"({counter}{_shift(m)})" for counter, m in zip(counters, found, strict=True)]
            tests = [test for counter, m in zip(counters, found, strict=True) for test in _inside(counter, m)]
            inside = " && ".join(tests) if all(m.kept for m in found) else "false"
        else:
            places = [_declared(site, axis, margin, mode) for axis, margin in enumerate(found)]
            inside = ""
        value = pad_value(settings, dtype) if inside else 0
        _store(site, counters, inside, x.at(flat(places, contiguous(x.type.shape))), value)


def _shift(margin: Margin) -> str:
    distance = margin.kept.start - margin.before
    return f" + {distance}" if distance > 0 else f" - {-distance}" if distance else ""


def _inside(counter: str, margin: Margin) -> list[str]:
    """Return the tests whether a place of the result is one that is kept of x."""
    low = [f"{counter} >= {margin.before}"] if margin.before else []
    return [*low, *([f"{counter} < {margin.before + len(margin.kept)}"] if margin.after else [])]


def _declared(site: KernelSite, axis: int, margin: Margin, mode: str) -> str:
    """Append the place in x that a place along an axis holds; return its name."""
    count, before, at = len(margin.kept), margin.before, f"i{axis}"
    if not before and not margin.after:
        text = at
    elif mode == "edge":
        inner = f"({at} < {before + count} ? {at}{f' - {before}' if before else ''} : {count - 1})"
        text = f"({at} < {before} ? 0 : {inner})" if before else inner
    elif mode == "wrap":
        text = f"({at} + {-before % count}) % {count}"
    else:
        period = max(2 * (count - 1), 1)
        site.code.line(f"const size_t turn{axis} = ({at} + {-before % period}) % {period};")
        text = f"(turn{axis} < {count} ? turn{axis} : {period} - turn{axis})"
    start = f"{margin.kept.start} + " if margin.kept.start else ""
    site.code.line(f"const size_t place{axis} = {start}{text};")
    return f"place{axis}"


def _store(site: KernelSite, counters: Sequence[str], inside: str, element: str, value: Scalar) -> None:
    """Append the store of an element, or of the value where the test does not hold."""
    code, dtype = site.code, site.call.outputs[0].dtype
    if not inside:
        site.store.write(code, counters, element)
        return
    literal = literal_text(dtype, value)
    if inside == "false":
        site.store.write(code, counters, literal)
        return
    code.line(f"{c_type(dtype)} element = {literal};", f"if ({inside}) {{ element = {element}; }}")
    site.store.write(code, counters, "element")
