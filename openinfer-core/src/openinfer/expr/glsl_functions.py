"""Functions of expressions in GLSL 4.50, with the total meaning of `openinfer.expr.tree`.

What GLSL leaves undefined (NaN in min and max, division by zero, negative remainders, shifts past the width, floats out
of an integer's range) is spelled out, and NaN is tested by its bits, since a compiler may assume that there is none.
``fma`` rounds once where the device has such an instruction; Vulkan lets others round the product too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from openinfer.dtypes import BITSET, BOOL, F32, F64, I8, PACKED_SINT, PACKED_UINT, SINT, U8, UINT, DType, Kind
from openinfer.expr.fragment import Call, Helper, Writer, call_of_helper
from openinfer.expr.glsl_choices import choice_text
from openinfer.expr.glsl_low_floats import low_float_helpers
from openinfer.expr.glsl_math import FUNCTIONS
from openinfer.expr.glsl_types import glsl_type, literal_text
from openinfer.expr.tree import ExprError

FLOATS = (F32, F64)
INTEGERS = (*SINT, *UINT)
_COMPUTED = frozenset(dtype.name for dtype in (*FLOATS, *INTEGERS, BOOL))
_WHOLE = (*INTEGERS, *PACKED_SINT, *PACKED_UINT, BITSET)
"""What floats are converted to by functions."""


def call_text(function: str, operands: Sequence[DType], result: DType, texts: Sequence[str]) -> Call:
    """Return the expression of a function applied to operands, which are names or parenthesised.

    Raises:
        ExprError: a type is not one that expressions compute in (only casts take low floats and packed types), or the
            function is not there on it.
    """
    if function == "cast":
        return _cast(operands[0], result, texts[0])
    foreign = next((dtype for dtype in (*operands, result) if dtype.name not in _COMPUTED), None)
    if foreign is not None:
        raise ExprError(f"{function} cannot be computed in {foreign}: cast to a compute type first")
    writer = _writer(function, operands)
    if writer is None:
        raise ExprError(f"the GLSL renderer has no function {function!r} on {operands[-1]}")
    return writer(operands[-1], texts)


def has_function(function: str, operands: Sequence[DType]) -> bool:
    """Return whether GLSL has a function on operands of types that expressions compute in; it has every cast."""
    return function == "cast" or _writer(function, operands) is not None


def _writer(function: str, operands: Sequence[DType]) -> Writer | None:
    operand = operands[-1]
    table = _FLOAT if operand.is_float else _BOOL if operand is BOOL else _INTEGER
    return None if operand is F64 and function in _F32_ONLY else table.get(function)


def _wrapped(dtype: DType, text: str) -> str:
    """Return a result in 32 bits or more as an element of a narrow type, modulo its width."""
    if dtype.bits >= 32:
        return text
    if dtype.kind is Kind.SIGNED:
        return f"bitfieldExtract({text}, 0, {dtype.bits})"
    return f"({text}) & {hex(dtype.maximum or 0)}u"


def _infix(operator: str) -> Writer:
    return lambda _dtype, x: Call(f"{x[0]} {operator} {x[1]}")


def _modular(operator: str) -> Writer:
    return lambda dtype, x: Call(_wrapped(dtype, f"{x[0]} {operator} {x[1]}"))


def _not_equal(dtype: DType, x: Sequence[str]) -> Call:
    # As a negation, because compilers differ in whether != is true for NaN.
    return Call(f"!({x[0]} == {x[1]})" if dtype.is_float else f"{x[0]} != {x[1]}")


def _signed_rounding(name: str) -> Writer:
    """Return the writer of a rounding function that keeps the sign of zero."""

    def write(dtype: DType, x: Sequence[str]) -> Call:
        function = f"oi_with_sign_{dtype}"
        return Call(f"{function}({name}({x[0]}), {x[0]})", (function,))

    return write


def _negated(dtype: DType, x: Sequence[str]) -> Call:
    return Call(_wrapped(dtype, f"-{x[0]}" if dtype.kind is Kind.SIGNED else f"{_zero(dtype)} - {x[0]}"))


def _requantised(_dtype: DType, x: Sequence[str]) -> Call:
    m, total, n, z = x
    product = f"float({m}) * uintBitsToFloat(uint(95 - {n}) << 23) * float({total})"
    return Call(f"clamp(int(clamp(roundEven({product}), -512.0, 511.0)) + {z}, -128, 127)")


def _absolute(dtype: DType, x: Sequence[str]) -> Call:
    if dtype.kind is Kind.UNSIGNED:
        return Call(x[0])
    if dtype.bits == 64:
        # Mesa's compiler makes a choice by sign to an instruction that its software driver has for 32 bits only.
        return Call(f"(({x[0]} ^ ({x[0]} >> 63)) - ({x[0]} >> 63))")
    return Call(_wrapped(dtype, f"({x[0]} < {_zero(dtype)} ? -{x[0]} : {x[0]})"))


def _zero(dtype: DType) -> str:
    return literal_text(dtype, 0)


def _extremum(operator: str) -> Writer:
    return lambda _dtype, x: Call(f"{x[1]} {operator} {x[0]} ? {x[1]} : {x[0]}")


def _select(dtype: DType, x: Sequence[str]) -> Call:
    return Call(choice_text(dtype, x[0], x[1], x[2]))


_COMPARISONS: dict[str, Writer] = {
    "eq": _infix("=="),
    "ne": _not_equal,
    "lt": _infix("<"),
    "le": _infix("<="),
    "gt": _infix(">"),
    "ge": _infix(">="),
    "select": _select,
}

_BOOL: dict[str, Writer] = {
    **_COMPARISONS,
    "logical_and": _infix("&&"),
    "logical_or": _infix("||"),
    "logical_xor": _infix("!="),
    "logical_not": lambda _dtype, x: Call(f"!{x[0]}"),
}

_F32_ONLY = frozenset({"rem", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "erf", "power"})

_FLOAT: dict[str, Writer] = {
    **_COMPARISONS,
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    **{
        name: call_of_helper(name)
        for name in ("div", "neg", "absolute", "minimum", "maximum", "sqrt", "is_nan", "is_inf", "sign_bit", *_F32_ONLY)
    },
    **{name: _signed_rounding(name) for name in ("floor", "ceil", "trunc")},
    "round_even": _signed_rounding("roundEven"),
    "to_bits": lambda _dtype, x: Call(f"floatBitsToUint({x[0]})"),
    "fma": lambda _dtype, x: Call(f"fma({', '.join(x)})"),
}

_INTEGER: dict[str, Writer] = {
    **_COMPARISONS,
    "add": _modular("+"),
    "sub": _modular("-"),
    "mul": _modular("*"),
    "div": call_of_helper("div"),
    "rem": call_of_helper("rem"),
    "neg": _negated,
    "absolute": _absolute,
    "power": call_of_helper("power"),
    "minimum": _extremum("<"),
    "maximum": _extremum(">"),
    "bit_and": _infix("&"),
    "bit_or": _infix("|"),
    "bit_xor": _infix("^"),
    "bit_not": lambda dtype, x: Call(_wrapped(dtype, f"~{x[0]}")),
    "shl": call_of_helper("shl"),
    "dot4": call_of_helper("dot4"),
    "sdot4": call_of_helper("sdot4"),
    "dot2": call_of_helper("dot2"),
    "widen": call_of_helper("widen"),
    "scale": lambda _dtype, x: Call(f"int(clamp(roundEven({x[0]} * float({x[1]})), -512.0, 511.0))"),
    "requantise": _requantised,
    "clip8": lambda _dtype, x: Call(f"clamp({x[0]}, -128, 127)"),
    "word": call_of_helper("word"),
    "from_bits": lambda _dtype, x: Call(f"uintBitsToFloat({x[0]})"),
    "shr": call_of_helper("shr"),
}


def _cast(source: DType, target: DType, text: str) -> Call:
    if target is BOOL and source.is_low_float:
        # All bits but the sign: zeros are false, a NaN is true.
        return Call(f"({text} & {hex((1 << (source.bits - 1)) - 1)}u) != 0u")
    if target is BOOL:
        return _not_equal(source, (text, _zero(source)))
    if source.is_low_float:
        widened = f"oi_f32_from_{source}"
        rest = _cast(F32, target, f"{widened}({text})") if target is not F32 else Call(f"{widened}({text})")
        return Call(rest.text, (widened, *rest.helpers))
    if target.is_low_float:
        function = f"oi_{target}_from_f32"
        return Call(f"{function}({text if source is F32 else f'float({text})'})", (function,))
    if source.is_float and not target.is_float:
        function = f"oi_{target}_from_{source}"
        return Call(f"{function}({text})", (function,))
    if target.is_float or source is BOOL or target.kind is Kind.TERNARY:
        return Call(f"{glsl_type(target)}({text})")
    if target.bits == 64 and source.bits < 64:
        return Call(_widened(source, target, text))
    return Call(_wrapped(target, f"{glsl_type(target)}({text})"))


def _widened(source: DType, target: DType, text: str) -> str:
    """Return an integer of at most 32 bits in 64, word by word: Mesa's software device gets conversions wrong."""
    signed = source.kind in (Kind.SIGNED, Kind.TERNARY)
    if target.kind is Kind.SIGNED:
        return f"packInt2x32(ivec2({text}, {f'{text} >> 31' if signed else '0'}))"
    return f"packUint2x32(uvec2({text}, {f'{text} >> 31' if signed else '0u'}))"


@functools.cache
def helpers() -> dict[str, Helper]:
    """Return every helper function by name."""
    functions = {**FUNCTIONS, **low_float_helpers(), **_bit_functions_f32(), **_functions_f64()}
    functions["oi_dot4_i32"] = _function("int", "oi_dot4_i32", "int a, int b, int c", *_dot4("uint(a)"))
    functions["oi_sdot4_i32"] = _function("int", "oi_sdot4_i32", "int a, int b, int c", *_dot4("a"))
    functions["oi_dot2_i32"] = _function("int", "oi_dot2_i32", "int a, int b, int c", *_DOT2)
    functions["oi_widen_i32"] = _function("int", "oi_widen_i32", "int x, int n", *_WIDEN)
    for dtype, kind in ((I8, "int"), (U8, "uint")):
        name = f"oi_word_{dtype}"
        functions[name] = _function("int", name, ", ".join(f"{kind} {letter}" for letter in "abcd"), *_WORD)
    for dtype in FLOATS:
        functions |= {f"oi_{name}_{dtype}": _float_extremum(dtype, name, op) for name, op in _EXTREMA.items()}
        functions |= {f"oi_{target}_from_{dtype}": _float_to_integer(dtype, target) for target in _WHOLE}
    for dtype in SINT:
        functions |= _signed_functions(dtype)
    for dtype in UINT:
        functions |= _unsigned_functions(dtype)
    return functions


_EXTREMA = {"minimum": "<", "maximum": ">"}


def _function(result: str, name: str, parameters: str, *lines: str, needs: tuple[str, ...] = ()) -> Helper:
    body = "".join(f"    {line}\n" for line in lines)
    return Helper(f"{result} {name}({parameters})\n{{\n{body}}}\n", needs)


def _float_extremum(dtype: DType, name: str, operator: str) -> Helper:
    test, kind = f"oi_is_nan_{dtype}", glsl_type(dtype)
    line = f"return {test}(a) || b {operator} a ? b : a;"
    return _function(kind, f"oi_{name}_{dtype}", f"{kind} a, {kind} b", line, needs=(test,))


def _bit_functions_f32() -> dict[str, Helper]:
    magnitude = "(floatBitsToUint(x) & 0x7fffffffu)"
    texts = {
        "neg": ("float", "uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u)"),
        "absolute": ("float", f"uintBitsToFloat{magnitude}"),
        "is_inf": ("bool", f"{magnitude} == 0x7f800000u"),
        "sign_bit": ("bool", "(floatBitsToUint(x) >> 31) != 0u"),
    }
    return {
        f"oi_{name}_f32": _function(result, f"oi_{name}_f32", "float x", f"return {text};")
        for name, (result, text) in texts.items()
    }


def _functions_f64() -> dict[str, Helper]:
    bits = "uvec2 bits = unpackDouble2x32(x);"
    high = "(bits.y & 0x7fffffffu)"
    nan, infinity = (literal_text(F64, float(name)) for name in ("nan", "inf"))
    lines = {
        "neg": ("double", "return packDouble2x32(uvec2(bits.x, bits.y ^ 0x80000000u));"),
        "absolute": ("double", f"return packDouble2x32(uvec2(bits.x, {high}));"),
        "is_nan": ("bool", f"return {high} > 0x7ff00000u || ({high} == 0x7ff00000u && bits.x != 0u);"),
        "is_inf": ("bool", f"return {high} == 0x7ff00000u && bits.x == 0u;"),
        "sign_bit": ("bool", "return (bits.y >> 31) != 0u;"),
    }
    functions = {
        f"oi_{name}_f64": _function(result, f"oi_{name}_f64", "double x", bits, line)
        for name, (result, line) in lines.items()
    }
    functions["oi_with_sign_f64"] = _function(
        "double",
        "oi_with_sign_f64",
        "double magnitude, double sign_of",
        "uvec2 bits = unpackDouble2x32(magnitude);",
        "uint sign = unpackDouble2x32(sign_of).y & 0x80000000u;",
        f"return packDouble2x32(uvec2(bits.x, {high} | sign));",
    )
    functions["oi_div_f64"] = _function(
        "double",
        "oi_div_f64",
        "double a, double b",
        "if (b == 0.0lf) {",
        f"    if (oi_is_nan_f64(a) || a == 0.0lf) {{ return {nan}; }}",
        f"    return oi_sign_bit_f64(a) == oi_sign_bit_f64(b) ? {infinity} : -{infinity};",
        "}",
        "precise double quotient = a / b;",
        "return quotient;",
        needs=("oi_is_nan_f64", "oi_sign_bit_f64"),
    )
    functions["oi_sqrt_f64"] = _function(
        "double",
        "oi_sqrt_f64",
        "double x",
        f"if (x == 0.0lf || x == {infinity}) {{ return x; }}",
        f"if (!(x > 0.0lf)) {{ return {nan}; }}",
        "precise double root = sqrt(x);",
        "return root;",
    )
    return functions


def _dot4(left: str) -> tuple[str, ...]:
    """Return the body of a product of bytes; ``left`` is ``a`` in the type that its bytes have the sign of."""
    return (
        "uint total = uint(c);",
        "for (int low = 0; low < 32; low += 8) {",
        f"    total += uint(bitfieldExtract({left}, low, 8)) * uint(bitfieldExtract(b, low, 8));",
        "}",
        "return int(total);",
    )


_DOT2 = (
    "uint total = uint(c);",
    "for (int low = 0; low < 32; low += 16) {",
    "    total += uint(bitfieldExtract(a, low, 16)) * uint(bitfieldExtract(b, low, 16));",
    "}",
    "return int(total);",
)


_WIDEN = (
    "int first = (n & 1) * 8;",
    "uint low = uint(bitfieldExtract(x, first, 8)) & 65535u;",
    "return int(bitfieldInsert(low, uint(bitfieldExtract(x, first + 16, 8)), 16, 16));",
)


_WORD = (
    "uint low = bitfieldInsert(uint(a) & 255u, uint(b), 8, 8);",
    "return int(bitfieldInsert(bitfieldInsert(low, uint(c), 16, 8), uint(d), 24, 8));",
)


def _float_to_integer(source: DType, target: DType) -> Helper:
    low, high = target.minimum or 0, target.maximum or 0
    test, kind = f"oi_is_nan_{source}", glsl_type(target)
    # The bounds are exact in either float type: zero or powers of two.
    return _function(
        kind,
        f"oi_{target}_from_{source}",
        f"{glsl_type(source)} x",
        f"if ({test}(x)) {{ return {_zero(target)}; }}",
        f"if (x >= {literal_text(source, float(high + 1))}) {{ return {literal_text(target, high)}; }}",
        f"if (x <= {literal_text(source, float(low))}) {{ return {literal_text(target, low)}; }}",
        f"return {kind}(x);",
        needs=(test,),
    )


def _signed_functions(dtype: DType) -> dict[str, Helper]:
    """Division is done on magnitudes, because GLSL does not say what it does to negatives."""
    kind, unsigned = glsl_type(dtype), "uint64_t" if dtype.bits == 64 else "uint"
    last, zero, nought = dtype.bits - 1, _zero(dtype), f"{unsigned}(0)"
    pair = f"{kind} a, {kind} b"
    magnitudes = tuple(
        f"{unsigned} {name}_size = {name} < {zero} ? {nought} - {unsigned}({name}) : {unsigned}({name});"
        for name in "ab"
    )
    guard = f"if (b == {zero}) {{ return {zero}; }}"
    nonzero = f"b_size = b_size == {nought} ? {unsigned}(1) : b_size;"
    quotient = _wrapped(dtype, f"{kind}((a < {zero}) != (b < {zero}) ? {nought} - size : size)")
    return {
        f"oi_div_{dtype}": _function(
            kind,
            f"oi_div_{dtype}",
            pair,
            guard,
            *magnitudes,
            nonzero,
            f"{unsigned} size = a_size / b_size;",
            f"return {quotient};",
        ),
        f"oi_rem_{dtype}": _function(
            kind,
            f"oi_rem_{dtype}",
            pair,
            guard,
            *magnitudes,
            nonzero,
            f"{unsigned} size = a_size % b_size;",
            f"return {kind}(a < {zero} ? {nought} - size : size);",
        ),
        f"oi_shl_{dtype}": _function(
            kind,
            f"oi_shl_{dtype}",
            f"{kind} x, {kind} count",
            f"int places = count < {zero} ? 0 : count > {literal_text(dtype, last)} ? {last} : int(count);",
            f"return count > {literal_text(dtype, last)} ? {zero} : {_wrapped(dtype, 'x << places')};",
        ),
        f"oi_shr_{dtype}": _function(
            kind,
            f"oi_shr_{dtype}",
            f"{kind} x, {kind} count",
            f"int places = count < {zero} ? 0 : count > {literal_text(dtype, last)} ? {last} : int(count);",
            "return x >> places;",
        ),
    }


def _unsigned_functions(dtype: DType) -> dict[str, Helper]:
    kind, zero, one = glsl_type(dtype), _zero(dtype), literal_text(dtype, 1)
    last = literal_text(dtype, dtype.bits - 1)
    places = f"int places = count > {last} ? {dtype.bits - 1} : int(count);"
    functions: dict[str, Helper] = {}
    for name, operator in (("div", "/"), ("rem", "%")):
        functions[f"oi_{name}_{dtype}"] = _function(
            kind,
            f"oi_{name}_{dtype}",
            f"{kind} a, {kind} b",
            f"{kind} result = a {operator} (b == {zero} ? {one} : b);",
            f"return b == {zero} ? {zero} : result;",
        )
    for name, operator in (("shl", "<<"), ("shr", ">>")):
        shifted = f"(x {operator} places)"
        functions[f"oi_{name}_{dtype}"] = _function(
            kind,
            f"oi_{name}_{dtype}",
            f"{kind} x, {kind} count",
            places,
            f"return count > {last} ? {zero} : {_wrapped(dtype, shifted) if name == 'shl' else shifted};",
        )
    functions[f"oi_power_{dtype}"] = _function(
        kind,
        f"oi_power_{dtype}",
        f"{kind} a, {kind} b",
        f"{kind} result = {one};",
        f"for (; b != {zero}; b >>= 1) {{",
        f"    result *= (b & {one}) != {zero} ? a : {one};",
        "    a *= a;",
        "}",
        f"return {_wrapped(dtype, 'result')};",
    )
    return functions
