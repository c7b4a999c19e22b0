"""Sizes that differ from step to step in generated C: the caller gives them, up to a limit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from generated_c import COMPILERS, needs_gcc, noise, printed_by, run_sanitised, synthesised

from openinfer.errors import ShapeError, SynthesisError
from openinfer.plan.steps import ComputeStep
from openinfer.simulate import Simulator
from openinfer.synth.comparison import compare

pytestmark = needs_gcc

LIMIT = 16

PROGRAMS = {
    "a layer": """
        dynamic { x: f32[T, D]; }
        constant { w: f32[D, D]; }
        volatile { y: f32[T, D]; }
        block entry { op matmul(x, w) >> h; op relu(h) >> h; op layer_norm(h, axis=-1) >> y; return y; }""",
    "a product over its own input": """
        dynamic { x: f32[T, D]; }
        constant { w: f32[D, D]; }
        volatile { y: f32[T, D]; }
        block entry {
          op neg(x) >> y; op matmul(y, w) >> h; op mul(h, y) >> y; op relu(x) >> x; op add(y, x) >> y;
          return y;
        }""",
    "other sizes that depend on it": """
        dynamic { x: f32[T, D]; }
        volatile { y: f32[2 * T, D / 2]; }
        block entry {
          op reshape(x, shape=[T, 2, D / 2]) >> h;
          op reshape(h, shape=[2 * T, D / 2]) >> y;
          return y;
        }""",
    "an input that changes and is returned": """
        dynamic { x: f32[T, D]; }
        volatile { y: f32[D]; }
        block entry { op sum_axis(x, axes=[0]) >> y; op neg(x) >> x; return y, x; }""",
    "attention of rows to each other": """
        dynamic { x: f32[T, D]; }
        block entry {
          op matmul(x, x, trans_b=true) >> s;
          op softmax(s, axis=-1) >> p;
          op matmul(p, x) >> y;
          return y;
        }""",
    "a size in settings": """
        dynamic { x: f32[T, D]; }
        constant { one: f32[1, D]; }
        block entry {
          op expand(one, shape=[T, D]) >> ones;
          op add(x, ones) >> y;
          op concat(x, y, axis=0) >> z;
          return y, z;
        }""",
    "prefill into a cache": """
        dynamic { x: f32[T, D]; }
        constant { w: f32[D, D]; }
        persistent { n: i32; K(t): f32[D] @table; }
        block entry {
          op matmul(x, w) >> h;
          cache.write h >> K[n..n + T];
          cache.increment T n;
          cache.read K[0..n] >> k;
          op matmul(h, k, trans_b=true) >> s;
          op softmax(s, axis=-1) >> p;
          op matmul(p, k) >> y;
          return y;
        }""",
    "rows of a loop, written by their places": """
        dynamic { x: f32[T, D]; }
        constant { w: f32[D, D]; zero: f32 @init(0.0); h0: f32[1, D] @init(0.0); }
        volatile { places: i64[T]; }
        block entry {
          op range(start=0, limit=T) >> places;
          op unsqueeze(places, axes=[1]) >> tuples;
          op expand(zero, shape=[T, D]) >> y;
          transfer h0 >> h;
          loop steps (i in 0..T) {
            op narrow(x, axis=0, start=i, length=1) >> row;
            op linear(h, w) >> before;
            op add(row, before) >> sum;
            op tanh(sum) >> h;
            op narrow(tuples, axis=0, start=i, length=1) >> at;
            op scatter_nd(y, at, h) >> y;
          }
          return y, h;
        }""",
    "windows with a stride": """
        dynamic { x: f32[T, D]; }
        block entry {
          op reshape(x, shape=[1, T, 1, D]) >> h;
          op transpose(h, perm=[0, 3, 2, 1]) >> image;
          op max_pool2d(image, kernel=[1, 2], stride=2, padding=[0, 1]) >> most;
          op avg_pool2d(image, kernel=[1, 3], stride=[1, 2], padding=[0, 1]) >> mean;
          return most, mean;
        }""",
    "every second row": """
        dynamic { x: f32[T, D]; }
        block entry { op slice(x, axes=[0], starts=[0], ends=[T], steps=[2]) >> y; return y; }""",
    "an extent that is larger at smaller sizes": """
        dynamic { x: f32[T, D]; }
        constant { unit: f32[1] @init(1.0); }
        block entry { op expand(unit, shape=[20 - T]) >> y; op neg(x) >> z; return y, z; }""",
    "places that are counted": """
        dynamic { x: f32[T, D]; }
        block entry {
          assign ids: f32[T, D];
          op iota(axis=0) >> ids;
          assign odd: f32[T];
          op range(start=1, step=2) >> odd;
          op unsqueeze(odd, axes=[1]) >> column;
          op add(x, ids) >> h; op add(h, column) >> y;
          return y;
        }""",
    "the last row": """
        dynamic { x: f32[T, D]; }
        volatile { y: f32[D]; }
        block entry { op select(x, axis=0, index=T-1) >> y; return y; }""",
    "rows of a table that hardly holds the largest": """
        dynamic { x: f32[T, D]; }
        constant { rows: f32[48, D]; }
        volatile { at: i64; }
        persistent { n: i64; }
        block entry {
          cache.read n >> at;
          op narrow(rows, axis=0, start=at, length=T) >> those;
          op add(x, those) >> y;
          cache.increment T n;
          return y;
        }""",
}

ARRAYS = {"w": noise(4, 4, seed=1), "one": noise(1, 4, seed=2), "rows": noise(48, 4, seed=3)}


def made(text):
    limits = {"T": LIMIT, **({"t": 3 * LIMIT} if "K(t)" in text else {})}
    arrays = {name: array for name, array in ARRAYS.items() if f"{name}: f32" in text}
    return synthesised(text, arrays, {"T": 3, "D": 4}, limits)


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_of_every_size_agree_with_the_simulator(name):
    model, program, synthesis = made(PROGRAMS[name])
    for rows in (1, LIMIT):
        x = noise(3, rows, 4, seed=rows)
        found = run_sanitised(synthesis, {"x": x}, steps=3)
        with Simulator(model, program, device="cpu").make_executor() as executor:
            for step in range(3):
                executor.step(x=x[step])
                for port, array in found.items():
                    expected = np.asarray(executor.result(port).array)
                    assert expected.shape == array[step].shape, (rows, port)
                    assert compare(port, expected, array[step]).within, (rows, step, port)


PARTS = {
    "from the second row on": "slice(x, axes=[0], starts=[1], ends=[2147483647])",
    "up to the last row": "slice(x, axes=[0], starts=[0], ends=[T-1])",
    "the last two rows": "slice(x, axes=[0], starts=[-2], ends=[T])",
    "the first two rows": "slice(x, axes=[0], starts=[0], ends=[2])",
    "backwards": "slice(x, axes=[0], starts=[-1], ends=[-100], steps=[-1])",
    "flat": "slice(flat, axes=[0], starts=[1], ends=[T])",
}


def test_parts_that_not_all_sizes_have_are_clipped_as_in_the_simulator():
    results = [f"y{number}" for number in range(len(PARTS))]
    statements = " ".join(f"op {part} >> {y};" for part, y in zip(PARTS.values(), results, strict=True))
    text = f"""
    dynamic {{ x: f32[T, D]; flat: f32[T]; }}
    block entry {{ {statements} op neg(y5) >> less; return {", ".join(results)}, less; }}
    """
    model, program, synthesis = synthesised(text, {}, {"T": 3, "D": 4}, {"T": LIMIT})
    with Simulator(model, program, device="cpu").make_executor() as executor:
        for rows in (0, 1, LIMIT):
            x, flat = noise(rows, 4, seed=rows), noise(rows, seed=rows)
            executor.step(x=x, flat=flat)
            found = run_sanitised(synthesis, {"x": x, "flat": flat})
            for name, part in zip((*results, "less"), (*PARTS, "less"), strict=True):
                np.testing.assert_array_equal(found[name], executor.result(name).array, f"{part}, {rows} rows")


def test_places_past_the_rows_of_a_step_are_refused():
    text = """
    dynamic { x: f32[T]; at: i64[1, 1]; }
    constant { one: f32[1] @init(1.0); }
    block entry { op scatter_nd(x, at, one) >> y; return y; }
    """
    _, _, synthesis = synthesised(text, {}, {"T": 3}, {"T": LIMIT})
    x = noise(5)
    for place in (4, -5):
        found = run_sanitised(synthesis, {"x": x, "at": np.array([[place]])})["y"]
        np.testing.assert_array_equal(found, np.where(np.arange(5) == place % 5, 1, x))
    for place in (5, -6):
        with pytest.raises(SynthesisError, match="an index is out of range"):
            run_sanitised(synthesis, {"x": x, "at": np.array([[place]])})


PLACES_OUT_OF_RANGE = {
    "gather": ("x: f32[2, T];", "gather(x, places, axis=0)"),
    "gather between dims": ("x: f32[3, 2, T];", "gather(x, places, axis=1)"),
    "gather of no rows": ("x: f32[0, T];", "gather(x, places, axis=0)"),
    "gather, then a fold": ("x: f32[2, T];", "gather(x, places, axis=0) >> those; op sum_axis(those, axes=[0])"),
    "embedding": ("x: f32[2, T];", "embedding(places, x)"),
    "gather_nd": ("x: f32[2, T];", "gather_nd(x, tuples)"),
    "scatter_nd": ("x: f32[2, T]; rows: f32[3, T];", "scatter_nd(x, tuples, rows)"),
}


@pytest.mark.parametrize(("dynamic", "statement"), PLACES_OUT_OF_RANGE.values(), ids=PLACES_OUT_OF_RANGE)
def test_places_of_which_nothing_is_read_are_not_refused(dynamic, statement):
    places = np.array([0, 1, 7])
    arrays = {"places": places} if "places" in statement else {"tuples": places.reshape(3, 1)}
    constant = "places: i64[3];" if "places" in statement else "tuples: i64[3, 1];"
    text = f"dynamic {{ {dynamic} }} constant {{ {constant} }} block entry {{ op {statement} >> y; return y; }}"
    model, program, synthesis = synthesised(text, arrays, {"T": 3}, {"T": LIMIT})
    shapes = {"x": (0, 0) if "f32[0" in dynamic else (3, 2, 0) if "f32[3, 2" in dynamic else (2, 0), "rows": (3, 0)}
    nothing = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if f"{name}:" in dynamic}
    with Simulator(model, program, device="cpu").make_executor() as executor:
        executor.step(**nothing)
        assert run_sanitised(synthesis, nothing)["y"].shape == executor.outputs()["y"].shape
    something = {name: np.zeros((*array.shape[:-1], 2), np.float32) for name, array in nothing.items()}
    with pytest.raises(SynthesisError, match="an index is out of range"):
        run_sanitised(synthesis, something)


def test_differences_of_neighbours_need_a_row_before():
    """A length of -1 is an error of the simulator, and a status in C."""
    text = """
    dynamic { x: f32[T]; }
    block entry {
      op narrow(x, axis=0, start=1, length=T-1) >> later;
      op narrow(x, axis=0, start=0, length=T-1) >> earlier;
      op sub(later, earlier) >> y;
      return y;
    }
    """
    _, _, synthesis = synthesised(text, {}, {"T": 3}, {"T": LIMIT})
    for rows in (1, LIMIT):
        x = noise(rows, seed=rows)
        np.testing.assert_array_equal(run_sanitised(synthesis, {"x": x})["y"], np.diff(x))
    with pytest.raises(SynthesisError, match="known at run time only do not fit"):
        run_sanitised(synthesis, {"x": noise(0)})


def test_parts_that_lie_past_the_limit_have_no_rows():
    text = """
    dynamic { x: f32[T, 4]; }
    block entry { op slice(x, axes=[0], starts=[100], ends=[T]) >> y; return y; }
    """
    _, _, synthesis = synthesised(text, {}, {"T": 3}, {"T": LIMIT})
    assert run_sanitised(synthesis, {"x": noise(3, 4)})["y"].shape == (0, 4)


QUOTIENTS = """
dynamic { x: f32[T]; half: f32[ceil(T / 2)]; }
volatile { pairs: f32[T / 2, 2]; odd: f32[ceil((T - 1) / 2)]; rest: f32[4 * floor(T / 4)]; }
block entry {
  op reshape(x) >> pairs;
  op slice(x, axes=[0], starts=[1], ends=[T], steps=[2]) >> odd;
  op slice(x, axes=[0], starts=[0], ends=[T], steps=[2]) >> even;
  op add(half, even) >> y;
  op slice(x, axes=[0], starts=[0], ends=[T - T % 4]) >> rest;
  return pairs, odd, y, rest;
}
"""


def test_declared_extents_may_divide_sizes_where_quotients_have_values():
    model, program, synthesis = synthesised(QUOTIENTS, {}, {"T": 2}, {"T": LIMIT})
    with Simulator(model, program, device="cpu").make_executor() as executor:
        for rows in (2, 6, LIMIT):
            inputs = {"x": noise(rows, seed=rows), "half": noise(rows // 2, seed=1)}
            executor.step(**inputs)
            for name, array in run_sanitised(synthesis, inputs).items():
                np.testing.assert_array_equal(array, executor.outputs()[name], f"{name}, {rows} rows")
        for rows in (0, 3):  # `T - 1` is below 0, or `T` is odd
            inputs = {"x": noise(rows), "half": noise((rows + 1) // 2)}
            with pytest.raises(ShapeError, match="does not fit T = "):
                executor.step(**inputs)
            with pytest.raises(SynthesisError, match="known at run time only do not fit"):
                run_sanitised(synthesis, inputs)


def test_declared_extents_below_0_end_the_step():
    text = """
    dynamic { x: f32[T]; }
    volatile { y: f32[T - 1]; }
    block entry { op slice(x, axes=[0], starts=[1], ends=[T]) >> y; return y; }
    """
    _, _, synthesis = synthesised(text, {}, {"T": 2}, {"T": LIMIT})
    assert run_sanitised(synthesis, {"x": noise(1)})["y"].shape == (0,)
    with pytest.raises(SynthesisError, match="known at run time only do not fit"):
        run_sanitised(synthesis, {"x": noise(0)})


def test_windows_along_a_size_of_steps_have_a_declared_extent():
    """As the importer declares results of convolutions: a quotient of a size, along the last dim of several."""
    text = """
    dynamic { x: f32[1, 2, T]; }
    constant { w: f32[3, 2, 5]; }
    volatile { y: f32[1, 3, floor((T - 2) / 3)]; }
    block entry { op conv1d(x, w, stride=3) >> y; return y; }
    """
    model, program, synthesis = synthesised(text, {"w": noise(3, 2, 5)}, {"T": 9}, {"T": 40})
    with Simulator(model, program, device="cpu").make_executor() as executor:
        for length in (5, 10, 40):
            x = noise(1, 2, length, seed=length)
            executor.step(x=x)
            assert compare("y", executor.fetch("y"), run_sanitised(synthesis, {"x": x})["y"]).within


def test_declared_extents_that_are_larger_at_smaller_sizes_are_refused():
    text = "dynamic { x: f32[T]; g: f32[A]; rest: f32[T - A]; } block entry { op neg(rest) >> y; return y, x, g; }"
    with pytest.raises(SynthesisError, match="`T-A` is larger at smaller sizes: up to 6, not 3"):
        synthesised(text, {}, {"T": 3, "A": 2}, {"T": 6, "A": 3})


def test_declared_extents_that_are_largest_between_the_ends_of_a_size_are_refused():
    text = "dynamic { x: f32[T]; rest: f32[10*T - T*T]; } block entry { op neg(rest) >> y; return y, x; }"
    with pytest.raises(SynthesisError, match=r"`10\*T-T\*T` is larger at smaller sizes: up to 25, not 0"):
        synthesised(text, {}, {"T": 3}, {"T": 10})


@pytest.mark.parametrize(
    ("statements", "ops"),
    [
        ("op matmul(x, w) >> h; op relu(h) >> h; op mul(h, x) >> y;", ["matmul+relu+mul"]),
        ("op matmul(x, w) >> h; op relu(h) >> h with { fuse = false }; op neg(h) >> y;", ["matmul", "relu", "neg"]),
        ("op matmul(x, w) >> h; op softmax(h, axis=-1) >> y;", ["matmul", "softmax"]),
    ],
)
def test_elementwise_operators_are_evaluated_where_a_product_of_such_sizes_is_stored(statements, ops):
    text = f"dynamic {{ x: f32[T, D]; }} constant {{ w: f32[D, D]; }} block entry {{ {statements} return y; }}"

    _, _, synthesis = made(text)

    steps = synthesis.plan.procedures[-1].steps
    assert [step.op for step in steps if isinstance(step, ComputeStep)] == ops


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_caller_gives_the_size_of_each_step(compiler):
    text = """
    dynamic { x: f32[T]; }
    volatile { total: f32; }
    persistent { sum: f32; }
    block entry {
      op sum_axis(x, axes=[0]) >> s;
      cache.read sum >> old;
      op add(s, old) >> total;
      cache.write total >> sum;
      op neg(x) >> y;
      return total, y;
    }
    """
    main = """
    #include "model.h"
    #include <stdio.h>
    static struct model instance;
    int main(void) {
        static const float x[MODEL_EXTENT_T_MOST] = {1.0f, 2.0f, 4.0f, 8.0f};
        const size_t sizes[] = {2, 4, 0, 5, 1};
        float y[MODEL_OUTPUT_Y_BYTES / sizeof(float)], total = 0.0f;
        size_t step, shape[1];
        if (model_init(&instance) != MODEL_OK) { return 1; }
        for (step = 0; step < 5; ++step) {
            const struct model_inputs inputs = {.v_x = x, .extent_T = sizes[step]};
            const struct model_outputs outputs = {.v_total = &total, .v_y = y, .shape_y = shape};
            const enum model_status status = model_step(&instance, &inputs, &outputs);
            printf("%d %g %d; ", status == MODEL_LIMIT, total, (int)shape[0]);
        }
        return 0;
    }
    """
    _, _, synthesis = synthesised(text, sizes={"T": 2}, limits={"T": 4})
    assert printed_by(main, synthesis.bundle, compiler) == "0 3 2; 0 18 4; 0 18 0; 1 18 0; 0 19 1; "


@pytest.mark.parametrize(
    ("place", "printed"),
    [
        ("select(x, axis=0, index=T-1)", "0 0; 1 1; 1 5; 1 9; "),
        ("select(x, axis=0, index=-1)", "0 0; 1 1; 1 5; 1 9; "),
        ("select(x, axis=0, index=1)", "0 0; 0 0; 1 5; 1 5; "),
        ("narrow(x, axis=0, start=-2, length=2)", "0 0; 0 0; 1 1; 1 5; "),
    ],
)
def test_a_step_with_too_few_rows_has_too_few_places(place, printed):
    main = """
    #include "model.h"
    #include <stdio.h>
    static struct model instance;
    int main(void) {
        static const float x[MODEL_EXTENT_T_MOST * 4] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f, 9.0f};
        size_t rows;
        if (model_init(&instance) != MODEL_OK) { return 1; }
        for (rows = 0; rows < 4; ++rows) {
            float y[8] = {0.0f};
            const struct model_inputs inputs = {.v_x = x, .extent_T = rows};
            const struct model_outputs outputs = {.v_y = y};
            const enum model_status status = model_step(&instance, &inputs, &outputs);
            printf("%d %g; ", status == MODEL_OK, y[0]);
        }
        return 0;
    }
    """
    _, _, synthesis = made(f"dynamic {{ x: f32[T, D]; }} block entry {{ op {place} >> y; return y; }}")
    assert printed_by(main, synthesis.bundle, "gcc") == printed


def test_the_program_around_it_takes_sizes_from_files_and_refuses_those_that_do_not_fit():
    text = """
    dynamic { x: f32[T, 2]; z: f32[2 * T]; }
    volatile { y: f32[T, 2]; }
    block entry { op reshape(z, shape=[T, 2]) >> h; op add(x, h) >> y; return y; }
    """
    _, _, synthesis = synthesised(text, sizes={"T": 2}, limits={"T": 4})
    x, z = noise(3, 2), noise(6, seed=1)

    assert np.array_equal(run_sanitised(synthesis, {"x": x, "z": z})["y"], x + z.reshape(3, 2))
    with pytest.raises(SynthesisError, match="input z: its shape does not fit the sizes of the step"):
        run_sanitised(synthesis, {"x": x, "z": z[:4]})
    with pytest.raises(SynthesisError, match=r"input 'x' is float32\[5, 2\], expected f32\[4, 2\]"):
        run_sanitised(synthesis, {"x": noise(5, 2), "z": z})


@pytest.mark.parametrize(
    ("declared", "limits", "message"),
    [
        ("constant { w: f32[T]; }", {"T": 8}, "size `T` is the same in every step, since `w` has it"),
        ("persistent { s: f32[T]; }", {"T": 8}, "size `T` is the same in every step, since `s` has it"),
        ("", {"D": 8}, "size `D` is the same in every step, since no dynamic variable has it as an extent of its own"),
        ("", {"T": 0}, "limit 'T' is 0, expected 1 or more"),
        (
            "persistent { K(T): f32[] @table; }",
            {"T": 8},
            "limit 'T' is about a size, and about the index `T` of `K`.*: K.T",
        ),
        ("volatile { z: f32[8 / T]; }", {"T": 8}, "`8/T` divides by a size that differs from step to step"),
    ],
    ids=["a constant", "a persistent variable", "no input", "not positive", "an index too", "a divisor"],
)
def test_limits_of_sizes_that_cannot_be_followed_are_errors_that_say_why(declared, limits, message):
    use = "op slice(x, axes=[0], starts=[0], ends=[1]) >> z;" if "8 / T" in declared else ""
    text = f"""
    dynamic {{ x: f32[T]; }}
    {declared}
    volatile {{ y: f32[T]; }}
    block entry {{ op neg(x) >> y; {use} return y; }}
    """
    with pytest.raises(SynthesisError, match=message):
        synthesised(text, {"w": noise(4)} if "w: f32" in declared else {}, {"T": 4, "D": 2}, limits)


def test_device_c_takes_limits_of_sizes_that_each_step_gives_by_its_inputs():
    model, program, _ = made(PROGRAMS["prefill into a cache"])
    limits = {"T": LIMIT, "t": 3 * LIMIT}
    with (
        Simulator(model, program, device="cpu").make_executor() as expected,
        Simulator(model, program, device="c", limits=limits).make_executor() as found,
    ):
        for step, rows in enumerate((4, 1, 7)):
            x = noise(rows, 4, seed=step)
            for executor in (expected, found):
                executor.step(x=x)
            assert np.allclose(expected.outputs()["y"], found.outputs()["y"], 1e-5, 1e-6)


def test_rows_are_shared_out_where_their_elements_have_as_many_parts():
    """The other dim is a quotient of the size, which divides places."""
    text = "dynamic { x: f32[B, 6]; } block entry { op reshape(x, shape=[4, -1]) >> y; return y; }"
    _, _, synthesis = synthesised(text, sizes={"B": 2}, limits={"B": 8})

    for rows in (2, 8):
        x = noise(rows, 6, seed=rows)
        found = run_sanitised(synthesis, {"x": x})["y"]
        assert np.array_equal(found, x.reshape(4, rows * 6 // 4))
    with pytest.raises(SynthesisError, match="known at run time only do not fit"):
        synthesis.run({"x": noise(3, 6)})


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_usage_of_a_program_has_extents_as_the_program_does(tmp_path: Path) -> None:
    _, _, synthesis = synthesised(
        PROGRAMS["other sizes that depend on it"], sizes={"T": 3, "D": 4}, limits={"T": LIMIT}
    )
    directory = synthesis.emit(tmp_path / "out")
    subprocess.run(["make"], cwd=directory, check=True, capture_output=True)

    listed = subprocess.run([directory / "model", "--help"], check=True, capture_output=True, text=True).stdout

    assert listed.endswith("  input  x: f32[T,4], at most f32[16,4]\n  output y: f32[2*T,2], at most f32[32,2]\n")
