"""Vector types of GCC and Clang, and functions on them, which a program defines as far as it uses them.

What C has an operator for is written with it; every other function is a loop over lanes between copies, which both
compilers turn into vector instructions: so a fused multiply-add is one instruction where the processor has it, and its
bits are those of ``fmaf`` everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, DType, Kind, dtype_named
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import c_type
from openinfer_synth_c.rolled_loops import rolled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_synth_c.code import Code

_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
PARAMETERS = "abcd"
"""Letters that the operands of functions on vectors are called."""

_ABI = """\
/* Compilers differ in how they pass vectors that are wider than the processor's: here they are all inlined. */
#define VECTOR_FUNCTION static inline __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"
"""


def vector_type(code: Code, dtype: DType, count: int) -> str:
    """Return the name of the type of vector registers with ``count`` elements."""
    code.definitions.setdefault("-Wpsabi", _ABI)
    name = f"oi_{dtype}x{count}"
    width = dtype.bits // 8
    of = f"typedef {c_type(dtype)} {name}"
    lines = (
        f"{of} __attribute__((vector_size({count * width})));",
        f"{of}_at __attribute__((vector_size({count * width}), aligned({width}), may_alias));",
    )
    code.definitions.setdefault(name, "\n".join(lines))
    return name


def vector_at(code: Code, dtype: DType, count: int, pointer: str, *, written: bool = False) -> str:
    """Return the vector of elements in a row from a pointer on, aligned as one element is."""
    const = "" if written else "const "
    return f"*({const}{vector_type(code, dtype, count)}_at *)({pointer})"


def splat(code: Code, dtype: DType, count: int, text: str) -> str:
    """Return the vector whose elements all are ``text``."""
    kind, name = vector_type(code, dtype, count), f"oi_splat_{dtype}x{count}"
    elements = ", ".join(["x"] * count)
    body = f"VECTOR_FUNCTION {kind} {name}({c_type(dtype)} x)\n{{\n    return ({kind}){{{elements}}};\n}}\n"
    code.definitions.setdefault(name, body)
    return f"{name}({text})"


def axpy(code: Code, dtype: DType, count: int) -> str:
    """Return the name of a function that adds a vector times one number to a vector, as that of BLAS."""
    name, kind = f"oi_axpy_{dtype}x{count}", vector_type(code, dtype, count)
    if name not in code.definitions:
        product = applied(code, "fma", (dtype, dtype, dtype), dtype, count, ("x", splat(code, dtype, count, "a"), "*y"))
        head = f"VECTOR_FUNCTION void {name}({kind} *y, {c_type(dtype)} a, {kind} x)"
        _define(code, name, head, [f"*y = {product};"])
    return name


def select_of(code: Code, comparison: str, compared: DType, result: DType, count: int, texts: Sequence[str]) -> str:
    """Return the elements of the third vector of ``texts`` where the first two compare, else those of the fourth."""
    name = f"oi_select_{comparison}_{compared}_{result}x{count}"
    condition = code.noted(call_text(comparison, (compared, compared), BOOL, ("a_lanes[l]", "b_lanes[l]")))
    value = call_text("select", (BOOL, result, result), result, (f"({condition})", "c_lanes[l]", "d_lanes[l]"))
    define_by_lane(code, name, (compared, compared, result, result), result, count, code.noted(value))
    return f"{name}({', '.join(texts)})"


def applied(
    code: Code, function: str, operands: Sequence[DType], result: DType, count: int, texts: Sequence[str]
) -> str:
    """Return a function of `openinfer.expr.tree` on vectors, which are names or bind as tightly."""
    if function in _BITS:
        return f"{texts[0]} {_BITS[function]} {texts[1]}"
    if function in _OPERATORS:
        text = f"{{}} {_OPERATORS[function]} {{}}"
        if result.kind is not Kind.SIGNED:
            return text.format(*texts)
        # Unsigned elements wrap; the overflow of signed ones is undefined.
        kind = vector_type(code, result, count)
        wrapping = vector_type(code, dtype_named(f"u{result.bits}"), count)
        return f"({kind})({text.format(*(f'({wrapping}){operand}' for operand in texts))})"
    if function in ("to_bits", "from_bits"):
        return f"({vector_type(code, result, count)}){texts[0]}"
    if function == "div" and result.is_float:
        return f"{texts[0]} / {texts[1]}"
    return f"{_looped(code, function, operands, result, count)}({', '.join(texts)})"


def _looped(code: Code, function: str, operands: Sequence[DType], result: DType, count: int) -> str:
    """Return the name of a function on vectors that goes from lane to lane."""
    of = f"{operands[0]}_{result}" if function == "cast" else f"{result}"
    name = f"oi_{function}_{of}x{count}"
    lanes = [f"{letter}_lanes[l]" for letter in PARAMETERS[: len(operands)]]
    define_by_lane(code, name, operands, result, count, code.noted(call_text(function, operands, result, lanes)))
    return name


def define_by_lane(
    code: Code,
    name: str,
    operands: Sequence[DType],
    result: DType,
    count: int,
    value: str,
    before: Sequence[str] = (),
) -> None:
    """Define a function on vectors by its value in one lane: ``a_lanes[l]`` is that of the first operand.

    ``before`` has statements of one lane that the value uses.
    """
    if name in code.definitions:
        return
    kinds = [vector_type(code, dtype, count) for dtype in operands]
    kind = vector_type(code, result, count)
    letters = PARAMETERS[: len(operands)]
    lanes = [f"{letter}_lanes" for letter in letters]
    lines = [
        *(f"{c_type(dtype)} {lane}[{count}];" for dtype, lane in zip(operands, lanes, strict=True)),
        f"{c_type(result)} y_lanes[{count}];",
        f"{kind} y;",
        *(f"memcpy({lane}, &{letter}, sizeof {letter});" for letter, lane in zip(letters, lanes, strict=True)),
        *_lane_statements(count, (*before, f"y_lanes[l] = {value};")),
        "memcpy(&y, y_lanes, sizeof y);",
        "return y;",
    ]
    head = ", ".join(f"{kind} {letter}" for kind, letter in zip(kinds, letters, strict=True))
    _define(code, name, f"VECTOR_FUNCTION {kind} {name}({head})", lines)


def _lane_statements(count: int, statements: Sequence[str]) -> list[str]:
    """Return the loop over lanes around statements."""
    head = rolled(f"for (ptrdiff_t l = 0; l < {count}; ++l)")
    if len(statements) == 1:
        return [f"{head} {{ {statements[0]} }}"]
    return [f"{head} {{", *(f"    {statement}" for statement in statements), "}"]


def across(code: Code, function: str, dtype: DType, count: int) -> str:
    """Return the name of a function that combines the elements of an array as a balanced tree (`loops.Across`)."""
    name = f"oi_across_{function}_{dtype}x{count}"
    if name in code.definitions:
        return name
    value = code.noted(call_text(function, (dtype, dtype), dtype, ("lanes[l]", "lanes[l + half]")))
    kind = c_type(dtype)
    lines = [f"{kind} lanes[{count}];", "memcpy(lanes, v, sizeof lanes);"]
    while count > 1:
        half = (count + 1) // 2
        head = f"for (ptrdiff_t l = 0; l < {count - half}; ++l)"
        lines.append(rolled(f"{head} {{ lanes[l] = {value.replace('half', str(half))}; }}"))
        count = half
    _define(code, name, f"static inline {kind} {name}(const {kind} *v)", [*lines, "return lanes[0];"])
    return name


def _define(code: Code, name: str, head: str, lines: Sequence[str]) -> None:
    body = "".join(f"    {line}\n" for line in lines)
    code.definitions[name] = f"{head}\n{{\n{body}}}\n"
