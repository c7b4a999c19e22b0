"""Functions on vectors: the functions of expressions, conversions of narrow integers, sums of products, totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, F16, F32, I8, I32, U8, U32, DType, Kind, dtype_named
from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer_synth_c.loop_programs.byte_vectors import INCLUDES, dot_product, rounded_16, widened, word
from openinfer_synth_c.loop_programs.half_vectors import narrowed
from openinfer_synth_c.loop_programs.half_vectors import widened as widened_halves
from openinfer_synth_c.loop_programs.helium import WORDS, axpy, call, choice, in_helium, in_order
from openinfer_synth_c.loop_programs.vector_types import (
    PARAMETERS,
    define,
    define_by_lane,
    lane_statements,
    lanes,
    splat,
    vector_type,
)
from openinfer_synth_c.rolled_loops import rolled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.expr.linear import Instruction
    from openinfer_synth_c.code import Code

_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_WHOLE_FROM = literal_text(F32, 1.5 * 2**23)

FEW = 4
"""Largest number of narrow lanes for which GCC compiles unrolled conversions better than a loop."""


def added_product(code: Code, dtype: DType, count: int, *, is_fused: bool, is_scalar: bool) -> str:
    """Return the name of a function that adds a product to a vector, in place.

    In C99 that leaves compilers far fewer copies of structures to see through than a function with a result.

    Args:
        is_fused: whether the product is not rounded before it is added.
        is_scalar: whether the first factor is one number, as in BLAS's axpy; both are vectors in a multiply-accumulate.
    """
    rounded = "" if is_fused else "_rounded"
    name, kind = (
        f"oi_{'axpy' if is_scalar else 'mac'}{rounded}_{dtype}x{count}",
        vector_type(code, dtype, count),
    )
    if code.has_vector_types:
        factors = ("x", splat(code, dtype, count, "a") if is_scalar else "a")
        result = _sum_of_product(
            lambda function, texts: applied(code, function, (dtype,) * len(texts), dtype, count, texts),
            (*factors, "*y"),
            is_fused=is_fused,
        )
        plain = [f"*y = {result};"]
        lines = axpy(code, dtype, count, plain, is_fused=is_fused) if is_scalar else plain
        lines = [*lines, *in_order(code, count)]
    else:
        result = _sum_of_product(
            lambda function, texts: code.noted(call_text(function, (dtype,) * len(texts), dtype, texts)),
            ("x.lane[l]", "a" if is_scalar else "a.lane[l]", "y->lane[l]"),
            is_fused=is_fused,
        )
        lines = lane_statements(count, (f"y->lane[l] = {result};",))
    head = f"VECTOR_FUNCTION void {name}({kind} *y, {c_type(dtype) if is_scalar else kind} a, {kind} x)"
    define(code, name, head, lines)
    return name


def _sum_of_product(
    call: Callable[[str, tuple[str, ...]], str], operands: tuple[str, str, str], *, is_fused: bool
) -> str:
    """Return the text of two factors' product and a total, added."""
    *factors, total = operands
    if is_fused:
        return call("fma", operands)
    return call("add", (total, f"({call('mul', tuple(factors))})"))


def select_of(code: Code, comparison: str, compared: DType, result: DType, count: int, texts: Sequence[str]) -> str:
    """Return the elements of the third vector of ``texts`` where the first two compare, else those of the fourth."""
    name = f"oi_select_{comparison}_{compared}_{result}x{count}"
    a, b, c, d = lanes(code, 4)
    condition = code.noted(call_text(comparison, (compared, compared), BOOL, (a, b)))
    value = call_text("select", (BOOL, result, result), result, (f"({condition})", c, d))
    lines = choice(code, comparison, compared, result, count)

    def with_instruction(plain: Sequence[str]) -> Sequence[str]:
        return plain if lines is None else in_helium(code, lines, plain)

    types = (compared, compared, result, result)
    define_by_lane(code, name, types, result, count, code.noted(value), around=with_instruction)
    return f"{name}({', '.join(texts)})"


def applied(
    code: Code, function: str, operands: Sequence[DType], result: DType, count: int, texts: Sequence[str]
) -> str:
    """Return a function of `openinfer.expr.tree` on vectors, which are names or bind as tightly."""
    if not code.has_vector_types:
        if function == "cast" and operands[0] is F32 and is_narrow(F32, result):
            return f"{_clipped(code, result, count)}({texts[0]})"
        if function == "cast" and is_narrow(operands[0], result) and count <= FEW:
            return f"{_written_out(code, operands[0], result, count)}({texts[0]})"
        return _by_lane(code, function, operands, result, count, texts)
    written = _written(code, function, operands, result, count, texts)
    if written is not None:
        return written
    if function == "dot4":
        return f"{dot4(code, count)}({', '.join(texts)})"
    if function == "word":
        return f"{_word(code, operands[0], count)}({', '.join(texts)})"
    if function == "cast":
        return _converted(code, operands[0], result, count, texts[0])
    return _by_lane(code, function, operands, result, count, texts)


def _written(
    code: Code, function: str, operands: Sequence[DType], result: DType, count: int, texts: Sequence[str]
) -> str | None:
    """Return a function on vectors that C has an operator or a cast for; None: it has none."""
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
    if function in ("to_bits", "from_bits") or (function == "cast" and {operands[0], result} == {I32, U32}):
        return f"({vector_type(code, result, count)}){texts[0]}"
    if function == "div" and result.is_float:
        return f"{texts[0]} / {texts[1]}"
    return None


def shifted(code: Code, step: Instruction, instructions: Sequence[Instruction], count: int, text: str) -> str | None:
    """Return the shift of a vector by a constant below the width of its elements; None: a step is something else."""
    by = instructions[step.operands[-1]].value if step.function in ("shl", "shr") else None
    if not code.has_vector_types or by is None or not 0 <= by < step.dtype.bits:
        return None
    if step.function == "shr":
        return f"{text} >> {by}"
    kind, wrapping = (vector_type(code, t, count) for t in (step.dtype, dtype_named(f"u{step.dtype.bits}")))
    return f"({kind})(({wrapping}){text} << {by})"


def _by_lane(
    code: Code, function: str, operands: Sequence[DType], result: DType, count: int, texts: Sequence[str]
) -> str:
    return f"{_looped(code, function, operands, result, count)}({', '.join(texts)})"


def _written_out(code: Code, source: DType, result: DType, count: int) -> str:
    """Return the name of a conversion of each lane of a structure, in an expression for all of them.

    In this form GCC keeps the result in a register; it would store the result of a loop over few narrow lanes to
    memory.
    """
    name = f"oi_cast_{source}_{result}x{count}"
    kind, operand = vector_type(code, result, count), vector_type(code, source, count)
    lanes = ", ".join(code.noted(call_text("cast", (source,), result, (f"a.lane[{lane}]",))) for lane in range(count))
    lines = [f"const {kind} y = {{{{{lanes}}}}};", "return y;"]
    define(code, name, f"VECTOR_FUNCTION {kind} {name}({operand} a)", lines)
    return name


def is_narrow(source: DType, result: DType) -> bool:
    """Return whether a conversion has a type of 8 or 16 bits on one side, and integers or f32 on both."""
    types = (source, result)
    return (
        all(dtype is F32 or (dtype.is_integer and 8 <= dtype.bits <= 32) for dtype in types)
        and any(dtype.bits < 32 for dtype in types)
        and source is not result
    )


def _converted(code: Code, source: DType, result: DType, count: int, text: str) -> str:
    """Return the conversion of a vector.

    That of narrow integers, or to them, goes by way of i32, which has as many bits as f32, so that compilers have
    instructions for both halves. They would join them again if both were the conversions of their own.
    """
    if {source, result} == {F16, F32}:
        return f"{converted_halves(code, result, count)}({text})"
    if not is_narrow(source, result):
        return _by_lane(code, "cast", (source,), result, count, [text])
    if result is F32:
        return _by_lane(code, "cast", (I32,), F32, count, [_converted(code, source, I32, count, text)])
    if result is I32 and source.bits == 8:
        return f"{_bytes_widened(code, source, count)}({text})"
    if source is F32:
        text = f"{_clipped(code, result, count)}({text})"
    return f"__builtin_convertvector({text}, {vector_type(code, result, count)})"


def _bytes_widened(code: Code, source: DType, count: int) -> str:
    """Return the name of a function from a vector of bytes to one of i32."""
    name, kind = f"oi_widen_{source}x{count}", vector_type(code, I32, count)
    if name not in code.definitions:
        code.definitions.setdefault("bytes", INCLUDES)
        lines = widened(kind, count, f"__builtin_convertvector(a, {kind})", signed=source.kind is Kind.SIGNED)
        if code.has_helium and count == WORDS and source is I8:
            lines = in_helium(code, [f"return ({kind})vldrbq_s32((const int8_t *)&a);"], lines)
        define(code, name, f"VECTOR_FUNCTION {kind} {name}({vector_type(code, source, count)} a)", lines)
    return name


def converted_halves(code: Code, result: DType, count: int, *, is_rounded: bool = False) -> str:
    """Return the name of a function on vectors from f16 to f32, or from f32 to f16.

    Args:
        is_rounded: whether the elements of f16 were rounded from f32 right before.
    """
    source = F16 if result is F32 else F32
    name = f"oi_{'widen_rounded' if is_rounded else 'cast'}_{source}_{result}x{count}"
    if name not in code.definitions:
        code.definitions.setdefault("bytes", INCLUDES)
        kind, operand = vector_type(code, result, count), vector_type(code, source, count)
        plain = _looped(code, "cast", (source,), result, count, suffix="_plain")
        call = f"{plain}(a)"
        body = (
            narrowed(kind, count, call) if source is F32 else widened_halves(kind, count, call, is_rounded=is_rounded)
        )
        # Clang warns of functions that only another machine uses.
        define(code, name, f"VECTOR_FUNCTION {kind} {name}({operand} a)", [f"(void){plain};", *body])
    return name


def _clipped(code: Code, result: DType, count: int) -> str:
    """Return the name of a function from f32 to the nearest number that a narrow type holds, toward zero.

    With vector types its result is of i32.
    """
    name = f"oi_clip_{result}_f32x{count}"
    before, inside = _limited(result, *lanes(code, 1), is_number=not code.has_vector_types)
    to = I32 if code.has_vector_types else result
    cast = "(int32_t)" if code.has_vector_types else f"({c_type(result)})(int32_t)"
    define_by_lane(code, name, (F32,), to, count, f"{cast}({inside})", before)
    return name


def _limited(result: DType, lane: str, *, is_number: bool = False) -> tuple[tuple[str, ...], str]:
    """Return statements for a lane of f32, and its value within the limits of a narrow type; NaN is 0.

    Args:
        is_number: whether the analyser Eva has to see that the value is not a NaN. Comparisons with limits do not show
            it that, nor does comparing an element of an array with itself.
    """
    low, high = (literal_text(F32, float(limit or 0)) for limit in (result.minimum, result.maximum))
    # In this form compilers have it as a maximum and a minimum; NaN gives the lower end, which is 0 without sign.
    number = (f"const float x = {lane};",)
    if result.minimum != 0 or is_number:
        number = (f"const float z = {lane};", "const float x = z == z ? z : 0.0f;")
    before = (*number, f"const float least = x > {low} ? x : {low};")
    return before, f"least < {high} ? least : {high}"


def rounded(code: Code, result: DType, count: int, text: str) -> str:
    """Return the conversion of a vector of f32 to integers of 8 or 16 bits, the nearest ones, halves to even.

    An f32 in [2^23, 2^24) is a whole number, which its lowest bits hold: the sum with ``1.5 * 2^23`` rounds, and needs
    no conversion.
    """
    before, inside = _limited(result, *lanes(code, 1))
    name = f"oi_round_{result}_f32x{count}"
    if code.has_vector_types:
        return f"{_rounded_vector(code, name, result, count)}({text})"
    kind, given = vector_type(code, result, count), vector_type(code, F32, count)
    # Apart from the bytes, limits are a maximum and a minimum of whole registers. The lanes of the argument, which is
    # set as a whole, hold them: of an array that a loop fills, analysers do not know that all of it is set.
    (lane,) = lanes(code, 1)
    lines = [
        f"{kind} y = {{{{0}}}};",
        *lane_statements(count, (*before, f"{lane} = ({inside}) + {_WHOLE_FROM};")),
        *lane_statements(count, (f"y.lane[l] = {_whole(result, _bits(code, lane))};",)),
        "return y;",
    ]
    define(code, name, f"VECTOR_FUNCTION {kind} {name}({given} a)", lines)
    return f"{name}({text})"


def _rounded_vector(code: Code, name: str, result: DType, count: int) -> str:
    """Return the name of a function that does what `rounded` says to a vector."""
    if name in code.definitions:
        return name
    before, inside = _limited(result, *lanes(code, 1))
    bits = _bits(code, f"({inside}) + {_WHOLE_FROM}")
    define_by_lane(code, f"{name}_bits", (F32,), I32, count, f"(int32_t){bits}", before)
    kind, operand = vector_type(code, result, count), vector_type(code, F32, count)
    plain = f"__builtin_convertvector({name}_bits(a), {kind})"
    lines = [f"return {plain};"]
    if count == 16:
        code.definitions.setdefault("bytes", INCLUDES)
        least, most = (literal_text(F32, float(limit or 0)) for limit in (result.minimum, result.maximum))
        # Clang warns of functions that only another machine uses.
        lines = [
            f"(void){name}_bits;",
            *rounded_16(kind, result.bits, (least, most), _WHOLE_FROM, plain, signed=result.minimum != 0),
        ]
    define(code, name, f"VECTOR_FUNCTION {kind} {name}({operand} a)", lines)
    return name


def _bits(code: Code, text: str) -> str:
    return code.noted(call_text("to_bits", (F32,), U32, (text,)))


def _whole(result: DType, bits: str) -> str:
    """Return the whole number that an f32 in [2^23, 2^24) has in its bits, as an integer of 8 or 16 bits."""
    # The lowest 23 bits less those of 1.5 * 2^23; where they are unsigned, what is above them is cut off.
    whole = bits if result.minimum == 0 else f"((int32_t)({bits} & 0x7fffffu) - 0x400000)"
    return f"({c_type(result)}){whole}"


def rounded_scalar(code: Code, result: DType, text: str) -> str:
    """Return what `rounded` does to one f32: processors without an instruction that rounds call a function for it."""
    name = f"oi_round_{result}_f32"
    before, inside = _limited(result, "a")
    lines = (*before, f"return {_whole(result, _bits(code, f'({inside}) + {_WHOLE_FROM}'))};")
    define(code, name, f"static inline {c_type(result)} {name}(float a)", lines)
    return f"{name}({text})"


def dot4(code: Code, count: int) -> str:
    """Return the name of `openinfer.expr.tree.dot4` on vectors: one instruction where the processor has it."""
    name, kind = f"oi_dot4_{I32}x{count}", vector_type(code, I32, count)
    if name not in code.definitions:
        code.definitions.setdefault("bytes", INCLUDES)
        lanes = [f"lanes_{letter}[l]" for letter in PARAMETERS[:3]]
        value = code.noted(call_text("dot4", (I32, I32, I32), I32, lanes))
        define_by_lane(code, f"{name}_plain", (I32, I32, I32), I32, count, value)
        # Clang warns of functions that only another machine uses.
        lines = [f"(void){name}_plain;", *dot_product(kind, count, f"{name}_plain(a, b, c)")]
        define(code, name, f"VECTOR_FUNCTION {kind} {name}({kind} a, {kind} b, {kind} c)", lines)
    return name


def _word(code: Code, source: DType, count: int) -> str:
    """Return the name of `openinfer.expr.tree.word` on vectors of bytes."""
    name, kind, operand = f"oi_word_{source}x{count}", vector_type(code, I32, count), vector_type(code, source, count)
    if name not in code.definitions:
        code.definitions.setdefault("bytes", INCLUDES)
        unsigned, wide = vector_type(code, U8, count), vector_type(code, U32, count)
        parts = [
            f"(({wide}){_converted(code, U8, I32, count, f'({unsigned}){letter}')} << {8 * place})"
            for place, letter in enumerate(PARAMETERS[:4])
        ]
        head = ", ".join(f"{operand} {letter}" for letter in PARAMETERS[:4])
        # Clang warns of functions that only another machine uses.
        unused = f"(void){_bytes_widened(code, U8, count)};"
        lines = [unused, *word(kind, count, f"({kind})({' | '.join(parts)})")]
        define(code, name, f"VECTOR_FUNCTION {kind} {name}({head})", lines)
    return name


def _looped(code: Code, function: str, operands: Sequence[DType], result: DType, count: int, suffix: str = "") -> str:
    """Return the name of a function on vectors that goes from lane to lane."""
    of = f"{operands[0]}_{result}" if function in ("cast", "word") else f"{result}"
    name = f"oi_{function}_{of}x{count}{suffix}"
    value = code.noted(call_text(function, operands, result, lanes(code, len(operands))))
    instruction = call(code, function, operands, result, count)

    def with_instruction(lines: Sequence[str]) -> Sequence[str]:
        return lines if instruction is None else in_helium(code, [f"return {instruction};"], lines)

    define_by_lane(code, name, operands, result, count, value, around=with_instruction)
    return name


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
    define(code, name, f"static inline {kind} {name}(const {kind} *v)", [*lines, "return lanes[0];"])
    return name


def _across_elements(code: Code, function: str, dtype: DType, count: int) -> str:
    """Return the name of `across_vector` in terms of elements."""
    name, elements = f"oi_across_{function}_vector_{dtype}x{count}", [f"v[{lane}]" for lane in range(count)]
    while len(elements) > 1:
        half = len(elements) // 2
        pairs = zip(elements[:half], elements[half:], strict=True)
        elements = [f"({code.noted(call_text(function, (dtype, dtype), dtype, pair))})" for pair in pairs]
    head = f"VECTOR_FUNCTION {c_type(dtype)} {name}({vector_type(code, dtype, count)} v)"
    define(code, name, head, [f"return {elements[0]};"])
    return name


def across_vector(code: Code, function: str, dtype: DType, count: int) -> str:
    """Return the name of the same function of a vector, of 2, 4, 8... lanes: halves are combined as vectors.

    GCC takes parts of a register so, where it goes by way of memory for an array of lanes.
    """
    name = f"oi_across_{function}_vector_{dtype}x{count}"
    if name in code.definitions:
        return name
    whole, last, lines = vector_type(code, dtype, count), "v", list[str]()
    if code.has_helium:
        # There are no vectors of half the size; elements are registers of their own.
        return _across_elements(code, function, dtype, count)
    while count > 1:
        count //= 2
        kind = vector_type(code, dtype, count) if count > 1 else c_type(dtype)
        low, high, bytes_ = f"a{count}", f"b{count}", f"sizeof a{count}"
        lines += [
            f"{kind} {low};",
            f"{kind} {high};",
            f"memcpy(&{low}, &{last}, {bytes_});",
            f"memcpy(&{high}, (const char *)&{last} + {bytes_}, {bytes_});",
        ]
        both = (low, high)
        if count > 1:
            lines.append(f"{low} = {applied(code, function, (dtype, dtype), dtype, count, both)};")
        else:
            lines.append(f"return {code.noted(call_text(function, (dtype, dtype), dtype, both))};")
        last = low
    define(code, name, f"VECTOR_FUNCTION {c_type(dtype)} {name}({whole} v)", lines)
    return name
