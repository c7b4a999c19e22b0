"""Inputs of the sequences of steps in which a synthesised program is compared with the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.cli.program_options import StepValues
from openinfer.plugins.environment import Environment
from openinfer.random_inputs import Specials, drawn, drawn_text, input_ranges
from openinfer.simulate.values import Tensor, storage_of
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.cli.run_values import Input
    from openinfer.model import Model
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.random_inputs import ValueRange
    from openinfer.simulate import Simulator
    from openinfer.synth.target import Array


class SequenceInputs:
    """Draws the inputs of sequences of steps.

    Args:
        given: values of inputs that are not random; they have the sizes of the model.

    Attributes:
        texts: what was drawn for each input, or that it was given.
    """

    def __init__(
        self, plan: ExecutionPlan, model: Model, simulator: Simulator, given: Sequence[Input], seed: int, steps: int
    ) -> None:
        self._plan = plan
        self._model = model
        self._simulator = simulator
        self._given = given
        self._seed = seed
        self._steps = steps
        with simulator.make_executor() as executor:
            self._program = executor.program
        self.texts: dict[str, str] = {}

    def drawn(self, sequence: int) -> dict[str, Array]:
        """Return the inputs of a sequence by name, stacked on a first axis of steps.

        Sizes of steps are those of the model in the first sequence, where they are not larger than their limits.

        Raises:
            OpenInferError: a value does not fit its input.
        """
        first, usual = self._seed + sequence * len(self._plan.inputs), self._program.sizes
        random = np.random.default_rng(first)
        sizes = {
            name: min(usual[name], most) if sequence == 0 or self._given else int(random.integers(1, most + 1))
            for name, most in self._plan.given_sizes.items()
        }
        return self._inputs(first, sizes, Specials.NONE)

    def special(self, sequence: int) -> dict[str, Array] | None:
        """Return the inputs of a sequence with special floats among them; None where they mean nothing."""
        sizes = {name: min(self._program.sizes[name], most) for name, most in self._plan.given_sizes.items()}
        random = self._ranges(sizes)
        if all(random[port.name].specials is Specials.NONE for port in self._plan.inputs if port.name in random):
            return None
        return self._inputs(self._seed + sequence * len(self._plan.inputs), sizes, Specials.NORMAL)

    def _ranges(self, sizes: Mapping[str, int]) -> dict[str, ValueRange]:
        environment, names = Environment.default(), {port.name for port in self._plan.inputs}
        program = self._program
        if any(program.sizes[name] != size for name, size in sizes.items()):
            sizes = {**program.sizes, **sizes}
            program = resolve(program.graph, self._model, sizes=sizes, environment=environment)
        names -= {item.name for item in self._given}
        return input_ranges(program, self._model, sorted(names), environment)

    def _inputs(self, first: int, sizes: Mapping[str, int], special: Specials) -> dict[str, Array]:
        ranges, inputs = self._ranges(sizes), dict[str, "Array"]()
        for number, port in enumerate(self._plan.inputs):
            dtype, span = port.type.dtype, ranges.get(port.name)
            if span is not None:
                shape = (self._steps, *self._plan.shape_of(port, sizes))
                inputs[port.name] = drawn(dtype, shape, span, (first + number,), special)
                self.texts[port.name] = drawn_text(dtype, span, special)
        with self._simulator.make_executor() as executor:
            for name, value in StepValues(self._given, executor, self._model, self._seed).at(0).items():
                wanted = executor.input_type(name)
                one = Tensor(wanted.dtype, wanted.shape, storage_of(value, wanted, name)).array
                inputs[name] = np.stack([one] * self._steps)
                self.texts[name] = f"{wanted.dtype} given"
        return inputs
