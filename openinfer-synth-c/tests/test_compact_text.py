"""Functions on vectors have short names in a source, and the functions of steps narrow indentation."""

import re

import numpy as np

from openinfer import Model, Synthesizer, graph
from openinfer_synth_c.compact_text import named_definitions, narrow, short_names, with_names

DEFINITIONS = {
    "oi_f32x8": "typedef float oi_f32x8;",
    "oi_add_lt_select_62b1bf0b_f32x8": "oi_f32x8 oi_add_lt_select_62b1bf0b_f32x8(oi_f32x8 a);",
    "oi_add_lt_select_00000001_f32x8": "oi_f32x8 oi_add_lt_select_00000001_f32x8(oi_f32x8 a);",
    "oi_load_u8x16": "oi_load_u8x16(oi_load)",
    "oi_load": "oi_load()",
}
PROGRAM = """
dynamic { x: f32[64, 32]; }
constant { w: f32[32, 64]; b: f32[64]; }
volatile { y: f32[64, 64]; }
block entry { op linear(x, w, b) >> y; op relu(y) >> y; return y; }
"""


def test_formulas_are_numbered_and_vectors_have_no_prefix() -> None:
    assert short_names(DEFINITIONS) == {
        "oi_f32x8": "f32x8",
        "oi_add_lt_select_62b1bf0b_f32x8": "formula1_f32x8",
        "oi_add_lt_select_00000001_f32x8": "formula2_f32x8",
        "oi_load_u8x16": "load_u8x16",
    }


def test_only_whole_names_change() -> None:
    names = {"oi_load_u8x16": "load_u8x16"}
    assert with_names(["oi_load_u8x16(oi_load_u8x16_t, my_oi_load_u8x16)"], names) == (
        "load_u8x16(oi_load_u8x16_t, my_oi_load_u8x16)",
    )


def test_a_formula_says_which_functions_are_in_it() -> None:
    texts = named_definitions(DEFINITIONS, short_names(DEFINITIONS))
    assert texts[0] == "typedef float f32x8;"
    assert texts[1] == "/* add_lt_select */\nf32x8 formula1_f32x8(f32x8 a);"
    assert texts[4] == "oi_load()"


def test_indentation_is_halved_and_the_rest_stays() -> None:
    assert narrow(["    a;", "        b  c;", "", "d;"]) == ("  a;", "    b  c;", "", "d;")


def test_a_source_defines_every_name_of_a_vector_function_that_it_uses() -> None:
    w, b = np.ones((32, 64), np.float32), np.ones(64, np.float32)
    source = Synthesizer("c", arch="generic").synthesize(Model.from_arrays({"w": w, "b": b}), graph(PROGRAM))
    text = source.bundle.files["model.c"].decode()
    assert not re.findall(r"\boi_\w+x\d+\b", text)
    called = set(re.findall(r"\b([a-z]\w*_[a-z]\d+x\d+)\(", text))
    defined = set(re.findall(r"^VECTOR_FUNCTION .*?(\w+_[a-z]\d+x\d+)\(", text, re.MULTILINE))
    assert "formula1_f32x4" in called
    assert called <= defined | set(re.findall(r"^\w+ .*?\b(\w+_[a-z]\d+x\d+)\(.*\)$", text, re.MULTILINE))
