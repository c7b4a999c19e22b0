"""Conversions of vectors that are loaded, and words of rows, are one call each."""

import pytest

from openinfer.dtypes import F32, I32, U8
from openinfer_synth_c.code import Code
from openinfer_synth_c.loop_programs.loaded_vectors import applied_to_loaded

ROWS = ["oi_load_u8x16(p1 + 16)", "oi_load_u8x16(p1 + 40)", "oi_load_u8x16(p1 + 64)"]
ZERO = "oi_splat_u8x16(0)"


def word(texts: list[str]) -> str | None:
    return applied_to_loaded(Code(has_vector_types=True), "word", (U8, U8, U8, U8), I32, 16, texts)


def test_three_rows_and_zero_are_a_call_with_their_distance() -> None:
    assert word([*ROWS, ZERO]) == "oi_rows_u8x16(p1 + 16, 24)"


@pytest.mark.parametrize(
    "texts",
    [
        [*ROWS, "oi_load_u8x16(p1 + 88)"],
        [*ROWS, "oi_splat_u8x16(1)"],
        [ROWS[0], ROWS[1], "oi_load_u8x16(p1 + 65)", ZERO],
        [ROWS[0], ROWS[1], "oi_load_u8x16(p2 + 64)", ZERO],
        [ROWS[2], ROWS[1], ROWS[0], ZERO],
        [ROWS[0], ROWS[1], "x01", ZERO],
    ],
)
def test_other_words_are_written_out(texts: list[str]) -> None:
    assert word(texts) is None


def test_a_conversion_of_loaded_elements_is_one_call() -> None:
    code = Code()
    assert applied_to_loaded(code, "cast", (U8,), F32, 4, ["oi_load_u8x4(p1 + 8)"]) == "oi_load_u8_f32x4(p1 + 8)"
    assert "oi_cast_u8_f32x4(oi_load_u8x4(p))" in code.definitions["oi_load_u8_f32x4"]


@pytest.mark.parametrize("text", ["x01", "oi_load_u8_f32x4(p1)", "oi_load_u8x4((const uint8_t *)p)"])
def test_a_conversion_of_another_value_is_not(text: str) -> None:
    assert applied_to_loaded(Code(), "cast", (F32,), I32, 4, [text]) is None
