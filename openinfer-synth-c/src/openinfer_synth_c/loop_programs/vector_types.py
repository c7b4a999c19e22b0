"""Types of vectors, and how functions on them are defined, as far as a program uses them.

In plain C99 a vector is a structure with an array of lanes, and every function on vectors is a loop over lanes; GCC
keeps such structures in vector registers. With the vector types of GCC and Clang, what C has an operator for is written
with it, and every other function is a loop over lanes between copies, which both compilers turn into vector
instructions: so a fused multiply-add is one instruction where the processor has it, and its bits are those of ``fmaf``
everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import c_type
from openinfer_synth_c.rolled_loops import rolled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.dtypes import DType
    from openinfer_synth_c.code import Code

PARAMETERS = "abcdefgh"
"""Letters that the operands of functions on vectors are called."""

_WORD = 32

_FUNCTION = """\
/* Compilers inline functions on vectors, so that vectors stay in registers. */
#if defined(__GNUC__)
#define VECTOR_FUNCTION static inline __attribute__((always_inline))
#else
#define VECTOR_FUNCTION static inline
#endif
"""

_ABI = """\
/* Compilers differ in how they pass vectors that are wider than the processor's: here they are all inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"
"""


_APART = """\
/* Functions on lanes of bytes, which compilers treat far more quickly for themselves than within a kernel. */
#if defined(__GNUC__)
#define APART __attribute__((noinline)) static
#else
#define APART static
#endif
"""


def apart(code: Code) -> str:
    """Return the qualifiers of a function on vectors that has bytes in between."""
    if code.has_vector_types:
        return "VECTOR_FUNCTION"
    code.definitions.setdefault("APART", _APART)
    return "APART"


def vector_type(code: Code, dtype: DType, count: int) -> str:
    """Return the name of the type of vectors with ``count`` elements."""
    name = f"oi_{dtype}x{count}"
    code.definitions.setdefault("VECTOR_FUNCTION", _FUNCTION)
    if code.has_vector_types:
        code.definitions.setdefault("-Wpsabi", _ABI)
        nbytes = count * (dtype.bits // 8)
        code.definitions.setdefault(name, f"typedef {c_type(dtype)} {name} __attribute__((vector_size({nbytes})));")
    else:
        code.definitions.setdefault(name, f"typedef struct {{ {c_type(dtype)} lane[{count}]; }} {name};")
    return name


def load(code: Code, dtype: DType, count: int, pointer: str) -> str:
    """Return the vector of elements in a row from a pointer on, aligned as one element is."""
    kind, name = vector_type(code, dtype, count), f"oi_load_{dtype}x{count}"
    if code.has_helium and dtype.bits == _WORD:
        lines = (f"return *(const {_in_memory(code, dtype, count)} *)p;",)
    else:
        lines = (f"{kind} x;", "memcpy(&x, p, sizeof x);", "return x;")
    define(code, name, f"VECTOR_FUNCTION {kind} {name}(const {c_type(dtype)} *p)", lines)
    return f"{name}({pointer})"


def store(code: Code, dtype: DType, count: int, pointer: str, text: str) -> str:
    """Return the statement that stores a vector to contiguous elements at a pointer, with the alignment of one
    element."""
    kind, name = vector_type(code, dtype, count), f"oi_store_{dtype}x{count}"
    head = f"VECTOR_FUNCTION void {name}({c_type(dtype)} *p, {kind} x)"
    in_words = code.has_helium and dtype.bits == _WORD
    line = f"*({_in_memory(code, dtype, count)} *)p = x;" if in_words else "memcpy(p, &x, sizeof x);"
    define(code, name, head, (line,))
    return f"{name}({pointer}, {text});"


def _in_memory(code: Code, dtype: DType, count: int) -> str:
    """Return the name of the type of a vector at an element: GCC 12 makes accesses of bytes, which reach less far, of
    copies."""
    name = f"oi_{dtype}x{count}_at"
    form = f"vector_size({count * (dtype.bits // 8)}), aligned({dtype.bits // 8}), may_alias"
    code.definitions.setdefault(name, f"typedef {c_type(dtype)} {name} __attribute__(({form}));")
    return name


def splat(code: Code, dtype: DType, count: int, text: str) -> str:
    """Return the vector whose elements all are ``text``."""
    kind, name = vector_type(code, dtype, count), f"oi_splat_{dtype}x{count}"
    if code.has_vector_types:
        lines = [f"return ({kind}){{{', '.join(['x'] * count)}}};"]
    else:
        lines = [f"const {kind} y = {{{{{', '.join(['x'] * count)}}}}};", "return y;"]
    define(code, name, f"VECTOR_FUNCTION {kind} {name}({c_type(dtype)} x)", lines)
    return f"{name}({text})"


def lanes(code: Code, count: int) -> list[str]:
    """Return lane ``l`` of the first parameters of a function that `define_by_lane` defines."""
    return [f"lanes_{letter}[l]" if code.has_vector_types else f"{letter}.lane[l]" for letter in PARAMETERS[:count]]


def define_by_lane(
    code: Code,
    name: str,
    operands: Sequence[DType],
    result: DType,
    count: int,
    value: str,
    before: Sequence[str] = (),
    *,
    around: Callable[[Sequence[str]], Sequence[str]] = tuple,
) -> None:
    """Define a function on vectors by its value in one lane, in terms of `lanes`.

    ``before`` has statements of one lane that the value uses, ``around`` makes the body of one over all lanes.
    """
    kinds = [vector_type(code, dtype, count) for dtype in operands]
    kind = vector_type(code, result, count)
    letters = PARAMETERS[: len(operands)]
    if code.has_vector_types:
        lines = [
            *(f"{c_type(dtype)} lanes_{letter}[{count}];" for dtype, letter in zip(operands, letters, strict=True)),
            f"{c_type(result)} lanes_y[{count}];",
            f"{kind} y;",
            *(f"memcpy(lanes_{letter}, &{letter}, sizeof {letter});" for letter in letters),
            *lane_statements(count, (*before, f"lanes_y[l] = {value};")),
            "memcpy(&y, lanes_y, sizeof y);",
        ]
    else:
        lines = [f"{kind} y = {{{{0}}}};", *lane_statements(count, (*before, f"y.lane[l] = {value};"))]
    head = ", ".join(f"{kind} {letter}" for kind, letter in zip(kinds, letters, strict=True))
    define(code, name, f"VECTOR_FUNCTION {kind} {name}({head})", around([*lines, "return y;"]))


def lane_statements(count: int, statements: Sequence[str]) -> list[str]:
    """Return the loop over lanes around statements."""
    head = rolled(f"for (ptrdiff_t l = 0; l < {count}; ++l)")
    if len(statements) == 1:
        return [f"{head} {{ {statements[0]} }}"]
    return [f"{head} {{", *(f"    {statement}" for statement in statements), "}"]


def define(code: Code, name: str, head: str, lines: Sequence[str]) -> None:
    """Define a function by its head and the lines of its body."""
    body = "".join(f"{line}\n" if line.startswith("#") else f"    {line}\n" for line in lines)
    code.definitions.setdefault(name, f"{head}\n{{\n{body}}}\n")
