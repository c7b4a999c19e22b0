"""What the names of a loop over lanes mean: the same value in all lanes, one for each, or a vector."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.loops import Load, Register
from openinfer_synth_c.loop_programs.addresses import pointer_text, register
from openinfer_synth_c.loop_programs.lanes import tests_vary, varies, varying_registers

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.affine import Var
    from openinfer.loops import Buffer, Leaf, Statement
    from openinfer_synth_c.loop_programs.places import Places


class Form(Enum):
    """What a name means that differs from lane to lane.

    ``ARRAY`` of one element for each lane; ``VECTOR`` of one of the types of `vector_types`.
    """

    ARRAY = "ARRAY"
    VECTOR = "VECTOR"


@dataclass(slots=True)
class Lanes:
    """A loop over lanes and what its names mean.

    Attributes:
        scalar_leaf: returns the text of a leaf that is the same in all lanes.
        count: number of lanes.
        varying: registers that may have another value in each lane.
        forms: of the varying registers that are declared.
    """

    places: Places
    lane: Var
    body: tuple[Statement, ...]
    scalar_leaf: Callable[[Leaf], str]
    count: int = field(init=False)
    varying: frozenset[str] = field(init=False)
    forms: dict[str, Form] = field(default_factory=dict[str, Form])

    def __post_init__(self) -> None:
        self.count = Index.of(self.lane.extent or 0).constant or 0
        self.varying = varying_registers(self.body, self.lane)

    def is_varying(self, leaf: Leaf) -> bool:
        """Return whether a leaf may have another value in each lane."""
        return varies(leaf, self.lane, self.varying)

    def vector_of(self, leaf: Leaf) -> str | None:
        """Return the vector that a leaf is, None where it is not in one."""
        if isinstance(leaf, Register) and self.forms.get(leaf.name) is Form.VECTOR:
            return register(leaf.name)
        return self.places.vectors.get(leaf.buffer.name) if isinstance(leaf, Load) else None

    def row_of(self, leaf: Leaf) -> str | None:
        """Return a pointer to the elements of all lanes, which lie in a row; None where they do not."""
        match leaf:
            case Load(buffer, address, guards, _) if not tests_vary(guards, self.lane):
                return self.row(buffer, address)
            case Register(name, _):
                return register(name)
            case _:
                return None

    def row(self, buffer: Buffer, address: Index) -> str | None:
        """Return a pointer to the element of the first lane where the lanes use elements in a row, else None."""
        if buffer.name not in self.places.operands or address.coefficient(self.lane) != 1:
            return None
        bound, first = self.places.element(buffer, address - self.lane)
        if not bound.pointer or buffer.dtype.is_packed:
            return None
        return pointer_text(bound.variable, first)
