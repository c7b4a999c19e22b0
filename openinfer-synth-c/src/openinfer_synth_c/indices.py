"""Index inputs in C: tested against the extent that they index before anything is read or written there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite


def declare_place(code: Code, name: str, index: tuple[Bound, str], extent: int, *, negative: bool = True) -> None:
    """Append a ``size_t`` constant, the place that an element of an index input names in a dim of ``extent``.

    Negative indices count from the end where ``negative``. The generated block returns ``MODEL_INDEX`` for others that
    are out of range; ``extent`` is at least 1.
    """
    bound, position = index
    text = bound.at(position)
    if bound.type.dtype.minimum == 0:
        code.line(
            f"const uint64_t {name}_index = {text};",
            f"if ({name}_index >= {extent}) {{ return MODEL_INDEX; }}",
            f"const size_t {name} = (size_t){name}_index;",
        )
        return
    lowest = -extent if negative else 0
    code.line(
        f"const int64_t {name}_index = {text};",
        f"if ({name}_index < {lowest} || {name}_index >= {extent}) {{ return MODEL_INDEX; }}",
        f"const size_t {name} = (size_t)({name}_index < 0 ? {name}_index + {extent} : {name}_index);",
    )


def nothing_to_index(site: KernelSite, indices: Bound, *extents: int) -> bool:
    """Return whether there are indices into nothing, after appending that this is out of range."""
    if not indices.type.count or 0 not in extents:
        return False
    site.code.line("return MODEL_INDEX;")
    return True
