"""Small pieces of arithmetic that kernels share, with the total meaning of scalar expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer_synth_c.code import Code


def added(code: Code, total: str, dtype: DType, term: tuple[str, DType]) -> str:
    """Return the text of ``total + term`` in the type of ``total``."""
    expr = _plus(tree.Input(0, dtype), tree.cast(tree.Input(1, term[1]), dtype))
    return code.compute(linearise(expr), {0: total, 1: term[0]}, "b")


def _plus(a: Expr, b: Expr) -> Expr:
    return tree.logical_or(a, b) if a.dtype.name == "bool" else tree.add(a, b)
