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
    "a counter": (
        "persistent { n: i32; } block entry { cache.increment n; cache.read n >> m; return m; }",
        (),
        (),
    ),
    "a counter that goes down and is reset": (
        "persistent { n: i32; } block entry { cache.decrement n; cache.reset n; return n; }",
        (),
        (),
    ),
    "a register": (
        (
            "dynamic { x: f32[2]; } persistent { h: f32[2]; } "
            "block entry { cache.read h >> y; cache.write x >> h; return y; }"
        ),
        (),
        (),
    ),
    "a cache that grows": (
        (
            "dynamic { x: f32[2]; } persistent { n: i32; M(i): f32[2] @auto_dim(i); } "
            "block entry { cache.write x >> M[n]; cache.read M[] >> all; cache.increment n; return all; }"
        ),
        (),
        (),
    ),
    "a size in a bound": (
        "dynamic { x: f32[2]; } block entry { loop l (i in 0..L) { op relu(x) >> x; } return x; }",
        (),
        ("L",),
    ),
    "a size in a slot, an index and a setting": (
        (
            "dynamic { x: f32[2]; } persistent { M(i): f32 @auto_dim(i); } "
            "block entry { cache.write x[P] >> M[S]; op fill(value=F) >> y; return y; }"
        ),
        (),
        ("P", "S", "F"),
    ),
    "indices of loops": (
        "dynamic { x: f32[4]; } block entry { loop l (i in 1..4) { assign t: f32[i]; transfer x[i] >> s; } return x; }",
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
