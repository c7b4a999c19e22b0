"""Shape rules of the catalogue yield on sizes what they yield on numbers: each example, with every extent a size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from free_calls import SCHEMAS, FreeCall, sizes_of

from openinfer.dims import Dim, NeedsNumberError, Path, Space, evaluated, index_of
from openinfer.dtypes import BY_NAME
from openinfer.errors import OpenInferError
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall

BINDINGS = 8
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
        space = Space()
        sizes = sizes_of(call, space)

        paths = space.explore(lambda call=call, sizes=sizes: call.at(sizes))

        for extents in call.bindings(BINDINGS):
            assert on_sizes(paths, extents) == on_numbers(call, extents), (example.settings, extents)


@pytest.mark.parametrize(("scale", "length"), [(2.0, "2*H"), (0.75, "(3*H)//4"), (1.5, "(3*H)//2")])
def test_a_scale_of_few_bits_multiplies_a_size_where_the_product_is_exact(scale: float, length: str) -> None:
    space = Space()
    height = space.size("H", 1)
    image = TensorType(BY_NAME["f32"], (1, 1, height, 4))
    paths = space.explore(lambda: call_of(SCHEMAS["resize2d"], [image], {"scale": scale}).outputs[0].shape[2])
    for height_of_image, is_exact in ((2, True), (16384, True), (1 << 25, False)):
        (path,) = [path for path in paths if path.is_taken({"H": height_of_image})]
        assert isinstance(path.error, OpenInferError) is not is_exact
        assert not is_exact or str(path.value) == length


def test_a_scale_of_many_bits_needs_a_number() -> None:
    space = Space()
    image = TensorType(BY_NAME["f32"], (1, 1, space.size("H", 1), 4))
    with pytest.raises(NeedsNumberError, match=r"`H` times 0.29 is rounded to f32"):
        space.explore(lambda: call_of(SCHEMAS["resize2d"], [image], {"scale": 0.29}))


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_a_range_between_sizes_has_their_distance(dtype: str) -> None:
    space = Space()
    start, limit = space.size("p"), space.size("T")
    declared = [TensorType(BY_NAME[dtype], (0,))]
    settings = {"start": start, "limit": start + limit, "step": 2}
    (path,) = space.explore(lambda: call_of(SCHEMAS["range"], [], settings, declared).outputs[0].shape)
    assert path.value is not None
    count = index_of(path.value[0])
    assert [evaluated(count, {"T": number, "p": 3}) for number in (0, 1, 2, 5)] == [0, 1, 1, 3]
