{# Elements as keys, words that are in order as unsigned numbers. Floats: NaN is the greatest, zeros are equal. #}
{% macro keys(order) %}
{% if order == "double" %}
uvec2 key(uvec2 bits) {
    uint high = bits.y & 0x7fffffffu;
    if (high > 0x7ff00000u || (high == 0x7ff00000u && bits.x != 0u)) {
        return uvec2(0xffffffffu);
    }
    if ((high | bits.x) == 0u) {
        return uvec2(0u, 0x80000000u);
    }
    return bits.y != high ? ~bits : uvec2(bits.x, bits.y | 0x80000000u);
}
{% elif order == "long" %}
uvec2 key(uvec2 bits) {
    return uvec2(bits.x, bits.y ^ 0x80000000u);
}
{% elif order == "ulong" %}
uvec2 key(uvec2 bits) {
    return bits;
}
{% elif order == "float" %}
uvec2 key(uint bits) {
    uint size = bits & {{ sign - 1 }}u;
    uint above = size == bits || size == 0u ? size + {{ sign }}u : {{ sign }}u - size;
    return uvec2(0u, size > {{ infinity }}u ? 0xffffffffu : above);
}
{% elif order == "int" %}
uvec2 key(uint bits) {
    return uvec2(0u, bits ^ 0x80000000u);
}
{% else %}
uvec2 key(uint bits) {
    return uvec2(0u, bits);
}
{% endif %}
bool less(uvec2 a, uvec2 b) {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}
{% endmacro %}
