"""What operators compute at several sizes has one form with the sizes as parameters."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.affine import Var
from openinfer.compute.evaluate import evaluate
from openinfer.compute.parametric import Family, ParametricError, trials
from openinfer.dtypes import F16, F32
from openinfer.ir.types import TensorType
from openinfer.loops.verify import verify
from openinfer.lower import lowered
from openinfer.ops.applying import call_of
from openinfer.ops.computations import computation_of
from openinfer.plugins.environment import Environment

FAR = {"n": (1009, 1013, 1511)}


def family(bases, most=None):
    return Family({name: Var(name, most) for name in bases}, trials(bases))


def computed(op, types, **settings):
    schema = Environment.default().op(op)
    return computation_of(schema, call_of(schema, types, settings))


def at_any_length(op, types, **settings):
    return family(FAR).computation([computed(op, types(sizes["n"]), **settings) for sizes in trials(FAR)])


CASES = {
    "attention over keys": (
        "attn",
        lambda n: (TensorType(F32, (2, 12)), TensorType(F16, (n, 3, 4)), TensorType(F16, (n, 3, 4))),
    ),
    "transposition": ("transpose", lambda n: (TensorType(F32, (n, 3)),)),
    "product of matrices": ("matmul", lambda n: (TensorType(F32, (2, n)), TensorType(F32, (n, 5)))),
    "running sum": ("cumsum", lambda n: (TensorType(F32, (2, n)),), {"axis": 1}),
    "reversed": ("flip", lambda n: (TensorType(F32, (n, 2)),), {"axes": (0,)}),
}


@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("case", CASES)
def test_the_common_form_computes_what_the_operator_does_at_every_length(case, length):
    op, types, *given = CASES[case]
    settings = given[0] if given else {}
    made = at_any_length(op, types, **settings)
    generator = np.random.default_rng(1)
    arrays = [generator.normal(size=t.shape).astype("f2" if t.dtype is F16 else "f4") for t in types(length)]

    found = evaluate(made, arrays, {"n": length})
    expected = evaluate(computed(op, types(length), **settings), arrays)

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    verify(lowered(made))


def test_a_setting_becomes_a_parameter_that_lies_within_its_range():
    bases = {"s": (4, 3, 2)}
    types = [TensorType(F32, (5, 3))]
    made = family(bases, 5).computation(
        [computed("select", types, axis=0, index=sizes["s"]) for sizes in trials(bases)]
    )
    x = np.arange(15, dtype=np.float32).reshape(5, 3)

    for index in range(5):
        (found,) = evaluate(made, [x], {"s": index})
        np.testing.assert_array_equal(found, x[index])


def test_numbers_are_polynomials_in_several_sizes():
    bases = {"n": (10, 11, 20), "m": (30, 32, 50)}
    sizes = trials(bases)
    found = family(bases).number([3 * s["n"] * s["m"] - 2 * s["m"] + 7 for s in sizes])

    assert str(found) == "-2*m + 3*m*n + 7"


@pytest.mark.parametrize("rule", [lambda n: n * n, lambda n: n // 3, lambda n: 1 << (n % 7)])
def test_numbers_that_do_not_grow_evenly_have_no_form(rule):
    with pytest.raises(ParametricError, match="does not grow evenly with n"):
        family(FAR).number([rule(sizes["n"]) for sizes in trials(FAR)])


def test_other_stages_at_other_sizes_have_no_form():
    samples = [computed("transpose", [TensorType(F32, (n, 3))]) for n in (3, 4)]
    other = computed("matmul", [TensorType(F32, (2, 5)), TensorType(F32, (5, 2))])

    with pytest.raises(ParametricError):
        family(FAR).computation([*samples, other])
