"""Stages that read no input, such as tables of frequencies: what they compute can be known before anything runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.compute.parameters import free_variables
from openinfer.compute.stage import Computation

if TYPE_CHECKING:
    from openinfer.compute.stage import Stage, Tensor


def without_constants(computation: Computation) -> tuple[Computation, Computation]:
    """Return the stages that compute constant temporaries, and the others, which read these as further inputs.

    The outputs of the first part are the inputs that the second has after those of the computation, in their order. A
    temporary is constant if every stage that writes it reads constants alone, refuses nothing and has no size that is
    known at run time only.
    """
    constant: set[str] = set()
    for tensor in computation.temporaries:
        writers = [stage for stage in computation.stages if stage.tensor == tensor.name]
        sized = any(extent.constant is None for extent in tensor.shape)
        if writers and not sized and all(_is_constant(stage, constant) for stage in writers):
            constant.add(tensor.name)

    def of(kind: bool) -> tuple[Stage, ...]:
        return tuple(stage for stage in computation.stages if (stage.tensor in constant) is kind)

    tables: tuple[Tensor, ...] = tuple(tensor for tensor in computation.temporaries if tensor.name in constant)
    others = tuple(tensor for tensor in computation.temporaries if tensor.name not in constant)
    computed = replace(computation, inputs=(), outputs=tables, stages=of(True), temporaries=(), parameters=())
    return computed, replace(computation, inputs=(*computation.inputs, *tables), stages=of(False), temporaries=others)


def _is_constant(stage: Stage, constant: set[str]) -> bool:
    refuses = bool(stage.checks or stage.lookups)
    return stage.tensors_read <= constant and not refuses and not free_variables(stage)
