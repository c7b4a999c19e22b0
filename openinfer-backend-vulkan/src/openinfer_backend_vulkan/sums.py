"""What products are summed in: f32, 32 bits for integers, which wrap alike at any width below, and bool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, F32, I32, U32, Kind
from openinfer.expr import tree
from openinfer.ops.accumulate import accumulator, delivered
from openinfer.ops.elementwise import work_type
from openinfer_backend_vulkan.functions import Functions

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall


def sums_in_32_bits(call: OpCall) -> bool:
    """Return whether results and what they are summed in have at most 32 bits."""
    return call.outputs[0].dtype.bits <= 32 and accumulator(_first(call), call.settings).bits <= 32


def sum_functions(call: OpCall, factors: int) -> Functions:
    """Return how a call reads its inputs, sums products of the first ``factors`` of them and writes the sum.

    With the setting ``acc``, sums wrap at the width of that type and are converted from it.
    """
    out, total = call.outputs[0].dtype, accumulator(_first(call), call.settings)
    work = _work(total)
    functions = Functions(work)
    for number, given in enumerate(given for given in call.inputs if given is not None):
        functions.load(number, given.dtype, total if number >= factors and not total.is_low_float else None)
    value = tree.Input(0, work)
    if call.settings.get("acc") is None:
        functions.store(tree.cast(value, out))
    else:
        functions.store(delivered(tree.cast(value, work_type(total)), call.settings, out))
    functions.sums()
    return functions


def _first(call: OpCall) -> DType:
    return next(given.dtype for given in call.inputs if given is not None)


def _work(total: DType) -> DType:
    if total.is_float or total is BOOL:
        return BOOL if total is BOOL else F32
    return I32 if total.kind in (Kind.SIGNED, Kind.TERNARY) else U32
