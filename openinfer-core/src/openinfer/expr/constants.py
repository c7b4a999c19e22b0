"""Parts of expressions that are known: what integers without inputs come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import Kind
from openinfer.expr.linear import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.expr.tree import Apply, Literal, literal

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr


def folded(expr: Expr) -> Expr:
    """Return an expression of the same value with literals for integers without inputs, and for floats of their bits.

    Other floats stay, so that results do not depend on where they are computed. Shifts by nothing go.
    """
    simplified: dict[int, Expr] = {}

    def visit(part: Expr) -> Expr:
        if not isinstance(part, Apply):
            return part
        if id(part) not in simplified:
            args = tuple(map(visit, part.args))
            same = all(new is old for new, old in zip(args, part.args, strict=True))
            simplified[id(part)] = _simple(part if same else Apply(part.function, args, part.dtype))
        return simplified[id(part)]

    return visit(expr)


def _simple(expr: Apply) -> Expr:
    if expr.function in ("shl", "shr") and isinstance(expr.args[1], Literal) and expr.args[1].value == 0:
        return expr.args[0]
    return _value(expr) if _is_known(expr) else expr


def _is_known(expr: Apply) -> bool:
    is_exact = _is_integer(expr.dtype) or expr.function == "from_bits"
    return is_exact and all(isinstance(arg, Literal) and _is_integer(arg.dtype) for arg in expr.args)


def _is_integer(dtype: DType) -> bool:
    return dtype.kind in (Kind.SIGNED, Kind.UNSIGNED) and not dtype.is_packed


def _value(expr: Apply) -> Literal:
    out = np.zeros((), storage_dtype(expr.dtype))
    compile_program(linearise(expr))((), out)
    return literal(out.item(), expr.dtype)
