"""Sizes as values: integers that are known at run time only, and what is certain of them.

A `Dim` is a canonical integer expression over the sizes of a program, such as `2*T + 1`. Shape rules that are written
for numbers run on it unchanged. A comparison that bounds and facts do not decide is a question: `Space.explore` follows
both answers, so that each `Path` through a rule has guards, which say where it holds, and a value or an error.
"""

from openinfer.dims.broadcasting import broadcast_parts, joined, place_of, stretches, stride_of
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.dim import Dim, Ratio, Size, index_of, is_size
from openinfer.dims.errors import NeedsNumberError
from openinfer.dims.expressions import (
    collected,
    expression,
    expression_interval,
    index_of_expression,
    product,
    simplified,
    with_values,
)
from openinfer.dims.functions import (
    from_end,
    length,
    max,  # noqa: A004
    min,  # noqa: A004
    one_of,
    range,  # noqa: A004
    size_of,
    slice,  # noqa: A004
    surely,
    unasked,
)
from openinfer.dims.knowledge import Knowledge
from openinfer.dims.lets import (
    OPERATORS,
    Let,
    LetKind,
    Signed,
    Stride,
    divides_by_numbers,
    division,
    evaluated,
    every_symbol,
    lets_in,
    sources,
    substituted,
)
from openinfer.dims.space import Path, Space
from openinfer.dims.text import parse_dim

__all__ = [
    "divides_by_numbers",
    "expression_interval",
    "Knowledge",
    "with_values",
    "product",
    "index_of_expression",
    "every_symbol",
    "division",
    "collected",
    "Signed",
    "OPERATORS",
    "Condition",
    "Dim",
    "Let",
    "LetKind",
    "NeedsNumberError",
    "Path",
    "Ratio",
    "Relation",
    "Size",
    "Space",
    "Stride",
    "broadcast_parts",
    "evaluated",
    "expression",
    "from_end",
    "index_of",
    "is_size",
    "joined",
    "length",
    "lets_in",
    "max",
    "min",
    "one_of",
    "parse_dim",
    "place_of",
    "range",
    "simplified",
    "size_of",
    "slice",
    "sources",
    "stretches",
    "stride_of",
    "substituted",
    "surely",
    "unasked",
]
