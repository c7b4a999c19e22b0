"""``exp``, ``log`` and ``power`` on f32 in GLSL 4.50, without the functions of devices, whose errors grow with the
exponent and, of logarithms, around 1.

* ``exp``: 2 units in the last place; ln 2 is subtracted in two parts (Cody and Waite), then a polynomial (Taylor, of
  degree 7).
* ``log``: 1 unit; the logarithm to base 2 times ln 2, both in two floats.
* ``power``: 4 units; ``2^(b log2 a)``, with the logarithm and the product in two floats each.

They need additions and products that are rounded to nearest.
"""

from __future__ import annotations

from openinfer.expr.fragment import Helper

NAN = "uintBitsToFloat(0x7fc00000u)"
INFINITY = "uintBitsToFloat(0x7f800000u)"

_EXP_SERIES = """float oi_exp_series_f32(float x, int doublings)
{
    precise float sum = 1.0 / 5040.0;
    sum = sum * x + 1.0 / 720.0;
    sum = sum * x + 1.0 / 120.0;
    sum = sum * x + 1.0 / 24.0;
    sum = sum * x + 1.0 / 6.0;
    sum = sum * x + 0.5;
    precise float square = x * x;
    precise float power = 1.0 + (x + square * sum);
    int some = doublings / 2;
    power = power * uintBitsToFloat(uint(127 + some) << 23);
    power = power * uintBitsToFloat(uint(127 + doublings - some) << 23);
    return power;
}
"""

_EXP = f"""float oi_exp_f32(float x)
{{
    if (oi_is_nan_f32(x)) {{ return x; }}
    if (x > 88.73) {{ return {INFINITY}; }}
    if (x < -104.0) {{ return 0.0; }}
    precise float whole = roundEven(x * 1.442695);
    precise float rest = x - whole * 0.693145751953125;
    rest = rest - whole * 1.4286068203094172e-06;
    return oi_exp_series_f32(rest, int(whole));
}}
"""

# A float of 24 bits is cut in two of 12, whose products are exact (Veltkamp and Dekker).
_PRODUCT = """void oi_product_f32(float a, float b, out float high, out float low)
{
    precise float product = a * b;
    precise float a_scaled = a * 4097.0;
    precise float b_scaled = b * 4097.0;
    precise float a_high = a_scaled - (a_scaled - a);
    precise float b_high = b_scaled - (b_scaled - b);
    precise float a_low = a - a_high;
    precise float b_low = b - b_high;
    precise float rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    high = product;
    low = rest;
}
"""

# With s = (m - 1) / (m + 1), log2 m is 2 / ln 2 artanh s; s, its cube and the sum are kept in two floats.
_LOG2_PAIR = """void oi_log2_pair_f32(float x, out float high, out float low)
{
    uint bits = floatBitsToUint(x);
    int exponent = 0;
    if (bits < 0x800000u) {
        bits = floatBitsToUint(float(bits));
        exponent = -149;
    }
    uint size = (bits & 0x7fffffu) | 0x3f800000u;
    bool large = size > 0x3fb504f3u;
    exponent += int(bits >> 23) - 127 + (large ? 1 : 0);
    precise float m = uintBitsToFloat(large ? size - 0x800000u : size);
    precise float above = m - 1.0;
    precise float below = m + 1.0;
    precise float below_rest = m - (below - 1.0);
    precise float s = above / below;
    float product;
    float product_rest;
    oi_product_f32(s, below, product, product_rest);
    precise float s_rest = ((above - product) - product_rest - s * below_rest) / below;
    float square;
    float square_rest;
    oi_product_f32(s, s, square, square_rest);
    float cube;
    float cube_rest;
    oi_product_f32(s, square, cube, cube_rest);
    precise float cube_error = cube_rest + s * square_rest;
    float third;
    float third_rest;
    oi_product_f32(cube, 0.3333333432674408, third, third_rest);
    precise float third_error = third_rest + (cube_error * 0.33333334 - cube * 9.934107462565104e-09);
    precise float sum = 1.0 / 11.0;
    sum = sum * square + 1.0 / 9.0;
    sum = sum * square + 1.0 / 7.0;
    sum = sum * square + 0.2;
    precise float artanh = s + third;
    precise float artanh_rest = (third - (artanh - s)) + (third_error + s * (square * square * sum) + s_rest);
    float scaled;
    float scaled_rest;
    oi_product_f32(artanh, 2.885390043258667, scaled, scaled_rest);
    scaled_rest = scaled_rest + (artanh * 3.8519259943e-08 + artanh_rest * 2.8853900);
    precise float whole = float(exponent);
    precise float total = whole + scaled;
    precise float total_rest = exponent == 0 ? 0.0 : scaled - (total - whole);
    high = total;
    low = total_rest + scaled_rest;
}
"""

_LOG = f"""float oi_log_f32(float x)
{{
    uint bits = floatBitsToUint(x);
    if ((bits & 0x7fffffffu) == 0u) {{ return -{INFINITY}; }}
    if (bits > 0x7f800000u) {{ return {NAN}; }}
    if (bits == 0x7f800000u) {{ return x; }}
    float logarithm;
    float logarithm_rest;
    oi_log2_pair_f32(x, logarithm, logarithm_rest);
    float product;
    float product_rest;
    oi_product_f32(logarithm, 0.6931471824645996, product, product_rest);
    precise float rest = product_rest + (logarithm_rest * 0.6931472 - logarithm * 1.9046542e-09);
    precise float result = product + rest;
    return result;
}}
"""

_POWER = f"""float oi_power_f32(float a, float b)
{{
    if ((floatBitsToUint(b) & 0x7fffffffu) == 0u || floatBitsToUint(a) == 0x3f800000u) {{ return 1.0; }}
    if (oi_is_nan_f32(a) || oi_is_nan_f32(b)) {{ return {NAN}; }}
    bool whole = floor(b) == b;
    bool odd = whole && abs(b) < 16777216.0 && (int(abs(b)) & 1) == 1;
    float magnitude = abs(a);
    float sign_of = odd ? a : 1.0;
    if (magnitude == 0.0 || magnitude == {INFINITY}) {{
        return oi_with_sign_f32((magnitude == 0.0) == (b > 0.0) ? 0.0 : {INFINITY}, sign_of);
    }}
    if (magnitude == 1.0 && (whole || abs(b) == {INFINITY})) {{ return oi_with_sign_f32(1.0, sign_of); }}
    if (abs(b) == {INFINITY}) {{ return (magnitude > 1.0) == (b > 0.0) ? {INFINITY} : 0.0; }}
    if (a < 0.0 && !whole) {{ return {NAN}; }}
    float logarithm;
    float logarithm_rest;
    oi_log2_pair_f32(magnitude, logarithm, logarithm_rest);
    float exponent;
    float exponent_rest;
    float by = clamp(b, -4.3e9, 4.3e9);
    oi_product_f32(by, logarithm, exponent, exponent_rest);
    if (exponent >= 129.0) {{ return oi_with_sign_f32({INFINITY}, sign_of); }}
    if (exponent < -151.0) {{ return oi_with_sign_f32(0.0, sign_of); }}
    precise float doublings = roundEven(exponent);
    precise float rest = (exponent - doublings) + (exponent_rest + by * logarithm_rest);
    precise float angle = rest * 0.69314718;
    return oi_with_sign_f32(oi_exp_series_f32(angle, int(doublings)), sign_of);
}}
"""

POWERS: dict[str, Helper] = {
    "oi_exp_series_f32": Helper(_EXP_SERIES),
    "oi_exp_f32": Helper(_EXP, ("oi_is_nan_f32", "oi_exp_series_f32")),
    "oi_product_f32": Helper(_PRODUCT),
    "oi_log2_pair_f32": Helper(_LOG2_PAIR, ("oi_product_f32",)),
    "oi_log_f32": Helper(_LOG, ("oi_log2_pair_f32", "oi_product_f32")),
    "oi_power_f32": Helper(
        _POWER, ("oi_is_nan_f32", "oi_with_sign_f32", "oi_log2_pair_f32", "oi_product_f32", "oi_exp_series_f32")
    ),
}
"""The functions by name, with those that they call."""
