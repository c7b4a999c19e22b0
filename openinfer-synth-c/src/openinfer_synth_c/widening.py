"""Low floats and packed types for kernels that compute in f32, f64, integers of whole bytes and bool.

Such a kernel sees its operands and its call in the types that elements are widened to as they are read, and its results
are rounded, or wrap, as they are stored: once for each operator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.ir.types import TensorType
from openinfer.ops.elementwise import work_type

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer_synth_c.elements import Bound
    from openinfer_synth_c.site import KernelSite


def widened(site: KernelSite, own: frozenset[str]) -> KernelSite:
    """Return the site as a kernel sees it that takes the types named in ``own``.

    Results are seen widened where they have the type of a widened input. With ``acc`` they are seen as they are: the
    kernel itself converts from the accumulator then.
    """
    narrow = {bound.type.dtype for bound in site.inputs if bound is not None and bound.type.dtype.name not in own}
    if not narrow:
        return site
    results = narrow if site.call.settings.get("acc") is None else narrow - narrow
    out = site.call.outputs[0].dtype
    outputs = [_seen(bound, results) for bound in site.outputs[1:]]
    store = replace(site.store, widened=(work_type(out), out)) if out in results else site.store
    call = replace(
        site.call,
        inputs=tuple(None if type_ is None else _type_in(type_, narrow) for type_ in site.call.inputs),
        outputs=tuple(_type_in(type_, results) for type_ in site.call.outputs),
    )
    inputs = tuple(None if bound is None else _seen(bound, narrow) for bound in site.inputs)
    return replace(site, call=call, inputs=inputs, store=store, outputs=(site.outputs[0], *outputs))


def _seen(bound: Bound, narrow: set[DType]) -> Bound:
    dtype = bound.type.dtype
    return replace(bound, work=work_type(dtype)) if dtype in narrow else bound


def _type_in(type: TensorType, narrow: set[DType]) -> TensorType:
    return TensorType(work_type(type.dtype), type.shape) if type.dtype in narrow else type
