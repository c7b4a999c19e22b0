"""Loops of long functions become functions of their own, with what they use as parameters."""

from __future__ import annotations

from itertools import count

import pytest

import openinfer as oi
from openinfer import programs
from openinfer.synth import Synthesizer
from openinfer_synth_c.function_parts import MOST_LINES, in_parts


def indented(lines):
    return [f"    {line}" for line in lines]


def loop(counter, body):
    return [f"ROLLED for (ptrdiff_t {counter} = 0; {counter} < 9; ++{counter}) {{", *indented(body), "}"]


def stores(array, length, index="i"):
    return [f"{array}[{index} + {number}] = 0;" for number in range(length)]


def split(lines, parameters=("x0", "y0")):
    numbers = count(1)
    return in_parts(indented(lines), parameters, lambda: f"k_part_{next(numbers)}")


def test_a_short_function_stays_as_it_is():
    lines = loop("i", stores("y0", MOST_LINES - 2))

    assert split(lines) == (tuple(indented(lines)), ())


def test_the_longest_loop_that_is_short_enough_is_moved_with_what_it_uses():
    longest = loop("i", stores("y0", 150))
    lines = loop("n_step", [*loop("j", stores("x0", 60, "j + n_step")), *longest])

    left, (part,) = split(lines)

    assert part.names == ("y0",)
    assert part.lines == tuple(indented(longest))
    assert left[-2:] == ("        k_part_1(y0);", "    }")
    assert len(left) == len(lines) - 151


def test_counters_and_places_around_a_loop_are_handed_over():
    inner = loop("i", stores("y0", 190, "i + n_within0 + n_step"))
    lines = loop("n_step", ["const ptrdiff_t n_within0 = n_step - 1;", *inner, *stores("x0", 20, "n_step")])

    _, (part,) = split(lines)

    assert part.names == ("y0", "n_step", "n_within0")


def test_a_loop_that_may_leave_the_step_stays():
    lines = loop("i", ["POLL", *stores("y0", MOST_LINES)]) + loop("i", ["POLL", *stores("y0", 20)])

    assert split(lines) == (tuple(indented(lines)), ())


def test_digits_of_a_number_are_no_name():
    other = loop("i", ["y0[i] = x1[i];", *stores("y0", 10)])
    lines = [*other, *loop("i", ["y0[i] = 0x1p+0f;", *stores("y0", 190)])]

    _, (part,) = split(lines, ("x1", "y0"))

    assert part.names == ("y0",)


def test_a_name_of_another_scope_is_another_variable():
    lines = [*loop("j", ["int32_t total0 = 0;", *stores("x0", 20)]), "if (y0 == x0) {", "    int32_t total0 = 1;"]
    lines += ["} else {", *indented(loop("i", ["int32_t total0 = 0;", *stores("y0", 190)])), "}"]

    _, (part,) = split(lines)

    assert part.names == ("y0",)


@pytest.mark.parametrize(
    "declared",
    [
        "int32_t total0 = 0;",
        "int32_t total0[8] = {0};",
        "f32x4 total1, total0;",
        "const float *const total0 = x0 + 4;",
        "float total0[4];",
    ],
)
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_loop_that_uses_a_variable_of_the_function_is_not_moved(declared, is_inside):
    lines = [declared, *loop("i", ["total0 = y0[i];", *stores("y0", 190)]), *stores("x0", 20, "1")]
    lines = loop("j", lines) if is_inside else lines

    assert split(lines) == (tuple(indented(lines)), ())


@pytest.mark.parametrize(
    "text", ["if (x0[i] < 0) { return MODEL_INDEX; }", "float *const b_sums = (float *)(void *)(scratch + 64);"]
)
def test_a_loop_that_returns_or_works_in_memory_of_the_function_is_not_moved(text):
    lines = [*loop("i", [text, *stores("y0", 190)]), *stores("x0", 20, "1")]

    assert split(lines) == (tuple(indented(lines)), ())


def test_parts_call_parts():
    """Once the longest loop is out of it, the one around it is short enough, too."""
    lines = [*loop("j", [*loop("i", stores("y0", 150)), *stores("x0", 100, "j")]), *stores("x0", 150, "1")]

    left, (first, second) = split(lines)

    assert "        k_part_1(y0);" in second.lines
    assert left[0] == "    k_part_2(x0, y0);"
    assert max(map(len, (left, first.lines, second.lines))) <= MOST_LINES


def test_no_function_of_a_layer_of_bytes_has_more_than_200_lines():
    """The first layer of a network that finds words: rows of a window that reach over borders, each written out."""
    program = """
    dynamic { x: i8[1, 1, 49, 10]; }
    constant { k: i8[64, 1, 10, 4] @init(3); m: f32 @init(0.0125); one: f32 @init(1.0); five: i8 @init(5); }
    volatile { y: i8[1, 64, 25, 5]; }
    block entry {
      op conv_integer(x, k, x_zero=five, padding="same_upper", stride=2) >> total;
      op cast(total, to=f32) >> number;
      op mul(number, m) >> scaled;
      op quantize_linear(scaled, one, zero_point=five) >> y;
      return y;
    }
    """
    synthesizer = Synthesizer("c", arch="cortex-m4")
    source = synthesizer.synthesize(oi.Model.from_arrays({}), programs.graph(program)).bundle.files["model.c"].decode()

    lengths = [len(text.split("\n}\n")[0].split("\n")) + 1 for text in source.split("\nKERNEL ")[1:]]

    assert "k_conv_integer_part(" in source
    assert max(lengths) <= 200
