"""Shape rules of the catalogue yield on sizes what they yield on numbers: each example, with every extent a size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from free_calls import NEED_NUMBERS, SCHEMAS, FreeCall, numbers_needed, sizes_of

from openinfer.dims import Dim, Path, Space
from openinfer.errors import OpenInferError
from openinfer.ops.calls import OpCall

BINDINGS = 12
"""Sizes that each example is tried at; the slips of a rule show in the first few."""


def outcome(call: OpCall | Exception | None, values: Mapping[str, int]) -> object:
    if not isinstance(call, OpCall):
        return type(call)
    shapes = (tuple(n.at(values) if type(n) is Dim else n for n in made.shape) for made in call.outputs)
    return [(made.dtype.name, shape) for made, shape in zip(call.outputs, shapes, strict=True)]


def on_numbers(call: FreeCall, extents: Mapping[str, int]) -> object:
    try:
        return outcome(call.at(extents), {})
    except (OpenInferError, ArithmeticError) as error:
        return type(error)


def on_sizes(paths: Sequence[Path[OpCall]], extents: Mapping[str, int]) -> object:
    (taken,) = (path for path in paths if path.is_taken(extents))
    return outcome(taken.value if taken.error is None else taken.error, extents)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_shape_rule_yields_on_sizes_what_it_yields_on_numbers(name: str):
    for example in SCHEMAS[name].examples:
        call = FreeCall(SCHEMAS[name], example)
        if not call.extents:
            continue
        numbers = numbers_needed(call, {})
        assert not numbers or name in NEED_NUMBERS
        space = Space()
        sizes = sizes_of(call, space) | numbers

        paths = space.explore(lambda call=call, sizes=sizes: call.at(sizes))

        for binding in call.bindings(BINDINGS):
            extents = binding | numbers
            assert on_sizes(paths, extents) == on_numbers(call, extents), (example.settings, extents)
