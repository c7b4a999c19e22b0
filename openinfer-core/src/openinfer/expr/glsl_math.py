"""Functions on f32 that GLSL does not have, leaves undefined or computes too coarsely, spelled out in GLSL 4.50.

Errors are those of arithmetic that rounds to nearest; what a device adds is in the precision table of the Vulkan
specification. A unit is one in the last place.

* ``expm1``: 2 units; a polynomial (Taylor, degree 9) below 1/2, else ``exp(x) - 1``.
* ``log1p``: 1 unit; ``2 artanh(x / (2 + x))`` as a series below 1/4, else ``log(1 + x)`` and what the sum loses.
* ``tanh``: 4 units, by ``expm1``.
* ``erf``: 4 units; the Maclaurin series below 1, else ``1 - e^(-x^2) p(1 / (1 + x/2))`` with ``p`` fitted to 2e-8.
* ``sin``, ``cos``, ``tan``: 2 units (``tan``: 4), by reduction modulo pi/2 and Taylor polynomials. Up to 1000 pi/2 is
  subtracted in three parts (Cody and Waite), beyond the bits of 2/pi that count are multiplied (Payne and Hanek).
* ``rem`` is exact.
"""

from __future__ import annotations

from openinfer.expr.fragment import Helper
from openinfer.expr.glsl_powers import INFINITY, NAN, POWERS

_IS_NAN = """bool oi_is_nan_f32(float x)
{
    return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}
"""

_WITH_SIGN = """float oi_with_sign_f32(float magnitude, float sign_of)
{
    return uintBitsToFloat((floatBitsToUint(magnitude) & 0x7fffffffu) | (floatBitsToUint(sign_of) & 0x80000000u));
}
"""

# A device may multiply by the reciprocal, which is zero where it flushes subnormals and the divisor is 2^126 or more.
_DIV = f"""float oi_div_f32(float a, float b)
{{
    if ((floatBitsToUint(b) & 0x7fffffffu) == 0u) {{
        if (oi_is_nan_f32(a) || a == 0.0) {{ return {NAN}; }}
        return uintBitsToFloat(((floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u) | 0x7f800000u);
    }}
    if ((floatBitsToUint(b) & 0x7fffffffu) >= 0x7e800000u) {{
        precise float dividend = a * 0.25;
        precise float divisor = b * 0.25;
        precise float smaller = dividend / divisor;
        return smaller;
    }}
    precise float quotient = a / b;
    return quotient;
}}
"""

_REM = f"""float oi_rem_f32(float a, float b)
{{
    uint x = floatBitsToUint(a) & 0x7fffffffu;
    uint y = floatBitsToUint(b) & 0x7fffffffu;
    uint sign = floatBitsToUint(a) & 0x80000000u;
    bool is_number = x < 0x7f800000u && y <= 0x7f800000u && y != 0u, is_small = x < y;
    int x_shift = x < 0x800000u ? 23 - findMSB(x) : 0, y_shift = y < 0x800000u ? 23 - findMSB(y) : 0;
    int y_exponent = int(max(y >> 23, 1u)) - y_shift;
    int places = is_number && !is_small ? int(max(x >> 23, 1u)) - x_shift - y_exponent : 0;
    x = x < 0x800000u ? x << x_shift : (x & 0x7fffffu) | 0x800000u;
    y = y < 0x800000u ? y << y_shift : (y & 0x7fffffu) | 0x800000u;
    for (; places > 0; places--) {{ x = (x >= y ? x - y : x) << 1; }}
    x = x >= y ? x - y : x;
    int shift = x == 0u ? 0 : 23 - findMSB(x);
    y_exponent -= shift;
    x <<= shift;
    uint bits = y_exponent > 0 ? (uint(y_exponent) << 23) | (x & 0x7fffffu) : x >> min(1 - y_exponent, 31);
    float rest = uintBitsToFloat(sign | (x == 0u ? 0u : bits));
    return is_number ? is_small ? a : rest : {NAN};
}}
"""

REMAINDER_TURNS = 277
"""Most iterations of the loop of ``rem``: one for each exponent in between, those of subnormals included."""

_SQRT = f"""float oi_sqrt_f32(float x)
{{
    if (x == 0.0 || x == {INFINITY}) {{ return x; }}
    if (!(x > 0.0)) {{ return {NAN}; }}
    precise float root = sqrt(x);
    return root;
}}
"""

_EXPM1 = """float oi_expm1_f32(float x)
{
    if (abs(x) >= 0.5 || oi_is_nan_f32(x)) {
        precise float less_one = oi_exp_f32(x) - 1.0;
        return less_one;
    }
    precise float sum = 1.0 / 362880.0;
    sum = sum * x + 1.0 / 40320.0;
    sum = sum * x + 1.0 / 5040.0;
    sum = sum * x + 1.0 / 720.0;
    sum = sum * x + 1.0 / 120.0;
    sum = sum * x + 1.0 / 24.0;
    sum = sum * x + 1.0 / 6.0;
    sum = sum * x + 0.5;
    precise float square = x * x;
    sum = sum * square;
    precise float result = x + sum;
    return oi_with_sign_f32(result, x);
}
"""

# What the sum 1 + x loses is added to its logarithm; the series, as that of `openinfer.expr.elementary`, begins with x.
_LOG1P = f"""float oi_log1p_f32(float x)
{{
    if (!(abs(x) < 0.25)) {{
        precise float above = 1.0 + x;
        precise float lost = x - (above - 1.0);
        precise float total = oi_log_f32(above) + lost / above;
        return above > 0.0 && above < {INFINITY} ? total : oi_log_f32(above);
    }}
    precise float s = x / (2.0 + x);
    precise float square = s * s;
    precise float sum = 2.0 / 11.0;
    sum = sum * square + 2.0 / 9.0;
    sum = sum * square + 2.0 / 7.0;
    sum = sum * square + 0.4;
    sum = sum * square + 2.0 / 3.0;
    sum = sum * square;
    precise float half_square = 0.5 * x * x;
    precise float result = x - (half_square - s * (half_square + sum));
    return oi_with_sign_f32(result, x);
}}
"""

_TANH = """float oi_tanh_f32(float x)
{
    if (oi_is_nan_f32(x)) { return x; }
    precise float magnitude = abs(x);
    if (magnitude > 9.1) { return oi_with_sign_f32(1.0, x); }
    precise float power = oi_expm1_f32(2.0 * magnitude);
    precise float ratio = power / (power + 2.0);
    return oi_with_sign_f32(magnitude < 1e-4 ? magnitude : ratio, x);
}
"""

_ERF = """float oi_erf_f32(float x)
{
    if (oi_is_nan_f32(x)) { return x; }
    precise float magnitude = abs(x);
    precise float square = magnitude * magnitude;
    if (magnitude >= 4.0) { return oi_with_sign_f32(1.0, x); }
    if (magnitude < 1.0) {
        precise float sum = 1.0 / 76204800.0;
        sum = sum * -square + 1.0 / 6894720.0;
        sum = sum * -square + 1.0 / 685440.0;
        sum = sum * -square + 1.0 / 75600.0;
        sum = sum * -square + 1.0 / 9360.0;
        sum = sum * -square + 1.0 / 1320.0;
        sum = sum * -square + 1.0 / 216.0;
        sum = sum * -square + 1.0 / 42.0;
        sum = sum * -square + 0.1;
        sum = sum * -square + 1.0 / 3.0;
        sum = sum * -square;
        precise float scaled = magnitude * 1.1283791670955126;
        precise float result = scaled + scaled * sum;
        return oi_with_sign_f32(result, x);
    }
    precise float t = 1.0 / (1.0 + 0.5 * magnitude);
    precise float fit = 0.11931578814983368;
    fit = fit * t - 0.47123783826828003;
    fit = fit * t + 0.5635411739349365;
    fit = fit * t - 0.10400000214576721;
    fit = fit * t + 0.34806564450263977;
    fit = fit * t + 0.25959235429763794;
    fit = fit * t + 0.28493040800094604;
    fit = fit * t - 0.0001555510243633762;
    precise float rest = oi_exp_f32(-square) * fit;
    precise float result = 1.0 - rest;
    return oi_with_sign_f32(result, x);
}
"""

_QUADRANT = """float oi_reduced_f32(float x, out int quadrant)
{
    if (abs(x) < 1000.0) {
        precise float turns = roundEven(x * 0.63661975);
        quadrant = int(turns) & 3;
        precise float rest = x - turns * 1.5703125;
        rest = rest - turns * 0.00048381090164184570;
        rest = rest - turns * 1.5893254712295857e-08;
        return rest;
    }
    const uint two_over_pi[8] = uint[8](
        0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu
    );
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    uint mantissa = (bits & 0x7fffffu) | 0x800000u;
    int start = int(bits >> 23) - 120;
    int word = start >> 5;
    int places = start & 31;
    uint window[3];
    for (int part = 0; part < 3; part++) {
        uint next = places == 0 ? 0u : two_over_pi[word + part + 1] >> (32 - places);
        window[part] = (two_over_pi[word + part] << places) | next;
    }
    uint carry;
    uint ignored;
    uint middle_high;
    uint middle_low;
    uint low_high;
    umulExtended(mantissa, window[2], low_high, ignored);
    umulExtended(mantissa, window[1], middle_high, middle_low);
    uint middle = uaddCarry(middle_low, low_high, carry);
    uint high = mantissa * window[0] + middle_high + carry;
    quadrant = int(high >> 30);
    high = (high << 2) | (middle >> 30);
    middle = middle << 2;
    bool past_half = high >= 0x80000000u;
    if (past_half) {
        quadrant++;
        high = ~high;
        middle = ~middle;
    }
    precise float fraction = float(high) * exp2(-32.0) + float(middle) * exp2(-64.0);
    precise float angle = fraction * 1.5707964;
    bool negative = past_half != (x < 0.0);
    quadrant = (x < 0.0 ? -quadrant : quadrant) & 3;
    return negative ? -angle : angle;
}
"""

_SERIES = """float oi_sine_series_f32(float x)
{
    precise float square = x * x;
    precise float sum = 1.0 / 362880.0;
    sum = sum * square - 1.0 / 5040.0;
    sum = sum * square + 1.0 / 120.0;
    sum = sum * square - 1.0 / 6.0;
    sum = sum * square;
    precise float result = x + x * sum;
    return result;
}

float oi_cosine_series_f32(float x)
{
    precise float square = x * x;
    precise float sum = -1.0 / 3628800.0;
    sum = sum * square + 1.0 / 40320.0;
    sum = sum * square - 1.0 / 720.0;
    sum = sum * square + 1.0 / 24.0;
    sum = sum * square - 0.5;
    precise float result = 1.0 + square * sum;
    return result;
}
"""


def _circular(name: str, shift: int) -> str:
    """Return sine, or cosine as sine a quarter turn on (``shift`` 1)."""
    at_zero = "if (x == 0.0) { return x; }" if shift == 0 else "if (x == 0.0) { return 1.0; }"
    return f"""float oi_{name}_f32(float x)
{{
    {at_zero}
    if (!(abs(x) < {INFINITY})) {{ return {NAN}; }}
    int quadrant;
    float rest = oi_reduced_f32(x, quadrant);
    quadrant = (quadrant + {shift}) & 3;
    float value = (quadrant & 1) == 0 ? oi_sine_series_f32(rest) : oi_cosine_series_f32(rest);
    return quadrant > 1 ? -value : value;
}}
"""


_TAN = """float oi_tan_f32(float x)
{
    if (x == 0.0) { return x; }
    return oi_div_f32(oi_sin_f32(x), oi_cos_f32(x));
}
"""

_NAN_TEST, _SIGNED = "oi_is_nan_f32", "oi_with_sign_f32"
_CIRCLE = ("oi_reduced_f32", "oi_sine_series_f32")

FUNCTIONS: dict[str, Helper] = {
    **POWERS,
    "oi_is_nan_f32": Helper(_IS_NAN),
    "oi_with_sign_f32": Helper(_WITH_SIGN),
    "oi_div_f32": Helper(_DIV, (_NAN_TEST,)),
    "oi_rem_f32": Helper(_REM),
    "oi_sqrt_f32": Helper(_SQRT),
    "oi_expm1_f32": Helper(_EXPM1, (_NAN_TEST, "oi_exp_f32", _SIGNED)),
    "oi_log1p_f32": Helper(_LOG1P, ("oi_log_f32", _SIGNED)),
    "oi_tanh_f32": Helper(_TANH, (_NAN_TEST, "oi_expm1_f32", _SIGNED)),
    "oi_erf_f32": Helper(_ERF, (_NAN_TEST, "oi_exp_f32", _SIGNED)),
    "oi_reduced_f32": Helper(_QUADRANT),
    "oi_sine_series_f32": Helper(_SERIES),
    "oi_sin_f32": Helper(_circular("sin", 0), _CIRCLE),
    "oi_cos_f32": Helper(_circular("cos", 1), _CIRCLE),
    "oi_tan_f32": Helper(_TAN, ("oi_div_f32", "oi_sin_f32", "oi_cos_f32")),
}
"""Functions on f32 by name, with those that they call."""
