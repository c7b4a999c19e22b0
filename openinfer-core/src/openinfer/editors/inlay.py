"""Types that a text leaves out: those of temporaries without a declaration, shown after their first output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.validate.inference import inferred_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.editors.analysis import Analysis
    from openinfer.model import Model
    from openinfer.plugins.environment import Environment


def inlay_hints(analysis: Analysis, environment: Environment, model: Model | None) -> Iterator[tuple[int, str]]:
    """Yield the offset after a name and the type to show there, such as ``: f32[B, D]``; none without a model."""
    if model is None or analysis.resolved is None or not analysis.is_current:
        return
    for found in inferred_types(analysis.resolved, model, environment):
        if found.span is not None:
            yield found.span.end, str(found).removeprefix(found.name)
