"""Stages that look an index up where there is none to find: they fail at their first place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.expr import tree
from openinfer.loops import Fail, Value

if TYPE_CHECKING:
    from openinfer.compute import Stage


def never_found(stage: Stage) -> bool:
    """Return whether a stage is sure to look up an index whose extent is 0."""
    axes = stage.axes if stage.fold is None else (*stage.axes, *stage.fold.axes)
    return all(axis.extent not in (None, 0) for axis in axes) and any(
        lookup.var.extent == 0 for lookup in stage.lookups
    )


def refused(stage: Stage) -> Fail:
    """Return the failure of such a stage. A loop around it would be left at once, which compilers warn of."""
    rule = next(lookup.rule for lookup in stage.lookups if lookup.var.extent == 0)
    return Fail(Value(tree.literal(1, BOOL)), rule)
