"""Inputs of the steps in which an imported program is compared with its original."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import ModelImportError
from openinfer.importers.given_values import given_array
from openinfer.importers.step_sizes import StepPrograms
from openinfer.plugins.environment import Environment
from openinfer.random_inputs import Interval, Specials, drawn, drawn_text, input_ranges

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt

    from openinfer.importers.imported import ImportedModel
    from openinfer.ir.resolved import ResolvedGraph

    Array = npt.NDArray[Any]

MASKS = (Interval(0, 1), Interval(1, 1))
"""What wide integers are drawn from instead, one after the other, where the original needs it: masks, lengths."""


@dataclass(frozen=True, kw_only=True)
class StepInputs(Mapping[str, "Array"]):
    """Values by the names of the model's inputs.

    Attributes:
        texts: what was drawn for each, or that it was given.
        wide: inputs of integers for which the program sets no bounds.
        can_be_special: whether special floats mean something in an input.
        program: the program with the sizes of the step.
    """

    values_by_name: Mapping[str, Array]
    texts: Mapping[str, str]
    wide: Collection[str]
    can_be_special: bool
    program: ResolvedGraph

    def __getitem__(self, name: str) -> Array:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


def step_inputs(
    imported: ImportedModel,
    given: Mapping[str, Any],
    step: int,
    seed: int,
    *,
    special: Specials = Specials.NONE,
    masks: Interval | None = None,
    programs: StepPrograms | None = None,
    environment: Environment | None = None,
) -> StepInputs:
    """Return the inputs of a step: those given, random ones for the others.

    Args:
        given: by the names of the model; a single number is repeated over the shape of its input, a function is
            called with the type of the input in this step and the number of the step.
        special: the special floats among random ones.
        masks: what wide integers are drawn from, in place of their own range.
        programs: the program at the sizes of steps; None: without limits. Special floats are drawn at those of the
            first step, whose memory is there.

    Raises:
        ModelImportError: a name is not that of an input, or a value does not fit its type.
        ValidationError: the program does not go with the sizes of the step.
    """
    unknown = set(given) - set(imported.report.inputs)
    if unknown:
        listed = ", ".join(imported.report.inputs) or "none"
        message = f"the model has no input {', '.join(sorted(unknown))}; it has: {listed}"
        raise ModelImportError(message, code="import-value")
    offered = environment or Environment.default()
    at_sizes = programs or StepPrograms(imported, offered)
    program = at_sizes.of(step if special is Specials.NONE else 0)
    random = [ours for name, ours in imported.report.inputs.items() if name not in given]
    ranges = input_ranges(program, imported.model, random, offered)
    values: dict[str, Array] = {}
    texts: dict[str, str] = {}
    for number, (name, ours) in enumerate(imported.report.inputs.items()):
        kind = program.variables[ours].type
        if name in given:
            value = given[name]
            value = given_array(name, value(kind, step) if callable(value) else value, kind.dtype)
            values[name] = value if value.ndim else np.full(kind.shape, value)
            texts[name] = f"{kind.dtype} given"
            continue
        span = ranges[ours]
        if span.is_wide and masks is not None:
            span = replace(span, bounds=masks, use="as with more the original fails, or is not finite")
        values[name] = drawn(kind.dtype, kind.shape, span, (seed, step, number), special)
        texts[name] = drawn_text(kind.dtype, span, special)
    return StepInputs(
        values_by_name=values,
        texts=texts,
        wide=[name for name, ours in imported.report.inputs.items() if ours in ranges and ranges[ours].is_wide],
        can_be_special=any(span.specials is not Specials.NONE for span in ranges.values()),
        program=program,
    )
