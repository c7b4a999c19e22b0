"""A node while it is being drawn: inputs and attributes that its schema allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import helper

from openinfer.importers.onnx_files.elements import array_type
from openinfer.testing.random_programs.data import drawn_shape
from openinfer.testing.values import Draw, draw
from random_onnx.graphs import Array, Source

TYPES: Mapping[str, np.dtype[Any]] = {
    f"tensor({name})": np.dtype(kind)
    for name, kind in {
        "float": np.float32,
        "float16": np.float16,
        "double": np.float64,
        "bool": np.bool_,
        **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    }.items()
}
"""Element types that are drawn, by their names in schemas."""

WEIGHTS = {"float32": 60, "float64": 8, "float16": 6, "int64": 8, "int32": 8, "uint8": 5, "int8": 4, "bool": 6}
"""How often each is drawn; the others count once."""

REUSED = 0.75
"""How often an input is an earlier value, where one fits."""

KNOWN = 0.25
"""How often a fresh value is an initialiser."""


class ImpossibleError(Exception):
    """A node that cannot be drawn of these values."""


@dataclass(slots=True)
class Call:
    """A node.

    Attributes:
        schema: of its operator, in the drawn version.
        values: earlier values by name, the last ones the youngest.
        known: names of initialisers.
        sources: fresh values that it reads.
        inputs: names of inputs by formal input.
        attributes: attributes by name.
        outputs: how many results it has.
    """

    schema: onnx.defs.OpSchema
    random: Random
    values: Mapping[str, Array]
    known: set[str]
    calm: bool
    prefix: str
    sources: dict[str, Source] = field(default_factory=dict[str, Source])
    inputs: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 0
    _bound: dict[str, np.dtype[Any]] = field(default_factory=dict[str, np.dtype[Any]])

    # Types

    def formal(self, name: str) -> onnx.defs.OpSchema.FormalParameter:
        """Return a formal input."""
        return next(formal for formal in self.schema.inputs if formal.name == name)

    def has_input(self, name: str) -> bool:
        """Whether this version of the operator has an input."""
        return any(formal.name == name for formal in self.schema.inputs)

    def types(self, name: str) -> list[np.dtype[Any]]:
        """Return the element types that an input may have."""
        formal = self.formal(name)
        if formal.type_str in self._bound:
            return [self._bound[formal.type_str]]
        allowed = [TYPES[text] for text in TYPES if text in formal.types]
        if not allowed:
            raise ImpossibleError(f"no type for {name}")
        return allowed

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the element type of an input, which is drawn if it is open."""
        allowed = self.types(name)
        drawn = self.random.choices(allowed, [WEIGHTS.get(dtype.name, 1) for dtype in allowed])[0]
        self.bind(name, drawn)
        return drawn

    def bind(self, name: str, dtype: np.dtype[Any]) -> None:
        """Set the element type of an input, and of all that share its type."""
        self._bound[self.formal(name).type_str] = dtype

    def prefer(self, name: str, *dtypes: Any) -> None:
        """Draw the type of an input among these, where some are allowed."""
        allowed = [np.dtype(dtype) for dtype in dtypes if np.dtype(dtype) in self.types(name)]
        if allowed:
            self.bind(name, self.random.choice(allowed))

    # Inputs

    def take(
        self,
        name: str,
        *,
        shape: Sequence[int] | None = None,
        ranks: Sequence[int] = (),
        values: Array | None = None,
        known: bool | None = None,
        fresh: bool = False,
    ) -> Array:
        """Add an input, an earlier value or a fresh one, and return its array.

        Args:
            shape: the shape it must have.
            ranks: the ranks it may have.
            values: its elements.
            known: whether it is an initialiser; drawn by default.
            fresh: whether no earlier value is taken.
        """
        if values is None and known is None and not fresh and self.random.random() < REUSED:
            fitting = [other for other, array in self.values.items() if self._fits(name, array, shape, ranks)]
            if fitting:
                chosen = self.random.choices(fitting, range(1, len(fitting) + 1))[0]
                self.bind(name, self.values[chosen].dtype)
                self.inputs.setdefault(name, []).append(chosen)
                return self.values[chosen]
        if values is None:
            dtype = self.dtype(name)
            values = self.drawn(dtype, self.shape(ranks) if shape is None else tuple(shape))
        return self.add(name, values, known=known)

    def _fits(self, name: str, array: Array, shape: Sequence[int] | None, ranks: Sequence[int]) -> bool:
        is_shape = array.shape == tuple(shape) if shape is not None else not ranks or array.ndim in ranks
        return is_shape and array.dtype in self.types(name)

    def add(self, name: str, values: Array, *, known: bool | None = None) -> Array:
        """Add an input of these elements, and return it."""
        own = f"{self.prefix}_{len(self.sources)}"
        is_known = self.random.random() < KNOWN if known is None else known
        self.sources[own] = Source(values, is_known)
        self.inputs.setdefault(name, []).append(own)
        if self.formal(name).type_str not in TYPES:
            self._bound.setdefault(self.formal(name).type_str, values.dtype)
        return values

    def maybe(self, name: str, chance: float = 0.5, **options: Any) -> Array | None:
        """Add an optional input at times, where this version has it."""
        if not self.has_input(name) or self.random.random() >= chance:
            return None
        return self.take(name, **options)

    def ints(self, name: str, numbers: Sequence[int] | int) -> None:
        """Set integers: an attribute in old versions of the operator, an input in others, nearly always known."""
        if name in self.schema.attributes:
            self.attributes[name] = numbers if isinstance(numbers, int) else [int(number) for number in numbers]
        elif self.has_input(name):
            kinds = self.types(name)
            dtype = np.dtype(np.int64) if np.dtype(np.int64) in kinds else kinds[0]
            self.add(name, np.array(numbers, dtype), known=self.random.random() < 0.9)
        else:
            raise ImpossibleError(f"no {name} in version {self.schema.since_version}")

    # Attributes

    def set(self, name: str, value: Any, chance: float = 1.0) -> bool:
        """Set an attribute at times, where this version has it."""
        if name in self.schema.attributes and self.random.random() < chance:
            self.attributes[name] = value
            return True
        return False

    def flag(self, name: str, chance: float = 0.4) -> bool:
        """Set an attribute to 0 or 1 at times; return whether it is 1 then."""
        return self.set(name, self.random.choice((0, 1)), chance) and bool(self.attributes[name])

    def axis(self, rank: int, name: str = "axis", chance: float = 0.8) -> int | None:
        """Set an axis of so many at times, negative ones included; return it."""
        if rank < 1:
            raise ImpossibleError("an axis of a scalar")
        negative = self.schema.since_version >= 11 or self.random.random() < 0.3
        axis = self.random.randrange(-rank if negative else 0, rank)
        return axis % rank if self.set(name, axis, chance) else None

    # Values

    def shape(self, ranks: Sequence[int] = ()) -> tuple[int, ...]:
        """Return a random shape."""
        for _ in range(200):
            shape = drawn_shape(self.random)
            if len(shape) <= 5 and math.prod(shape) <= 600 and (not ranks or len(shape) in ranks):
                return shape
        return tuple(self.extent() for _ in range(self.random.choice(list(ranks) or [2])))

    def extent(self, *, least: int = 1, most: int = 7) -> int:
        """Return a random extent."""
        return self.random.choice([least, *range(least, most + 1)])

    def drawn(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Return random elements: calm floats are small ones with few bits, integers small or any."""
        generator = np.random.default_rng(self.random.randrange(1 << 32))
        kind = array_type(np.empty(0, dtype))
        if kind.is_float:
            how = Draw.DYADIC if self.calm else self.random.choice((Draw.DYADIC, Draw.ROUGH, Draw.STREWN, Draw.SPECIAL))
            return np.asarray(draw(kind, shape, how, generator))
        if dtype.kind in "iu" and self.random.random() < 0.7:
            low = 0 if dtype.kind == "u" else -9
            return generator.integers(low, 10, shape).astype(dtype)
        return np.asarray(draw(kind, shape, self.random.choice((Draw.SPECIAL, Draw.CODES)), generator))

    def chance(self, share: float) -> bool:
        """Return True so often."""
        return self.random.random() < share

    # The node

    def node(self) -> onnx.NodeProto:
        """Return the node."""
        names: list[str] = []
        for formal in self.schema.inputs:
            names += self.inputs.get(formal.name) or [""]
        while names and not names[-1]:
            names.pop()
        count = max(self.outputs, self.schema.min_output)
        outputs = [f"{self.prefix}_y{number}" for number in range(count)]
        node = helper.make_node(self.schema.name, names, outputs)
        node.attribute.extend(
            helper.make_attribute(name, value, attr_type=_number_of(self.schema.attributes[name].type))
            for name, value in self.attributes.items()
        )
        return node


def _number_of(kind: Any) -> int:
    """Return the number of the type of an attribute."""
    return int(kind.value)
