"""Functions of expressions in C99, with the total meaning of `openinfer.expr.tree` and no undefined behaviour.

Signed integers are computed as unsigned ones and turned back by value, division and conversion are guarded, shifts
count within the width. Only casts take the types that are not computed in. ``round_even`` is ``rint``: the rounding
mode is the default one, which generated programs never change.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from openinfer.dtypes import BITSET, BOOL, F32, F64, I8, I32, PACKED_SINT, PACKED_UINT, SINT, U8, U32, UINT, DType, Kind
from openinfer.expr.c_low_floats import low_float_helpers
from openinfer.expr.c_packed import packed_helpers
from openinfer.expr.c_types import c_type, literal_text, operand_text
from openinfer.expr.c_words import CLIP8, DOT2, REQUANTISE, SCALE, SDOT4, WIDEN, dot4
from openinfer.expr.elementary import ELEMENTARY
from openinfer.expr.fragment import Call, Helper, Writer, call_of_helper
from openinfer.expr.tree import ExprError

FLOATS = (F32, F64)
INTEGERS = (*SINT, *UINT)
_COMPUTED = frozenset(dtype.name for dtype in (*FLOATS, *INTEGERS, BOOL))


def call_text(function: str, operands: Sequence[DType], result: DType, texts: Sequence[str]) -> Call:
    """Return the expression of a function applied to operands, which are names or parenthesised.

    Raises:
        ExprError: a type is not one that expressions compute in (only casts take low floats and packed types), or the
            function is unknown.
    """
    if function == "cast":
        return _cast(operands[0], result, texts[0])
    foreign = next((dtype for dtype in (*operands, result) if dtype.name not in _COMPUTED), None)
    if foreign is not None:
        raise ExprError(f"{function} cannot be computed in {foreign}: cast to a compute type first")
    operand = operands[-1]
    table = _FLOAT if operand.is_float else _BOOL if operand is BOOL else _INTEGER
    writer = table.get(function)
    if writer is None:
        raise ExprError(f"the C renderer has no function {function!r} on {operand}")
    return writer(operand, texts)


def _work(dtype: DType) -> str:
    """Return the unsigned type in which arithmetic of an integer type is done, wide enough not to be promoted."""
    return "uint64_t" if dtype.bits == 64 else "uint32_t"


def _narrowed(dtype: DType, text: str) -> str:
    """Return an expression that C promotes to int, as its own type."""
    return f"({c_type(dtype)})({text})" if dtype.bits < 32 and dtype is not BOOL else text


def _infix(operator: str) -> Writer:
    return lambda dtype, x: Call(_narrowed(dtype, f"{x[0]} {operator} {x[1]}"))


def _comparison(operator: str) -> Writer:
    def write(dtype: DType, x: Sequence[str]) -> Call:
        constant = _known_of_same(operator, dtype, x) or _known_at_limit(operator, dtype, x)
        # C compilers warn of comparisons that have one result, and of constants that nothing uses.
        return Call(f"{x[0]} {operator} {x[1]}" if constant is None else f"((void){constant[0]}, {constant[1]})")

    return write


def _known_of_same(operator: str, dtype: DType, x: Sequence[str]) -> tuple[str, str] | None:
    """Return the operand and the result of a comparison of a value with itself, which only NaN differs from."""
    constant = {"==": "true", "<=": "true", ">=": "true", "!=": "false", "<": "false", ">": "false"}.get(operator)
    return None if constant is None or dtype.is_float or x[0] != x[1] else (x[0], constant)


def _known_at_limit(operator: str, dtype: DType, x: Sequence[str]) -> tuple[str, str] | None:
    """Return the operand and the result of a comparison that the least or greatest number of a type decides."""
    if dtype.kind not in (Kind.SIGNED, Kind.UNSIGNED) or dtype.minimum is None or dtype.maximum is None:
        return None
    least, greatest = (operand_text(literal_text(dtype, limit)) for limit in (dtype.minimum, dtype.maximum))
    lower, upper = x if operator.startswith("<") else reversed(x)
    is_strict = operator in ("<", ">")
    constant = {"<": "false", ">": "false", "<=": "true", ">=": "true"}.get(operator)
    if constant is None:
        return None
    if lower == (greatest if is_strict else least):
        return upper, constant
    return (lower, constant) if upper == (least if is_strict else greatest) else None


def _library(name: str) -> Writer:
    """Return the writer of a function of ``<math.h>``."""
    return lambda dtype, x: Call(f"{name}{'f' if dtype is F32 else ''}({', '.join(x)})")


def _elementary(name: str) -> Writer:
    """Return the writer of a function that has a formula on f32 (`openinfer.expr.elementary`)."""
    return lambda dtype, x: (call_of_helper if dtype is F32 else _library)(name)(dtype, x)


def _sign_bit(dtype: DType, x: Sequence[str]) -> Call:
    """Return whether the sign is set, NaN's too, without ``signbit``: GCC 12 fails on loops that have it at -O2."""
    end = "f" if dtype is F32 else ""
    return Call(f"copysign{end}(1.0{end}, {x[0]}) < 0.0{end}")


def _modular(operator: str, name: str) -> Writer:
    def write(dtype: DType, x: Sequence[str]) -> Call:
        if dtype.kind is Kind.SIGNED:
            return call_of_helper(name)(dtype, x)
        if dtype.bits >= 32:
            return Call(f"{x[0]} {operator} {x[1]}")
        return Call(f"({c_type(dtype)})((uint32_t){x[0]} {operator} (uint32_t){x[1]})")

    return write


def _select(dtype: DType, x: Sequence[str]) -> Call:
    return Call(_narrowed(dtype, f"{x[0]} ? {x[1]} : {x[2]}"))


def _is_infinite(dtype: DType, x: Sequence[str]) -> Call:
    infinity = literal_text(dtype, float("inf"))
    return Call(f"{x[0]} == {infinity} || {x[0]} == -{infinity}")


def _extremum(operator: str) -> Writer:
    def write(dtype: DType, x: Sequence[str]) -> Call:
        if x[0] == x[1]:
            return Call(x[0])
        constant = _known_at_limit(operator, dtype, (x[1], x[0]))
        if constant is not None:  # always false: C compilers warn of it
            return Call(x[0] if constant[0] == x[0] else f"((void){constant[0]}, {x[0]})")
        return Call(_narrowed(dtype, f"{x[1]} {operator} {x[0]} ? {x[1]} : {x[0]}"))

    return write


_COMPARISONS: dict[str, Writer] = {
    "eq": _comparison("=="),
    "ne": _comparison("!="),
    "lt": _comparison("<"),
    "le": _comparison("<="),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "select": _select,
}

_BOOL: dict[str, Writer] = {
    **_COMPARISONS,
    "logical_and": _comparison("&&"),
    "logical_or": _comparison("||"),
    "logical_xor": _comparison("!="),
    "logical_not": lambda _dtype, x: Call(f"!{x[0]}"),
}

_FLOAT: dict[str, Writer] = {
    **_COMPARISONS,
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": _infix("/"),
    "rem": _library("fmod"),
    "neg": lambda _dtype, x: Call(f"-{x[0]}"),
    "absolute": _library("fabs"),
    "minimum": call_of_helper("minimum"),
    "maximum": call_of_helper("maximum"),
    "power": _library("pow"),
    "fma": _library("fma"),
    "round_even": _library("rint"),
    "to_bits": call_of_helper("to_bits"),
    "is_nan": lambda _dtype, x: Call(f"isnan({x[0]}) != 0"),
    "is_inf": _is_infinite,
    "sign_bit": _sign_bit,
    **{
        name: _library(name)
        for name in (
            *("expm1", "log1p", "sqrt", "tan"),
            *("floor", "ceil", "trunc"),
        )
    },
    **{name: _elementary(name) for name in sorted(ELEMENTARY)},
}

_INTEGER: dict[str, Writer] = {
    **_COMPARISONS,
    "add": _modular("+", "add"),
    "sub": _modular("-", "sub"),
    "mul": _modular("*", "mul"),
    "div": call_of_helper("div"),
    "rem": call_of_helper("rem"),
    "neg": call_of_helper("neg"),
    "power": call_of_helper("power"),
    "absolute": lambda dtype, x: Call(x[0]) if dtype.kind is Kind.UNSIGNED else call_of_helper("absolute")(dtype, x),
    "minimum": _extremum("<"),
    "maximum": _extremum(">"),
    "bit_and": _infix("&"),
    "bit_or": _infix("|"),
    "bit_xor": _infix("^"),
    "bit_not": lambda dtype, x: Call(_narrowed(dtype, f"~{x[0]}")),
    "shl": call_of_helper("shl"),
    "shr": call_of_helper("shr"),
    "from_bits": call_of_helper("from_bits"),
    "dot4": call_of_helper("dot4"),
    "sdot4": call_of_helper("sdot4"),
    "dot2": call_of_helper("dot2"),
    "widen": call_of_helper("widen"),
    "scale": call_of_helper("scale"),
    "requantise": call_of_helper("requantise"),
    "clip8": call_of_helper("clip8"),
    "word": call_of_helper("word"),
}


def _cast(source: DType, target: DType, text: str) -> Call:
    if target is BOOL and source.is_low_float:
        # All bits but the sign: zeros are false, a NaN is true.
        return Call(f"({text} & {hex((1 << (source.bits - 1)) - 1)}u) != 0u")
    if target is BOOL:
        return Call(f"{text} != {literal_text(source, 0)}")
    if source.is_low_float:
        widened = f"oi_f32_from_{source}"
        rest = call_text("cast", (F32,), target, (f"{widened}({text})",)) if target is not F32 else None
        return Call(f"{widened}({text})", (widened,)) if rest is None else Call(rest.text, (widened, *rest.helpers))
    if target.is_low_float:
        function = f"oi_{target}_from_f32"
        return Call(f"{function}({text if source is F32 else f'(float){text}'})", (function,))
    if source.is_float and source is not target:
        function = f"oi_{target}_from_{source}"
        return Call(f"{function}({text})", (function,))
    return _from_integer(source, target, text)


def _from_integer(source: DType, target: DType, text: str) -> Call:
    """Return the conversion of an integer, bool, bitset or ternary number."""
    if target.is_float or target.kind is Kind.TERNARY or _holds(target, source):
        return Call(f"({c_type(target)}){text}")
    if target.kind is Kind.SIGNED:
        return Call(f"oi_wrap_{target}(({_work(target)}){text})", (f"oi_wrap_{target}",))
    if target.is_packed:
        return Call(f"({c_type(target)})((uint32_t){text} & {target.maximum}u)")
    return Call(f"({c_type(target)}){text}")


def _holds(target: DType, source: DType) -> bool:
    return (target.minimum or 0) <= (source.minimum or 0) and (source.maximum or 0) <= (target.maximum or 0)


_WHOLE = (*INTEGERS, *PACKED_SINT, *PACKED_UINT, BITSET)
"""What floats are converted to by functions."""


@functools.cache
def helpers() -> dict[str, Helper]:
    """Return every helper function by name."""
    functions: dict[str, Helper] = {
        _NARROWING: Helper(f"static inline float {_NARROWING}(double x)\n{{\n    return (float)x;\n}}\n"),
        WIDENING: widened_as(()),
        "oi_to_bits_f32": _reinterpretation("oi_to_bits_f32", F32, U32),
        "oi_from_bits_u32": _reinterpretation("oi_from_bits_u32", U32, F32),
    }
    functions |= _function(I32, "dot4", "a b c", *dot4("left"), needs=("oi_wrap_i32",))
    functions |= _function(I32, "sdot4", "a b c", *SDOT4, needs=("oi_wrap_i32",))
    functions |= _function(I32, "dot2", "a b c", *DOT2, needs=("oi_wrap_i32",))
    functions |= _function(I32, "widen", "x n", *WIDEN, needs=("oi_wrap_i32",))
    functions |= _function(I32, "clip8", "x", *CLIP8)
    functions["oi_scale_i32"] = Helper(SCALE, ("oi_to_bits_f32", "oi_wrap_i32", "oi_shr_i32"))
    functions["oi_requantise_i32"] = Helper(
        REQUANTISE, ("oi_from_bits_u32", "oi_to_bits_f32", "oi_wrap_i32", "oi_shr_i32")
    )
    functions |= {f"oi_word_{dtype}": _word(dtype) for dtype in (I8, U8)}
    for dtype in FLOATS:
        functions |= _float_helpers(dtype)
        functions |= {f"oi_{target}_from_{dtype}": _float_to_integer(dtype, target) for target in _WHOLE}
    for dtype in PACKED_SINT:
        functions[f"oi_wrap_{dtype}"] = _wrap(dtype)
    for dtype in SINT:
        functions |= _signed_helpers(dtype)
    for dtype in UINT:
        functions |= _unsigned_helpers(dtype)
    return {**functions, **low_float_helpers(), **packed_helpers()}


def _function(dtype: DType, name: str, parameters: str, *lines: str, needs: tuple[str, ...] = ()) -> dict[str, Helper]:
    typed = ", ".join(f"{c_type(dtype)} {parameter}" for parameter in parameters.split())
    full_name = f"oi_{name}_{dtype}"
    body = "".join(f"{line}\n" if line.startswith("#") else f"    {line}\n" for line in lines)
    return {full_name: Helper(f"static inline {c_type(dtype)} {full_name}({typed})\n{{\n{body}}}\n", needs)}


def _word(dtype: DType) -> Helper:
    """Return the function that makes a word of bytes; compilers load those that follow one another at once."""
    head = f"static inline int32_t oi_word_{dtype}({', '.join(f'{c_type(dtype)} {letter}' for letter in 'abcd')})"
    parts = (f"(uint32_t)(uint8_t){letter} << {8 * byte}" for byte, letter in enumerate("abcd"))
    total = " | ".join(parts).replace(" << 0", "", 1)
    return Helper(f"{head}\n{{\n    return oi_wrap_i32({total});\n}}\n", ("oi_wrap_i32",))


def _reinterpretation(name: str, source: DType, target: DType) -> Helper:
    """Return the function from an element to the one of another type that has the same bits."""
    lines = (
        f"const union {{ {c_type(source)} given; {c_type(target)} found; }} both = {{x}};",
        "return both.found;",
    )
    body = "".join(f"    {line}\n" for line in lines)
    return Helper(f"static inline {c_type(target)} {name}({c_type(source)} x)\n{{\n{body}}}\n")


_NARROWING = "oi_f32_from_f64"
WIDENING = "oi_f64_from_f32"
"""The function from f32 to f64, whose text depends on what else a translation unit has (`widened_as`)."""


def widened_as(names: Iterable[str]) -> Helper:
    """Return the function from f32 to f64, which hides its operand from old versions of GCC if ``names`` has the
    function from f64 to f32.

    GCC 11.3 and 12.2 take f64 -> f32 -> f64 for no conversion where both convert a whole vector, of two, four or eight
    lanes by the processor, which loses the rounding. GCC 13 was not tried and is treated alike. A loop with the
    statement that hides is not vectorised: values that are widened again are fewer than those that are rounded.
    """
    hidden = (
        "#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14 && defined(__OPTIMIZE__)",
        "    /* Without this, GCC 11 and 12 drop the rounding of f64 to f32 where vectors are converted back. */",
        '    __asm__("" : "+m"(x));',
        "#endif",
    )
    lines = (*(hidden if _NARROWING in names else ()), "    return (double)x;")
    body = "".join(f"{line}\n" for line in lines)
    return Helper(f"static inline double {WIDENING}(float x)\n{{\n{body}}}\n")


def _float_helpers(dtype: DType) -> dict[str, Helper]:
    return {
        **_function(dtype, "minimum", "a b", "return isnan(a) || b < a ? b : a;"),
        **_function(dtype, "maximum", "a b", "return isnan(a) || b > a ? b : a;"),
    }


def _float_to_integer(source: DType, target: DType) -> Helper:
    low, high = target.minimum or 0, target.maximum or 0
    name, type_name = f"oi_{target}_from_{source}", c_type(target)
    # The bounds are exact in either float type: zero or powers of two.
    one = literal_text(source, 1.0)
    # Without its own case, GCC 12 with -fno-trapping-math has a number between -1 and 0 that is converted back as -0.
    fraction = (f"if (x > -{one} && x < {one}) {{ return 0; }}",) if low < 0 else ()
    lines = (
        f"if (x >= {literal_text(source, float(high + 1))}) {{ return {_limit(target, 'MAX')}; }}",
        # Not isnan(x), from which the analyser Eva learns nothing about x.
        "if (x != x) { return 0; }",
        f"if (x <= {literal_text(source, float(low))}) {{ return {_limit(target, 'MIN')}; }}",
        *fraction,
        f"return ({type_name})x;",
    )
    body = "".join(f"    {line}\n" for line in lines)
    return Helper(f"static inline {type_name} {name}({c_type(source)} x)\n{{\n{body}}}\n")


def _limit(dtype: DType, end: str) -> str:
    if end == "MIN" and not dtype.minimum:
        return "0"
    if dtype.is_packed:
        return str(dtype.maximum if end == "MAX" else dtype.minimum)
    return f"{'INT' if dtype.kind is Kind.SIGNED else 'UINT'}{dtype.bits}_{end}"


def _signed_helpers(dtype: DType) -> dict[str, Helper]:
    name, work, wrap = c_type(dtype), _work(dtype), f"oi_wrap_{dtype}"
    last = dtype.bits - 1
    modular = {
        function: _function(dtype, function, "a b", f"return {wrap}(({work})a {operator} ({work})b);", needs=(wrap,))
        for function, operator in (("add", "+"), ("sub", "-"), ("mul", "*"))
    }
    return {
        wrap: _wrap(dtype),
        **modular["add"],
        **modular["sub"],
        **modular["mul"],
        **_function(dtype, "neg", "x", f"return {wrap}(({work})0 - ({work})x);", needs=(wrap,)),
        **_function(dtype, "absolute", "x", f"return x < 0 ? oi_neg_{dtype}(x) : x;", needs=(f"oi_neg_{dtype}",)),
        **_function(
            dtype,
            "div",
            "a b",
            "if (b == 0) { return 0; }",
            f"if (b == -1) {{ return oi_neg_{dtype}(a); }}",
            f"return ({name})(a / b);",
            needs=(f"oi_neg_{dtype}",),
        ),
        **_function(dtype, "rem", "a b", "if (b == 0 || b == -1) { return 0; }", f"return ({name})(a % b);"),
        **_function(
            dtype,
            "shl",
            "x count",
            f"if (count > {last}) {{ return 0; }}",
            f"return {wrap}(({work})x << (count < 0 ? 0 : count));",
            needs=(wrap,),
        ),
        **_function(
            dtype,
            "shr",
            "x count",
            f"const int by = count < 0 ? 0 : count > {last} ? {last} : (int)count;",
            f"return ({name})(x < 0 ? ~(~x >> by) : x >> by);",
        ),
    }


def _wrap(dtype: DType) -> Helper:
    """Return the function from an unsigned number to the signed one that is equal modulo 2^width."""
    name, work = c_type(dtype), _work(dtype)
    mask = f"{work.upper().removesuffix('_T')}_C({(1 << dtype.bits) - 1})"
    lines = (
        f"const {work} low = x & {mask};",
        f"if (low <= {mask} / 2) {{ return ({name})low; }}",
        f"return ({name})(-({name})({mask} - low) - 1);",
    )
    body = "".join(f"    {line}\n" for line in lines)
    return Helper(f"static inline {name} oi_wrap_{dtype}({work} x)\n{{\n{body}}}\n")


def _unsigned_helpers(dtype: DType) -> dict[str, Helper]:
    name, work = c_type(dtype), _work(dtype)
    too_far = f"if (count > {dtype.bits - 1}) {{ return 0; }}"
    return {
        **_function(dtype, "neg", "x", f"return ({name})(({work})0 - ({work})x);"),
        **_function(dtype, "div", "a b", "if (b == 0) { return 0; }", f"return ({name})(a / b);"),
        **_function(dtype, "rem", "a b", "if (b == 0) { return 0; }", f"return ({name})(a % b);"),
        **_function(dtype, "power", "a b", *_power_lines(dtype)),
        **_function(dtype, "shl", "x count", too_far, f"return ({name})(({work})x << count);"),
        **_function(dtype, "shr", "x count", too_far, f"return ({name})(x >> count);"),
    }


def _power_lines(dtype: DType) -> Sequence[str]:
    """Return the body of a power by squaring: a loop, since compilers multiply out squares that are written out."""
    work = _work(dtype)
    return (
        f"{work} result = 1;",
        f"for ({work} square = a; b > 0; b = ({c_type(dtype)})(b >> 1), square *= square) {{",
        "    if (b & 1) { result *= square; }",
        "}",
        f"return ({c_type(dtype)})result;",
    )
