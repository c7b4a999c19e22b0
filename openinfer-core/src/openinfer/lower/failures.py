"""Stages that are sure to fail: a check that never holds, or an index looked up where there is none to find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.expr import tree
from openinfer.loops import Fail, If, Value
from openinfer.lower.reached import entered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.compute import Stage


def failure(stage: Stage) -> Fail | If | None:
    """Return the failure that a stage ends in at its first place, if it has one; None where none is certain.

    A loop around it would be left in its first turn, which compilers warn of.
    """
    if any(axis.extent is None or axis.extent == 0 for axis in stage.all_axes):
        return None
    rule = next(_rules(stage), None)
    if rule is None:
        return None
    failed, tests = Fail(Value(tree.literal(1, BOOL)), rule), entered(stage.all_axes)
    return If(tests, (failed,)) if tests else failed


def _rules(stage: Stage) -> Iterator[str]:
    for lookup in stage.lookups:
        if lookup.var.extent == 0:
            yield lookup.rule
    for check in stage.checks:
        if isinstance(check.refused, tree.Literal) and check.refused.value:
            yield check.rule
