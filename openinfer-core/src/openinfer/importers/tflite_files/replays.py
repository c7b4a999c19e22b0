"""States of models in interpreters that take none: the steps before are run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.importers.tflite_files.variables import next_name, variable_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.importers.tflite_files.source import TfliteModel

    Array = npt.NDArray[Any]
    Steps = Sequence[Mapping[str, Array]]


class Replays:
    """What was run before, by arrays that stand for the states afterwards."""

    def __init__(self, model: TfliteModel) -> None:
        self._names = frozenset(variable_names(model).values())
        # Arrays are kept, so that their identities stay their own.
        self._ran: dict[int, tuple[Array, Steps]] = {}

    def steps(self, inputs: Mapping[str, Array]) -> Steps:
        """Return the steps to run, the one with these inputs last; states among them say what came before."""
        own = {name: value for name, value in inputs.items() if name not in self._names}
        for name in self._names & inputs.keys():
            if id(inputs[name]) in self._ran:
                return [*self._ran[id(inputs[name])][1], own]
        return [own]

    def states(self, steps: Steps) -> dict[str, Array]:
        """Return an array for each state after these steps."""
        if not self._names:
            return {}
        stands_for = np.zeros((), np.int64)
        self._ran[id(stands_for)] = stands_for, steps
        return dict.fromkeys(map(next_name, self._names), stands_for)
