"""Nodes of operators without a recipe: by their schema alone, all inputs of shapes that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from random_onnx.calls import Call, ImpossibleError

Option = onnx.defs.OpSchema.FormalParameterOption
Kind = onnx.defs.OpSchema.AttrType

WORDS = {
    "approximate": ("none", "tanh"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "direction": ("LEFT", "RIGHT"),
    "mode": ("nearest", "linear", "constant", "edge", "reflect"),
    "reduction": ("none", "add", "mul", "max", "min", "mean", "sum"),
}
"""What attributes that are words may be; schemas only say so in prose."""

MOST_VARIADIC = 4


def draw_generic(call: Call) -> None:
    """Draw inputs and attributes by types alone."""
    rank = _inputs(call)
    for name, attribute in call.schema.attributes.items():
        if attribute.required or call.chance(0.5):
            call.attributes[name] = _attribute(call, name, attribute.type, rank)
    most = min(call.schema.max_output, call.schema.min_output + 2)
    if most > call.schema.min_output and call.chance(0.25):
        call.outputs = call.random.randint(call.schema.min_output, most)


def _inputs(call: Call) -> int:
    """Draw inputs; return the rank of the first."""
    first: Sequence[int] | None = None
    for formal in call.schema.inputs:
        if formal.option == Option.Optional and call.chance(0.5):
            continue
        count = 1
        if formal.option == Option.Variadic:
            count = call.random.randint(max(formal.min_arity, 1), MOST_VARIADIC)
        for _ in range(count):
            if first is None:
                first = call.take(formal.name).shape
            else:
                call.take(formal.name, shape=_broadcasting(call, first))
    return len(first or ())


def _broadcasting(call: Call, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape that broadcasts to another one: with ones, and without leading extents."""
    chance = call.random.random()
    if chance < 0.5:
        return tuple(shape)
    kept = call.random.randint(0, len(shape))
    return tuple(1 if call.chance(0.3) else extent for extent in shape[len(shape) - kept :])


def _attribute(call: Call, name: str, kind: Any, rank: int) -> Any:
    random = call.random
    if kind == Kind.INT:
        if "axis" in name:
            return random.randrange(-rank, rank) if rank else 0
        return random.choice((0, 1))
    if kind == Kind.INTS:
        count = random.randint(0, rank)
        return random.sample(range(-rank, rank), count) if name == "axes" else [random.choice((0, 1, 2))] * count
    if kind == Kind.FLOAT:
        return random.choice((0.0, 1.0, 0.5, -0.5, 2.0, 0.1, -1.25, 3.0))
    if kind == Kind.STRING:
        return random.choice(WORDS.get(name, ("none",)))
    raise ImpossibleError(f"attribute {name}")
