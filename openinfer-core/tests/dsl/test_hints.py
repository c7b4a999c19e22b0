"""An error names what to write instead; each mistake is reported once."""

from __future__ import annotations

import pytest

from openinfer.diagnostics import Diagnostic, Source, render
from openinfer.dsl import graph
from openinfer.dsl.parser import recover_program
from openinfer.errors import DslSyntaxError

STATEMENTS = {
    "arrow of other languages": ("op relu(x) «->» y;", "comes after `>>`"),
    "half an arrow": ("op relu(x) «>» y;", "comes after `>>`"),
    "parted arrow": ("transfer W[0] «>» > y;", "comes after `>>`"),
    "missing comma": ("op add(x «y») >> y;", "is a `,` missing?"),
    "missing comma of settings": ("op relu(x, a=1 «b»=2) >> y;", "is a `,` missing?"),
    "negative entry": ("op relu(W[«-1»]) >> y;", "count from 0"),
    "range of entries": ("op relu(W[0«..»2]) >> y;", "one entry of a prefix table"),
    "copy to an entry": ("transfer x >> W«[»0];", "entries are read-only"),
    "read to an entry": ("cache.read K >> W«[»0];", "entries are read-only"),
    "number that is none": ("op relu(x, a=«12abc») >> y;", "a name starts with a letter"),
    "suffix of an input": ("op add(x, 1«.»0f) >> y;", "a number has no suffix"),
    "exponent without digits": ("op add(x, 1«.»0e) >> y;", "a number has no suffix"),
    "suffix of a setting": ("op relu(x, a=1«.»5f) >> y;", "a number has no suffix"),
    "suffix in a list": ("op relu(x, a=[1«.»5f]) >> y;", "a number has no suffix"),
    "fraction as an index": ("op add(W[1«.»5], x) >> y;", "a whole number is expected here"),
    "fraction as a bound": ("loop l (i in 0..1«.»5) { }", "a whole number is expected here"),
    "digits missing": ("op relu(x, a=«0x») >> y;", "0xFF"),
    "point first": ("op relu(x, a=«.»5) >> y;", "`0.…`"),
    "branch": ("«if» c { }", "write `branch condition"),
    "loop": ("«for» i in 0..3 { }", "write `loop name (i in 0..n)"),
    "temporary": ("«let» t = x;", "`assign name: dtype[dims];`"),
    "call with a result": ("«y» = add(x, x);", "write `op add(…) >> y;`"),
    "call": ("«add»(x, x) >> y;", "write `op add(…) >> y;`"),
    "earlier call": ("«t0» = op add(a=x, b=x);", "`assign t0: dtype[dims];` once and `op add(…) >> t0;`"),
    "cache verb": ("«read» K[0] >> y;", "write `cache.read …;`"),
    "copy": ("«y» = x;", "`transfer source >> target;`"),
    "copy of a variable called like a verb": ("«read» = x;", "`transfer source >> target;`"),
    "semicolon after a body": ("loop l (i in 0..3) { barrier; }«;»", "write no `;` after a `}`"),
    "extents in parentheses": ("assign t: f32«(»B);", "such as `f32[B, D]`"),
    "loop without a name": ("loop «(»i in 0..3) { }", "write `loop NAME (i in …)`"),
    "amount with a word": ("cache.increment n by «2»;", "write `cache.increment 2 n;`"),
    "amount after the name": ("cache.decrement n «2»;", "write `cache.decrement 2 n;`"),
    "amount with a sign": ("cache.increment n «+»= k;", "write `cache.increment k n;`"),
    "read to nowhere": ("cache.read n«;»", "such as `>> x`"),
    "write to nowhere": ("cache.write x«;»", "such as `>> K[…]`"),
    "call to nowhere": ("op relu(x)«;»", "such as `>> x`"),
    "copy to nowhere": ("transfer x«;»", "such as `>> x`"),
    "curly quotes": ("op f(x, a=«\u201c»hi\u201d) >> y;", "straight double quotes"),
}
DECLARATIONS = {
    "comma after a declaration": ("q: f32[B]«,» r: f32[B];", "a declaration ends with `;`"),
    "comma after a scalar": ("q: f32«,» r: f32;", "a declaration ends with `;`"),
    "nothing after a declaration": ("q: f32[B] «r»: f32[B];", "a declaration ends with `;`"),
    "nothing after a scalar": ("q: f32 «r»: f32;", "a declaration ends with `;`"),
    "two names": ("q«,» r: f32;", "`q: f32[B, D];`"),
    "extents in parentheses": ("q: f32«(»B, D);", "such as `f32[B, D]`"),
    "extents without brackets": ("q: f32 «B», D;", "such as `f32[B, D]`, and attributes start with `@`"),
    "extents without a comma": ("q: f32[B «D»];", "is a `,` missing?"),
    "fraction": ("q: f32[2«.»0];", "a whole number"),
    "suffix of an initial value": ("q: f32 @init(1«.»0f);", "a number has no suffix"),
    "initial value": ("q: f32 «=» 1.0;", "`@init(…)`"),
    "no type": ("q«;»", "write its type: `q: f32[B, D];`"),
    "no colon": ("q «f32»;", "write `q: f32`"),
    "literal": ("«true»: f32;", "`true` is a literal"),
    "other alphabets": ("gr«ö»ße: f32;", "ASCII letters"),
    "earlier buffer": ("q: buffer«(»f32, [B]);", "`buffer(f32, [B])` is earlier syntax"),
}


def errors(text: str) -> tuple[Diagnostic, ...]:
    return recover_program(Source("<text>", text)).errors


def check(marked: str, hint: str) -> None:
    start, text = marked.index("«"), marked.replace("«", "").replace("»", "")
    first, *_ = errors(text)
    assert first.span is not None
    assert (first.span.start, hint in (first.hint or "")) == (start, True), render(first)


@pytest.mark.parametrize(("statement", "hint"), STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_gets_the_hint_at_the_mistake(statement: str, hint: str) -> None:
    check(f"block entry {{\n  {statement}\n  return;\n}}\n", hint)


@pytest.mark.parametrize(("declaration", "hint"), DECLARATIONS.values(), ids=DECLARATIONS)
def test_a_declaration_gets_the_hint_at_the_mistake(declaration: str, hint: str) -> None:
    check(f"volatile {{\n  {declaration}\n}}\nblock entry {{ return; }}\n", hint)


@pytest.mark.parametrize(
    ("written", "hint"), [("init(1.0)", "write `@init(1.0)`"), ('@reference("a")', 'write `@ref("a")`')]
)
def test_older_spellings_tell_the_one_of_now(written: str, hint: str) -> None:
    (found,) = graph(f"volatile {{ q: f32 {written}; }} block entry {{ return; }}").warnings
    assert (found.code, found.hint) == ("old-spelling", hint)


@pytest.mark.parametrize("next_section", ["block entry { op relu(q) >> q; return; }", "constant { c: f32; }"])
def test_a_memory_section_without_its_end_is_reported_once(next_section: str) -> None:
    text = f"volatile {{ q: f32;\n{next_section}\nblock other {{ return; }}\n"
    (found,) = errors(text)
    assert found.message.startswith("expected `}` at the end of the memory section, found")
    assert [text[related.span.start :][:8] for related in found.related] == ["volatile"]


def test_variables_may_be_called_like_sections() -> None:
    built = graph('volatile { block: f32; volatile: f32; constant(l): f32 @pattern("c{l}"); } block entry { return; }')
    assert list(built.vars) == ["block", "volatile", "constant"]


@pytest.mark.parametrize(
    "hints", ['fuse = true; group = "a"', "fuse = true; no_reorder = false; fast = true", "fuse = true;"]
)
def test_semicolons_between_hints_are_one_mistake(hints: str) -> None:
    text = f"block entry {{\n  op relu(x) >> y with {{ {hints} }};\n  op relu(y z;\n}}\n"
    assert [found.span.line for found in errors(text) if found.span is not None] == [2, 3]


def test_hints_without_their_end_leave_the_next_statement() -> None:
    text = "block entry {\n  op relu(x) >> y with { fuse = true;\n  op relu(y) >> z;\n  transfer ;\n}\n"
    assert 4 in [found.span.line for found in errors(text) if found.span is not None]


@pytest.mark.parametrize("before", [0, 5_000])
@pytest.mark.parametrize("after", [0, 5_000])
def test_of_a_very_long_line_what_is_near_the_mistake_is_shown(before: int, after: int) -> None:
    text = f"block entry {{ {' ' * before}transfer;{' ' * after} }}"
    with pytest.raises(DslSyntaxError) as caught:
        graph(text)
    (found,) = caught.value.diagnostics
    assert isinstance(found, Diagnostic)
    _, _, _, line, carets = render(found).split("\n")[:5]
    assert len(line) < 320
    assert line[carets.index("^")] == ";"
