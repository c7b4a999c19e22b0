"""How far the places that run a program may differ in a value: by what it is computed from."""

from __future__ import annotations

from collections.abc import Iterable

from openinfer.ops.calls import OpCall
from openinfer.ops.schema import OpSchema
from openinfer.testing.precision import tolerance_of

EXACT = 0
"""Every bit is defined."""

UNKNOWN = 4
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


def level_of(schema: OpSchema, call: OpCall, inputs: Iterable[int], *, gpu: bool = False) -> int:
    """Return how many roundings that are left open stand behind the results of a call; ``inputs`` are the same."""
    behind = max(inputs, default=EXACT)
    if behind == EXACT:
        return EXACT if _is_exact(schema, call, gpu=gpu) else 1
    if schema.category in CARRIED:
        return behind
    if behind >= UNKNOWN or not all(made.dtype.is_float for made in call.outputs):
        return UNKNOWN
    if schema.name in SMOOTH or (schema.name == "cast" and call.outputs[0].dtype.is_float):
        return behind + 1
    return UNKNOWN


def _is_exact(schema: OpSchema, call: OpCall, *, gpu: bool) -> bool:
    if not any(made.dtype.is_float for made in call.outputs):
        return not gpu or all(given is None or not given.dtype.is_float for given in call.inputs) or _compares(schema)
    if schema.category in CARRIED:
        return True
    if gpu and schema.name not in ROUNDED_ON_GPU:
        return False
    return tolerance_of(schema, call, (), ()).ulps == 0


def _compares(schema: OpSchema) -> bool:
    return schema.category in ("comparison", "mutation") or schema.name.startswith(("arg", "top"))
