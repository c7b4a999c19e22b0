"""Where two places differ about a program, although the specification leaves nothing open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.testing.random_programs.agreement import differences
from openinfer.testing.random_programs.extremes import open_statements
from openinfer.testing.random_programs.levels import levels_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.plugins.environment import Environment
    from openinfer.testing.random_programs.running import Step
    from openinfer.testing.random_programs.sample import Sample


def defined_differences(
    sample: Sample,
    program: ResolvedGraph,
    expected: Sequence[Step],
    actual: Sequence[Step],
    environment: Environment,
    levels: Mapping[str, int] | None = None,
    *,
    gpu: bool = False,
    flushes: bool = False,
    first: int = 0,
) -> list[str]:
    """Return how steps differ from those expected, apart from what is open for the values that they meet.

    Args:
        levels: how far variables are defined, where that is known (`openinfer.testing.random_programs.levels`).
        gpu: whether the place rounds as GPUs may.
        flushes: whether it may take subnormals for zero.
        first: the number of the first of these steps.
    """
    defined = levels_of(program, environment, gpu=gpu) if levels is None else levels
    lines = differences(expected, actual, defined, reach=sample.reach(), calm=sample.calm, first=first)
    if not lines:
        return lines
    numbers, greatest = open_statements(sample, environment, flushes=flushes)
    opened = levels_of(program, environment, gpu=gpu, open_ops=numbers)
    reach = max(sample.reach(), greatest)
    return differences(expected, actual, opened, reach=reach, calm=sample.calm, first=first)
