"""How far caches may grow in generated C: from sizes and loops, or from limits that the user gives."""

from __future__ import annotations

import pytest
from generated_c import needs_gcc, synthesised

from openinfer.errors import SynthesisError

pytestmark = needs_gcc

UNBOUNDED = """
dynamic { x: f32; }
volatile { y: f32; }
persistent { n: i32; K(l, t): f32[] @table; V(t): f32[] @table; }
block entry {
  loop layers (l in 0..3) { cache.write x >> K[l, n]; }
  cache.write x >> V[n];
  cache.read K[2, n] >> y;
  return y;
}
"""


def test_growth_without_a_bound_is_an_error_that_names_both_ways_to_give_it():
    with pytest.raises(SynthesisError, match="cache `K` needs a bound for `t`: its memory is reserved") as caught:
        synthesised(UNBOUNDED)

    finding = caught.value.diagnostics[0]
    assert (caught.value.code, finding.span.line) == ("cache-limit", 6)
    assert "--limit K.t=N" in finding.hint
    assert "@fixed(t=N)" in finding.hint


def test_an_entry_that_is_only_reset_has_to_have_a_bound_as_well():
    text = """
    dynamic { t: i32; }
    volatile { y: f32; }
    persistent { K(l): f32[] @table; }
    block entry { cache.reset K[t]; cache.read K[0] >> y; return y; }"""
    with pytest.raises(SynthesisError, match="cache `K` needs a bound for `l`: its memory is reserved in advance"):
        synthesised(text)


def test_indices_that_sizes_and_loops_bound_need_no_limit():
    text = """
    dynamic { x: f32[T, 3]; }
    volatile { y: f32[3]; }
    persistent { K(l, t): f32[3] @table; }
    block entry {
      loop layers (l in 0..2 * L) { cache.write x >> K[l, 0..T]; }
      cache.read K[L, T - 1] >> y;
      return y;
    }
    """
    _, _, synthesis = synthesised(text, sizes={"L": 2, "T": 5})

    assert [state.type.shape for state in synthesis.plan.states] == [(4, 5, 3)]


@pytest.mark.parametrize("limits", [{"t": 5}, {"K.t": 5, "V.t": 7}, {"V.t": 7, "t": 5}])
def test_limits_are_for_an_index_of_one_cache_or_of_all(limits):
    _, _, synthesis = synthesised(UNBOUNDED, limits=limits)

    shapes = {state.name: state.type.shape for state in synthesis.plan.states}
    assert shapes == {"n": (), "K": (3, 5), "V": (limits.get("V.t", 5),)}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"u": 5}, "no cache has the index 'u' of a limit, nor is u a size of this program: "),
        ({"t": 0}, "'t' is 0, expected 1"),
    ],
)
def test_a_limit_that_means_nothing_is_an_error(limits, message):
    with pytest.raises(SynthesisError, match=message):
        synthesised(UNBOUNDED, limits=limits)


def test_each_cache_without_a_limit_is_reported_once():
    with pytest.raises(SynthesisError) as caught:
        synthesised(UNBOUNDED)

    assert [(d.code, "`V`" in d.message) for d in caught.value.diagnostics] == [
        ("cache-limit", False),
        ("cache-limit", True),
    ]
    assert "(and 1 more)" in str(caught.value)
