{# Windows over images [N, C, H, W]: one thread for each output position [n, o, row, column]. #}
{% macro element() %}
    uint column = index % parameters[4];
    uint row = index / parameters[4] % parameters[3];
    uint channel = index / parameters[4] / parameters[3] % parameters[2];
    uint image = index / parameters[4] / parameters[3] / parameters[2];
{% endmacro %}
{% macro position() %}
{{ element() }}
    int top = int(row * parameters[9]) - int(parameters[13]);
    int left = int(column * parameters[10]) - int(parameters[14]);
{% endmacro %}
{# The body sees `ky` and `kx`, the element of the window, and `y` and `x`, its place inside the image. #}
{% macro taps() %}
        for (uint ky = 0u; ky < parameters[7]; ++ky) {
            int y = top + int(ky * parameters[11]);
            if (y < 0 || y >= int(parameters[5])) {
                continue;
            }
            for (uint kx = 0u; kx < parameters[8]; ++kx) {
                int x = left + int(kx * parameters[12]);
                if (x < 0 || x >= int(parameters[6])) {
                    continue;
                }
{{ caller() }}
            }
        }
{% endmacro %}
