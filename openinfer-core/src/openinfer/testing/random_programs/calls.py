"""Random calls of operators: those of their examples with other sizes, types and settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BY_NAME, DType, Kind
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import Operand, OpExample, OpSchema, OpTypeError, Required, SettingSpec, SettingType

EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
MOST_ELEMENTS = 20_000

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A call with the settings that a program gives, and the example that it comes from."""

    call: OpCall
    settings: Mapping[str, Any]
    example: OpExample

    def __str__(self) -> str:
        inputs = ["-" if kind is None else str(kind) for kind in self.call.inputs]
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return f"{self.call.op}({', '.join([*inputs, *settings])}) >> {', '.join(map(str, self.call.outputs))}"


def drawn_call(schema: OpSchema, random: Random) -> Drawn | None:
    """Return a call that the operator takes, or None where what was drawn is none."""
    dtype = BY_NAME[random.choice(sorted(schema.dtypes))]
    fitting = [e for e in schema.examples if e.dtypes is None or dtype.name in e.dtypes]
    example = random.choice(fitting) if fitting and random.random() < 0.8 else _plain(schema, random)
    sizes: dict[int, int] = {}
    kinds = [None if o is None else _kind(o, dtype, sizes, random) for o in example.inputs]
    kinds = [_other(kind, schema, place, random) for place, kind in enumerate(kinds)]
    declared = [_kind(o, dtype, sizes, random) for o in example.outputs]
    settings = dict(example.settings)
    for spec in schema.settings:
        if spec.default is Required.REQUIRED and spec.name not in settings:
            settings[spec.name] = setting_value(spec, random)
        elif random.random() < 0.15:
            settings[spec.name] = setting_value(spec, random, settings.get(spec.name))
    if any(kind is not None and math.prod(kind.shape) > MOST_ELEMENTS for kind in (*kinds, *declared)):
        return None
    try:
        call = call_of(schema, kinds, settings, declared)
    except OpTypeError:
        return None
    if any(math.prod(kind.shape) > MOST_ELEMENTS for kind in call.outputs):
        return None
    return Drawn(call, settings, example)


def _plain(schema: OpSchema, random: Random) -> OpExample:
    """Return an example of any shape, whose inputs mostly have the same."""
    shape = tuple(random.choice(EXTENTS) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4))))
    given = [spec for spec in schema.inputs if not spec.optional or random.random() < 0.5]
    if given and given[-1].variadic:
        given += [given[-1]] * random.randrange(3)
    return OpExample(inputs=tuple(Operand(shape=shape) for _ in given), outputs=(Operand(shape=shape),))


def _kind(operand: Operand, dtype: DType, sizes: dict[int, int], random: Random) -> TensorType:
    """Return the type of an operand with every extent replaced, alike everywhere in the call."""
    for extent in operand.shape:
        if extent not in sizes:
            sizes[extent] = random.choice(EXTENTS) if random.random() < 0.5 else extent
    shape = [sizes[extent] for extent in operand.shape]
    if shape and random.random() < 0.1:
        shape[random.randrange(len(shape))] = random.choice(EXTENTS)
    if random.random() < 0.05:
        shape.insert(random.randrange(len(shape) + 1), random.choice((1, 2)))
    return TensorType(dtype if operand.dtype is None else BY_NAME[operand.dtype], tuple(shape))


def _other(kind: TensorType | None, schema: OpSchema, place: int, random: Random) -> TensorType | None:
    """Return an input type, at times with another element type that the input may have."""
    legal = schema.inputs[min(place, len(schema.inputs) - 1)].dtypes
    if kind is None or legal is None or (kind.dtype.name in legal and random.random() < 0.7):
        return kind
    return TensorType(BY_NAME[random.choice(sorted(legal))], kind.shape)


def setting_value(spec: SettingSpec, random: Random, given: Any = None) -> Any:
    """Return a value for a setting, legal or not; ``given`` is the one that an example has."""

    def number() -> int:
        return random.choice((-3, -2, -1, 0, 1, 1, 2, 3, 4, 7, 9))

    def some() -> tuple[int, ...]:
        is_alike = isinstance(given, tuple) and random.random() < 0.8
        count = len(cast("tuple[Any, ...]", given)) if is_alike else random.randrange(5)
        return tuple(number() for _ in range(count))

    if spec.type is SettingType.BOOL:
        return random.random() < 0.5
    if spec.type in (SettingType.DTYPE, SettingType.ACC):
        return BY_NAME[random.choice(sorted(BY_NAME))]
    if spec.type is SettingType.STR:
        return random.choice(spec.choices) if spec.choices else given
    if spec.type is SettingType.INT:
        return number()
    if spec.type in (SettingType.INT_LIST, SettingType.FLOAT_OR_LIST):
        return some()
    if spec.type in (SettingType.INT_OR_LIST, SettingType.PADDING):
        return number() if random.random() < 0.5 else some()
    return random.choice((number(), float(number()), 0.5))


def inputs_of(drawn: Drawn, random: Random) -> list[Array | None]:
    """Return inputs: any bits, small numbers, or for indices such as their range in the example and zeros."""
    return [
        None if kind is None else elements(kind, operand(drawn.example, place), random)
        for place, kind in enumerate(drawn.call.inputs)
    ]


def operand(example: OpExample, place: int) -> Operand | None:
    """Return the operand of an example at a place, where it has one."""
    return example.inputs[place] if place < len(example.inputs) else None


def elements(kind: TensorType, operand: Operand | None, random: Random, *, strays: bool = True) -> Array:
    """Return elements as `inputs_of` does; without ``strays`` never outside of the range of the example."""
    generator, dtype = np.random.default_rng(random.randrange(1 << 32)), kind.dtype
    how = random.random()
    if operand is not None and operand.low is not None and operand.high is not None and (how < 0.9 or not strays):
        low, high = (0, 0) if how < 0.3 else (operand.low, operand.high)
        return _numbers(generator, kind, low, high)
    if dtype.kind is Kind.BOOL:
        return generator.integers(0, 2, kind.shape).astype(bool)
    if dtype.kind is Kind.TERNARY:
        values = (-1, 1) if dtype.bits == 1 else (-1, 0, 1)
        return generator.choice(np.array(values, np.int8), kind.shape)
    if dtype.is_float and how < 0.5:
        return (generator.integers(-24, 25, kind.shape) / 8).astype(storage_dtype(dtype))
    if dtype.is_packed:
        return _numbers(generator, kind, dtype.minimum or 0, dtype.maximum or 0)
    count = math.prod(kind.shape) * dtype.bits // 8
    return np.frombuffer(generator.bytes(count), storage_dtype(dtype)).reshape(kind.shape).copy()


def _numbers(generator: np.random.Generator, kind: TensorType, low: int, high: int) -> Array:
    low, high = max(low, kind.dtype.minimum or -128), min(high, kind.dtype.maximum or 127)
    return np.asarray(generator.integers(low, high, kind.shape, endpoint=True)).astype(storage_dtype(kind.dtype))


def endless(schemas: Sequence[OpSchema], random: Random) -> Iterator[Drawn]:
    """Yield calls, of every operator in turn."""
    while True:
        for schema in schemas:
            found = drawn_call(schema, random)
            if found is not None:
                yield found
