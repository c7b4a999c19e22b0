"""Statements that repeat with other constants, as short loops that compilers unroll."""

from __future__ import annotations

import re

import pytest

from openinfer_synth_c.repeated_statements import DEFINITION, definition, with_loops

TOTALS = [
    "    f32x4 total0, total1, total2, total3, total4, total5, total6,",
    "        total7;",
    "    total0 = total1 = total2 = total3 = total4 = total5 = total6 = total7 =",
    "        oi_splat_f32x4(0x0p+0f);",
]
LOOP = re.compile(r"\s*UNROLLED for \(ptrdiff_t n = 0; n < (\d+); \+\+n\) \{(?: (.*) \})?")


def looped(lines, helpers=(), *, has_vector_types=True):
    return with_loops(lines, helpers, has_vector_types=has_vector_types)


def unrolled(lines):
    """Return the statements that lines carry out, in their order, with the numbers of elements instead of sums."""
    found, rest = [], list(lines)
    while rest:
        line = rest.pop(0)
        loop = LOOP.fullmatch(line)
        if loop is None:
            found.append(line.strip())
            continue
        body = [loop[2]] if loop[2] else [rest.pop(0) for _ in range(next(n for n, x in enumerate(rest) if "}" in x))]
        rest = rest if loop[2] else rest[1:]
        for number in range(int(loop[1])):
            found += [re.sub(r"\bn\b", str(number), text.strip()) for text in body]
    return [summed(text) for text in found]


def summed(text):
    text = re.sub(r"(\d+) \* (\d+)", lambda found: str(int(found[1]) * int(found[2])), text)
    text = re.sub(r"\b(\d+) \+ (\d+)", lambda found: str(int(found[1]) + int(found[2])), text)
    text = re.sub(r"total(\d+)\[(\d+)\]", lambda found: f"total{int(found[1]) + int(found[2])}", text)
    return text.replace(" + 0", "")


def tile(pixels=4, first=0):
    """Return the sums of a tile of pixels by two vectors, as schedules write them."""
    lines = ["    const f32x4 x10 = oi_load_f32x4(p1);", "    const f32x4 x11 = oi_load_f32x4(p1 + 4);"]
    for pixel in range(pixels):
        at = f"p2 + {first + 24 * pixel}" if first + pixel else "p2"
        lines += [
            f"    const f32x4 x0{pixel} = oi_load_f32x4({at});",
            f"    oi_mac_f32x4(&total{2 * pixel}, x0{pixel}, x10);",
            f"    oi_mac_f32x4(&total{2 * pixel + 1}, x0{pixel}, x11);",
        ]
    return lines


def test_statements_that_count_up_are_a_loop_and_their_totals_an_array():
    stores = [f"    oi_store_f32x4(y0 + {16 * n}, oi_add_f32x4(total{n}, x10));".replace(" + 0", "") for n in range(8)]

    assert looped([*TOTALS, *tile(), *stores]) == [
        "    f32x4 total0[8] = {0};",
        "    UNROLLED for (ptrdiff_t n = 0; n < 8; ++n) { total0[n] = oi_splat_f32x4(0x0p+0f); }",
        "    const f32x4 x10 = oi_load_f32x4(p1);",
        "    const f32x4 x11 = oi_load_f32x4(p1 + 4);",
        "    UNROLLED for (ptrdiff_t n = 0; n < 4; ++n) {",
        "        const f32x4 x00 = oi_load_f32x4(p2 + 24 * n);",
        "        oi_mac_f32x4(&total0[2 * n], x00, x10);",
        "        oi_mac_f32x4(&total0[2 * n + 1], x00, x11);",
        "    }",
        "    UNROLLED for (ptrdiff_t n = 0; n < 8; ++n) { oi_store_f32x4(y0 + 16 * n, oi_add_f32x4(total0[n], x10)); }",
    ]


@pytest.mark.parametrize("first", [0, 7])
def test_the_loops_carry_out_the_statements_in_their_order(first):
    lines = [*TOTALS, *tile(first=first)]
    repeated = looped(lines)

    def names_by_pixel(texts):
        # A loop declares the constant of each iteration under the name of the first.
        return [re.sub(r"x0\d", "x0", text) for text in texts]

    assert len(repeated) < len(lines)
    assert names_by_pixel(unrolled(repeated[2:])) == names_by_pixel(summed(line.strip()) for line in lines[4:])


def test_few_statements_stay():
    lines = [*TOTALS, *tile(pixels=2)]

    assert looped(lines) == lines
    assert definition(looped(lines)) == ""
    assert definition(looped([*TOTALS, *tile()])) == DEFINITION


def test_statements_that_count_in_unequal_steps_stay():
    lines = [f"    oi_store_f32x4(y0 + {n * n}, oi_splat_f32x4(x0[{n * n * n}]));" for n in range(1, 9)]

    assert looped(lines) == lines


def test_numbers_that_are_factors_stay():
    lines = [f"    oi_store_f32x4(y0 + {n} * i2, oi_load_f32x4(x0 + {n} * i2));" for n in range(1, 9)]

    assert looped(lines) == lines


def test_a_constant_that_later_statements_use_keeps_its_iteration_out_of_the_loop():
    lines = [TOTALS[0], "        total7, total8, total9;", *tile(pixels=5), "    oi_store_f32x4(y0, x04);"]

    found = looped(lines)

    assert "    UNROLLED for (ptrdiff_t n = 0; n < 4; ++n) {" in found
    assert found[-4:] == [
        "    const f32x4 x04 = oi_load_f32x4(p2 + 96);",
        "    oi_mac_f32x4(&total0[8], x04, x10);",
        "    oi_mac_f32x4(&total0[9], x04, x11);",
        "    oi_store_f32x4(y0, x04);",
    ]


@pytest.mark.parametrize(
    "value", ["i2 + {n} < 9 ? x0[{n}] : 0x0p+0f", "oi_minimum_f32(x0[{n}], x1[{n}])", "i2 < 9 && x0[{n}]"]
)
def test_conditions_are_not_repeated(value):
    lines = [f"    oi_store_f32x4(y0 + {n}, oi_splat_f32x4({value.replace('{n}', str(n))}));" for n in range(8)]

    assert looped(lines, ["oi_minimum_f32"]) == lines


def test_totals_that_plain_c_adds_to_under_a_condition_are_no_array():
    lines = [*TOTALS, "    if (i2 < 9) {", *(f"    {line}" for line in tile()), "    }"]

    assert looped(lines, has_vector_types=False) == lines
    assert looped(lines, has_vector_types=True)[0] == "    f32x4 total0[8] = {0};"


def test_totals_of_plain_c_that_neighbours_use_under_other_indices_are_no_array():
    sums = [f"    oi_mac_f32x4(&total{n}, x10, oi_load_f32x4(p2 + {16 * n}));" for n in range(8)]
    lines = [*TOTALS, *sums, "    oi_mac_f32x4(&total3, x11, x12);"]

    assert looped(lines, has_vector_types=False) == lines
    assert looped(lines, has_vector_types=True)[-1] == "    oi_mac_f32x4(&total0[3], x11, x12);"


def test_totals_that_plain_c_assigns_to_for_themselves_are_no_array():
    lines = [*TOTALS, *(f"    total{n} = oi_add_f32x4(total{n}, oi_load_f32x4(p2 + {4 * n}));" for n in range(8))]

    assert looped(lines, has_vector_types=False) == lines
    assert looped(lines, has_vector_types=True)[0] == "    f32x4 total0[8] = {0};"


def test_some_totals_of_an_array_are_assigned_to_as_elements():
    found = looped([*TOTALS, *tile(), "    total5 = total6 = oi_add_f32x4(total0, total7);"])

    assert found[-1] == "    total0[5] = total0[6] = oi_add_f32x4(total0[0], total0[7]);"


def test_totals_of_two_declarations_are_two_arrays():
    other = [re.sub(r"total(\d)", r"total1\1", re.sub(r"\bx0(\d)", r"x5\1", line)) for line in [*TOTALS, *tile()[2:]]]

    found = looped([*TOTALS, *tile(), *other])

    assert [line.strip() for line in found if "= {0};" in line] == ["f32x4 total0[8] = {0};", "f32x4 total10[8] = {0};"]
    assert "        oi_mac_f32x4(&total10[2 * n + 1], x50, x11);" in found


def test_totals_and_numbers_are_different():
    lines = [*TOTALS, *(f"    store_f32x4(y0 + {4 * n}, f({'5' if n == 20 else 'total5'}));" for n in range(40))]

    found = looped(lines)

    assert len(found) < len(lines)
    assert unrolled(found) == [summed(line.strip()) for line in lines]


def test_more_totals_than_compilers_unroll_are_no_array():
    names = [f"total{n}" for n in range(72)]
    lines = [
        f"    f32x4 {', '.join(names)};",
        *(f"    store_f32x4(y0 + {4 * n}, {name});" for n, name in enumerate(names)),
    ]

    assert looped(lines) == lines
