"""What a program takes from a model, by its text alone."""

import pytest

from openinfer.dsl import graph
from openinfer.validate.model_needs import ModelNeeds, model_needs

NEEDS = {
    "nothing": ("dynamic { x: f32[2]; } block entry { op relu(x) >> y; return y; }", (), ()),
    "a constant": (
        "dynamic { x: f32[2]; } constant { w: f32[2]; } block entry { op add(x, w) >> y; return y; }",
        ("w",),
        (),
    ),
    "a constant with a value": (
        "dynamic { x: f32[2]; } constant { w: f32 @init(2.0); } block entry { op mul(x, w) >> y; return y; }",
        (),
        (),
    ),
    "a tensor by reference": (
        'dynamic { x: f32[2]; } volatile { v: f32[2] @ref("a"); } block entry { op add(x, v) >> v; return v; }',
        ("v",),
        (),
    ),
    "data that is read and never written": (
        "dynamic { x: f32[2]; } volatile { v: f32[2]; } block entry { op add(x, v) >> y; return y; }",
        ("v",),
        (),
    ),
    "memory that a step fills": (
        "dynamic { x: f32[2]; } persistent { h: f32[2]; } block entry { op add(x, h) >> h; return h; }",
        (),
        (),
    ),
    "sizes": (
        "dynamic { x: f32[N, 2*M]; } block entry { assign y: f32[N, K]; op relu(x) >> y; return y; }",
        (),
        ("N", "M", "K"),
    ),
}


@pytest.mark.parametrize(("text", "declarations", "sizes"), NEEDS.values(), ids=list(NEEDS))
def test_a_program_needs(text: str, declarations: tuple[str, ...], sizes: tuple[str, ...]) -> None:
    needs = model_needs(graph(text))

    assert needs == ModelNeeds(declarations, sizes)
    assert bool(needs) is bool(declarations or sizes)


def test_needs_are_named_in_messages() -> None:
    needs = ModelNeeds(("a", "b", "c", "d", "e"), ("N",))

    assert str(needs) == "variables `a`, `b`, `c` and 2 more and size `N`"
    assert str(needs.without({"N": 1})) == "variables `a`, `b`, `c` and 2 more"
    assert not ModelNeeds((), ("N",)).without(["N"])
