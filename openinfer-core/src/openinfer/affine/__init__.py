"""Index arithmetic: integer polynomials over loop variables, with quotients and remainders that fold exactly.

Stages (`openinfer.compute`) and loop programs (`openinfer.loops`) say with an `Index` which element they touch. Because
every variable has an extent, the bounds of an index are known, and an access can be proved to lie within its tensor.
"""

from openinfer.affine.digits import rejoined
from openinfer.affine.index import FACTS, Facts, Index, Quotient, Remainder, Var, extent_of
from openinfer.affine.interval import Interval
from openinfer.affine.radix import is_mixed_radix
from openinfer.affine.text import IndexSyntaxError, is_identifier, parse_index
from openinfer.affine.within import Within

__all__ = [
    "FACTS",
    "Facts",
    "Index",
    "IndexSyntaxError",
    "Interval",
    "Quotient",
    "Remainder",
    "Var",
    "Within",
    "extent_of",
    "is_identifier",
    "is_mixed_radix",
    "parse_index",
    "rejoined",
]
