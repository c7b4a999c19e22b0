{# How the elements of an index input are read; `fault` is the buffer for the fault. #}
{% macro value() %}
uvec2 index_at(uint at) {
{% if index_wide %}
    return {{ index_source }}[at];
{% else %}
    uint low = {{ index_source }}[at];
    return uvec2(low, {{ "(low >> 31) != 0u ? 0xffffffffu : 0u" if index_signed else "0u" }});
{% endif %}
}
{% endmacro %}
{# `named(at, extent)` is the place in a dim that the index at a place names, or `extent` where it names none. #}
{% macro place(fault) %}
{{ value() }}
uint named(uint at, uint extent) {
    uvec2 index = index_at(at);
    if (index.y == 0u && index.x < extent) {
        return index.x;
    }
{% if index_negative %}
    if (index.y == 0xffffffffu && index.x != 0u && 0u - index.x <= extent) {
        return index.x + extent;
    }
{% endif %}
    atomicMin({{ fault }}[0], at);
    return extent;
}
{% endmacro %}
