"""Translation units that round f64 to f32 hide from GCC what is widened again, and nothing else."""

from __future__ import annotations

import pytest

from openinfer.dtypes import BF16, F16, F32, F64, I64, DType
from openinfer.expr import tree
from openinfer.expr.c_renderer import helper_source, render
from openinfer.expr.linear import linearise


def source_of(*chains: tuple[DType, ...]) -> str:
    """Return the helpers of a translation unit that casts one input for each chain from type to type."""
    names: list[str] = []
    for first, *others in chains:
        expr: tree.Expr = tree.Input(0, first)
        for dtype in others:
            expr = tree.cast(expr, dtype)
        names += render(linearise(expr), {0: "x"}).helpers
    return helper_source(names)


@pytest.mark.parametrize(
    "chains", [[(F64, F32, F64)], [(F64, F32), (F32, F64)], [(F64, F16)], [(F64, BF16)], [(F64, F32), (F16, F64)]]
)
def test_units_that_round_and_widen_hide_what_is_widened(chains: list[tuple[DType, ...]]) -> None:
    source = source_of(*chains)

    assert source.count("__asm__") == 1
    (widening,) = (part for part in source.split("static inline ") if "__asm__" in part)
    assert widening.startswith("double oi_f64_from_f32(float x)")


@pytest.mark.parametrize("chains", [[(F64, F32)], [(F32, F64)], [(F16, F64)], [(I64, F32), (I64, F64)]])
def test_others_hide_nothing(chains: list[tuple[DType, ...]]) -> None:
    assert "__asm__" not in source_of(*chains)
