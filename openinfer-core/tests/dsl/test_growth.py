"""The time to read a text grows as its length, whatever it repeats: nobody waits minutes for a checker or an editor."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

import pytest

import openinfer as oi
from openinfer.dsl.upgrade import upgrade
from openinfer.editors.analysis import analyse
from openinfer.editors.pygments_lexer import OpenInferLexer
from openinfer.plugins.environment import Environment
from openinfer.validate import resolve

SHORT = 2000
"""Repetitions of the shorter text; the longer one has four times as many."""

SHORTEST_S = 0.02
"""What a shorter time counts as, so that its error does not."""

MOST = 12
"""How many times longer the longer text may take: 4 is linear, 16 quadratic."""

Text: TypeAlias = Callable[[int], str]

Read = TypeVar("Read", str, oi.Graph)


def program(declarations: str = "", statements: str = "", blocks: str = "") -> str:
    return (
        f"dynamic {{ a: f32[2]; }}\nvolatile {{ y: f32[2]; {declarations} }}\n"
        f"block entry {{\n{statements}\n return y; }}\n{blocks}"
    )


def lines(count: int, line: str) -> str:
    """Return lines with their number for each ``#``."""
    return "\n".join(line.replace("#", str(number)) for number in range(count))


def of_declarations(text: Text) -> Text:
    return lambda n: program(text(n))


def of_statements(text: Text) -> Text:
    return lambda n: program(statements=text(n))


def of_consumers(block: str, entry: str = "yield a; await a;", names: str = "a") -> Text:
    """Blocks that wait for the same yield, or each for its own."""

    def text(n: int) -> str:
        dynamic = "".join(f"{names.replace('#', str(number))}: f32[2];" for number in range(n if "#" in names else 1))
        entries = entry if "#" not in entry else lines(n, entry)
        return (
            f"dynamic {{ {dynamic} }}\nvolatile {{ {lines(n, 'y#: f32[2];')} }}\n"
            f"block entry {{ {entries} return; }}\n{lines(n, block)}"
        )

    return lambda n: text(n // 20)


TEXTS: dict[str, Text] = {
    "a word": lambda n: "x" * n,
    "a word in a section": of_declarations(lambda n: "x" * n),
    "a word in a block": of_statements(lambda n: "x" * n),
    "a name without a type": of_declarations(lambda n: "x" * n + ";"),
    "a type with parentheses": of_declarations(lambda n: "x: " + "f" * n + "(2);"),
    "words": lambda n: "x " * n,
    "words on lines": lambda n: "x\n" * n,
    "a word and blanks": lambda n: "x" + " " * n + "!",
    "a word and lines": lambda n: "x" + "\n" * n + "!",
    "blocks without names": lambda n: "block " * n,
    "assign without names": of_statements(lambda n: "assign " * n),
    "digits": of_declarations(lambda n: "b: f32[" + "1" * n + "];"),
    "underscores": of_declarations(lambda n: "b: f32[1" + "_" * n + "];"),
    "underscores without an end": of_declarations(lambda n: "b: f32[1" + "_" * n),
    "digits and a letter": of_declarations(lambda n: "b: f32[" + "1" * n + "x];"),
    "hexadecimal digits": of_declarations(lambda n: "b: f32[0x" + "f" * n + "];"),
    "hexadecimal underscores": of_declarations(lambda n: "b: f32[0x" + "_" * n + "];"),
    "digits of a fraction": of_declarations(lambda n: "b: f32 @init(1." + "1" * n + ");"),
    "digits of an exponent": of_declarations(lambda n: "b: f32 @init(1e" + "0" * n + ");"),
    "signs": of_declarations(lambda n: "b: f32 @init(" + "-" * n + "1);"),
    "a string": of_declarations(lambda n: 'b: f32 @ref("' + "s" * n + '");'),
    "a string without an end": of_declarations(lambda n: 'b: f32 @ref("' + "s" * n),
    "escapes without an end": of_declarations(lambda n: 'b: f32 @ref("' + '\\"' * n),
    "quotes": lambda n: '"' * n,
    "strings without ends": of_statements(lambda n: '"a\n' * n),
    "a line comment": of_statements(lambda n: "//" + "c" * n + "\n"),
    "line comments": of_statements(lambda n: "//x\n" * n),
    "nested comments": of_statements(lambda n: "/*" * n + "*/" * n),
    "comments without ends": of_statements(lambda n: "/*" * n),
    "comments in a statement": of_statements(lambda n: "op neg(" + "/* */" * n + "a) >> y;"),
    "comment edges": of_statements(lambda n: "/* /" * n),
    "blanks in a statement": of_statements(lambda n: "op neg(a" + " " * n + "b) >> y;"),
    "semicolons": of_statements(lambda n: ";" * n),
    "opening braces": of_statements(lambda n: "{" * n),
    "closing braces": of_statements(lambda n: "}" * n),
    "braces": of_statements(lambda n: "{}" * n),
    "loops without ends": of_statements(lambda n: "loop l (i in 0..2) {" * (n // 8)),
    "parentheses": of_declarations(lambda n: "b: f32[" + "(" * n + "1" + ")" * n + "];"),
    "parentheses without ends": of_statements(lambda n: "op neg(" + "(" * n),
    "roundings": of_declarations(lambda n: "b: f32[" + "floor(" * n + "1" + ")" * n + "];"),
    "calls without ends": of_statements(lambda n: "x(" * n),
    "a sum": of_declarations(lambda n: "b: f32[" + "B+" * (n // 4) + "1];"),
    "a sum of names": of_declarations(lambda n: "b: f32[" + lines(n // 8, "B#+") + "1];"),
    "a product": of_declarations(lambda n: "b: f32[" + "2*" * (n // 4) + "1];"),
    "dims": of_declarations(lambda n: "b: f32[" + "1," * (n // 4) + "];"),
    "formals": of_declarations(lambda n: "b(" + lines(n, "i#,") + "): f32;"),
    "the same formals": of_declarations(lambda n: "b(" + "i," * n + "): f32;"),
    "formals of a pattern": of_declarations(
        lambda n: "b(" + lines(n // 2, "i#,") + '): f32 @pattern("' + lines(n // 2, "{i#}").replace("\n", "") + '");'
    ),
    "attributes": of_declarations(lambda n: "b: f32 " + "@table " * (n // 8) + ";"),
    "unknown attributes": of_declarations(lambda n: "b: f32 " + lines(n // 8, "@foo#(1)") + ";"),
    "arguments of an attribute": of_declarations(lambda n: "b: f32 @foo(" + lines(n // 8, "a#=1,") + ");"),
    "bounds": of_declarations(lambda n: "b: f32 @fixed(" + lines(n // 8, "i#=1,") + ");"),
    "declarations": of_declarations(lambda n: lines(n // 8, "v#: f32[B#];")),
    "the same declarations": of_declarations(lambda n: "v: f32[2];\n" * (n // 8)),
    "wrong declarations": of_declarations(lambda n: lines(n // 8, "v# f32[2];")),
    "sections": lambda n: lines(n // 8, "volatile { v#: f32; }") + program(),
    "wrong sections": lambda n: lines(n // 8, "volatil { v#: f32; }") + program(),
    "statements": of_statements(lambda n: "op neg(a) >> y;\n" * (n // 8)),
    "statements of one line": of_statements(lambda n: "op neg(a) >> y;" * (n // 8)),
    "a chain of statements": of_statements(lambda n: "op neg(a) >> t0;" + lines(n // 16, "op neg(t#) >> t#;")),
    "wrong statements": of_statements(lambda n: lines(n // 8, "op neg(a) > y;")),
    "unknown statements": of_statements(lambda n: lines(n // 8, "opp neg#(a);")),
    "statements without ends": of_statements(lambda n: "op neg(a) >> y\n" * (n // 8)),
    "statements of unknown names": of_statements(lambda n: lines(n // 16, "op neg(q#) >> y;")),
    "inputs": of_statements(lambda n: "op concat(" + "a, " * (n // 4) + "axis=0) >> y;"),
    "settings": of_statements(lambda n: "op neg(a, " + lines(n // 8, "s#=1,") + ") >> y;"),
    "a list": of_statements(lambda n: "op reshape(a, shape=[" + "1, " * (n // 4) + "]) >> y;"),
    "outputs": of_statements(lambda n: "op neg(a) >> " + lines(n // 2, "q#,") + "y;"),
    "the same outputs": of_statements(lambda n: "op neg(a) >> " + "y," * (n // 2) + "y;"),
    "hints": of_statements(lambda n: "op neg(a) >> y with {" + lines(n // 8, "h#=1,") + "};"),
    "slots": of_statements(lambda n: "cache.read a[" + "0..1," * (n // 8) + "0] >> y;"),
    "loops": of_statements(lambda n: lines(n // 16, "loop l# (i in 0..2) { op neg(a) >> y; }")),
    "assigns": of_statements(lambda n: lines(n // 16, "assign t#: f32[2]; op neg(a) >> t#;")),
    "orders": of_statements(lambda n: "dep after(op) before(op.neg);" * (n // 16)),
    "blocks": lambda n: program(blocks=lines(n // 8, "block b# { return; }")),
    "a chain of blocks": lambda n: program(
        statements="branch b0;", blocks="".join(f"block b{i} {{ branch b{i + 1}; }}\n" for i in range(n // 8))
    ),
    "consumers of a yield": of_consumers("block c# { await a; op neg(a) >> y#; yield a; }"),
    "consumers with temporaries": of_consumers("block c# { await a; op neg(a) >> t#; op neg(t#) >> y#; yield a; }"),
    "yields with a consumer each": of_consumers(
        "block c# { await a#; op neg(a#) >> y#; yield a#; }", "yield a#; await a#;", "a#"
    ),
    "statements while a consumer runs": lambda n: (
        "dynamic { a: f32; b: f32; } volatile { c: f32; y: f32; } block entry { yield a; "
        f"{'op neg(b) >> y;' * (n // 16)} await a; return y; }} block c {{ await a; op neg(a) >> c; yield a; }}"
    ),
    "characters that the language lacks": of_statements(lambda n: "§ " * n),
    "names of other letters": lambda n: "é" * n,
    "ranges": of_statements(lambda n: "loop l (i in " + "0.." * n + ") { }"),
    "earlier syntax": of_statements(lambda n: lines(n // 8, "t# = op neg(a);")),
    "earlier syntax without ends": of_statements(lambda n: lines(n // 4, "t# = op neg(a")),
    "earlier effects": of_statements(lambda n: lines(n // 8, "effect write(c, index=0, value=a); // #")),
    "earlier buffers": of_declarations(lambda n: lines(n // 4, "b#: buffer(f32, [2")),
    "data of the model": of_statements(lambda n: lines(n // 8, 'op neg(model["w#"]) >> y;')),
}

EARLIER: dict[str, Text] = {
    "divisions without ends": of_statements(lambda n: "op div(" * n),
    "divisions in divisions": of_statements(lambda n: "op div(" * (n // 2) + ")" * (n // 2)),
    "effects without ends": of_statements(lambda n: "{effect write(" * (n // 2)),
    "effects of values without ends": of_statements(lambda n: lines(n // 2, "{effect write(c, value=a // #")),
    "formals without ends": of_declarations(lambda n: "b(" + "{b(" * (n // 2)),
    "buffers in buffers": of_declarations(lambda n: "b: buffer(" * (n // 4) + ")" * (n // 4)),
    "outputs of outputs": of_statements(lambda n: "a, b = " * n + "op neg(a);"),
}
"""Texts of the earlier syntax, for its reader alone."""


def checked(text: str) -> None:
    with suppress(oi.OpenInferError):
        oi.graph(text, check=True)


def shown(text: str) -> None:
    """What the language server does after each key, without a model."""
    analyse(text, Environment.default())


def highlighted(text: str) -> None:
    list(OpenInferLexer().get_tokens(text))


def seconds(read: Callable[[Read], object], program: Read) -> float:
    start = time.process_time()
    read(program)
    return time.process_time() - start


def growth(read: Callable[[Read], object], made: Callable[[int], Read]) -> float:
    """Return how many times longer a program of four times the length takes."""
    return seconds(read, made(4 * SHORT)) / max(SHORTEST_S, seconds(read, made(SHORT)))


# Every text is checked; the other readers share the texts, since they are built on the same scanner.
OTHERS = (upgrade, shown, highlighted)
READINGS = [
    pytest.param(read, text, id=f"{name}-{read.__name__}")
    for number, (name, text) in enumerate(TEXTS.items())
    for read in (checked, OTHERS[number % len(OTHERS)])
] + [pytest.param(upgrade, text, id=name) for name, text in EARLIER.items()]


@pytest.mark.parametrize(("read", "text"), READINGS)
def test_time_grows_as_the_text(read: Callable[[str], object], text: Text) -> None:
    read(program())
    # Whatever else the machine does makes a measurement longer, never shorter.
    assert any(growth(read, text) < MOST for _ in range(5))


def bound(program: oi.Graph) -> None:
    resolve(program, oi.Model.from_arrays({}))


def parsed(text: Text) -> Callable[[int], oi.Graph]:
    return lambda n: oi.graph(text(n))


@pytest.mark.parametrize("name", [name for name in TEXTS if "consumer" in name])
def test_time_to_bind_consumers_grows_as_their_number(name: str) -> None:
    bound(oi.graph(program()))
    assert any(growth(bound, parsed(TEXTS[name])) < MOST for _ in range(5))


def against_the_order_of_blocks(n: int) -> str:
    """Blocks that each read what the next one by name writes."""
    numbers = range(n // 8)
    chain = "".join(f"block b{number:05} {{ op neg(t{number + 1}) >> t{number}; return; }}\n" for number in numbers)
    calls = "".join(f"branch b{number:05};\n" for number in reversed(numbers))
    return program(statements=f"op neg(a) >> t{n // 8};\n{calls} transfer t0 >> y;", blocks=chain)


READ_OF_TABLE = "cache.read K[0, ] >> t#; op neg(t#) >> u#;"

TEMPORARIES: dict[str, tuple[Text, float]] = {
    "copies": (of_statements(lambda n: lines(n, "transfer a >> t#;")), 9),
    "reads of a table": (
        lambda n: "persistent { K(l, t): f32[2] @table; }" + program(statements=lines(n // 16, READ_OF_TABLE)),
        MOST,
    ),
    "against the order of blocks": (against_the_order_of_blocks, MOST),
}
"""Programs with temporaries, and how many times longer four times as many may take."""


@pytest.mark.parametrize(("text", "most"), TEMPORARIES.values(), ids=TEMPORARIES)
def test_time_to_bind_temporaries_grows_as_their_number(text: Text, most: float) -> None:
    bound(oi.graph(program()))
    assert any(growth(bound, parsed(text)) < most for _ in range(5))
