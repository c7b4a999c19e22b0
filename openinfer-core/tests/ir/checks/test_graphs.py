"""The structure check (phase S): each finding has a code, a message and the place marked with « in the program."""

from __future__ import annotations

import pytest

from openinfer.diagnostics import Severity
from openinfer.dsl import graph
from openinfer.errors import ValidationError
from openinfer.ir.check import structure_findings
from openinfer.ir.graph import Block, Graph
from openinfer.ir.nodes import Return

MARK = "«"

NAMES = """dynamic { x: f32[B]; }
volatile { y: f32[B]; W(l): f32[B] @pattern("W.{l}"); QKV(l, h): f32[B] @pattern("q.{l}.{h}"); }
constant { k: f32; }
persistent {
  step: i32;
  T(i, j): f32[D] @table;
  A(i, j): f32[D, H] @auto_dim(i, j);
  C(l, i): f32[D] @table @auto_dim(i);
}
"""


def marked(text: str) -> tuple[str, tuple[int, int]]:
    """Return a program without its mark, and line and column of the mark."""
    before, _, after = text.partition(MARK)
    return before + after, (before.count("\n") + 1, len(before) - before.rfind("\n"))


def entry(statements: str) -> str:
    return NAMES + "block entry {\n  " + statements + "\n  return;\n}\n"


def declare(section: str, declaration: str) -> str:
    return section + " {\n  " + declaration + "\n}\nblock entry { return; }\n"


ERRORS = {
    # Declarations
    "ref on dynamic": ("attr-not-allowed", declare("dynamic", 'x: f32 «@ref("y");'), "not allowed in `dynamic`"),
    "pattern on persistent": (
        "attr-not-allowed",
        declare("persistent", 'W(l): f32 «@pattern("W.{l}");'),
        "only in volatile, constant",
    ),
    "table on volatile": ("attr-not-allowed", declare("volatile", "T(i): f32 «@table;"), "only in persistent"),
    "auto_dim on constant": (
        "attr-not-allowed",
        declare("constant", "T(i): f32[D] «@auto_dim(i);"),
        "only in persistent",
    ),
    "fixed on dynamic": ("attr-not-allowed", declare("dynamic", "T(i): f32 «@fixed(i=1);"), "only in persistent"),
    "ref with pattern": (
        "attr-not-allowed",
        declare("volatile", 'W(l): f32 «@ref("y") @pattern("W.{l}");'),
        "exclude each other",
    ),
    "ref on a table": (
        "attr-not-allowed",
        declare("persistent", 'T(i): f32 «@ref("y") @table;'),
        "is not allowed on a table",
    ),
    "pattern without indices": ("pattern-mismatch", declare("volatile", 'W: f32 «@pattern("W");'), "needs indices"),
    "index not in the pattern": (
        "pattern-mismatch",
        declare("volatile", 'W(l, «h): f32 @pattern("W.{l}");'),
        "index `h` of `W` does not occur",
    ),
    "stranger in the pattern": (
        "pattern-mismatch",
        declare("volatile", 'W(l): f32 «@pattern("W.{l}.{x}");'),
        "`{x}`, which is not an index",
    ),
    "open brace": ("pattern-mismatch", declare("volatile", 'W(l): f32 «@pattern("W.{l}.{");'), "has a `{`"),
    "empty braces": ("pattern-mismatch", declare("volatile", 'W(l): f32 «@pattern("W.{l}{}");'), "has a `{`"),
    "indices for nothing": ("table-decl", declare("persistent", "«T(i): f32;"), "no @table, @auto_dim or @pattern"),
    "table without indices": ("table-decl", declare("persistent", "T: f32 «@table;"), "@table needs indices"),
    "index twice": ("table-decl", declare("persistent", "T(«i, i): f32 @table;"), "named twice"),
    "auto_dim of a stranger": (
        "table-decl",
        declare("persistent", "T(i): f32[D] «@auto_dim(j);"),
        "not an index of `T`",
    ),
    "auto_dim twice": ("table-decl", declare("persistent", "T(i, j): f32[D, D] «@auto_dim(i, i);"), "names `i` twice"),
    "auto_dim in another order": (
        "table-decl",
        declare("persistent", "T(i, j): f32[D, D] «@auto_dim(j, i);"),
        "last indices",
    ),
    "auto_dim of another rank": ("table-decl", declare("persistent", "T(i): f32[D, D] «@auto_dim(i);"), "2 dimensions"),
    "table of nothing": ("table-decl", declare("persistent", "T(i): f32[D] «@table @auto_dim(i);"), "needs an index"),
    "index of nothing": ("table-decl", declare("persistent", "T(«l, i): f32[D] @auto_dim(i);"), "@table is missing"),
    "fixed stranger": ("table-decl", declare("persistent", "T(i): f32 @table «@fixed(j=1);"), "not an index of `T`"),
    "fixed zero": ("table-decl", declare("persistent", "T(i): f32 @table «@fixed(i=0);"), "at least 1"),
    # Names
    "unknown input": ("unknown-variable", entry("op f(«yy) >> y;"), "unknown variable `yy`"),
    "unknown source": ("unknown-variable", entry("transfer «z >> y;"), "unknown variable `z`"),
    "unknown condition": ("unknown-variable", entry("branch «c entry_ entry_;"), "unknown variable `c`"),
    "unknown result": ("unknown-variable", NAMES + "block entry { return x, «z; }", "unknown variable `z`"),
    "unknown base": ("unknown-variable", entry("cache.increment «stepp;"), "is unknown"),
    "base that is not persistent": ("unknown-variable", entry("cache.reset «y;"), "`y` is volatile"),
    "loop index outside its loop": (
        "unknown-variable",
        entry("loop l (i in 0..2) { } op f(«i) >> y;"),
        "unknown variable `i`",
    ),
    "unknown block": ("unknown-block", entry("branch «nowhere;"), "unknown block `nowhere`"),
    "branch to entry": (
        "unknown-block",
        NAMES + "block entry { branch x «entry b; return; } block b { return; }",
        "`entry`",
    ),
    "temporary named like a variable": ("duplicate-name", entry("assign «y: f32;"), "already the name of a volatile"),
    "temporary twice": ("duplicate-name", entry("assign t: f32; assign «t: i8;"), "assigned twice"),
    "index named like a variable": ("duplicate-name", entry("loop l («x in 0..2) { }"), "name of a variable"),
    "index named like a temporary": (
        "duplicate-name",
        entry("assign t: i8; loop l («t in 0..2) { }"),
        "of a temporary",
    ),
    "output twice": ("duplicate-name", entry("op f(x) >> y, «y;"), "named twice"),
    # Indices
    "table without brackets": ("needs-index", entry("op f(«W) >> y;"), "write `W[l]`"),
    "returned table": ("needs-index", entry("return «W;"), "result `W` is a prefix table"),
    "too many indices": ("index-count", entry("op f(«W[0, 1]) >> y;"), "takes 1 index, found 2"),
    "too few indices": ("index-count", entry("transfer «QKV[0] >> y;"), "takes 2 indices, found 1"),
    "plain variable with an index": ("not-indexable", entry("op f(«x[0]) >> y;"), "not a prefix table"),
    "temporary with an index": ("not-indexable", entry("assign t: f32; op f(«t[0]) >> y;"), "is a temporary"),
    "loop index with an index": ("not-indexable", entry("loop l (i in 0..2) { op f(«i[0]) >> y; }"), "is a loop index"),
    "written table": ("write-readonly", entry("op f(x) >> «W;"), "prefix table entries are read-only"),
    "written loop index": ("write-readonly", entry("loop l (i in 0..2) { op f(x) >> «i; }"), "`i` is read-only"),
    # Cache accesses
    "plain persistent with brackets": (
        "not-indexable",
        entry("cache.read «step[] >> y;"),
        "without brackets, or make it a @table",
    ),
    "table read without brackets": ("needs-index", entry("cache.read «T >> y;"), "is a table"),
    "too many slots": ("index-count", entry("cache.read «T[0, 1, 2] >> y;"), "at most 2 indices, found 3"),
    "negative index": ("negative-index", entry("cache.read «T[-1] >> y;"), "is -1"),
    "negative start": ("negative-index", entry("cache.read «T[-2..5] >> y;"), "start of a range"),
    "write of the whole table": ("needs-index", entry("cache.write x >> «T[];"), "stores one entry"),
    "write with fewer indices": ("index-count", entry("cache.write x >> «T[0];"), "needs every index"),
    "write of an empty slot": ("slice-not-allowed", entry("cache.write x >> «A[0, ];"), "whole matrices"),
    "write of one count": ("index-count", entry("cache.write x >> «A[0];"), "needs every index"),
    "reset of a range": ("slice-not-allowed", entry("cache.reset «T[0..2];"), "ranges"),
    "reset of part of a matrix": ("not-indexable", entry("cache.reset «A[0];"), "the whole of `A`"),
    "reset of an auto-dim slot": ("index-count", entry("cache.reset «C[0, 1];"), "table indices only"),
    # Blocks
    "result elsewhere": (
        "return-values",
        NAMES + "block entry { branch b; return; } block b { return «x; }",
        "only entry names the results",
    ),
    "yield of persistent": ("yield-rules", entry("yield «step;"), "persistent variables cannot be handed over"),
    "yield of a loop index": ("yield-rules", entry("loop l (i in 0..2) { yield «i; }"), "loop index"),
    "yield of a prefix table": ("yield-rules", entry("yield «W;"), "prefix tables"),
    "await of a constant": ("yield-rules", entry("yield k; await «k;"), "never written"),
    "await of what was not yielded": ("yield-rules", entry("await «y;"), "was not yielded"),
    "yield of what is out": ("yield-rules", entry("yield y; yield «y; await y;"), "yielded again"),
    "use while out": ("yield-rules", entry("yield y; op f(«y) >> x; await y;"), "between its yield and its await"),
    "return while out": ("yield-rules", NAMES + "block entry { yield y; «return; }", "still out"),
    "end while out": ("yield-rules", NAMES + "block entry { yield «y; }", "still out"),
    "consumer without yield": (
        "yield-rules",
        NAMES + "block entry { yield y; await y; return; }\n«block c { await y; return; }",
        "must end with `yield`",
    ),
    "consumer that keeps something": (
        "yield-rules",
        NAMES + "block entry { yield x, y; await x, y; return; } block c { await x, y; «yield y; }",
        "does not yield it back",
    ),
    "consumer that goes on": (
        "yield-rules",
        NAMES + "block entry { yield y; await y; return; } block c { await y; «yield y; barrier; yield y; }",
        "last statement",
    ),
    "consumer that awaits in a loop": (
        "yield-rules",
        NAMES + "block entry { yield y; await y; return; } block c { loop l (i in 0..2) { «await y; } yield y; }",
        "inside a loop",
    ),
    "branch to a consumer": (
        "yield-rules",
        NAMES + "block entry { yield y; await y; branch «c; return; } block c { await y; yield y; }",
        "not by branch",
    ),
    "two writers": (
        "yield-rules",
        NAMES
        + "block entry { yield y; await y; return; } block c { await y; transfer x >> y; yield y; }\n"
        + "«block d { await y; op f(x) >> y; yield y; }",
        "both write `y`",
    ),
}


@pytest.mark.rule(
    "language.accesses.2",
    "language.accesses.4",
    "language.accesses.5",
    "language.accesses.6",
    "language.accesses.7",
    "language.accesses.8",
    "language.attributes.4",
    "language.attributes.5",
    "language.attributes.6",
    "language.attributes.7",
    "language.attributes.8",
    "language.attributes.9",
    "language.branch.1",
    "language.cache.2",
    "language.cache.5",
    "language.consumers.1",
    "language.consumers.2",
    "language.consumers.3",
    "language.loop.1",
    "language.names.2",
    "language.names.3",
    "language.names.4",
    "language.operators.4",
    "language.prefixes.1",
    "language.prefixes.2",
    "language.return.1",
    "runtime.checks.5",
    "runtime.checks.6",
    "runtime.checks.8",
    "runtime.checks.9",
    "runtime.consumers.2",
    "runtime.consumers.4",
    "runtime.control.6",
)
@pytest.mark.parametrize(("code", "text", "message"), ERRORS.values(), ids=ERRORS)
def test_error(code: str, text: str, message: str) -> None:
    program, place = marked(text)
    built = graph(program)
    with pytest.raises(ValidationError) as caught:
        built.check()
    found = [(d.code, d.span.line, d.span.column) for d in caught.value.diagnostics if d.severity is Severity.ERROR]
    assert (code, *place) in found
    (finding,) = [d for d in caught.value.diagnostics if (d.code, d.span.line, d.span.column) == (code, *place)]
    assert message in finding.message


WARNINGS = {
    "hidden index": ("shadowed-index", entry("loop a (i in 0..2) { loop b («i in 0..2) { } }")),
    "block without return": ("no-return", NAMES + "«block entry { barrier; }"),
    "statement after return": ("unreachable", NAMES + "block entry { return; «barrier; return; }"),
    "block that nothing calls": ("unreachable", NAMES + "block entry { return; }\n«block b { return; }"),
    "endless calls": ("branch-cycle", NAMES + "block entry { branch b; return; } block b { «branch b; return; }"),
    "dep on nothing before": ("dep-unmatched", entry("dep after(«f) before(return);")),
    "dep before a statement that does not follow": (
        "dep-unmatched",
        entry("barrier; dep after(barrier) before(«cache.write);"),
    ),
    "yield of a sub-block": ("yield-rules", NAMES + "block entry { branch b; return; } block b { «yield y; }"),
}


@pytest.mark.rule(
    "language.consumers.4",
    "language.names.3",
    "language.ordering.2",
    "language.return.2",
    "runtime.checks.9",
    "runtime.checks.10",
)
@pytest.mark.parametrize(("code", "text"), WARNINGS.values(), ids=WARNINGS)
def test_warning(code: str, text: str) -> None:
    program, place = marked(text)
    (warning,) = graph(program).check()
    assert (warning.code, warning.severity) == (code, Severity.WARNING)
    assert (warning.span.line, warning.span.column) == place
    with pytest.raises(ValidationError) as caught:
        graph(program, check=True, strict=True)
    assert [(found.code, found.severity) for found in caught.value.diagnostics] == [(code, Severity.ERROR)]


RIGHT = {
    "sub-blocks use the temporaries of entry": NAMES
    + "block entry { assign t: f32; branch b; return; } block b { op f(t) >> t; return; }",
    "loop indices are inputs": entry("loop a (i in 0..2) { loop b (j in i..2) { op f(i, j, W[i]) >> y; } }"),
    "loops of one name": entry("loop a (i in 0..2) { loop a (j in 0..2) { } } loop a (i in 0..2) { }"),
    "every table access": entry(
        "cache.read T[] >> y; cache.read T[0] >> y; cache.read T[..-1, 2] >> y; cache.write x >> T[0, 1];"
    ),
    "every reset": entry(
        "cache.reset T; cache.reset T[]; cache.reset T[0]; cache.reset A; cache.reset C[0]; cache.reset step;"
    ),
    "every auto-dim access": entry(
        "cache.read A >> y; cache.read A[1] >> y; cache.read A[1, 2] >> y; cache.read A[0..D+i, ] >> y;"
        " cache.write x >> A; cache.write x >> A[]; cache.write x >> A[1, 2];"
        " cache.read C[0..4, i] >> y; cache.write x >> C[0, 1];"
    ),
    "yield and await": NAMES
    + "block entry { yield x, y; op f(k) >> k; await y; await x; return; } block c { await y; op f(y) >> y; yield y; }",
    "dep that matches": entry("op f(x) >> y; dep after(f) before(cache.write); cache.write y >> T[0, 0];"),
    "recursion under a condition": NAMES
    + "block entry { branch k b b2; return; } block b { branch k b b2; return; } block b2 { return; }",
}


@pytest.mark.rule(
    "language.accesses.6",
    "language.accesses.7",
    "language.accesses.8",
    "language.cache.5",
    "language.loop.2",
    "language.names.1",
    "language.operators.3",
)
@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right_program_has_no_findings(text: str) -> None:
    assert structure_findings(graph(text)) == ()


@pytest.mark.rule("language.program.3", "runtime.checks.5", "runtime.control.1")
@pytest.mark.parametrize("text", ["", "volatile { x: f32; }", "block main { return; }"])
def test_a_program_starts_at_entry(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        graph(text).check()
    assert caught.value.code == "missing-entry"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("block main { return; }", "a step starts at `block entry { … }`: call the block `main` `entry`?"),
        ("block a { return; } block b { return; }", "a step starts at `block entry { … }`"),
        ("volatile { x: f32; }", "a step starts at `block entry { … }`"),
    ],
)
def test_the_only_block_may_be_the_one_that_is_to_be_called_entry(text: str, hint: str) -> None:
    (finding,) = structure_findings(graph(text))
    assert (finding.code, finding.hint) == ("missing-entry", hint)


@pytest.mark.rule("language.names.4")
def test_findings_name_the_node_and_suggest_a_name() -> None:
    (finding,) = structure_findings(graph(entry("op f(x) >> y;\n  op add(x, stp) >> y;")))
    assert (finding.block, finding.node_index, finding.node_desc) == ("entry", 1, "op add(x,stp) >> y")
    assert finding.hint == "did you mean `step`?"


def test_index_errors_point_at_the_declaration() -> None:
    (finding,) = structure_findings(graph(entry("op f(W) >> y;")))
    (related,) = finding.related
    assert (related.span.line, related.span.column) == (2, 23)


BLOCKS = """block b { op f(u, u) >> x; return; }
block a { op f(v, v) >> x; return; }
block entry { op f(w, w) >> x; branch a; branch b; return; }
dynamic { x: f32 @table; }"""


@pytest.mark.rule("runtime.checks.1")
def test_findings_come_in_source_order() -> None:
    found = structure_findings(graph(BLOCKS))
    assert [finding.span.line for finding in found] == [1, 1, 2, 2, 3, 3, 4]


def test_findings_about_a_graph_without_text_come_by_declarations_then_entry_then_blocks_by_name() -> None:
    built = graph(BLOCKS)
    found = structure_findings(Graph.from_json(built.to_json()))
    assert [finding.code for finding in found[:1]] == ["attr-not-allowed"]
    assert [finding.block for finding in found[1:]] == ["entry", "a", "b"]


@pytest.mark.rule("runtime.checks.5")
def test_a_graph_made_without_text_is_checked_for_form() -> None:
    node = graph("block entry { return; }").blocks["entry"].nodes[0]
    wrong = Graph(blocks={"entry": Block("entry", (node, node)), "x": Block("y", ())}, next_index=0)
    codes = [finding.message for finding in structure_findings(wrong) if finding.severity is Severity.ERROR]
    assert codes == [
        "block `y` is filed under `x`",
        "node number 0 is not below the next free number 0",
        "node number 0 is used twice",
    ]
    assert isinstance(node.kind, Return)


def test_a_mistake_that_a_statement_repeats_is_reported_once() -> None:
    with pytest.raises(ValidationError) as caught:
        graph(f"volatile {{ y: f32; }} block entry {{ op f({'x, ' * 30_000}x) >> y; return; }}", check=True)
    assert [finding.code for finding in caught.value.diagnostics] == ["unknown-variable"]


def test_a_statement_beyond_reading_is_shown_as_a_whole() -> None:
    names = ",".join(f"x{number}" for number in range(20_000))
    with pytest.raises(ValidationError) as caught:
        graph(f"volatile {{ y: f32; }} block entry {{ op f({names}) >> y; return; }}", check=True)
    assert len(caught.value.diagnostics) == 20_000


@pytest.mark.rule("language.consumers.2")
def test_a_constant_may_be_yielded_and_is_never_out() -> None:
    assert structure_findings(graph(entry("yield k; op relu(k) >> y; yield k;"))) == ()
