{# An element and the updates that it meets one after the other: kept between runs in `target1`, or as it is stored. #}
{% macro head() %}
{{ part.head([], [word, index_word, word], [word, functions.kept if functions else "uint", "uint"]) }}
{{ indices.place("target2") }}
{% if functions %}
{{ functions.source }}
{% endif %}
{% endmacro %}
{% macro begin() %}
    uint updates = parameters[1], first = parameters[2], end = parameters[3];
{% if functions %}
    {{ functions.work }} element = load0(index);
    if (first > 0u) {
        element = {{ functions.work }}(target1[index]);
    }
{% else %}
    {{ word }} element = source0[index];
    if (first > 0u) {
        element = target0[index];
    }
{% endif %}
{% endmacro %}
{% macro meet(at) %}
{% if functions %}
            element = met(element, load2({{ at }}));
{% else %}
            element = source2[{{ at }}];
{% endif %}
{% endmacro %}
{% macro finish() %}
{% if functions %}
    if (end < updates) {
        target1[index] = {{ functions.kept }}(element);
        return;
    }
    store0(index, element);
{% else %}
    target0[index] = element;
{% endif %}
{% endmacro %}
