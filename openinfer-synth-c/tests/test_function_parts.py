"""Pieces of long functions become functions of their own, with what they use as parameters."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest

import openinfer as oi
from openinfer import programs
from openinfer.model import ModelLoader
from openinfer.synth import Synthesizer
from openinfer_synth_c.function_parts import MOST_LINES, in_parts


def indented(lines):
    return [f"    {line}" for line in lines]


def loop(counter, body):
    return [f"ROLLED for (ptrdiff_t {counter} = 0; {counter} < 9; ++{counter}) {{", *indented(body), "}"]


def stores(array, length, index="i"):
    return [f"{array}[{index} + {number}] = 0;" for number in range(length)]


def split(lines, parameters=("x0", "y0"), **options):
    numbers = count(1)
    return in_parts(indented(lines), parameters, lambda: f"k_part_{next(numbers)}", **options)


def loops_of(parts):
    return [part.lines[0].strip() for part in parts if part.is_loop]


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

    left, parts = split(lines)

    assert loops_of(parts) == []
    assert sum("POLL" in line for line in left) == 2


@pytest.mark.rule("runtime.control.4")
def test_a_loop_that_ends_its_block_in_success_stays():
    """The part would return to its caller, which goes on."""
    turns = ["for (int64_t i_i = 0; i_i < 3; ++i_i) {", *indented([*calls_of(15), "return MODEL_OK;"]), "}"]

    left, parts = split([*turns, *calls_of(120)], ("model",), of_block=True)

    assert parts
    assert sum("return MODEL_OK;" in line for line in left) == 1


def test_a_loop_after_a_poll_has_a_counter():
    lines = loop("i", ["POLL", *loop("j", stores("y0", 250, "j"))])

    _, parts = split(lines)

    assert parts
    assert all("j" in part.names for part in parts)


def test_integers_that_are_no_indices_are_not_handed_over():
    """Parameters of parts have 32 bits on microcontrollers."""
    left, parts = split(["const int64_t v = x0[0];", *stores("y0", 300, "v")])

    assert parts == ()
    assert len(left) == 301


@pytest.mark.parametrize("head", ["for (size_t i = 0; i < 9; ++i) {", "for (ptrdiff_t n = 0, i = 9; n < i; ++n) {"])
def test_other_names_of_a_loop_stay_in_it(head):
    inner = loop("j", stores("y0", 20, "i + j"))
    lines = [head, *indented([*inner, *stores("y0", 190)]), "}", *loop("k", stores("y0", 20, "k"))]

    left, parts = split(lines)

    assert not any("i" in part.names or "i + " in line for part in parts for line in part.lines)
    assert sum("i + " in line for line in left) == 210


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (
            ["while (y0) {", *indented(stores("y0", 90, "1")), "    break;", *indented(stores("y0", 110, "1")), "}"],
            "break",
        ),
        (["again:", *stores("y0", 200, "1"), "goto again;"], "again"),
        (["#if X", *stores("y0", 110, "1"), "#else", *stores("y0", 110, "1"), "#endif"], "#"),
        (["int32_t a = 0, b = 1;", *stores("y0", 150, "1"), *stores("y0", 150, "b")], "b"),
        (["const int8_t t[] = {", "    1, 2,", "};", *stores("y0", 150, "1"), *stores("y0", 150, "t[1]")], "t["),
        (["int32_t a = 0; /* why */", *stores("y0", 150, "1"), *stores("y0", 150, "a")], "a + "),
    ],
)
def test_text_of_plugins_that_depends_on_its_place_stays(lines, kept):
    left, parts = split(lines)

    assert sum(kept in line for line in left) == sum(kept in line for line in lines)
    assert sum(kept in line for part in parts for line in part.lines) == 0


def test_words_of_types_are_no_names():
    """Two pointers have no name in common."""
    group = ["const float *const p{0} = x0;", *("y0[{0}] = p{0}[0];" for _ in range(120))]

    _, parts = split([line.format(number) for number in range(2) for line in group])

    assert len(parts) == 1


def test_parts_of_a_long_block_do_not_call_each_other():
    left, parts = split([*calls_of(1000), "return MODEL_OK;"], ("model",), of_block=True)

    assert len(left) + 4 <= 200
    assert not any("k_part" in line for part in parts for line in part.lines)
    assert max(len(part.lines) for part in parts) + 4 <= 200


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

    left, parts = split(lines)

    assert loops_of(parts) == []
    assert sum("total0" in line for line in left) == 2


@pytest.mark.parametrize(
    "text", ["if (x0[i] < 0) { return MODEL_INDEX; }", "float *const b_sums = (float *)(void *)(scratch + 64);"]
)
def test_a_loop_that_returns_or_works_in_memory_of_the_function_is_not_moved(text):
    lines = [*loop("i", [text, *stores("y0", 190)]), *stores("x0", 20, "1")]

    left, parts = split(lines)

    assert loops_of(parts) == []
    assert sum(text in line for line in left) == 1


def sums(number, length):
    """Return statements that use what they declare, and nothing else does."""
    return [
        f"int32_t total{number} = 0;",
        *(f"total{number} += x0[{n}];" for n in range(length)),
        f"y0[0] = total{number};",
    ]


def test_statements_that_share_no_variable_with_the_others_are_moved():
    """The more even the functions, the better."""
    groups = [sums(0, 60), sums(1, 90), sums(2, 60)]
    lines = loop("i", [line for group in groups for line in group])

    left, (part,) = split(lines)

    assert not part.is_loop
    assert part.names == ("x0", "y0")
    assert [line.strip() for line in part.lines] in (groups[0] + groups[1], groups[1])
    assert "        k_part_1(x0, y0);" in left


def test_statements_around_one_variable_stay_together():
    lines = loop("i", sums(0, 250))

    assert split(lines) == (tuple(indented(lines)), ())


def test_an_if_moves_with_its_else_and_a_list_with_its_lines():
    choice = ["if (y0 == x0) {", *indented(stores("y0", 30)), "}", "else {", *indented(stores("x0", 30)), "}"]
    listed = ["f32x4 total0, total1,", "    total2;", *stores("x0", 60), "y0[0] = total0[0] + total2[0];"]

    left, (part,) = split([*choice, *listed, *sums(3, 80)])

    assert left[-1] != "    }"
    assert sum("else" in line for line in part.lines) == sum("if (" in line for line in part.lines)
    assert sum("total2" in line for line in part.lines) in (0, 2)


def test_statements_about_the_loop_around_them_stay_in_it():
    lines = loop("i", ["ONE_BY_ONE(i);", *stores("y0", 250)])

    left, parts = split(lines)

    assert parts
    assert left[1] == "        ONE_BY_ONE(i);"


def test_an_annotation_stays_where_the_variable_is():
    lines = ["const int64_t at0 = 4;", "/*@ split at0; */", *stores("y0", 300, "at0"), "/*@ merge at0; */"]

    left, parts = split(lines, of_block=True)

    assert parts
    assert sum("/*@" in line for line in left) == 2


def calls_of(count):
    """Return the calls of a block, each with the line of the program that it is of."""
    return [line for number in range(count) for line in (f"/* line {number}: op */", f"k_add({number});")]


def test_parts_of_a_block_have_its_parameters_which_macros_use():
    parameters = ("model", "inputs", "outputs")

    left, (part,) = split([*calls_of(100), "return MODEL_OK;"], parameters, of_block=True)

    assert "    k_part_1(model, inputs, outputs);" in left
    assert part.names == parameters
    assert not part.has_status
    assert part.lines[0].startswith("    /* line ")
    assert part.lines[-1].endswith(");")
    assert left[-1] == "    return MODEL_OK;"
    assert abs(len(part.lines) - len(left)) < 10


def test_a_block_ends_with_the_status_of_its_part():
    """For an analyser, what the part writes before it succeeds is not mixed with what was there before it failed."""
    fails = ["{", "    if (model->n_m > 3) { return MODEL_INDEX + MODEL_AT(7); }", "}"] * 20

    left, (part,) = split([*fails, *calls_of(20), *fails, *fails], ("model",), of_block=True)

    assert part.has_status
    at = left.index("        const int32_t status = k_part_1(model);")
    assert [line.strip() for line in left[at + 1 : at + 4]] == [
        "/*@ split status == 0; */",
        "if (status != MODEL_OK) { return status; }",
        "/*@ merge status == 0; */",
    ]


def test_a_long_loop_of_the_program_is_a_part_with_the_counters_around_it():
    body = ["{", "    const int64_t x1_0 = i_l + i_m;", "    k_add(a_h, t_w[x1_0]);", "}"] * 40
    inner = ["{", "    const int64_t start_m = 0;", "    for (int64_t i_m = start_m; i_m < 4; ++i_m) {"]
    inner += [*indented(indented(body)), "    }", "}"]
    outer = ["for (int64_t i_l = 0; i_l < 4; ++i_l) {", *indented(inner), *indented(body[:80]), "}"]

    _, (part,) = split(outer, ("model",), of_block=True)

    assert part.names == ("model", "i_l", "start_m")
    assert part.lines[0] == "    for (int64_t i_m = start_m; i_m < 4; ++i_m) {"


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

    assert "k_conv_integer_part(" in source
    assert longer_than_200(source) == {}


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("program", "arch"),
    [
        ("char-gpt/gpt.oi", None),
        ("cnn/mobilenet-int8.oi", "rv32imc"),
        ("cnn/resnet8.oi", "rv32imc"),
    ],
)
def test_no_function_of_an_example_has_more_than_200_lines(program, arch):
    """A block with a loop over layers, groups of pixels with totals of their own."""
    path = EXAMPLES / program
    with ModelLoader.open(path.with_suffix(".oinf")) as model:
        synthesis = Synthesizer("c", arch=arch).synthesize(model, programs.graph(path), sizes=model.sizevars)

    assert longer_than_200(synthesis.bundle.files["model.c"].decode()) == {}


def longer_than_200(source):
    """Return the lines of the functions that are longer, by their names."""
    functions = re.finditer(r"^\w[^\n]*?(\w+)\([^\n]*\) \{\n.*?^\}$", source, re.MULTILINE | re.DOTALL)
    lengths = {function[1]: function[0].count("\n") + 1 for function in functions}
    assert len(lengths) > 3
    return {name: count for name, count in lengths.items() if count > 200}
