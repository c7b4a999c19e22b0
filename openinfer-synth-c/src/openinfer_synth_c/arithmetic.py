"""Small pieces of arithmetic that kernels share, with the total meaning of scalar expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.c_renderer import c_type
from openinfer.expr.linear import linearise
from openinfer.ops import conversion

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer_synth_c.code import Code


def multiply_add(code: Code, total: str, dtype: DType, a: tuple[str, DType], b: tuple[str, DType]) -> None:
    """Append ``total = total + a * b`` in the type of ``total``: integers wrap, bool is OR of ANDs."""
    if dtype.is_float:
        code.line(f"{total} += {_widened(*a, dtype)} * {_widened(*b, dtype)};")
        return
    product = _times(tree.cast(tree.Input(1, a[1]), dtype), tree.cast(tree.Input(2, b[1]), dtype))
    result = code.compute(linearise(_plus(tree.Input(0, dtype), product)), {0: total, 1: a[0], 2: b[0]}, "m")
    code.line(f"{total} = {result};")


def added(code: Code, total: str, dtype: DType, term: tuple[str, DType]) -> str:
    """Return the text of ``total + term`` in the type of ``total``."""
    expr = _plus(tree.Input(0, dtype), tree.cast(tree.Input(1, term[1]), dtype))
    return code.compute(linearise(expr), {0: total, 1: term[0]}, "b")


def converted(code: Code, text: str, source: DType, target: DType) -> str:
    """Return the text of a value as another type, by the rules of ``cast``."""
    if source is target:
        return text
    return code.compute(linearise(conversion.converted(tree.Input(0, source), target)), {0: text}, "v")


def _widened(text: str, dtype: DType, wide: DType) -> str:
    return text if dtype is wide else f"({c_type(wide)}){text}"


def _plus(a: Expr, b: Expr) -> Expr:
    return tree.logical_or(a, b) if a.dtype.name == "bool" else tree.add(a, b)


def _times(a: Expr, b: Expr) -> Expr:
    return tree.logical_and(a, b) if a.dtype.name == "bool" else tree.mul(a, b)
