"""The names of a program, what they mean, and renaming them; also while the program is broken."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dsl import graph
from openinfer.editors.outline import Definition, Outline, Role, Sort
from openinfer.editors.places import Places
from openinfer.editors.reading import outline_of
from openinfer.editors.rename import RenameError, renamed
from openinfer.model import Model

GOLDEN = Path(__file__).parents[1] / "golden" / "draw"


def marked(text: str) -> tuple[str, int]:
    """The text without its ``^``, and the offset of that."""
    return text.replace("^", "", 1), text.index("^")


def meaning(text: str) -> Definition | None:
    """What the name at the ``^`` of a text means."""
    plain, offset = marked(text)
    outline = outline_of(plain)
    occurrence = outline.at(offset)
    return None if occurrence is None else outline.definition(occurrence)


def sort_of(text: str) -> Sort:
    """Return the sort of what that name means."""
    found = meaning(text)
    assert found is not None
    return found.sort


def role(text: str) -> Role | None:
    plain, offset = marked(text)
    occurrence = outline_of(plain).at(offset)
    return None if occurrence is None else occurrence.role


def rename(text: str, name: str, model: Model | None = None) -> str:
    plain, offset = marked(text)
    outline = outline_of(plain)
    occurrence = outline.at(offset)
    assert occurrence is not None
    for edit in reversed(renamed(outline, occurrence, name, model)):
        plain = plain[: edit.start] + edit.text + plain[edit.end :]
    return plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dynamic { ^x: f32; }", Role.VALUE),
        ("dynamic { x: ^f32; }", Role.DTYPE),
        ("dynamic { x: f32[3*^B]; }", Role.SIZE),
        ("dynamic { x: f32 @^init(0.0); }", Role.ATTRIBUTE),
        ('volatile { W(^l): f32 @pattern("W.{l}"); }', Role.FORMAL),
        ('volatile { W(l): f32 @pattern("W.{^l}"); }', Role.FORMAL),
        ("persistent { K(l): f32 @table @fixed(^l=3); }", Role.FORMAL),
        ("constant { g: f32 pattern(^x); }", None),
        ("block ^b { }", Role.BLOCK),
        ("block b { op ^relu(x) >> y; }", Role.OP),
        ("block b { op relu(^x) >> y; }", Role.VALUE),
        ("block b { op relu(x, ^alpha=1.0) >> y; }", Role.SETTING),
        ("block b { op relu(x, alpha=^a) >> y; }", Role.VALUE),
        ("block b { op cast(x, to=^i8) >> y; }", Role.DTYPE),
        ("block b { op relu(x) >> ^y; }", Role.VALUE),
        ("block b { op relu(x) >> y with { ^fuse = true }; }", Role.HINT),
        ("block b { loop ^l (i in 0..n) { } }", Role.LOOP),
        ("block b { loop l (i in 0..^n) { } }", Role.VALUE),
        ("block b { branch ^c d e; }", Role.VALUE),
        ("block b { branch c ^d e; }", Role.BLOCK),
        ("block b { branch ^d; }", Role.BLOCK),
        ("block b { cache.read ^K[l] >> y; }", Role.VALUE),
        ("block b { dep after(^f) before(cache.write); }", Role.TARGET),
        ("block b { return ^x; }", Role.VALUE),
        ("block b { ^return x; }", None),
        ("block b { /* ^x */ }", None),
    ],
)
def test_the_role_of_a_name(text: str, expected: Role | None) -> None:
    assert role(text) == expected


def test_a_temporary_is_known_in_every_block() -> None:
    found = meaning("block entry { assign t: f32; } block b { op relu(x) >> ^t; }")

    assert found is not None
    assert (found.sort, found.section, found.text) == (Sort.TEMPORARY, "entry", "assign t: f32;")


def test_an_index_hides_a_variable_inside_its_loop_only() -> None:
    text = "dynamic { i: i32; } block b { loop l (i in 0..%s) { op f(%s) >> y; } op f(%s) >> y; }"

    assert sort_of(text % ("^i", "i", "i")) is Sort.VARIABLE
    assert sort_of(text % ("i", "^i", "i")) is Sort.INDEX
    assert sort_of(text % ("i", "i", "^i")) is Sort.VARIABLE


def test_the_innermost_of_two_indices_of_one_name_is_meant() -> None:
    text = "block b { loop outer (i in 0..2) { loop inner (i in 0..3) { op f(W[^i]) >> y; } } }"
    found = meaning(text)

    assert found is not None
    assert found.text == "loop inner (i in 0..3)"


def test_a_formal_means_the_count_inside_the_brackets_of_its_auto_dim_variable() -> None:
    text = "persistent { A(i): f32[D] @auto_dim(i); K(i): f32 @table; } block b { cache.read %s >> y; }"
    found = meaning(text % "A[0..D+^i]")

    assert found is not None
    assert (found.sort, found.owner) == (Sort.FORMAL, "A")
    assert meaning(text % "K[^i]") is None


def test_a_size_of_the_model_is_not_defined_by_the_text() -> None:
    assert meaning("dynamic { x: f32[^B]; }") is None


def test_a_declaration_keeps_its_text_on_one_line_without_comments() -> None:
    found = meaning("volatile {\n ^x // the state\n  : f32[B]\n  @init(1.0);\n}")

    assert found is not None
    assert (found.section, found.text) == ("volatile", "x : f32[B] @init(1.0);")


def test_names_are_known_before_and_after_a_mistake() -> None:
    text = 'dynamic { x f32; y: f32; } block b { op relu(y >> ; op add(x, "open) >> z;\n loop (; op f(^y) >> y; } '

    assert meaning(text) is not None


def test_a_section_after_a_forgotten_end_is_known() -> None:
    assert sort_of("block a {\n  loop l (i in 0..2) {\n    return;\n\nblock b {\n  branch ^b;\n}\n") is Sort.BLOCK


def test_a_loop_without_a_body_is_known() -> None:
    assert sort_of("block b { loop ^l (i in 0..2); return; }") is Sort.LOOP


def test_a_block_may_be_called_with() -> None:
    assert sort_of("block with { op f(^x) >> x; }") is Sort.TEMPORARY


# Rename


def test_a_variable_is_renamed_wherever_it_is_meant() -> None:
    text = "dynamic { ^x: f32; } block entry { op x(x, x=x) >> y; branch x x x; return x; } block x { yield x; }"

    assert rename(text, "z") == (
        "dynamic { z: f32; } block entry { op x(z, x=z) >> y; branch z x x; return z; } block x { yield z; }"
    )


def test_a_block_is_renamed_without_the_variable_of_that_name() -> None:
    text = "dynamic { b: bool; } block entry { branch b ^b c; dep after(b) before(b); } block b { } block c { }"

    assert rename(text, "d").startswith("dynamic { b: bool; } block entry { branch b d c;")


def test_an_index_is_renamed_in_its_loop() -> None:
    text = "block b { loop l (^i in 0..n) { op f(W[i+1], i) >> y; } loop l (i in 0..n) { op f(W[i]) >> y; } }"

    assert rename(text, "k") == (
        "block b { loop l (k in 0..n) { op f(W[k+1], k) >> y; } loop l (i in 0..n) { op f(W[i]) >> y; } }"
    )


def test_a_formal_is_renamed_in_pattern_and_attributes() -> None:
    text = 'volatile { W(l, ^h): f32 @pattern("a.{h}.{l}.h"); } block b { loop l (h in 0..2) { op f(W[h,h]) >> y; } }'

    assert rename(text, "head") == (
        'volatile { W(l, head): f32 @pattern("a.{head}.{l}.h"); } block b { loop l (h in 0..2) { op f(W[h,h]) >> y; } }'
    )
    assert rename("persistent { K(^l, t): f32 @table @fixed(l=3) ; }", "m") == (
        "persistent { K(m, t): f32 @table @fixed(m=3) ; }"
    )


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("dynamic { ^x: f32; y: f32; }", "y", "is taken"),
        ("dynamic { ^x: f32[B]; }", "B", "is taken"),
        ("block b { loop l (^i in 0..n) { } }", "n", "is taken"),
        ("block ^b { } block c { }", "c", "is taken"),
        ("block ^entry { }", "main", "starts in the block"),
        ("dynamic { x: f32[^B]; }", "C", "does not define it"),
        ("block b { op ^relu(x) >> y; }", "gelu", "does not define it"),
        ("dynamic { ^x: f32; }", "1x", "is not a name"),
        ("dynamic { ^x: f32; }", "nan", "is not a name"),
        ("dynamic { ^x: f32; }", "a b", "is not a name"),
    ],
)
def test_a_rename_that_would_change_the_meaning_is_refused(text: str, name: str, message: str) -> None:
    with pytest.raises(RenameError, match=message):
        rename(text, name)


def test_a_variable_that_the_model_names_keeps_its_data() -> None:
    model = Model.from_arrays({"w": np.zeros(2, np.float32)}, metadata={"eps": 0.5})

    assert rename("volatile { ^w: f32[2] @init(0.0) /* weights */; }", "v", model) == (
        'volatile { v: f32[2] @init(0.0) @ref("w") /* weights */; }'
    )
    assert rename("constant { ^eps: f32; }", "e", model) == 'constant { e: f32 @ref("eps"); }'
    assert rename('volatile { ^w: f32[2] @ref("w"); }', "v", model) == 'volatile { v: f32[2] @ref("w"); }'
    assert rename("dynamic { ^w: f32[2]; }", "v", model) == "dynamic { v: f32[2]; }"


def definitions(outline: Outline) -> list[Definition]:
    return [d for d in outline.definitions if d.name != "entry"]


@pytest.mark.parametrize("name", ["control", "decode"])
def test_renaming_there_and_back_is_nothing_and_the_renamed_program_parses(name: str) -> None:
    text = (GOLDEN / f"{name}.oi").read_text(encoding="utf-8")
    for place in range(len(definitions(outline_of(text)))):
        definition = definitions(outline_of(text))[place]
        cursor = text[: definition.start] + "^" + text[definition.start :]
        there = rename(cursor, "renamed_1")
        back = definitions(outline_of(there))[place]

        assert len(graph(there).blocks) == len(graph(text).blocks)
        assert rename(there[: back.start] + "^" + there[back.start :], definition.name) == text


@given(st.text(alphabet=st.sampled_from('op loop{}()[];:="/*\\@.>- ab1\n'), max_size=80), st.integers(0, 80))
def test_any_text_has_an_outline_in_order(text: str, offset: int) -> None:
    outline = outline_of(text)
    ends = [(occurrence.start, occurrence.end) for occurrence in outline.occurrences]

    assert all(one[1] <= other[0] for one, other in pairwise(ends))
    assert all(text[o.start : o.end] == o.name for o in outline.occurrences)
    outline.segment_at(min(offset, len(text)))


def test_time_grows_with_the_text_and_not_faster() -> None:
    def seconds(count: int) -> float:
        loops = "loop l (i in 0..2) { loop m (i in 0..i) { op f(W[i], x) >> y; } }\n" * count
        start = time.process_time()
        outline = outline_of(f"dynamic {{ x: f32; }} block entry {{ {loops} }}")
        for definition in (outline.definitions[0], outline.definitions[-1]):
            assert outline.uses(definition)
        return time.process_time() - start

    seconds(100)

    assert seconds(4000) < 8 * 4 * seconds(500) + 0.5


# Lines and columns


@given(st.text(alphabet=st.sampled_from("aé😀\n\r\u2028"), max_size=20), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_places_there_and_back(text: str, encoding: str) -> None:
    places = Places(text, encoding)
    for offset in range(len(text) + 1):
        inside_line_end = text[offset - 1 : offset + 1] == "\r\n"
        if not inside_line_end:
            assert places.offset(*places.position(offset)) == offset


def test_columns_count_units_of_the_encoding() -> None:
    text = "a😀b\r\nc"

    assert Places(text, "utf-16").position(2) == (0, 3)
    assert Places(text, "utf-8").position(2) == (0, 5)
    assert Places(text, "utf-32").position(2) == (0, 2)
    assert Places(text).position(5) == (1, 0)
    assert Places(text).offset(0, 99) == 3
    assert Places(text).offset(9, 0) == len(text)
