"""Scalar expressions: what one element of an elementwise operator or reduction is, once, for every backend.

`tree` holds the typed tree and the functions that build it, `linear` its straight-line form with common
subexpressions merged, and one renderer per language (`numpy_renderer`, `c_renderer`, `glsl_renderer`) spells the total
meaning out. Only the NumPy renderer needs an array library, so this package imports none of the renderers.
"""

from openinfer.expr.linear import Instruction, Program, linearise
from openinfer.expr.tree import Apply, Expr, ExprError, Input, Literal, substitute

__all__ = [
    "Apply",
    "Expr",
    "ExprError",
    "Input",
    "Instruction",
    "Literal",
    "Program",
    "linearise",
    "substitute",
]
