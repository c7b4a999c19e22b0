"""Drawing calls of operators on the variables of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from openinfer.dtypes import BY_NAME, I64, DType
from openinfer.ir.graph import MemoryKind
from openinfer.ir.types import TensorType
from openinfer.ir.values import Ref
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import Operand, OpSchema, OpTypeError, Required
from openinfer.symbolic import parse
from openinfer.testing.random_programs.calls import Drawn, drawn_call, elements, operand, setting_value
from openinfer.testing.random_programs.data import drawn_shape
from openinfer.testing.random_programs.precision import UNKNOWN, level_of
from openinfer.testing.random_programs.settings import written_setting
from openinfer.testing.random_programs.writer import Variable, Writer, count_of

MOST_ELEMENTS = 6_000
"""Elements of a result."""

TRIES, TRIES_OF_ONE = 24, 8
"""Calls that are drawn for a statement, and those in a row of the same operator, so that demanding ones are met too."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A call with the variable of each input; None for one that is left out."""

    call: OpCall
    settings: Mapping[str, Any]
    inputs: Sequence[Variable | None]
    level: int


def write_call(writer: Writer, names: Sequence[str]) -> str | None:
    """Write a call of some operator, and return its name; None where nothing that was drawn is legal."""
    schema = writer.environment.op(writer.random.choice(names))
    for turn in range(1, TRIES + 1):
        planned = _of_example(writer, schema) if writer.random.random() < 0.45 else _of_variables(writer, schema)
        if planned is not None:
            _write(writer, schema, planned)
            return schema.name
        if turn % TRIES_OF_ONE == 0:
            schema = writer.environment.op(writer.random.choice(names))
    return None


def _write(writer: Writer, schema: OpSchema, planned: Planned) -> None:
    settings: dict[str, Any] = {
        name: value if spec is None else written_setting(writer, spec, value)
        for name, value in planned.settings.items()
        for spec in [schema.setting(name)]
    }
    inputs: list[str] = []
    for place, variable in enumerate(planned.inputs):
        if variable is None:
            continue
        spec = schema.inputs[min(place, len(schema.inputs) - 1)]
        text = writer.reference(variable)
        if spec.optional:
            settings[spec.name] = _reference(text)
        else:
            inputs.append(text)
    names = [each.name for each in planned.inputs if each is not None]
    taken = [] if schema.in_place and "acc" not in planned.settings and len(planned.call.outputs) == 1 else names
    outputs: list[str] = []
    made = planned.call.outputs
    if len(made) > 1 and not schema.variadic_outputs and writer.random.random() < 0.2:
        made = made[: writer.random.randrange(1, len(made))]
    for kind in made:
        alike = names if not taken and writer.random.random() < 0.3 else ()
        outputs.append(writer.result(kind, planned.level, taken=[*taken, *outputs], liked=alike))
    writer.builder.op(schema.name, *inputs, outputs=outputs, settings=settings)


def _reference(text: str) -> Ref:
    name, _, rest = text.partition("[")
    return Ref(name, tuple(parse(index) for index in rest[:-1].split(", ")) if rest else ())


def _planned(
    writer: Writer, schema: OpSchema, call: OpCall, settings: Mapping[str, Any], inputs: Sequence[Variable | None]
) -> Planned | None:
    if any(count_of(kind) > MOST_ELEMENTS for kind in call.outputs):
        return None
    level = level_of(schema, call, [each.level for each in inputs if each is not None])
    if level >= UNKNOWN and writer.random.random() < 0.97:
        return None
    return Planned(call, settings, inputs, level)


def _of_example(writer: Writer, schema: OpSchema) -> Planned | None:
    """Plan a call like one of the operator's examples; inputs are variables of the types that it has, or new ones."""
    drawn = drawn_call(schema, writer.random)
    if drawn is None:
        return None
    counts = [count_of(kind) for kind in (*drawn.call.inputs, *drawn.call.outputs) if kind is not None]
    if max(counts, default=0) > MOST_ELEMENTS or (0 in counts and writer.random.random() < 0.8):
        return None
    inputs = [
        None if kind is None else _input(writer, drawn, place, kind) for place, kind in enumerate(drawn.call.inputs)
    ]
    return _planned(writer, schema, drawn.call, drawn.settings, inputs)


def _input(writer: Writer, drawn: Drawn, place: int, kind: TensorType) -> Variable:
    shown = operand(drawn.example, place)
    if shown is not None and shown.low is not None:
        within = _within(shown, drawn.call, place) if writer.random.random() < 0.9 else shown
        return writer.given(kind, partial(elements, kind, within, writer.random, strays=False))
    return _another(writer, kind)


def _within(shown: Operand, call: OpCall, place: int) -> Operand:
    """Return the operand of an example with bounds that are legal for indices of any dim of the other inputs."""
    others = [kind.shape for number, kind in enumerate(call.inputs) if kind is not None and number != place]
    least = min((extent for shape in others for extent in shape if extent), default=1)
    return replace(shown, low=max(shown.low or 0, -least), high=min(shown.high or 0, least - 1))


def _of_variables(writer: Writer, schema: OpSchema) -> Planned | None:
    """Plan a call on variables that are there, as far as the operator takes them."""
    if not schema.inputs or _has_bounds(schema):
        return None
    legal = schema.inputs[0].dtypes or schema.dtypes
    known = [each for each in writer.visible if each.type.dtype.name in legal and count_of(each.type) <= MOST_ELEMENTS]
    known = [each for each in known if each.level < UNKNOWN]
    if known and writer.random.random() < 0.9:
        first = writer.random.choice(known)
    else:
        first = writer.given(TensorType(BY_NAME[writer.random.choice(sorted(legal))], drawn_shape(writer.random)))
    inputs: list[Variable | None] = [first]
    common = first.type.dtype if schema.inputs[0].dtypes is None else None
    for spec in schema.inputs[1:]:
        if spec.optional and writer.random.random() < 0.6:
            inputs.append(None)
            continue
        dtypes = spec.dtypes or schema.dtypes
        dtype = (
            common if common is not None and spec.dtypes is None else _dtype(writer.random, dtypes, first.type.dtype)
        )
        common = dtype if spec.dtypes is None else common
        inputs.append(_another(writer, TensorType(dtype, _shape(writer, schema, first.type.shape))))
    settings = _settings(schema, writer.random)
    try:
        call = call_of(schema, [None if each is None else each.type for each in inputs], settings)
    except OpTypeError:
        return None
    return _planned(writer, schema, call, settings, inputs)


def _has_bounds(schema: OpSchema) -> bool:
    """Whether an input is only legal within bounds, which its examples have."""
    return any(o is not None and o.low is not None for example in schema.examples for o in example.inputs)


def _dtype(random: Random, legal: frozenset[str], like: DType) -> DType:
    return like if like.name in legal and random.random() < 0.7 else BY_NAME[random.choice(sorted(legal))]


def _shape(writer: Writer, schema: OpSchema, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of another input: mostly the same, where inputs broadcast also one that does."""
    if not schema.broadcast or writer.random.random() < 0.5:
        return shape
    kept = shape[writer.random.randrange(len(shape) + 1) :]
    return tuple(1 if writer.random.random() < 0.25 else extent for extent in kept)


def _another(writer: Writer, kind: TensorType) -> Variable:
    """Return a variable of a type: one that is there, a new one, or the index of a loop."""
    if writer.indices and kind == TensorType(I64, ()) and writer.random.random() < 0.5:
        return Variable(writer.random.choice(writer.indices), kind, MemoryKind.CONSTANT)
    known = writer.fitting(kind)
    return writer.random.choice(known) if known and writer.random.random() < 0.75 else writer.given(kind)


def _settings(schema: OpSchema, random: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for spec in schema.settings:
        if spec.default is Required.REQUIRED or random.random() < 0.12:
            found[spec.name] = setting_value(spec, random)
    return found
