"""Definitions of the catalogue compute with sizes what they compute with numbers: each example, every extent a size."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from free_calls import SCHEMAS, FreeCall, definition_of, free_settings, is_defined, sizes_of

from openinfer.array_types import storage_dtype
from openinfer.compute import Computation
from openinfer.compute.builder import ComputationError
from openinfer.compute.evaluate import RefusedError, evaluate
from openinfer.dims import Let, Path, Space
from openinfer.errors import OpenInferError
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import OpExample

BINDINGS = int(os.environ.get("OPENINFER_SIZE_BINDINGS", "4"))
"""Sizes that each example is tried at."""

REFUSED = {"reshape", "resize2d", "space_to_depth"}
"""Operators some of whose forms are not proved to stay within their tensors while *every* extent is a size: a shape
without dims, a quotient by half of a size, images and channels in one product."""

FOLLOWED = {"attn", "einsum", "expand", "sdpa"}
"""Operators whose definitions ask more than their shape rules: an axis of 1 is broadcast, or heads share keys."""

Array = npt.NDArray[Any]


NAMES = sorted(name for name, schema in SCHEMAS.items() if is_defined(schema))


def arrays(example: OpExample, call: OpCall) -> list[Array]:
    draw = np.random.default_rng(5)

    def drawn() -> Iterator[Array]:
        for operand, type_ in zip(example.inputs, call.inputs, strict=False):
            if operand is None or type_ is None:
                continue
            dtype = storage_dtype(type_.dtype)
            if operand.low is not None and operand.high is not None:
                yield draw.integers(operand.low, operand.high + 1, type_.shape).astype(dtype)
            elif type_.dtype.is_float:
                yield draw.standard_normal(type_.shape).astype(dtype)
            else:
                yield draw.integers(0, 2 if dtype == np.bool_ else 5, type_.shape).astype(dtype)

    return list(drawn())


def result(computation: Computation, inputs: Sequence[Array], sizes: Mapping[str, int]) -> Sequence[Array] | None:
    lets = {var.name: var.evaluated(sizes) for var in computation.parameters if isinstance(var, Let)}
    try:
        return evaluate(computation, inputs, {**sizes, **lets})
    except RefusedError:
        return None


def is_alike(one: Sequence[Array] | None, other: Sequence[Array] | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class Defined:
    """A computation, and how many answers its shape rule and its definition followed."""

    computation: Computation
    by_rule: int
    together: int


def on_sizes(call: FreeCall, *, with_settings: bool = False) -> list[Path[Defined]]:
    """Return the ways through a definition."""
    space = Space()
    settings = free_settings(call, space) if with_settings else None
    sizes = sizes_of(call, space)

    def defined() -> Defined:
        made = call.at(sizes, settings)
        by_rule = len(space.guards)
        computation = definition_of(call.schema, made.substituted(space.solutions()))
        return Defined(computation, by_rule, len(space.guards))

    return space.explore(defined)


@pytest.mark.parametrize("name", NAMES)
def test_a_definition_computes_with_sizes_what_it_computes_with_numbers(name: str):
    schema = SCHEMAS[name]
    for example in schema.examples:
        call = FreeCall(schema, example)
        if not call.extents:
            continue

        paths = on_sizes(call)

        computed = [path.value for path in paths if path.value is not None]
        assert name in FOLLOWED or all(made.by_rule == made.together for made in computed)
        for extents in call.bindings(BINDINGS):
            try:
                plain = call.at(extents)
                expected = definition_of(schema, plain)
            except (OpenInferError, ArithmeticError):
                continue
            if name.startswith("scatter") and 0 in plain.outputs[0].shape:
                continue  # There is no stage in which places of nothing could be refused.
            (taken,) = (path for path in paths if path.is_taken(extents))
            if isinstance(taken.error, ComputationError) and name in REFUSED:
                continue
            assert taken.value is not None, (example.settings, extents, taken.error)
            inputs = arrays(example, plain)
            outputs = result(taken.value.computation, inputs, extents)
            assert is_alike(outputs, result(expected, inputs, {})), (example.settings, extents)


WITH_SETTINGS = [
    "argmax_axis",
    "clamp",
    "concat",
    "cumsum",
    "div",
    "fill",
    "flatten",
    "gather_nd",
    "one_hot",
    "relu",
    "select",
    "shl",
    "shr",
    "softmax",
    "squeeze",
    "transpose",
]
"""Operators with settings that name dims, count places or are elements."""


def settings_near(call: FreeCall, count: int) -> Iterator[dict[str, int]]:
    """Yield the integers of the settings, then some near them with the same signs."""
    draw, own = random.Random(3), call.integers
    yield own
    for _ in range(1, count):
        moved = {name: value + draw.choice((-2, -1, 0, 1, 2)) for name, value in own.items()}
        yield {name: max(value, 0) if own[name] >= 0 else min(value, -1) for name, value in moved.items()}


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_a_definition_computes_with_settings_of_run_time_what_it_computes_with_numbers(name: str):
    calls = [FreeCall(SCHEMAS[name], example) for example in SCHEMAS[name].examples]
    call = next(call for call in calls if call.integers)
    paths = on_sizes(call, with_settings=True)
    for integers in settings_near(call, 4 * BINDINGS):
        values = call.extents | integers
        (taken,) = (path for path in paths if path.is_taken(values))
        try:
            plain = call.at(call.extents, call.settings(lambda name, _, integers=integers: integers[name]))
        except OpenInferError:
            assert isinstance(taken.error, OpenInferError), values
            continue
        assert taken.value is not None, (values, taken.error)
        inputs = arrays(call.example, plain)
        outputs = result(taken.value.computation, inputs, values)
        assert is_alike(outputs, result(definition_of(call.schema, plain), inputs, {})), values
