"""Whether steps that a plugin made are made of what steps consist of."""

from __future__ import annotations

import dataclasses

from openinfer.affine import Index
from openinfer.arch import TargetInfo
from openinfer.compute import Computation
from openinfer.dims import Let
from openinfer.expr.tree import Expr
from openinfer.ir.types import TensorType
from openinfer.layout import Layout
from openinfer.loops import Kernel
from openinfer.ops.calls import OpCall
from openinfer.plan import operands, regions, setting_ranges, steps
from openinfer.plugins.structure import Structure
from openinfer.plugins.types import KernelSpec
from openinfer.schedule import Loop, Schedule

_STEPS = Structure(
    *(
        part
        for module in (steps, operands, regions, setting_ranges)
        for part in vars(module).values()
        if dataclasses.is_dataclass(part) and isinstance(part, type) and part.__module__ == module.__name__
    ),
    *(Index, Let),
    names={
        **{
            type_.__name__: type_ for type_ in (TargetInfo, Computation, TensorType, Layout, Kernel, OpCall, KernelSpec)
        },
        **{type_.__name__: type_ for type_ in (Loop, Schedule)},
        "Expr": Expr,
        "Term": tuple[tuple[operands.Symbol | Let, ...], int],
        "Scalar": int | float | bool,
    },
)


def procedures_misfit(result: object) -> str | None:
    """Return what is wrong with what should be a tuple of procedures, or None."""
    return _STEPS.misfit(result, tuple[steps.Procedure, ...])
