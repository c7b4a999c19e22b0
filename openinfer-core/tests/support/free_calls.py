"""Calls of operators whose extents are sizes: the examples of the catalogue, with a name for every extent."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openinfer.compute import Computation
from openinfer.dims import Dim, Space
from openinfer.dtypes import BY_NAME, DType
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, fold_expression, refused_expression, scalar_expression
from openinfer.ops.calls import OpCall
from openinfer.ops.computations import computation_of, refusing_computation, stages_of
from openinfer.ops.derived import expression_computation, fold_computation
from openinfer.ops.schema import Composite, Elementwise, OpExample, OpSchema, Reduction
from openinfer.plugins.environment import Environment

LARGEST = 4096

SCHEMAS = {schema.name: schema for schema in Environment.default().ops.values()}


@dataclass(frozen=True)
class FreeCall:
    """An example whose extents have names."""

    schema: OpSchema
    example: OpExample

    @property
    def extents(self) -> dict[str, int]:
        """The numbers of the example under their names."""
        return {
            f"{side}{number}_{axis}": extent
            for side, operands in (("x", self.example.inputs), ("y", self.example.outputs))
            for number, operand in enumerate(operands)
            if operand is not None
            for axis, extent in enumerate(operand.shape)
        }

    def at(self, extents: Mapping[str, int | Dim], settings: Mapping[str, Any] | None = None) -> OpCall:
        """Apply the shape rule, with the settings of the example or others."""
        inputs, outputs = (self._types(side, extents) for side in "xy")
        chosen = self.example.settings if settings is None else settings
        return call_of(self.schema, inputs, chosen, [type_ for type_ in outputs if type_ is not None])

    @property
    def integers(self) -> dict[str, int]:
        """The integers of the example's settings under their names."""
        values: dict[str, int] = {}
        self.settings(lambda name, value: values.setdefault(name, value))
        return values

    def settings(self, value_of: Callable[[str, int], Any]) -> dict[str, Any]:
        """Return the settings with another value for every integer."""

        def free(name: str, value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(free(f"{name}_{number}", part) for number, part in enumerate(value))
            return value_of(name, value) if type(value) is int else value

        return {name: free(f"s_{name}", value) for name, value in self.example.settings.items()}

    def _types(self, side: str, extents: Mapping[str, int | Dim]) -> list[TensorType | None]:
        operands = self.example.inputs if side == "x" else self.example.outputs
        return [
            operand
            and TensorType(
                self._dtype(number, operand.dtype, is_input=side == "x"),
                tuple(extents[f"{side}{number}_{axis}"] for axis in range(len(operand.shape))),
            )
            for number, operand in enumerate(operands)
        ]

    def _dtype(self, number: int, name: str | None, *, is_input: bool) -> DType:
        inputs = self.schema.inputs
        own = inputs[min(number, len(inputs) - 1)].dtypes if is_input else None
        legal = self.schema.dtypes if own is None else own
        return BY_NAME[name or next((each for each in ("f32", "i32", "i8", "u8", "bool") if each in legal), min(legal))]

    def bindings(self, count: int) -> Iterator[dict[str, int]]:
        """Yield the example's own extents, then others: equal ones that stay equal, and each on its own."""
        draw, base = random.Random(7), self.extents
        choices = sorted({*base.values(), 0, 1, 2, 3, 4, 6, 8, 12})
        yield base
        for number in range(1, count):
            renamed = {extent: draw.choice(choices) for extent in base.values()}
            changed = draw.sample(sorted(base), draw.randint(1, len(base)))
            yield {
                name: (renamed[extent] if number % 2 else draw.choice(choices)) if name in changed else extent
                for name, extent in base.items()
            }


def free_settings(call: FreeCall, space: Space) -> dict[str, Any]:
    """Return the settings with a size for every integer.

    Signs are kept: a place that counts from an end is another form than one that does not.
    """
    return call.settings(
        lambda name, value: space.size(name, 0 if value >= 0 else -LARGEST, LARGEST if value >= 0 else -1)
    )


def sizes_of(call: FreeCall, space: Space) -> dict[str, int | Dim]:
    """Return a size for every extent."""
    return {extent: space.size(extent, 0, LARGEST) for extent in call.extents}


def is_defined(schema: OpSchema) -> bool:
    definition = schema.definition
    return not isinstance(definition, Composite) and (
        isinstance(definition, Elementwise | Reduction) or stages_of(schema) is not None
    )


def definition_of(schema: OpSchema, call: OpCall) -> Computation:
    if isinstance(schema.definition, Elementwise):
        if refused_expression(schema, call) is not None:
            return refusing_computation(schema, call)
        types = [type_ for type_ in call.inputs if type_ is not None]
        return expression_computation(call.op, scalar_expression(schema, call), types, call.outputs[0])
    if isinstance(schema.definition, Reduction):
        axes, fold = fold_expression(schema, call)
        (source, *_) = call.inputs
        assert source is not None
        return fold_computation(call.op, axes, fold, source, call.outputs[0])
    return computation_of(schema, call)
