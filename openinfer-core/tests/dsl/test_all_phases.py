"""Independent mistakes of all phases are reported at once, and no finding is a mere consequence of another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.diagnostics import Severity
from openinfer.dsl import graph, read_program
from openinfer.dsl.builder import GraphBuilder
from openinfer.errors import DslSyntaxError, GraphError, ValidationError
from openinfer.model import Model
from openinfer.validate import program_findings, resolve

DECLARED = """\
dynamic { x: f32[D]; }
volatile { a: f32[D]; y: f32[D]; W(l): f32[D] @pattern("W.{l}"); }
persistent { K(t): f32[D] @table; }
"""
MODEL = Model.from_arrays({}, sizevars={"D": 4})

PHASES = {
    "P": {
        "op add(x a) >> y;": "syntax",
        "op relu(x) >> y": "syntax",
        "branch b c;": "syntax",
        "transfer x > y;": "syntax",
        'op relu(x, alpha="s) >> y;': "bad-string",
        "op relu(x, alpha=9223372036854775808) >> y;": "bad-number",
        "cache.wipe K;": "syntax",
        "retrun;": "syntax",
        "await y": "syntax",
    },
    "B": {
        "op relu(x, alpha=[f32, 1]) >> y;": "bad-list",
        "op relu(alpha=1.0, x) >> y;": "positional-after-setting",
        "op relu(x) >> y with { fuse = 3 };": "bad-hint",
        "op relu(x, alpha=1.0, alpha=2.0) >> y;": "duplicate-setting",
    },
    "S": {
        "op relu(nowhere) >> y;": "unknown-variable",
        "transfer W >> y;": "needs-index",
        "cache.read K >> y;": "needs-index",
        "branch nowhere;": "unknown-block",
        "transfer x[0] >> y;": "not-indexable",
    },
    "V": {
        "op relo(x) >> y;": "unknown-op",
        "op add(x) >> y;": "arity",
        "op relu(x, slope=1.0) >> y;": "unknown-setting",
        "op cast(x) >> y;": "missing-setting",
    },
}
RIGHT = ("op relu(x) >> y;", "transfer x >> a;", "cache.write x >> K[0];", "barrier;")
STATEMENTS = [(phase, text, code) for phase, found in PHASES.items() for text, code in found.items()]


def reported_errors(text: str, model: Model | None = None) -> list[tuple[str, int]]:
    """Return code and line of every error of a text, in the order reported."""
    found = program_findings(read_program(text), model=model)
    return [(each.code, each.span.line) for each in found if each.severity is Severity.ERROR]


@pytest.mark.rule("language.phases.1", "language.phases.3", "runtime.checks.1")
@given(st.lists(st.sampled_from([*STATEMENTS, *(("", text, "") for text in RIGHT)]), max_size=12), st.booleans())
@settings(deadline=None)  # The first example loads the plugins.
def test_every_wrong_statement_gets_its_one_message(chosen: list[tuple[str, str, str]], with_model: bool) -> None:
    lines = "".join(f"  {text}\n" for _, text, _ in chosen)
    expected = [
        (code, DECLARED.count("\n") + 2 + position)
        for wanted in PHASES
        for position, (phase, _, code) in enumerate(chosen)
        if phase == wanted
    ]
    text = f"{DECLARED}block entry {{\n{lines}  return;\n}}\n"
    assert reported_errors(text, MODEL if with_model else None) == expected


def entry(statements: str) -> str:
    return f"{DECLARED}block entry {{\n{statements}\n  return;\n}}\n"


# The statements of `entry` start in line 5.
CONSEQUENCES = {
    "declaration": (
        "dynamic { x: f32[D; z: f32[D]; }\nblock entry { op relu(x) >> z; op add(x, z) >> q; op relo(z) >> z; }",
        [("syntax", 1), ("unknown-op", 2)],
    ),
    "section": (
        "dynamics { x: f32[D]; }\nvolatile { y: f32[D]; }\nblock entry { op relu(x) >> y; op relu(z) >> y; return; }",
        [("syntax", 1), ("unknown-variable", 3)],
    ),
    "assign": (entry("assign t f32[D];\nop relu(t) >> y;\nop relu(u) >> t;"), [("syntax", 5), ("unknown-variable", 7)]),
    "operator": (
        entry("op add(x a) >> t;\nop relu(t) >> y;\nop relu(u) >> t;"),
        [("syntax", 5), ("unknown-variable", 7)],
    ),
    "operator of several outputs": (
        entry("op topk(x a) >> t, u;\nop relu(t) >> y;\nop relu(u) >> y;"),
        [("syntax", 5)],
    ),
    "operator with half an arrow": (entry("op add(x, x) > t;\nop relu(t) >> y;"), [("syntax", 5)]),
    "operator without its word": (entry("add(x, x) >> t;\nop relu(t) >> y;"), [("syntax", 5)]),
    "read": (entry("cache.red K[0] >> t;\nop relu(t) >> y;"), [("syntax", 5)]),
    "misspelt assign": (entry("asign t: f32[D];\nop relu(t) >> y;"), [("syntax", 5)]),
    "implicit temporary": (entry("t = op add(a=x, b=x);\nop relu(t) >> y;"), [("syntax", 5)]),
    "head of a loop": (
        entry("loop l (i in 0.3) {\nop relu(W[i]) >> y;\nop relu(z) >> y;\n}"),
        [("syntax", 5), ("unknown-variable", 7)],
    ),
    "head of a loop without a name": (
        entry("loop (i in 0..3) {\nop relu(W[i]) >> y;\nop relu(z) >> y;\n}"),
        [("syntax", 5), ("unknown-variable", 7)],
    ),
    "head of a block": (
        f"{DECLARED}block entry with {{ fuse }} {{\nop relu(x) >> y;\nop relu(z) >> y; return;\n}}",
        [("syntax", 4), ("unknown-variable", 6)],
    ),
    "name of a block": (
        f"{DECLARED}block entry {{ branch b; return; }}\nblock 1b {{\nop relu(x) >> y with {{ fuse = 3 }}; return; }}",
        [("syntax", 5), ("bad-hint", 6)],
    ),
    "entry itself": (f"{DECLARED}blok entry {{ branch b; return; }}\nblock b {{ return; }}", [("syntax", 4)]),
    "yield": (
        f"{DECLARED}block entry {{\nyield a y;\nawait a;\nreturn;\n}}\nblock c {{ await a; yield a; }}",
        [("syntax", 5)],
    ),
    "await": (
        f"{DECLARED}block entry {{\nyield a;\nawait a y;\nreturn;\n}}\nblock c {{ await a; yield a; }}",
        [("syntax", 6)],
    ),
    "brace of a block": (
        f"{DECLARED}block entry {{\nbranch b; return;\n\nblock b {{ op relu(u) >> y; return; }}",
        [("syntax", 7), ("unknown-variable", 7)],
    ),
    "brace of a loop": (
        entry(" loop l (i in 0..3) {\n branch b;") + "block b { op relu(u) >> y; return; }",
        [("syntax", 9), ("unknown-variable", 9)],
    ),
    "brace of a memory section": ("volatile {\n  y: f32;\n", [("syntax", 2)]),
    "nested block": (
        entry("loop l (i in 0..3) { block body { op relu(z) >> y; } }\nop relo(x) >> y;"),
        [("syntax", 5), ("unknown-variable", 5), ("unknown-op", 6)],
    ),
    "string of a scope": (entry('scope "s {\nop relu(z) >> y;\n}'), [("bad-string", 5), ("unknown-variable", 6)]),
    "string over two lines": (
        entry('op relu(x, alpha="s\nt") >> y;\nop relu(z) >> y;'),
        [("bad-string", 5), ("unknown-variable", 7)],
    ),
    "comment without an end": (
        f"{DECLARED}block entry {{\nop relu(z) >> y;\n/* return;\n}}\n",
        [("syntax", 6), ("unknown-variable", 5)],
    ),
    "dtype of a declaration": (
        "volatile { x: f33[D] @table; y: f32[D]; }\nblock entry { op relu(x) >> y; op relo(y) >> y; return; }",
        [("unknown-dtype", 1), ("attr-not-allowed", 1), ("unknown-op", 2)],
    ),
    "dtype of a temporary": (
        entry("assign t: float[D];\nop add(t, y) >> y;\nop relu(t[0]) >> y;"),
        [("unknown-dtype", 5), ("not-indexable", 7)],
    ),
    "initial value": (
        "constant { c: i32 @init(5.0); }\nvolatile { y: f32; }\nblock entry { op relu(c) >> y; return; }",
        [("init-mismatch", 1)],
    ),
    "variable twice": (
        "volatile { x: f32[D]; x: i32[D]; y: f32[D]; }\nblock entry { op relu(x) >> y; return; }",
        [("duplicate-name", 1)],
    ),
    "variable of two kinds": (
        entry("op relu(K) >> y;\ncache.read K[0] >> y;\ncache.read K >> z;") + "dynamic { K: f32[D]; }",
        [("duplicate-name", 10)],
    ),
    "block twice": (
        f"{DECLARED}block entry {{ branch b; return; }}\nblock b {{ return; }}\nblock b {{ branch c; return; }}",
        [("duplicate-block", 6)],
    ),
    "loop index": (
        entry("assign i: f32[D];\nloop l (i in 0..3) {\nop relu(i) >> y;\nop relo(x) >> y;\n}"),
        [("duplicate-name", 6), ("unknown-op", 8)],
    ),
    "attributes": (
        'volatile { x: f32[D] @table; W(l): f32[D] @pattern("W"); y: f32[D]; }\nblock entry { op add(x, W[0]) >> y; }',
        [("attr-not-allowed", 1), ("pattern-mismatch", 1)],
    ),
    "yield of nothing known": (entry("yield z;\nawait z;"), [("unknown-variable", 5), ("unknown-variable", 6)]),
}


@pytest.mark.parametrize(("text", "expected"), CONSEQUENCES.values(), ids=CONSEQUENCES)
def test_consequences_are_not_reported(text: str, expected: list[tuple[str, int]]) -> None:
    assert reported_errors(text) == expected
    assert [(code, line) for code, line in reported_errors(text, MODEL) if (code, line) not in expected] == []


def test_warnings_that_come_of_what_could_not_be_read_are_not_reported() -> None:
    text = (
        f"{DECLARED}block entry {{\n  op relu(x) >> y;\n  dep after(add) before(relu);\n  op add(x y) >> y;\n"
        "  branc b;\n  retrun;\n}\nblock b { op relu(x) >> y; }\n"
    )
    warned = [each for each in program_findings(read_program(text)) if each.severity is Severity.WARNING]
    assert [(each.code, each.block) for each in warned] == [("no-return", "b")]


MIXED = entry("op add(x a) >> y;\nop relu(x, alpha=[f32, 1]) >> y;\nop relu(nowhere) >> y;\nop relo(x) >> y;")


def test_the_class_is_that_of_the_first_phase_with_an_error() -> None:
    with pytest.raises(DslSyntaxError) as caught:
        graph(MIXED, check=True)
    assert [each.code for each in caught.value.diagnostics] == ["syntax", "bad-list", "unknown-variable"]
    assert (caught.value.line, caught.value.column) == (5, 10)
    with pytest.raises(GraphError) as caught:
        graph(MIXED.replace("x a", "x, a"), check=True)
    assert [each.code for each in caught.value.diagnostics] == ["bad-list", "unknown-variable"]
    with pytest.raises(ValidationError) as caught:
        graph(MIXED.replace("x a", "x, a").replace("[f32, 1]", "1.0"), check=True)
    assert [each.code for each in caught.value.diagnostics] == ["unknown-variable"]


def test_a_piece_of_a_program_need_not_have_an_entry() -> None:
    with pytest.raises(GraphError) as caught:
        graph("volatile { x: f33; }")
    assert [each.code for each in caught.value.diagnostics] == ["unknown-dtype"]
    with pytest.raises(GraphError) as caught:
        graph("volatile { x: f33; }", check=True)
    assert [each.code for each in caught.value.diagnostics] == ["unknown-dtype", "missing-entry"]


def test_structure_does_not_hide_findings_against_the_model() -> None:
    text = entry("op relu(nowhere) >> y;\nop add(x) >> y;\ntransfer x >> y;").replace("y: f32[D]", "y: f32[D, 2]")
    with pytest.raises(ValidationError) as caught:
        resolve(graph(text), MODEL)
    found = [(each.code, each.span.line) for each in caught.value.diagnostics]
    assert found == [("unknown-variable", 5), ("arity", 6), ("shape-mismatch", 7)]


def test_strict_mode_reports_warnings_of_every_phase_in_their_order() -> None:
    text = "volatile { ref: f32 ref(r); }\nblock entry { op relu(ref) >> ref with { speed = 1 }; }\n"
    with pytest.raises(DslSyntaxError) as caught:
        graph(text, check=True, strict=True)
    assert [each.code for each in caught.value.diagnostics] == ["old-spelling", "unknown-hint", "no-return"]


def test_a_checked_graph_has_the_warnings_of_every_phase_and_resolving_reports_them_once() -> None:
    text = "volatile { y: f32 ref(y); }\nblock entry { op relu(y) >> y with { speed = 1 }; }\n"
    checked = graph(text, check=True)
    assert [each.code for each in checked.warnings] == ["old-spelling", "unknown-hint", "no-return"]
    assert [each.code for each in graph(text).warnings] == ["old-spelling", "unknown-hint"]
    model = Model.from_arrays({"y": 1.0})
    for built in (checked, graph(text)):
        with pytest.raises(ValidationError) as caught:
            resolve(built, model, strict=True)
        codes = [each.code for each in caught.value.diagnostics]
        assert codes[:3] == ["old-spelling", "unknown-hint", "no-return"]
        assert codes.count("no-return") == 1


def test_the_builder_reports_every_phase_too() -> None:
    builder = GraphBuilder()
    builder.dynamic("x", "f33", ["D"])
    builder.volatile("y", "f32", ["D"])
    with builder.block("entry"):
        builder.op("relu", "x", outputs="y")
        builder.op("relu", "nowhere", outputs="y")
    with pytest.raises(GraphError) as caught:
        builder.build(check=True)
    assert [each.code for each in caught.value.diagnostics] == ["unknown-dtype", "unknown-variable"]
