"""Hyperbolic functions and their inverses, by `expm1` and `log1p`: near 0 nothing cancels, and no square overflows.

The identities are those of fdlibm (Sun Microsystems, 1993), without its branches. Results of f32 are within 4 units in
the last place, over all numbers, as `benchmarks/elementary_errors.py` measures them in C.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.elementwise import elementwise, of_elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.expr.tree import Apply, Expr
    from openinfer.ops.schema import OpSchema

_LARGE = {"f32": (88.0, 32, 22.180709838867188), "f64": (709.0, 305, 211.40989007078332)}
"""By type: a bound, n and n ln 2. Beyond the bound e^x may overflow although half of it does not.

There n ln 2, as rounded here, subtracts exactly from x. It is the multiple of ln 2 that this rounding changes least:
powers are off by half a unit in the last place.
"""

_SQUARES = 2.0**60
"""Up to here squares are finite; from here on, x and sqrt(x^2 + 1) are the same number."""


def _number(x: Expr, value: float) -> Expr:
    return tree.literal(value, x.dtype)


def _reduced(a: Expr) -> tuple[Expr, Expr]:
    """Return a number whose power of e does not overflow, and half of the factor that its power is short of."""
    bound, halvings, logarithm = _LARGE[a.dtype.name]
    is_large = tree.gt(a, _number(a, bound))
    argument = tree.select(is_large, tree.sub(a, _number(a, logarithm)), a)
    return argument, tree.select(is_large, _number(a, 2.0 ** (halvings - 1)), _number(a, 0.5))


def _odd(of_magnitude: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Return an odd function, also of -0, given the function of magnitudes."""

    def build(x: Expr) -> Apply:
        value = of_magnitude(tree.absolute(x))
        return tree.select(tree.sign_bit(x), tree.neg(value), value)

    return build


def _sinh(a: Expr) -> Expr:
    argument, factor = _reduced(a)
    power = tree.expm1(argument)
    # 1 - e^-x is t / (t + 1) with t = e^x - 1, and 1 of an infinite power, where the quotient is NaN.
    falling = tree.div(power, tree.add(power, _number(a, 1)))
    total = tree.add(power, tree.select(tree.is_inf(power), _number(a, 1), falling))
    return tree.mul(total, factor)


def _cosh(x: Expr) -> Expr:
    argument, factor = _reduced(tree.absolute(x))
    power = tree.exp(argument)
    return tree.mul(tree.add(power, tree.div(_number(x, 1), power)), factor)


def _asinh(a: Expr) -> Expr:
    root = tree.sqrt(tree.add(tree.mul(a, a), _number(a, 1)))
    beyond = tree.mul(a, tree.div(a, tree.add(root, _number(a, 1))))
    return _or_logarithm_of_twice(a, tree.log1p(tree.add(a, beyond)))


def _acosh(x: Expr) -> Expr:
    excess = tree.sub(x, _number(x, 1))
    root = tree.sqrt(tree.mul(excess, tree.add(excess, _number(x, 2))))
    value = _or_logarithm_of_twice(x, tree.log1p(tree.add(excess, root)))
    return tree.select(tree.lt(x, _number(x, 1)), _number(x, math.nan), value)


def _or_logarithm_of_twice(a: Expr, value: Expr) -> Expr:
    """Return the value where squares are finite, else the logarithm of 2a."""
    logarithm = tree.add(tree.log(a), _number(a, math.log(2)))
    return tree.select(tree.gt(a, _number(a, _SQUARES)), logarithm, value)


def _atanh(a: Expr) -> Expr:
    quotient = tree.div(tree.add(a, a), tree.sub(_number(a, 1), a))
    return tree.mul(_number(a, 0.5), tree.log1p(quotient))


def _function(name: str, function: Callable[[Expr], Expr], summary: str) -> OpSchema:
    return elementwise(
        name, "x", FLOATS, of_elements(function), summary=summary, category="function", onnx=name.capitalize()
    )


SINH = _function("sinh", _odd(_sinh), "hyperbolic sine, (e^x - e^-x) / 2, without cancellation")
COSH = _function("cosh", _cosh, "hyperbolic cosine, (e^x + e^-x) / 2")
ASINH = _function("asinh", _odd(_asinh), "inverse hyperbolic sine, log(x + sqrt(x^2 + 1)), without cancellation")
ACOSH = _function("acosh", _acosh, "inverse hyperbolic cosine, log(x + sqrt(x^2 - 1)); NaN below 1")
ATANH = _function("atanh", _odd(_atanh), "inverse hyperbolic tangent, log((1 + x) / (1 - x)) / 2; NaN beyond -1 and 1")
