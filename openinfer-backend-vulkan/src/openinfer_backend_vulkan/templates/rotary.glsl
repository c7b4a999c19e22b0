{# Elements of x that are turned in pairs: one thread for each element. #}
{% macro pair() %}
    uint wide = parameters[1], pairs = parameters[2];
    uint column = index % wide;
    if (column >= 2u * pairs) {
        store0(index, load0(index));
        return;
    }
    uint number = index / parameters[3] % parameters[4];
{% if batched %}
    number += index / parameters[5] * parameters[4];
{% endif %}
{% if interleaved %}
    uint pair = column / 2u;
    bool second = column % 2u == 1u;
    uint other = second ? index - 1u : index + 1u;
{% else %}
    uint pair = column % pairs;
    bool second = column >= pairs;
    uint other = second ? index - pairs : index + pairs;
{% endif %}
{% endmacro %}
{% macro turned(cosine, sine) %}
    precise float along = load0(index) * {{ cosine }};
    precise float across = load0(other) * {{ sine }};
    store0(index, second ? along + across : along - across);
{% endmacro %}
