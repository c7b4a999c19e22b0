"""Functions that load vectors and convert them: what windows over bytes do to each element, in one call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.dtypes import I8, I32
from openinfer.expr.c_renderer import c_type
from openinfer_synth_c.loop_programs.helium import WORDS, in_helium
from openinfer_synth_c.loop_programs.vector_functions import applied
from openinfer_synth_c.loop_programs.vector_types import define, load, splat, vector_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer_synth_c.code import Code

_LOADED = re.compile(r"oi_load_(?P<type>[a-z]+\d+x\d+)\((?P<base>\w+)(?: \+ (?P<at>\d+))?\)")


def applied_to_loaded(
    code: Code, function: str, operands: Sequence[DType], result: DType, count: int, texts: Sequence[str]
) -> str | None:
    """Return a call that loads its operands itself: a conversion of a vector, or a word of three rows and zero.

    None: the operands are others.
    """
    found = [_LOADED.fullmatch(text) for text in texts]
    kind = f"{operands[0]}x{count}"
    places = [(match["base"], int(match["at"] or 0)) for match in found if match is not None and match["type"] == kind]
    if function == "cast" and places:
        name = f"oi_load_{operands[0]}_{result}x{count}"
        return _call(code, name, function, (*operands, result), count, ("p",), texts[0])
    if function != "word" or len(places) != 3 or found[3] is not None:
        return None
    if texts[3] != splat(code, operands[3], count, "0"):
        return None
    (base, first), (_, second), (_, third) = places
    step = second - first
    if {name for name, _ in places} != {base} or step <= 0 or third != second + step:
        return None
    name = f"oi_rows_{operands[0]}x{count}"
    return _call(code, name, function, (*operands, result), count, ("p", "p + step", "p + 2 * step"), texts[0], step)


def _call(
    code: Code,
    name: str,
    function: str,
    types: Sequence[DType],
    count: int,
    pointers: Sequence[str],
    loaded: str,
    step: int | None = None,
) -> str:
    """Define a function of vectors at pointers, and zeros after them; return its call for the first of these."""
    *operands, result = types
    vectors = [load(code, operands[0], count, pointer) for pointer in pointers]
    vectors += [splat(code, dtype, count, "0") for dtype in operands[len(pointers) :]]
    value = applied(code, function, operands, result, count, vectors)
    parameters = f"const {c_type(operands[0])} *p{'' if step is None else ', ptrdiff_t step'}"
    kind = vector_type(code, result, count)
    lines = [f"return {value};"]
    if code.has_helium and (function, operands[0], result, count) == ("cast", I8, I32, WORDS):
        lines = in_helium(code, [f"return ({kind})vldrbq_s32(p);"], lines)
    define(code, name, f"VECTOR_FUNCTION {kind} {name}({parameters})", lines)
    pointer = loaded.partition("(")[2].removesuffix(")")
    return f"{name}({pointer}{'' if step is None else f', {step}'})"
