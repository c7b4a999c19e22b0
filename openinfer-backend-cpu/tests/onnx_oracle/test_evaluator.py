"""Every operator whose schema names an ONNX operator, compared with ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx_programs import TYPES, run, written
from onnx_translation import Call

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BY_NAME, DType
from openinfer.ops.applying import call_of, filled_settings
from openinfer.ops.examples import operand_type
from openinfer.ops.schema import Elementwise, Operand, OpExample, OpSchema, OpTypeError, Required, SettingType
from openinfer.plugins.environment import Environment

pytest.importorskip("onnx", reason="the ONNX reference evaluator is the oracle")
import onnx_layer_comparisons  # noqa: F401
import onnx_movement_comparisons  # noqa: F401
from onnx_comparisons import COMPARISONS, Asked, IncomparableError

Array = np.ndarray[Any, Any]

ELEMENT_TYPES = ("f32", "f64", "i64", "i32", "u8", "i8", "bool")
TOLERANCE = {"f64": 1e-9, "f32": 2e-5, "f16": 2e-3, "bf16": 2e-2, "f8": 0.2}
PARTLY_IN_F32 = frozenset(
    {"batch_norm", "dequantize_linear", "elu", "erf", "gelu", "group_norm", "gru_cell", "hard_sigmoid", "hard_swish"}
    | {"instance_norm", "layer_norm", "lstm_cell", "qmatmul", "relu", "rms_norm", "sdpa", "selu"}
)
"""Operators of which the evaluator computes the f64 form in f32, or with attributes of that type."""

WITH_ONNX = sorted(
    name for name, schema in Environment.default().ops.items() if schema.onnx is not None and not schema.counted
)
"""Tests of the importer compare counted results, whose rows after the last hold anything, with ONNX Runtime."""

BY_BITS = {ours: theirs for theirs, ours in TYPES.items()}


def drawn(dtype: DType, operand: Operand, random: np.random.Generator) -> Array:
    """Return an array of small values, multiples of an eighth for floats."""
    kind = np.dtype(bool) if dtype.name == "bool" else storage_dtype(dtype)
    low, high = (dtype.minimum, dtype.maximum) if dtype.minimum is not None else (-24, 24)
    low, high = max(low or 0, -24), min(high or 24, 24)
    if operand.low is not None and operand.high is not None:
        low, high = operand.low, min(operand.high, 9) if operand.high > 99 else operand.high
    numbers = np.asarray(random.integers(low, high, operand.shape, endpoint=True))
    if dtype.is_float and operand.low is None:
        numbers = numbers / 8
    return np.asarray(numbers).astype(kind)


def examples(schema: OpSchema) -> Iterator[OpExample]:
    """Yield the examples of a schema with every value of the settings that have few; more for elementwise operators."""
    own = schema.examples if not isinstance(schema.definition, Elementwise) else (*schema.examples, *_shaped(schema))
    for example in own or _shaped(schema):
        yield example
        for spec in schema.settings:
            if spec.name not in example.settings:
                others = (False, True) if spec.type is SettingType.BOOL else spec.choices
                yield from (_with(example, spec.name, value) for value in others if value != spec.default)


def _with(example: OpExample, name: str, value: Any) -> OpExample:
    return replace(example, settings={**example.settings, name: value})


def _shaped(schema: OpSchema) -> Iterator[OpExample]:
    required: list[dict[str, Any]] = [{}]
    for spec in schema.settings:
        if spec.default is Required.REQUIRED:
            kinds = [BY_NAME[name] for name in ELEMENT_TYPES] if spec.type is SettingType.DTYPE else []
            required = [{spec.name: kind} for kind in kinds]
    count = len(schema.inputs)
    known = next((e.inputs for e in reversed(schema.examples) if len(e.inputs) == count), (None,) * count)
    ranges = [{} if o is None else {"dtype": o.dtype, "low": o.low, "high": o.high} for o in known]
    for limits, spec in zip(ranges, schema.inputs, strict=True):
        if spec.dtypes is not None and len(spec.dtypes) == 1:
            limits["dtype"] = next(iter(spec.dtypes))
    alike = ((2, 3, 4),) * count
    for settings in required:
        for shapes in (((3, 4),) * count, ((2, 3, 4), (3, 1), (4,))[:count] if schema.broadcast else alike):
            operands = [Operand(shape=shape, **limits) for shape, limits in zip(shapes, ranges, strict=True)]
            yield OpExample(inputs=tuple(operands), settings=settings)


def outcomes(schema: OpSchema) -> Iterator[str | None]:
    """Yield for every comparison that can be made what is wrong, or None."""
    for example in examples(schema):
        for name in ELEMENT_TYPES:
            if example.dtypes is None or name in example.dtypes:
                try:
                    yield outcome(schema, example, BY_NAME[name])
                except (IncomparableError, OpTypeError):
                    continue


def outcome(schema: OpSchema, example: OpExample, dtype: DType) -> str | None:
    random = np.random.default_rng(7)
    kinds = [None if o is None else operand_type(o, dtype, BY_NAME) for o in example.inputs]
    declared = [operand_type(o, dtype, BY_NAME) for o in example.outputs]
    if any(kind is not None and kind.dtype.name not in BY_BITS for kind in (*kinds, *declared)):
        raise IncomparableError("an element type that NumPy has no name for")
    settings = filled_settings(schema, example.settings)
    made = call_of(schema, kinds, example.settings, declared).outputs
    arrays = [
        None if kind is None or operand is None else drawn(kind.dtype, operand, random)
        for kind, operand in zip(kinds, example.inputs, strict=True)
    ]
    if schema.category == "quantisation":
        arrays = [_positive(a) if a is not None and number else a for number, a in enumerate(arrays)]
    arrays += [None] * (len(schema.inputs) - len(arrays))
    tagged = [
        None if a is None else _tagged(a, kind.dtype) for a, kind in zip(arrays, [*kinds, *[None] * 9], strict=False)
    ]
    asked = Asked(op=schema.name, inputs=_evenly(arrays), settings=settings, outputs=made)
    if not any(kind.count for kind in made):
        raise IncomparableError("results without elements, of which the evaluator refuses some")
    expected = COMPARISONS[schema.name](asked)
    stand_ins = [_tagged(np.zeros(kind.shape, storage_dtype(kind.dtype)), kind.dtype) for kind in declared]
    writer, results = written(Call(schema.name, tagged, example.settings, stand_ins), Environment.default())
    found = run(writer, results)
    wanted = expected if isinstance(expected, list) else [expected]
    for number, (array, kind) in enumerate(zip(found, made, strict=True)):
        if not _agree(array, np.asarray(wanted[number]), kind.dtype, schema.name):
            shown = f"{array.reshape(-1)[:6]}, expected {np.asarray(wanted[number]).reshape(-1)[:6]}"
            return f"{[o and o.shape for o in example.inputs]} {example.settings} of {dtype}: {shown}"
    return None


def _positive(array: Array) -> Array:
    """Return floats as scales can be."""
    return (
        array if array.dtype.kind in "iu" else np.asarray(np.abs(array.astype(np.float64)) + 0.125).astype(array.dtype)
    )


def _tagged(array: Array, dtype: DType) -> Array:
    import ml_dtypes

    return array.astype(getattr(ml_dtypes, BY_BITS[dtype.name])) if dtype.is_packed else array


def _evenly(arrays: Sequence[Array | None]) -> list[Array | None]:
    """Return inputs for the evaluator: low floats are widened, and so are other floats if there is an f64."""
    floats = [a for a in arrays if a is not None and a.dtype.kind not in "iub"]
    wide = np.float64 if any(a.dtype == np.float64 for a in floats) else np.float32
    return [a if a is None or a.dtype.kind in "iub" else a.astype(wide) for a in arrays]


def _agree(found: Array, wanted: Array, dtype: DType, op: str) -> bool:
    if found.shape != wanted.shape:
        return False
    if not dtype.is_float:
        return np.array_equal(found, wanted.astype(found.dtype))
    allowed = TOLERANCE["f32" if op in PARTLY_IN_F32 and dtype.name == "f64" else dtype.name]
    with np.errstate(all="ignore"):
        return np.allclose(found.astype(np.float64), wanted.astype(np.float64), allowed, allowed, equal_nan=True)


@pytest.mark.parametrize("op", WITH_ONNX)
def test_an_operator_agrees_with_the_evaluator(op: str) -> None:
    found = list(outcomes(Environment.default().op(op)))
    assert found, "nothing was compared"
    wrong = [message for message in found if message is not None]
    assert not wrong, "\n".join(wrong)


def test_no_comparison_is_of_an_operator_without_a_counterpart() -> None:
    assert set(COMPARISONS) == set(WITH_ONNX)
