"""Quantised layers in integers: what is proved of their totals, channel by channel, and what is left as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from openinfer.affine import Index
from openinfer.compute import Computation, Read, Stage
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.compute.requantise import LARGEST
from openinfer.compute.text import computation_text
from openinfer.compute.verify import verify
from openinfer.dtypes import I8, DType
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.plan.integer_sums import with_integer_sums
from openinfer.plan.operands import LoopIndex, Symbol
from openinfer.plan.plan_data import PlanData
from openinfer.plan.steps import ComputeStep, Operand, Origin, Procedure, TableRef, ValueRef
from openinfer.plan.values import NoMemory, PackedWeight, PlanValue, Role, WeightMemory, WeightTable
from openinfer.plan.weights import bytes_of

PRODUCT = """\
def product(x: i8[4, 6], w: i8[6, 3], z: i8[()], b: i32[3], m: f32[3], /, y: i8[4, 3]):
    for i, j in grid(4, 3):
        for k in unordered(6):
            total0 = start(i32(0))
            term0 = (cast(x[i, k], i32) - cast(z[()], i32)) * cast(w[k, j], i32)
            total0 = total0 + term0
        y[i, j] = cast(trunc(round_even(cast(total0 + b[j], f32) * m[j]) + 7.0), i8)
"""

Array = np.ndarray

LAYER = Index.of(Symbol("l", operand=LoopIndex(0)))


def rewritten(program: str | Computation, constants: Mapping[str, Array | list[Array]]) -> tuple[ComputeStep, PlanData]:
    """Return a computation after the pass; a constant of several arrays is a table of entries."""
    computation = parse_computation(program) if isinstance(program, str) else program
    verify(computation)
    data = PlanData([], [], [])
    inputs = [_operand(data, tensor.name, tensor.dtype, constants.get(tensor.name)) for tensor in computation.inputs]
    outputs = [
        _value(data, t.name, TensorType(t.dtype, tuple(e.constant or 0 for e in t.shape))) for t in computation.outputs
    ]
    step = ComputeStep(
        origin=Origin("entry", ()),
        op="product",
        computation=computation,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        temporaries=tuple(_value(data, t.name, TensorType(t.dtype, ())) for t in computation.temporaries),
    )
    ((made,),) = (procedure.steps for procedure in with_integer_sums((Procedure("entry", (step,)),), data))
    assert isinstance(made, ComputeStep)
    verify(made.computation)
    return made, data


def _operand(data: PlanData, name: str, dtype: DType, constant: Array | list[Array] | None) -> Operand:
    if constant is None:
        return ValueRef(_value(data, name, TensorType(dtype, ())))
    if not isinstance(constant, list):
        return ValueRef(_value(data, name, TensorType(dtype, constant.shape), _weight(data, name, dtype, constant)))
    entries = tuple(_weight(data, name, dtype, array) for array in constant)
    number = 1 + len(data.tables)
    type_ = TensorType(dtype, constant[0].shape)
    data.tables.append(
        WeightTable(number=number, name=name, type=type_, starts=(0,), extents=(len(constant),), entries=entries)
    )
    return TableRef(number, (LAYER,), checked=False)


def _weight(data: PlanData, name: str, dtype: DType, array: Array) -> int:
    number = len(data.weights)
    type_ = TensorType(dtype, array.shape)
    data.weights.append(PackedWeight(number=number, source=name, type=type_, data=bytes_of(array)))
    return number


def _value(data: PlanData, name: str, type_: TensorType, weight: int | None = None) -> int:
    memory = NoMemory() if weight is None else WeightMemory(weight)
    number = len(data.values)
    data.values.append(PlanValue(number=number, name=name, type=type_, role=Role.TEMPORARY, memory=memory))
    return number


def is_proved(step: ComputeStep) -> bool:
    return "round_even" not in computation_text(step.computation)


WEIGHTS = np.random.default_rng(8).integers(-127, 128, (6, 3)).astype(np.int8)
ZERO = np.array(-128, np.int8)
LARGE, SMALL = np.float32(2.0**3), np.float32(2.0**-12)


def biases(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def multipliers(*numbers: np.float32) -> Array:
    return np.array(numbers, np.float32)


def test_codes_are_the_same() -> None:
    constants = {"w": WEIGHTS, "z": ZERO, "b": biases(900, -70, 5), "m": multipliers(SMALL, SMALL, SMALL)}
    step, data = rewritten(PRODUCT, constants)
    x = np.random.default_rng(9).integers(-128, 128, (4, 6)).astype(np.int8)
    operands = [x, *((data.arrays(operand) or [])[0] for operand in step.inputs[1:])]

    assert is_proved(step)
    expected = evaluate(parse_computation(PRODUCT), [x, *constants.values()])
    np.testing.assert_array_equal(evaluate(step.computation, operands), expected)


def test_each_channel_has_a_bound_of_its_own() -> None:
    """The multiplier of one channel may be large, and the bias of another one, as in channels without weights."""
    constants = {"w": WEIGHTS, "z": ZERO, "b": biases(5, 1 << 30, 5), "m": multipliers(LARGE, SMALL, SMALL)}

    assert is_proved(rewritten(PRODUCT, constants)[0])
    assert not is_proved(rewritten(PRODUCT, {**constants, "m": multipliers(SMALL, LARGE, SMALL)})[0])


def test_each_entry_of_a_table_has_a_bound_of_its_own() -> None:
    layers = {
        "w": [WEIGHTS, WEIGHTS],
        "b": [biases(1 << 30, 1, 1), biases(1, 1, 1)],
        "m": [multipliers(SMALL, SMALL, SMALL), multipliers(LARGE, LARGE, LARGE)],
    }

    assert is_proved(rewritten(PRODUCT, {**layers, "z": ZERO})[0])
    assert not is_proved(rewritten(PRODUCT, {**layers, "m": layers["m"][::-1], "z": ZERO})[0])


def test_multipliers_of_another_table_go_with_every_entry() -> None:
    layers = {"w": [WEIGHTS, WEIGHTS], "b": [biases(1 << 30, 1, 1), biases(1, 1, 1)]}
    three = [multipliers(SMALL, SMALL, SMALL)] * 2

    assert is_proved(rewritten(PRODUCT, {**layers, "m": [*three, three[0]], "z": ZERO})[0])
    assert not is_proved(rewritten(PRODUCT, {**layers, "m": [*three, multipliers(LARGE, SMALL, SMALL)], "z": ZERO})[0])


@pytest.mark.parametrize("share", [0.999, 1.001])
def test_bounds_are_those_of_the_largest_image(share: float) -> None:
    weights = np.full((6, 3), 100, np.int8)
    limit = np.float32(share * LARGEST / (6 * 100 * 255))
    constants = {"w": weights, "z": ZERO, "b": biases(0, 0, 0), "m": multipliers(limit, SMALL, SMALL)}

    assert is_proved(rewritten(PRODUCT, constants)[0]) == (share < 1)


def test_a_zero_point_that_the_step_computes_stays() -> None:
    computation = parse_computation(PRODUCT.replace("z: i8[()]", "a: i8[()]").replace("z[()]", "a[()]"))
    (stage,), a = computation.stages, computation.tensor("a")
    elements = tuple(replace(e, tensor="z") if isinstance(e, Read) and e.tensor == "a" else e for e in stage.elements)
    copied = Stage("z", (), (Read("a", (), I8),), tree.Input(0, I8), ())
    changed = replace(
        computation, temporaries=(replace(a, name="z"),), stages=(copied, replace(stage, elements=elements))
    )
    constants = {"w": WEIGHTS, "b": biases(1, 2, 3), "m": multipliers(SMALL, SMALL, SMALL)}

    step, _ = rewritten(changed, constants)

    assert [tensor.name for tensor in step.computation.inputs] == ["x", "w", "a", "b", "m"]
