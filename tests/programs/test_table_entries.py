"""An index that no entry of a prefix table has is an error in generated C, also where nothing is read of the entry."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import ExecutionError
from openinfer.model import Model
from openinfer.simulate import Simulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.simulate import Executor

STATEMENTS = {
    "elements are read": "op relu(some[{at}]) >> {y};",
    "the result has no elements": "op relu(none[{at}]) >> {none};",
    "a copy has no elements": "transfer none[{at}] >> {none};",
    "a slice has no elements": "op slice(some[{at}], starts=[1], ends=[1], axes=[0]) >> {none};",
    "a sum has no terms": "op sum_axis(none[{at}], axes=0) >> {row};",
    "a sum has no terms and is fused": "op sum_axis(none[{at}], axes=0) >> {row}; op add({row}, x) >> {y};",
    "only the shape matters": "op fill(some[{at}], value=2) >> {y};",
    "only the shape matters and the step is fused": "op fill(some[{at}], value=2) >> {y}; op add({y}, x) >> {y};",
    "the result takes the place of the index": "transfer {at} >> {place}; op fill(index[{place}], value=2) >> {place};",
}
"""Reads of an entry: ``some`` has elements, ``none`` and ``{none}`` have none."""

ARRAYS = {"some": np.ones((2, 3), np.float32), "none": np.ones((0, 3), np.float32), "index": np.array(0, np.int64)}


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.fixture(scope="module", params=["cpu", pytest.param("c", marks=needs_gcc)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """One program with all the statements, so that it is compiled once."""
    text = """
        dynamic {{ x: f32[2, 3]; {indices} }}
        volatile {{
          some(l): f32[2, 3] @pattern("some.{{l}}");
          none(l): f32[0, 3] @pattern("none.{{l}}");
          index(l): i64 @pattern("index.{{l}}");
          {results}
        }}
        block entry {{ {statements} return; }}
    """
    numbers = range(len(STATEMENTS))
    program = text.format(
        indices=" ".join(f"at{n}: i64;" for n in numbers),
        results=" ".join(f"y{n}: f32[2, 3]; none{n}: f32[0, 3]; row{n}: f32[3]; place{n}: i64;" for n in numbers),
        statements="\n".join(
            statement.format(at=f"at{n}", y=f"y{n}", none=f"none{n}", row=f"row{n}", place=f"place{n}")
            for n, statement in enumerate(STATEMENTS.values())
        ),
    )
    model = Model.from_arrays({f"{name}.{entry}": array for name, array in ARRAYS.items() for entry in (0, 2)})
    with Simulator(model, graph(program), device=request.param).make_executor() as made:
        yield made


def stepped(executor: Executor, **indices: int) -> None:
    given = {f"at{n}": 2 for n in range(len(STATEMENTS))} | indices
    executor.step(x=np.zeros((2, 3), np.float32), **given)


def test_entries_that_exist_are_not_an_error(executor: Executor) -> None:
    stepped(executor)


@pytest.mark.parametrize("index", [-1, 1, 3, 2**62])
@pytest.mark.parametrize("number", range(len(STATEMENTS)), ids=STATEMENTS)
def test_an_entry_has_to_exist_where(executor: Executor, number: int, index: int) -> None:
    with pytest.raises(ExecutionError) as caught:
        stepped(executor, **{f"at{number}": index})

    assert caught.value.code in ("out-of-range", "model-data")
    assert "[" in str(caught.value)


@pytest.mark.parametrize("device", ["cpu", pytest.param("c", marks=needs_gcc), "vulkan"])
def test_entries_and_indices_of_loops_are_written_to_caches(device: str) -> None:
    program = graph("""
        dynamic { at: i64; }
        volatile { some(l): f32[2, 3] @pattern("some.{l}"); y: f32[2, 3]; n: i64; row: f32[3]; }
        persistent {
          K(t): f32[2, 3] @table @fixed(t=4);
          rows(t): f32[3] @table @fixed(t=4);
          numbers(t): i64 @table @fixed(t=4);
        }
        block entry {
          loop all (l in 0..2) {
            cache.write some[l] >> K[l + 1];
            cache.write l >> numbers[l + 1];
          }
          cache.write some[at] >> rows[1..3];
          cache.read K[at + 1] >> y;
          cache.read numbers[at + 1] >> n;
          cache.read rows[2] >> row;
          return y, n, row;
        }
    """)
    some = {f"some.{n}": np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * n for n in range(2)}
    executor = Simulator(Model.from_arrays(some), program, device=device).make_executor()

    for at in (0, 1):
        executor.step(at=at)
        np.testing.assert_array_equal(executor.fetch("y"), some[f"some.{at}"])
        assert executor.fetch("n") == at
        np.testing.assert_array_equal(executor.fetch("row"), some[f"some.{at}"][1])
