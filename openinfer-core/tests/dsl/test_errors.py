"""Errors of phases P and B: each has a code, a message and the place marked with « in the program."""

from __future__ import annotations

import pytest

from openinfer.diagnostics import Severity, render
from openinfer.dsl import graph, parse
from openinfer.errors import DslSyntaxError, GraphError

MARK = "«"


def marked(text: str) -> tuple[str, tuple[int, int]]:
    """Return a program without its mark, and line and column of the mark."""
    before, _, after = text.partition(MARK)
    return before + after, (before.count("\n") + 1, len(before) - before.rfind("\n"))


def entry(statement: str) -> str:
    return "block entry {\n  " + statement + "\n  return;\n}\nvolatile { x: f32; y: f32; z: f32; }\n"


def volatile(declaration: str) -> str:
    return "volatile {\n  " + declaration + "\n}\n"


SYNTAX = {
    "no section": ("«input { x: f32; }", "expected a memory section or a block"),
    "dims without comma": (volatile("x: f32[B «D];"), "expected `,`, `]` or an operator, found `D`"),
    "dims end early": (volatile("x: f32[3*«];"), "expected identifier or integer for dimension expression"),
    "dims start late": (volatile("x: f32[«, B];"), "identifier or integer for dimension expression"),
    "dims hold a float": (volatile("x: f32[1«.5];"), "found `.`"),
    "no colon": (volatile("x «f32;"), "expected `(` or `:`, found `f32`"),
    "no semicolon": ("volatile { x: f32« }", "expected `;` at the end of the declaration, found `}`"),
    "no semicolon in front of the next line": (
        "volatile {\n  x: f32[2]«\n  y: f32;\n}",
        "expected `;` at the end of the declaration, found `y`",
    ),
    "no semicolon after a statement": (
        entry("op add(x, y) >> z«\n  retrun;"),
        "expected `;` at the end of the statement, found `retrun`",
    ),
    "empty formals": (volatile("W(«): f32;"), "expected a name, found `)`"),
    "empty auto_dim": (volatile("A(i): f32[D] @auto_dim(«);"), "@auto_dim requires at least one index"),
    "empty fixed": (volatile("A(i): f32[D] @fixed(«);"), "@fixed requires at least one bound"),
    "init of a string": (volatile('x: f32 @init(«"a");'), "expected"),
    "init of a name": (volatile("x: f32 @init(«-y);"), "unexpected '-' before identifier"),
    "unknown statement": (entry("«retrun;"), "expected a statement, found `retrun`"),
    "no arrow": (entry("op add(x, y) «> z;"), "expected `>>`, found `>`"),
    "arrow in two parts": (entry("op add(x, y) «> > z;"), "expected `>>`"),
    "no output": (entry("op add(x, y) >> «;"), "expected a name, found `;`"),
    "indexed output": (entry("op add(x, y) >> W«[0];"), "found `[`"),
    "no comma between inputs": (entry("op add(x «y) >> z;"), "found `y`"),
    "text as an input": (entry('op add(«"3.5", y) >> z;'), 'expected `)`, a name or a number, found `"3.5"`'),
    "negated name as a setting": (entry("op add(x, a=«-b) >> z;"), "unexpected '-' before identifier"),
    "sign before an expression": (entry("op add(x, a=-1«+b) >> z;"), "found `+`"),
    "attribute on assign": (entry("assign t: f32 «@init(1.0);"), "expected `;` or `[`, found `@`"),
    "two blocks to branch to": (entry("branch a b«;"), "branch expects condition and two target blocks"),
    "named parts of branch": (entry("branch cond«=a then=b else=c;"), "branch expects condition and two target blocks"),
    "loop without start": (entry("loop l (i in «..5) { }"), "expected identifier or integer for loop range"),
    "loop without end": (entry("loop l (i in 0..«) { }"), "expected identifier or integer for loop range"),
    "closed range": (entry("loop l (i in 0«..=5) { }"), "found `..=`"),
    "three dots": (entry("cache.read K[0«...5] >> x;"), "found `...`"),
    "negated name as an index": (entry("cache.read K[0..«-n] >> x;"), "unexpected '-' before identifier"),
    "unknown cache verb": (entry("cache.«wipe K;"), "unsupported cache operation `wipe`"),
    "empty yield": (entry("yield «;"), "expected a name, found `;`"),
    "dep without before": (entry("dep after(a) «;"), "expected `before`, found `;`"),
    "number without digits before the point": (volatile("x: f32 @init(«.5);"), "found `.`"),
    "hash comment": ("«# comment\n" + entry(""), "unexpected character '#'"),
    "stray character": (entry("op add(x « ? y) >> z;").replace("« ?", "«?"), "unexpected character '?'"),
    "letter beyond ASCII": (entry("op «é(x) >> z;"), "unexpected character 'é'"),
    "comment without end": ("block entry { «/* /* */ ", "comment without an end"),
    "nested block": (entry("«block inner { return; }"), "expected a statement, found `block`"),
    "block without end": ("block entry { return;«", "expected `}` at the end of the block, found the end"),
    "section without end": ("volatile { x: f32;«", "expected `}` at the end of the memory section"),
    "string as a bare word": (volatile("x: f32 @pattern(«W);"), "expected a string, found `W`"),
    "setting with a list in a list": (entry("op f(x, a=[«[1]]) >> z;"), "found `[`"),
    "literal word as a name": (volatile("«true: f32;"), "expected a name, found `true`"),
}


@pytest.mark.rule(
    "language.attributes.12",
    "language.branch.1",
    "language.dimensions.1",
    "language.loop.1",
    "language.phases.2",
    "language.text.3",
    "language.text.4",
    "language.text.6",
    "language.text.7",
    "language.text.9",
)
@pytest.mark.parametrize(("text", "message"), SYNTAX.values(), ids=SYNTAX)
def test_syntax_error(text: str, message: str) -> None:
    program, place = marked(text)
    with pytest.raises(DslSyntaxError) as caught:
        parse(program)
    first = caught.value.diagnostics[0]
    assert message in first.message
    assert (caught.value.code, caught.value.line, caught.value.column) == ("syntax", *place)


LITERALS = {
    "integer": ("bad-number", entry("op f(x, a=«9223372036854775808) >> z;"), "does not fit 64 bits"),
    "negative integer": ("bad-number", entry("op f(x, a=«-9223372036854775809) >> z;"), "does not fit 64 bits"),
    "extent": ("bad-number", volatile("x: f32[B+«9223372036854775808];"), "does not fit 64 bits"),
    "endless integer": ("bad-number", entry(f"op f(x, a=«{'9' * 5000}) >> z;"), "does not fit 64 bits"),
    "u64": ("bad-number", volatile("x: u64 @init(«18446744073709551616);"), "does not fit 64 bits"),
    "float": ("bad-number", entry("op f(x, a=«1e999) >> z;"), "does not fit f64"),
    "escape": ("bad-string", volatile(r'x: f32 @ref("a«\qb");'), r"bad escape `\q`"),
    "surrogate": ("bad-string", volatile(r'x: f32 @ref("«\u{d800}");'), "bad escape"),
    "string over two lines": ("bad-string", volatile('x: f32 @ref(«"a\nb");'), "string without an end"),
}


@pytest.mark.rule("language.text.5", "language.text.6", "language.text.8")
@pytest.mark.parametrize(("code", "text", "message"), LITERALS.values(), ids=LITERALS)
def test_literal_error(code: str, text: str, message: str) -> None:
    program, place = marked(text)
    with pytest.raises(DslSyntaxError) as caught:
        parse(program)
    assert message in caught.value.diagnostics[0].message
    assert (caught.value.code, caught.value.line, caught.value.column) == (code, *place)


BUILD = {
    "block twice": ("duplicate-block", "block a { }\nblock «a { }\n", "block `a` is declared twice"),
    "variable twice": ("duplicate-name", "dynamic { x: f32; }\nconstant { «x: i32; }\n", "`x` is declared twice"),
    "dtype": ("unknown-dtype", volatile("x: «f23;"), "unknown element type `f23`"),
    "dtype of assign": ("unknown-dtype", entry("assign t: «float;"), "unknown element type `float`"),
    "attribute twice": ("duplicate-attr", volatile("x: f32 @init(1.0) «@init(2.0);"), "duplicate @init attribute"),
    "unknown attribute twice": ("duplicate-attr", volatile("x: f32 @a «@a;"), "duplicate @a attribute"),
    "integer for a float": ("init-mismatch", volatile("x: f32 @init(«5);"), "write 5.0"),
    "float for an integer": ("init-mismatch", volatile("x: i32 @init(«5.0);"), "i32 takes an integer"),
    "too large": ("init-mismatch", volatile("x: i4 @init(«8);"), "8 does not fit i4 (-8..7)"),
    "too small": ("init-mismatch", volatile("x: u8 @init(«-1);"), "-1 does not fit u8 (0..255)"),
    "zero for t1": ("init-mismatch", volatile("x: t1 @init(«0);"), "0 does not fit t1 (-1 or 1)"),
    "two for bool": ("init-mismatch", volatile("x: bool @init(«2);"), "2 does not fit bool"),
    "overflow of f16": ("init-mismatch", volatile("x: f16 @init(«70000.0);"), "overflows f16"),
    "input after a setting": (
        "positional-after-setting",
        entry("op f(x, a=1, «y) >> z;"),
        "positional args must come before settings",
    ),
    "setting twice": ("duplicate-setting", entry("op f(x, a=1, «a=2) >> z;"), "`a` is given twice"),
    "list of strings": ("bad-list", entry('op f(x, a=«["b"]) >> z;'), "found a string or truth value"),
    "list of dtypes and numbers": ("bad-list", entry("op f(x, a=«[f32, 4]) >> z;"), "mixes the element type `f32`"),
    "list of floats and names": ("bad-list", entry("op f(x, a=«[0.5, B]) >> z;"), "mixes floats"),
    "hint of the wrong type": ("bad-hint", entry('op f(x) >> z with { fuse = «"yes" };'), "takes `true` or `false`"),
    "placement without quotes": (
        "bad-hint",
        entry("op f(x) >> z with { placement = «gpu };"),
        "a device name in quotes",
    ),
    "hint twice": ("duplicate-hint", entry("op f(x) >> z with { fuse = true, «fuse = false };"), "given twice"),
}


@pytest.mark.rule(
    "language.attributes.1",
    "language.attributes.2",
    "language.hints.3",
    "language.operators.1",
    "language.program.4",
    "language.settings.2",
    "language.types.2",
)
@pytest.mark.parametrize(("code", "text", "message"), BUILD.values(), ids=BUILD)
def test_build_error(code: str, text: str, message: str) -> None:
    program, place = marked(text)
    parse(program)
    with pytest.raises(GraphError) as caught:
        graph(program)
    (finding,) = caught.value.diagnostics
    assert message in finding.message
    assert (finding.code, finding.span.line, finding.span.column) == (code, *place)
    assert caught.value.code == code


def test_a_repeated_name_points_at_the_first_declaration() -> None:
    with pytest.raises(GraphError) as caught:
        graph("dynamic { x: f32; }\nvolatile { x: f32; }\n")
    (related,) = caught.value.diagnostics[0].related
    assert (related.span.line, related.span.column) == (1, 11)


WARNINGS = {
    "unknown attribute": ("unknown-attr", volatile("x: f32 «@layout(nchw);")),
    "attribute without @": ("old-spelling", volatile('x: f32 «ref("y");')),
    "reference": ("old-spelling", volatile('x: f32 «@reference("y");')),
    "unknown hint": ("unknown-hint", entry("op f(x) >> z with { «speed = 3 };")),
}


@pytest.mark.rule("language.attributes.10", "language.attributes.11", "language.hints.3", "language.phases.4")
@pytest.mark.parametrize(("code", "text"), WARNINGS.values(), ids=WARNINGS)
def test_warning_is_an_error_in_strict_mode(code: str, text: str) -> None:
    program, place = marked(text)
    (warning,) = graph(program).warnings
    assert (warning.code, warning.severity) == (code, Severity.WARNING)
    assert (warning.span.line, warning.span.column) == place
    with pytest.raises(DslSyntaxError if code == "old-spelling" else GraphError) as caught:
        graph(program, strict=True)
    assert [(found.code, found.severity) for found in caught.value.diagnostics] == [(code, Severity.ERROR)]


EARLIER_SYNTAX = {
    "inputs": ("inputs { x: f32; }", "called `dynamic`; `openinfer fmt --upgrade` rewrites it"),
    "wrapper": ("graph! { block entry { return; } }", "`graph! { … }` is earlier syntax"),
    "outputs": ("outputs { x: f32; }", "under `volatile`"),
    "state": ("state { c: f32; }", "called `persistent`"),
    "model": ("model: model,", "linked to the model by name"),
    "buffer": ("persistent { c: buffer(f32, [B]); }", "under `persistent`"),
    "model data": (entry('op mul(x, model["scale"]) >> y;'), "linked by name"),
    "assigned operator": (entry("t0 = op add(a=x, b=x);"), "op add(…) >> t0;"),
    "effect": (entry("effect write(c, index=step, value=h);"), "cache.write"),
    "assigned effect": (entry("h = effect read(c, index=step - 1);"), "cache.read"),
    "nested block": (entry("loop l (i in 0..3) { block body { barrier; } }"), "directly into the loop"),
}


@pytest.mark.rule("language.earlier.1")
@pytest.mark.parametrize(("text", "hint"), EARLIER_SYNTAX.values(), ids=EARLIER_SYNTAX)
def test_earlier_syntax_is_refused_with_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(DslSyntaxError) as caught:
        parse(text)
    assert hint in (caught.value.diagnostics[0].hint or "")


def test_every_wrong_statement_is_reported_once() -> None:
    text = """\
volatile {
  a: f32[B
  b: f32[2*];
  c: f32;
}
block entry {
  op add(x y) >> z;
  op mul(x, y) >> z
  op sub(x, y) >> z;
  loop broken (i in 0.3) { op f(] >> z; op g(x) >> z; }
  return;
}
block other { branch a b; }
"""
    with pytest.raises(DslSyntaxError) as caught:
        parse(text)
    assert [found.span.line for found in caught.value.diagnostics] == [3, 3, 7, 8, 10, 10, 13]


@pytest.mark.rule("language.phases.3")
def test_errors_of_the_graph_are_reported_together() -> None:
    with pytest.raises(GraphError) as caught:
        graph("volatile { x: f33; y: i8 @init(300); y: f32; }")
    assert [found.code for found in caught.value.diagnostics] == ["unknown-dtype", "init-mismatch", "duplicate-name"]
    assert str(caught.value).endswith("(and 2 more)")
    assert "\n" not in str(caught.value)


@pytest.mark.rule("language.phases.2")
def test_a_syntax_error_carries_what_was_expected_and_the_line() -> None:
    with pytest.raises(DslSyntaxError) as caught:
        parse("block entry {\n  op add(x) z;\n}\n")
    assert caught.value.expected == ("`>>`",)
    assert caught.value.snippet == "  op add(x) z;"
    assert caught.value.offset == 26


@pytest.mark.rule("language.phases.6")
@pytest.mark.parametrize("depth", [1, 64])
def test_supported_nesting_is_read(depth: int) -> None:
    loops = "".join(f"loop l (i{n} in 0..2) {{ " for n in range(depth))
    parse(f"block entry {{ {loops}barrier; {'} ' * depth}return; }}")
    parse(f"volatile {{ x: f32[{'(1+' * depth}B{')' * depth}]; }}")


@pytest.mark.rule("language.phases.6")
@pytest.mark.parametrize("depth", [500, 20_000])
def test_deeper_nesting_is_an_error_and_no_crash(depth: int) -> None:
    with pytest.raises(DslSyntaxError, match="nesting too deep"):
        parse("block entry { " + "loop l (i in 0..2) { " * depth + "} " * depth + "}")
    with pytest.raises(DslSyntaxError, match="nesting too deep"):
        parse(f"volatile {{ x: f32[{'(' * depth}B{')' * depth}]; }}")


def test_a_long_sum_is_an_error_and_no_crash() -> None:
    with pytest.raises(DslSyntaxError, match="expression too long"):
        parse(f"volatile {{ x: f32[{'B+' * 5000}B]; }}")


def test_a_missing_brace_points_at_what_it_should_close() -> None:
    with pytest.raises(DslSyntaxError) as caught:
        parse("block entry {\n  loop l (i in 0..3) {\n    barrier;\n  return;\n}\n")
    (finding,) = caught.value.diagnostics
    assert finding.message == "expected `}` at the end of the block, found the end"
    assert [(related.span.line, related.span.column) for related in finding.related] == [(1, 1)]


@pytest.mark.rule("language.earlier.1")
def test_sections_of_the_earlier_syntax_are_all_named() -> None:
    with pytest.raises(DslSyntaxError) as caught:
        parse(
            "model: model,\ninputs { x: f32; }\noutputs { y: f32; }\nblock entry { y = op add(a=x, b=x); return y; }\n"
        )
    assert [finding.span.line for finding in caught.value.diagnostics] == [1, 2, 3, 4]


RECOVERED = {
    "hints without a value": ("op f(x) >> y with { fuse };\n  op g(] >> y;", [2, 3]),
    "hints without an end": ("op f(x) >> y with { fuse = true;\n  op g(] >> y;", [2, 3]),
    "hints of a loop": ("loop l (i in 0..2) with { fuse } {\n  op g(] >> y;\n }", [2, 3]),
    "head of a loop": ("loop (i in 0..2) {\n  op g(] >> y;\n }", [2, 3]),
    "semicolon": ("op f(x) >> y\n  op g(] >> y;", [2, 3]),
    "statement on the next line": ("op f(] >> y\n  op g(] >> y;", [2, 3]),
    "old loop body": ("loop l (i in 0..2) { block body { barrier; } }\n  op g(] >> y;", [2, 3]),
    "string with a brace": ('op f(x, "}") >> y;\n  op g(] >> y;', [2, 3]),
}


@pytest.mark.rule("language.phases.3")
@pytest.mark.parametrize(("statements", "lines"), RECOVERED.values(), ids=RECOVERED)
def test_parsing_resumes_after_a_wrong_statement(statements: str, lines: list[int]) -> None:
    with pytest.raises(DslSyntaxError) as caught:
        parse(entry(statements))
    assert [finding.span.line for finding in caught.value.diagnostics] == lines


def test_values_are_expected_as_a_whole() -> None:
    with pytest.raises(DslSyntaxError) as caught:
        parse(entry("op relu(x, alpha=) >> y;"))
    assert caught.value.diagnostics[0].message == "expected a value, found `)`"


HINTS = {
    "semicolon": (entry("op add(x, y) >> z"), "write `op add(x, y) >> z;`"),
    "negated input": (entry("op add(x, -y) >> z;"), "write `op neg(y) >> t;` before, and `t` here"),
    "negated first input": (entry("op relu(-x) >> z;"), "write `op neg(x) >> t;` before, and `t` here"),
    "negated source": (entry("transfer -x >> z;"), "write `op neg(x) >> t;` before, and `t` here"),
    "negated setting": (entry("op f(x, a=-b) >> z;"), "write `0-b`"),
    "negated element of a list": (entry("op f(x, a=[1, -b]) >> z;"), "write `0-b`"),
    "negated index": (entry("op f(W[-l]) >> z;"), "write `0-l`"),
    "negated end of a range": (entry("cache.read K[0..-n] >> x;"), "write `0-n`"),
    "negated initial value": (volatile("x: f32 @init(-y);"), "an initial value is a number"),
    "call as an input": (entry("op add(matmul(x, w), b) >> y;"), "write `op matmul(x, w) >> t;` before, and `t` here"),
    "call of calls as an input": (
        entry("op add(b, matmul(neg(x), w)) >> y;"),
        "write `op matmul(neg(x), w) >> t;` before, and `t` here",
    ),
    "call with a call": (entry("add(matmul(x, w), b) >> y;"), "write `op add(…) >> y;`"),
    "unknown section": (
        "static { x: f32; }",
        "variables go in `dynamic`, `volatile`, `constant` or `persistent`",
    ),
    "graph JSON": ('{"vars": {}}', "graph JSON is read from"),
}


@pytest.mark.parametrize(("text", "hint"), HINTS.values(), ids=HINTS)
def test_syntax_errors_say_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(DslSyntaxError) as caught:
        parse(text)
    assert hint in (caught.value.diagnostics[0].hint or "")


@pytest.mark.parametrize(
    "statement", ["op f(x, a=0-b) >> z;", "op f(x, a=[1, 0-b]) >> z;", "cache.read K[0..0-n] >> x;"]
)
def test_what_to_write_for_a_negated_name_is_read(statement: str) -> None:
    parse(entry(statement))


DTYPE_SPELLINGS = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "double": "f64",
    "half": "f16",
    "int32": "i32",
    "long": "i64",
    "uint8": "u8",
    "boolean": "bool",
    "F32": "f32",
    "fp16": "f16",
}


@pytest.mark.parametrize(("written", "meant"), DTYPE_SPELLINGS.items())
def test_spellings_of_other_frameworks_name_the_dtype_first(written: str, meant: str) -> None:
    with pytest.raises(GraphError) as caught:
        graph(volatile(f"x: {written};"))
    assert caught.value.diagnostics[0].hint == f"did you mean `{meant}`?"


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(DslSyntaxError) as caught:
        graph('volatile {\n  a: f32 @ref("q\ud800"); }\nblock entry { return; }')
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.span.line, finding.span.column) == ("not-text", 2, 17)
    assert r"\ud800" in render(finding)
