"""Parts of axes between places that depend on sizes of steps, in generated C: those of Python at every size."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import needs_gcc, noise, printed_by, run_sanitised, synthesised

from openinfer.errors import ExecutionError, SynthesisError
from openinfer.simulate import Simulator

pytestmark = needs_gcc

ROWS = 4
"""The largest value of both sizes, T of `x: f32[T, 2]` and U."""

CLIPPED = {
    "slice(x, axes=[0], starts=[U], ends=[T])": lambda x, u: x[u:],
    "slice(x, axes=[0], starts=[0], ends=[U])": lambda x, u: x[:u],
    "slice(x, axes=[0], starts=[U], ends=[T-1])": lambda x, u: x[u : len(x) - 1],
    "slice(x, axes=[0], starts=[U], ends=[U+1])": lambda x, u: x[u : u + 1],
    "slice(x, axes=[0], starts=[T-U], ends=[2147483647])": lambda x, u: x[len(x) - u :],
    "slice(x, axes=[0], starts=[1], ends=[2])": lambda x, _: x[1:2],
    "slice(x, axes=[0], starts=[U], ends=[0], steps=[-1])": lambda x, u: x[u:0:-1],
    "slice(x, axes=[0], starts=[-1], ends=[2 * T - 3])": lambda x, _: x[-1 : 2 * len(x) - 3],
    "slice(x, axes=[0, 1], starts=[1, 0], ends=[3, 1])": lambda x, _: x[1:3, :1],
    "slice(x, axes=[0, 1], starts=[U, 0], ends=[T, U])": lambda x, u: x[u:, :u],
    "slice(x, axes=[0], starts=[U], ends=[T], steps=[2])": lambda x, u: x[u::2],
    "slice(x, axes=[0], starts=[0], ends=[-100], steps=[-1])": lambda x, _: x[0:-100:-1],
    "slice(x, axes=[0], starts=[-1], ends=[-100], steps=[-2])": lambda x, _: x[::-2],
}

REFUSED = {
    "narrow(x, axis=0, start=U, length=T-U)": lambda x, u: x[u:] if u <= len(x) else None,
    "narrow(x, axis=0, start=T-U, length=U)": lambda x, u: x[len(x) - u :] if u <= len(x) else None,
}


def printed(part):
    """Return the rows and elements of a part, or the status of the step, at each T and U."""
    main = f"""
    #include "model.h"
    #include <stdio.h>
    static struct model instance;
    int main(void) {{
        static const float x[] = {{0, 1, 2, 3, 4, 5, 6, 7}}, g[{ROWS}] = {{0}};
        float y[MODEL_OUTPUT_Y_BYTES / sizeof(float) + 1], h[{ROWS}];
        size_t t, u, i, shape[2], own[1];
        if (model_init(&instance) != MODEL_OK) {{ return 1; }}
        for (t = 0; t <= {ROWS}; ++t) {{
            for (u = 0; u <= {ROWS}; ++u) {{
                const struct model_inputs inputs = {{.v_x = x, .v_g = g, .extent_T = t, .extent_U = u}};
                const struct model_outputs outputs = {{.v_y = y, .shape_y = shape, .v_h = h, .shape_h = own}};
                const enum model_status status = model_step(&instance, &inputs, &outputs);
                if (status != MODEL_OK) {{
                    printf("status %d;", status == MODEL_INDEX || status == MODEL_SHAPE);
                    continue;
                }}
                printf("%d", (int)shape[0]);
                for (i = 0; i < shape[0] * shape[1]; ++i) {{ printf(" %g", y[i]); }}
                printf(";");
            }}
        }}
        return 0;
    }}
    """
    text = f"dynamic {{ x: f32[T, 2]; g: f32[U]; }} block entry {{ op {part} >> y; op neg(g) >> h; return y, h; }}"
    limits = {"T": ROWS, "U": ROWS}
    _, _, synthesis = synthesised(text, {}, {"T": 3, "U": 2}, limits)
    return printed_by(main, synthesis.bundle, "gcc").split(";")[:-1]


@pytest.mark.parametrize(("part", "python"), [*CLIPPED.items(), *REFUSED.items()], ids=[*CLIPPED, *REFUSED])
def test_a_part_is_that_of_python_at_every_pair_of_sizes(part, python):
    """Ends of `slice` are clipped; a `narrow` that does not lie in the axis is refused."""
    found = iter(printed(part))
    for rows in range(ROWS + 1):
        x = np.arange(2 * rows).reshape(rows, 2)
        for size in range(ROWS + 1):
            expected = python(x, size)
            shown = "status 1" if expected is None else " ".join(map(str, [len(expected), *expected.ravel()]))
            assert next(found) == shown, f"{part} at T={rows}, U={size}"


@pytest.mark.parametrize("rows", ["T", "6"])
def test_a_place_and_a_length_in_memory_give_the_rows_of_the_simulator(rows):
    text = f"""
    dynamic {{ x: f32[{rows}, 2]; at: i32; many: i32; }}
    block entry {{ op narrow(x, axis=0, start=at, length=many) >> y; return y; }}
    """
    sizes, limits = ({"T": 3}, {"T": 6}) if rows == "T" else ({}, {})
    model, program, synthesis = synthesised(text, {}, sizes, limits)
    x = noise(6, 2)
    with Simulator(model, program, device="cpu").make_executor() as executor:
        for at, many in ((0, 6), (2, 3), (-2, 2), (6, 0)):
            given = {"x": x, "at": np.int32(at), "many": np.int32(many)}
            executor.step(**given)
            found = run_sanitised(synthesis, given)["y"]
            np.testing.assert_array_equal(found, executor.result("y").array, f"{many} rows from {at} on")
        past = {"x": x, "at": np.int32(4), "many": np.int32(3)}
        with pytest.raises(ExecutionError):
            executor.step(**past)
        with pytest.raises(SynthesisError, match="known at run time only do not fit"):
            run_sanitised(synthesis, past)
