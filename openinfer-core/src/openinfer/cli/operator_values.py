"""One call of an operator with numbers: small operands, and the results that its definition has for them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import OpenInferError
from openinfer.ops.examples import example_call
from openinfer.plugins.evaluation import NotEvaluatedError, evaluate_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpExample, OpSchema
    from openinfer.plugins.environment import Environment

MOST_ELEMENTS = (24, 150)
"""Elements of an operand or result that is shown: of most operators, and where no example is smaller."""

_FLOATS = ((-1.0, 0.5), (0.0, 0.5), (0.5, 0.5), (1.0, 0.5), (0.0, 0.01))
"""First numbers of floats, and their distance: some operators have no finite result for all of them."""

_LEAST_SCALE = 0.5

_PREFERRED = ("f32", "i32", "u8", "bool")
"""Element types of which the first that an operator takes is shown."""


def value_example(environment: Environment, schema: OpSchema, examples: Sequence[OpExample]) -> tuple[str, ...]:
    """Return lines of a call with numbers: operands by name, the call, results; none where no example can be evaluated.

    Args:
        examples: calls with shapes, of which the largest that is still short is shown.
    """
    calls = [*_calls(environment, schema, examples)]
    for most in MOST_ELEMENTS:
        short = [call for call in calls if _fewest(call) >= 1 and _most(call) <= most]
        for call in sorted(short, key=_most, reverse=True):
            for start, distance in _FLOATS:
                lines = _evaluated(environment, schema, call, start, distance)
                if lines is not None:
                    return lines
    return ()


def _calls(environment: Environment, schema: OpSchema, examples: Sequence[OpExample]) -> Iterator[OpCall]:
    """Yield the calls of examples in the first preferred type that each takes, whose elements NumPy has."""
    for example in examples:
        for dtype in _dtypes(environment, schema, example):
            try:
                call = example_call(schema, example, dtype, environment.dtypes)
            except OpenInferError:
                continue
            if not call.has_sizes and all(map(_is_plain, _kinds(call))):
                yield call
                break


def _kinds(call: OpCall) -> list[TensorType]:
    return [kind for kind in (*call.inputs, *call.outputs) if kind is not None]


def _most(call: OpCall) -> int:
    return max(prod(kind.shape) for kind in _kinds(call))


def _fewest(call: OpCall) -> int:
    return min(prod(kind.shape) for kind in _kinds(call))


def _dtypes(environment: Environment, schema: OpSchema, example: OpExample) -> Iterator[DType]:
    names = schema.dtypes if example.dtypes is None else example.dtypes
    ordered = [name for name in _PREFERRED if name in names] or sorted(names)[:1]
    yield from (environment.dtypes[name] for name in ordered)


def _is_plain(kind: TensorType) -> bool:
    """Whether NumPy has the element type, so that its elements are written as they are."""
    return kind.dtype.name in ("f32", "f64", "bool") or (
        kind.dtype.name[0] in "iu" and not kind.dtype.is_packed and kind.dtype.name[1:].isdigit()
    )


def _evaluated(
    environment: Environment, schema: OpSchema, call: OpCall, start: float, distance: float
) -> tuple[str, ...] | None:
    names = _names(schema, len(call.inputs))
    inputs = [
        None if kind is None else _operand(kind, number, start, distance, is_scale="scale" in name.split("_"))
        for number, (name, kind) in enumerate(zip(names, call.inputs, strict=True))
    ]
    try:
        with np.errstate(all="ignore"):
            results = evaluate_call(call, inputs, environment, loops=True)
    except (NotEvaluatedError, OpenInferError, IndexError):
        return None
    if not all(np.all(np.isfinite(result)) for result in results):
        return None
    lines = [f"{name} = {_written(array)}" for name, array in zip(names, inputs, strict=True) if array is not None]
    last = len(schema.outputs) - 1
    outputs = [
        f"{schema.outputs[last]}{number - last}"
        if schema.variadic_outputs and number >= last
        else schema.outputs[number]
        for number in range(len(results))
    ]
    settings = [
        f"{spec.name}={_setting(call.settings[spec.name])}"
        for spec in schema.settings
        if spec.name in call.settings and call.settings[spec.name] != spec.default
    ]
    arguments = [
        f"{name}={name}" if number < len(schema.inputs) and schema.inputs[number].optional else name
        for number, (name, array) in enumerate(zip(names, inputs, strict=True))
        if array is not None
    ]
    lines.append(f"op {schema.name}({', '.join([*arguments, *settings])}) >> {', '.join(outputs)};")
    return (*lines, *(f"{name} = {_written(result)}" for name, result in zip(outputs, results, strict=True)))


def _names(schema: OpSchema, count: int) -> list[str]:
    """Return a name for each operand; those of an input that may be repeated have numbers."""
    last = len(schema.inputs) - 1
    specs = [(number, schema.inputs[min(number, last)]) for number in range(count)]
    return [f"{spec.name}{number - last}" if spec.variadic else spec.name for number, spec in specs]


def _operand(kind: TensorType, number: int, start: float, distance: float, *, is_scale: bool) -> npt.NDArray[Any]:
    """Return small numbers, floats from ``start`` on; those of each second operand count down, so that two differ.

    Scales are positive.
    """
    count = prod(kind.shape)
    if kind.dtype.name == "bool":
        numbers = np.arange(count) % 2 == 0
    elif kind.dtype.is_float:
        numbers = (_LEAST_SCALE if is_scale else start) + np.arange(count) * distance * (1 + number)
    else:
        # Few different numbers: they may be indices.
        numbers = np.arange(count) % 3
    if number % 2:
        numbers = numbers[::-1]
    return numbers.astype(storage_dtype(kind.dtype)).reshape(kind.shape)


def _setting(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_setting, cast('tuple[object, ...]', value)))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _written(array: npt.NDArray[Any]) -> str:
    """Return elements in brackets; floats with four digits."""
    if array.ndim:
        return f"[{', '.join(map(_written, array))}]"
    value = array.item()
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
