"""Steps on caches, registers and sizes as host statements: every whole program of the kit, and what is refused."""

import numpy as np
import pytest
from plan_interpreter import PlanInterpreter, interpreted

from openinfer.codegen import Assign, Shrink, host_statements
from openinfer.errors import OpenInferError
from openinfer.plan.accesses import walk
from openinfer.plan.steps import ClearStep, ReturnStep
from openinfer.testing.whole_programs import whole_programs


def instance(text, tensors=None, sizes=None, limits=None):
    return PlanInterpreter(interpreted(text, tensors, sizes, limits).plan)


def kept(made):
    """Return what a program keeps between steps."""
    registers = [made.registers[register.number] for register in made.plan.registers if register.is_kept]
    return [state.tolist() for state in made.states], registers


@pytest.mark.parametrize("program", whole_programs(), ids=lambda program: program.name)
def test_host_statements_carry_out_whole_programs(program):
    made = instance(program.text, dict(program.tensors), dict(program.sizes), dict(program.limits))

    for inputs, results in zip(program.inputs, program.results, strict=True):
        outputs = made.step(inputs)
        for name, expected in results.items():
            np.testing.assert_array_equal(outputs[name], expected, strict=True)


CACHE = """
dynamic { x: f32[2, 3]; from: i64; to: i64; }
persistent { K(t): f32[3] @table @fixed(t=4); n: i8 @init(126); }
volatile { rows: f32[2, 3]; count: i8; }
block entry {
  op identity(x) >> rows;
  cache.write rows >> K[from..to];
  cache.increment n;
  cache.read n >> count;
  return rows, count;
}
"""


@pytest.mark.parametrize(
    ("first", "end", "code"),
    [
        (-1, 1, "out-of-range"),
        (3, 1, "out-of-range"),
        (3, 5, "cache-limit"),
        (4, 6, "cache-limit"),
        (0, 3, "shape-mismatch"),
        (2, 2, "shape-mismatch"),
    ],
)
def test_an_access_that_is_refused_has_changed_nothing(first, end, code):
    made = instance(CACHE)
    x = np.ones((2, 3), np.float32)
    made.step({"x": x, "from": np.int64(1), "to": np.int64(3)})
    before = kept(made)

    with pytest.raises(OpenInferError) as caught:
        made.step({"x": 2 * x, "from": np.int64(first), "to": np.int64(end)})

    assert caught.value.code == code
    assert kept(made) == before


MATRIX = """
dynamic { x: f32[T, 3]; at: i32; }
persistent { A(i, j): f32[1, 2] @auto_dim(i, j) @fixed(i=3, j=3); }
volatile { y: f32[T, 3]; }
block entry { cache.write x >> A[at, at]; op identity(x) >> y; return y; }
"""


def test_a_matrix_does_not_grow_for_a_value_of_another_shape():
    made = instance(MATRIX, sizes={"T": 2}, limits={"T": 4})
    before = kept(made)
    with pytest.raises(OpenInferError, match="shape-mismatch"):
        made.step({"x": np.ones((3, 3), np.float32), "at": np.int32(1)})
    assert kept(made) == before

    made.step({"x": np.ones((2, 3), np.float32), "at": np.int32(1)})
    assert kept(made) != before


def test_integers_of_counters_wrap():
    made = instance(CACHE)
    inputs = {"x": np.ones((2, 3), np.float32), "from": np.int64(0), "to": np.int64(2)}

    assert [made.step(inputs)["count"].tolist() for _ in range(3)] == [127, -128, -127]


def test_a_negative_amount_is_refused():
    text = """
    dynamic { by: i64; }
    persistent { n: i32; }
    volatile { count: i32; }
    block entry { cache.increment by n; cache.read n >> count; return count; }
    """
    made = instance(text)

    assert made.step({"by": np.int64(3)})["count"] == 3
    with pytest.raises(OpenInferError, match="out-of-range"):
        made.step({"by": np.int64(-1)})
    assert made.step({"by": np.int64(0)})["count"] == 3


GROWING = """
dynamic { x: f32; at: i64; gone: i64; }
persistent { K(t): f32 @table; }
volatile { total: f32; }
block entry {
  cache.write x >> K[at];
  cache.reset K[gone];
  cache.read K[] >> all;
  op sum_axis(all) >> total;
  return total;
}
"""


def test_a_table_ends_past_its_last_entry_that_is_there():
    made = instance(GROWING, limits={"K.t": 6})
    extents = []
    for at, gone in ((4, 0), (2, 4), (5, 5)):
        made.step({"x": np.float32(1), "at": np.int64(at), "gone": np.int64(gone)})
        extents.append(kept(made)[1])
    (clear,) = [
        step
        for step in walk(made.plan.procedures[-1].steps)
        if isinstance(step, ClearStep) and any(register is not None for register in step.left)
    ]

    assert extents == [[5], [3], [3]]
    assert isinstance(host_statements(made.plan, clear)[-1], Shrink)


def test_registers_of_a_step_alone_are_numbered_past_those_of_the_plan():
    made = instance(CACHE)
    statements = [
        statement
        for step in made.plan.procedures[-1].steps
        if type(step).__name__ in ("StoreStep", "LoadStep")
        for statement in host_statements(made.plan, step)
    ]
    assigned = [statement for statement in statements if isinstance(statement, Assign)]

    assert {statement.is_local for statement in assigned} == {True}
    assert all(statement.register >= len(made.plan.registers) for statement in assigned)


def test_a_place_at_the_end_of_64_bits_is_past_the_limit():
    made = instance(GROWING, limits={"K.t": 6})

    with pytest.raises(OpenInferError, match="cache-limit"):
        made.step({"x": np.float32(1), "at": np.int64(2**63 - 1), "gone": np.int64(0)})


def test_a_step_that_targets_print_themselves_is_an_error():
    plan = instance(CACHE).plan
    leaving = next(step for step in walk(plan.procedures[-1].steps) if isinstance(step, ReturnStep))

    with pytest.raises(TypeError, match="a ReturnStep is printed by the target itself"):
        host_statements(plan, leaving)
