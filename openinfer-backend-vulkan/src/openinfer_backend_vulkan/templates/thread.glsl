{# What kernels of one thread an element have in common: buffers, the thread's number, positions to offsets. #}
{% macro head(extensions, inputs, outputs) %}
#version 450
{% for extension in extensions %}
#extension {{ extension }} : require
{% endfor %}
layout(local_size_x = {{ group_size }}) in;
{% for word in inputs %}
layout(std430, set = 0, binding = {{ loop.index0 }}) readonly buffer Source{{ loop.index0 }} { {{ word }} source{{ loop.index0 }}[]; };
{% endfor %}
{% for word in outputs %}
layout(std430, set = 0, binding = {{ inputs|length + loop.index0 }}) buffer Target{{ loop.index0 }} { {{ word }} target{{ loop.index0 }}[]; };
{% endfor %}
layout(std430, set = 0, binding = {{ inputs|length + outputs|length }}) readonly buffer Parameters { uint parameters[]; };
{% endmacro %}
{% macro thread(count) %}
    uint index = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * {{ group_size }}u + gl_LocalInvocationID.x;
    if (index >= {{ count }}) {
        return;
    }
{% endmacro %}
{# Adds to the variables `offsets` what position `linear` of a row-major walk adds; the walk's extents stand in the
   parameters from `at` on, followed by the strides of every operand. #}
{% macro advance(offsets, linear, rank, at) %}
    {
        uint rest = {{ linear }};
{% for axis in range(rank - 1, -1, -1) %}
{% if axis %}
        uint coordinate{{ axis }} = rest % parameters[{{ at + axis }}];
        rest /= parameters[{{ at + axis }}];
{% else %}
        uint coordinate0 = rest;
{% endif %}
{% for offset in offsets %}
        {{ offset }} += coordinate{{ axis }} * parameters[{{ at + rank * (1 + loop.index0) + axis }}];
{% endfor %}
{% endfor %}
    }
{% endmacro %}
{% macro function(type, name, arguments, fragment) %}
{{ type }} {{ name }}({{ arguments|join(", ") }}) {
{% for statement in fragment.statements %}
    {{ statement }}
{% endfor %}
    return {{ fragment.result }};
}
{% endmacro %}
