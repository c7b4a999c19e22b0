"""How far the places that run a program may differ in a value: by what it is computed from."""

from __future__ import annotations

from collections.abc import Iterable

from openinfer.ops.calls import OpCall
from openinfer.ops.schema import OpSchema
from openinfer.testing.precision import tolerance_of

EXACT = 0
"""Every bit is defined."""

SIGNS = 1
"""Every bit but the signs of zeros, of which the greater and the lesser may be either."""

NEAR = 2
"""A rounding is left open; each level above has one more."""

DIVIDED = 3
"""Floats have one rounding more left open; integers come of an inexact division and may differ by a step."""

UNKNOWN = 5
"""Too many roundings, or a step function of something rounded: the value is not compared."""

CARRIED = frozenset({"movement", "indexing"})
"""Categories of operators that pass values on as they are."""

SMOOTH = frozenset(
    {"add", "sub", "neg", "abs", "relu", "max", "min", "sum_axis", "mean_axis", "max_axis", "min_axis", "where"}
    | {"fill_nan_like", "max_pool2d", "max_pool1d", "avg_pool2d", "avg_pool1d", "global_avg_pool", "global_max_pool"}
    | {"sigmoid", "tanh", "softmax", "hard_sigmoid", "erf"}
)
"""Operators whose results change little where their inputs do."""

ROUNDED_ON_GPU = frozenset({"add", "sub", "mul", "neg", "abs", "relu", "max", "min", "where", "fill", "cast", "filter"})
"""Operators on floats whose results a GPU rounds as the specification says, apart from those that carry values."""

DIVIDED_ON_GPU = frozenset({"quantize_linear", "dynamic_quantize_linear", "qlinear_matmul"})
"""Operators that round a quotient of floats to an integer, which a GPU does not divide exactly."""

SIGNED = frozenset({"div", "recip", "rem", "mod", "pow", "rsqrt", "floor_div"})
"""Operators that make something else of another sign of zero."""


def level_of(schema: OpSchema, call: OpCall, inputs: Iterable[int], *, gpu: bool = False) -> int:
    """Return how far the results of a call are defined; ``inputs`` says the same about the inputs."""
    before, own = max(inputs, default=EXACT), _own_level(schema, call, gpu=gpu)
    is_float = all(made.dtype.is_float for made in call.outputs)
    if before >= UNKNOWN or (before == SIGNS and schema.name in SIGNED):
        return UNKNOWN
    if before <= SIGNS:
        return max(before, own) if is_float else own
    if schema.category in CARRIED:
        return max(before, own)
    if not is_float:
        return UNKNOWN
    is_smooth = schema.name in SMOOTH or schema.name == "cast"
    return max(before, own, NEAR) + 1 if is_smooth else UNKNOWN


def _own_level(schema: OpSchema, call: OpCall, *, gpu: bool) -> int:
    """Return how far the results of a call on defined inputs are."""
    if gpu and schema.name in DIVIDED_ON_GPU:
        return DIVIDED
    if not any(made.dtype.is_float for made in call.outputs):
        is_step = gpu and any(given is not None and given.dtype.is_float for given in call.inputs)
        return NEAR if is_step and not _compares(schema) else EXACT
    tolerance = tolerance_of(schema, call, (), ())
    if tolerance.ulps == 0 and not tolerance.zero_signs:
        return SIGNS
    if schema.category in CARRIED or (tolerance.ulps == 0 and not (gpu and schema.name not in ROUNDED_ON_GPU)):
        return EXACT
    return NEAR


def _compares(schema: OpSchema) -> bool:
    return schema.category in ("comparison", "mutation") or schema.name.startswith(("arg", "top"))
