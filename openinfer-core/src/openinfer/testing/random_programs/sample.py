"""A program with all that a run of it needs: sizes, tensors of its model, and the inputs of some steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openinfer.errors import ValidationError
from openinfer.ir.graph import Graph, MemoryKind
from openinfer.model import Model
from openinfer.plugins.environment import Environment
from openinfer.symbolic import Name
from openinfer.testing.random_programs.refusals import ILL_SHAPED
from openinfer.validate import resolve

MOST_ENTRIES = 24
"""How far caches may grow that declare no bound: further than any index that is drawn."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A drawn program.

    Attributes:
        tensors: those of the model, one element an item.
        steps: inputs by name, one mapping for each step.
        calm: whether floats are small, so that sums of them hardly depend on the order.
        limits: how far indices of tables may go, and the greatest sizes of a step where they change.
    """

    graph: Graph
    sizes: Mapping[str, int]
    tensors: Mapping[str, Array]
    steps: tuple[Mapping[str, Array], ...]
    calm: bool = True
    limits: Mapping[str, int] = field(default_factory=dict[str, int])

    def model(self) -> Model:
        """Return the model that the program is run with."""
        return Model.from_arrays(self.tensors, sizevars=self.sizes)

    @property
    def limits_of_caches(self) -> dict[str, int]:
        """The limits, and one for each index of a cache that declares no bound, for places that reserve its memory."""
        caches = [declared for declared in self.graph.vars.values() if declared.kind is MemoryKind.PERSISTENT]
        limits = {f"{cache.name}.{formal}": MOST_ENTRIES for cache in caches for formal in cache.formals}
        return {**limits, **self.limits}

    @property
    def fixed_sizes(self) -> dict[str, int]:
        """The sizes that are the same in every step: those without a limit."""
        return {name: size for name, size in self.sizes.items() if name not in self.limits}

    def fits(self, environment: Environment, sizes: Mapping[str, int] | None = None) -> bool:
        """Whether the shapes are legal for some sizes, such as that no maximum of no elements is taken."""
        try:
            resolve(self.graph, self.model(), sizes=sizes, environment=environment)
        except ValidationError as error:
            if error.code in ILL_SHAPED:
                return False
            raise
        return True

    def fits_at_limits(self, environment: Environment) -> bool:
        """Whether the shapes are legal for the greatest sizes of a step."""
        return self.fits(environment, {name: most for name, most in self.limits.items() if name in self.sizes})

    def sizes_of_step(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """Return the sizes of a step, which are those of the model where no input gives them."""
        given = {
            dim.name: extent
            for name, array in inputs.items()
            if name in self.graph.vars
            for dim, extent in zip(self.graph.vars[name].dims, array.shape, strict=True)
            if isinstance(dim, Name) and dim.name in self.limits
        }
        return {**self.sizes, **given}

    def reach(self) -> float:
        """Return the greatest magnitude of its floats: calm ones are small."""
        if self.calm:
            return 1.0
        arrays = [*self.tensors.values(), *(array for inputs in self.steps for array in inputs.values())]
        return max((_magnitude(array) for array in arrays if array.dtype.kind not in "iub"), default=1.0)

    def text(self) -> str:
        """Return the program, and in comments what it is run with."""
        lines = [self.graph.to_dsl().rstrip()]
        lines += [f"// size {name} = {value}" for name, value in self.sizes.items()]
        lines += [f"// limit {name} = {value}" for name, value in self.limits.items()]
        lines += [f"// tensor {name}: {_shown(array)}" for name, array in self.tensors.items()]
        for number, inputs in enumerate(self.steps):
            sizes = self.sizes_of_step(inputs) if self.limits else {}
            lines += (
                [f"// step {number}: {', '.join(f'{name} = {size}' for name, size in sizes.items())}"] if sizes else []
            )
            lines += [f"// step {number}, {name}: {_shown(array)}" for name, array in inputs.items()]
        return "\n".join(lines)


def _magnitude(array: Array) -> float:
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=1.0))


def _shown(array: Array) -> str:
    values = array.reshape(-1)[:24].tolist()
    more = ", ..." if array.size > 24 else ""
    return f"{array.dtype}{list(array.shape)} [{', '.join(map(str, values))}{more}]"
