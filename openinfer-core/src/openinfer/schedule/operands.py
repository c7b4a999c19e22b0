"""The layouts of what a stage uses, as a key: by these and the stage itself, schedules are known again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute import Stage
    from openinfer.layout import Layout


def used_layouts(stage: Stage, layouts: Mapping[str, Layout]) -> tuple[tuple[str, Layout], ...]:
    """Return the layouts of the tensors that a stage uses, by name."""
    used = {stage.tensor, *stage.tensors_read}
    return tuple((tensor, layouts[tensor]) for tensor in sorted(used) if tensor in layouts)
