"""Computations whose sums are added up term by term, in row-major order and without fused multiply-add."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.compute.stage import Order

if TYPE_CHECKING:
    from openinfer.compute.stage import Computation, Stage


def in_strict_order(computation: Computation) -> Computation:
    """Return a computation all of whose folds are `Order.SEQUENTIAL`; the same one if they are already."""
    stages = tuple(map(_sequential, computation.stages))
    return computation if stages == computation.stages else replace(computation, stages=stages)


def _sequential(stage: Stage) -> Stage:
    if stage.fold is None or stage.fold.order is Order.SEQUENTIAL:
        return stage
    return replace(stage, fold=replace(stage.fold, order=Order.SEQUENTIAL))
