"""Which statements a ``dep`` orders (``specification: language.ordering``)."""

from __future__ import annotations

import time

import pytest

from openinfer.dsl import graph
from openinfer.ir.check import structure_findings
from openinfer.ir.dep import DepTargets
from openinfer.ir.nodes import Dep

NAMES = "dynamic { x: f32[4]; }\nvolatile { y: f32[4]; z: f32[4]; c: bool; }\npersistent { T(i): f32[4] @table; }\n"


def ordered(statements: str) -> tuple[int | None, int | None]:
    """Return the positions in entry of what the only ``dep`` there orders."""
    nodes = graph(f"{NAMES}block entry {{ {statements} return; }}\nblock b {{ return; }}").blocks["entry"].nodes
    position = next(place for place, node in enumerate(nodes) if isinstance(node.kind, Dep))
    after, before = DepTargets(nodes).ordered_by(position)
    places = {id(node): place for place, node in enumerate(nodes)}
    return None if after is None else places[id(after)], None if before is None else places[id(before)]


@pytest.mark.rule("language.ordering.1", "language.ordering.2")
@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param("op f(x) >> y; op f(x) >> z; dep after(f) before(return);", (1, 3), id="the last one before it"),
        pytest.param(
            "barrier; dep after(barrier) before(f); op f(x) >> y; op f(x) >> z;", (0, 2), id="the first after"
        ),
        pytest.param(
            "cache.write x >> T[0]; dep after(cache.write) before(cache.read); cache.read T[0] >> y;",
            (0, 2),
            id="cache",
        ),
        pytest.param("transfer x >> y; dep after(transfer) before(op); op f(x) >> z;", (0, 2), id="keywords"),
        pytest.param(
            "op loop(x) >> y; loop l (i in 0..2) { barrier; } dep after(loop) before(return);",
            (0, 3),
            id="an operator is named before a keyword",
        ),
        pytest.param(
            "loop l (i in 0..2) { barrier; } dep after(l) before(b); branch b;", (0, 2), id="a loop and a block"
        ),
        pytest.param(
            "transfer x >> y; op f(y) >> z; dep after(y) before(return);",
            (0, 3),
            id="after a variable is what writes it",
        ),
        pytest.param(
            "barrier; dep after(barrier) before(y); op f(y) >> z; transfer x >> y;",
            (0, 2),
            id="before a variable is what uses it",
        ),
        pytest.param(
            "loop l (i in 0..2) { transfer x >> y; } dep after(y) before(return);",
            (0, 2),
            id="a loop writes what its body writes",
        ),
        pytest.param("dep after(f) before(g); op f(x) >> y;", (None, None), id="nothing on that side"),
        pytest.param("barrier; dep after(dep) before(dep);", (None, None), id="not itself"),
    ],
)
def test_a_dep_orders_the_nearest_statements_that_match(
    statements: str, expected: tuple[int | None, int | None]
) -> None:
    assert ordered(statements) == expected


def test_another_statement_orders_nothing() -> None:
    nodes = graph("block entry { barrier; return; }").blocks["entry"].nodes
    with pytest.raises(TypeError, match="statement 0 is not a dep"):
        DepTargets(nodes).ordered_by(0)


def test_many_deps_that_match_nothing_are_checked_in_linear_time() -> None:
    count = 3000
    found = graph("block entry { " + "dep after(f) before(g); " * count + "return; }")
    start = time.process_time()
    assert len(structure_findings(found)) == 2 * count
    assert time.process_time() - start < 3, "a scan of the list for every dep takes more than twice that"
