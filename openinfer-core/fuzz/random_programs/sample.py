"""A program with all that a run of it needs: sizes, tensors of its model, and the inputs of some steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openinfer.ir.graph import Graph
from openinfer.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A drawn program.

    Attributes:
        tensors: those of the model, one element an item.
        steps: inputs by name, one mapping for each step.
        calm: whether floats are small, so that sums of them hardly depend on the order.
    """

    graph: Graph
    sizes: Mapping[str, int]
    tensors: Mapping[str, Array]
    steps: tuple[Mapping[str, Array], ...]
    calm: bool = True

    def model(self) -> Model:
        """Return the model that the program is run with."""
        return Model.from_arrays(self.tensors, sizevars=self.sizes)

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
        lines += [f"// tensor {name}: {_shown(array)}" for name, array in self.tensors.items()]
        for number, inputs in enumerate(self.steps):
            lines += [f"// step {number}, {name}: {_shown(array)}" for name, array in inputs.items()]
        return "\n".join(lines)


def _magnitude(array: Array) -> float:
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=1.0))


def _shown(array: Array) -> str:
    values = array.reshape(-1)[:24].tolist()
    more = ", ..." if array.size > 24 else ""
    return f"{array.dtype}{list(array.shape)} [{', '.join(map(str, values))}{more}]"
