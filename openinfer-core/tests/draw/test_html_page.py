"""The page of a graph, and what a notebook shows: structure, escaping, and that nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.draw import html, notebook_html
from openinfer.draw.layout import HEADER, ROW, ROWS_IN_ONE_COLUMN, lay_out
from openinfer.draw.notebook import MAX_LINES
from openinfer.draw.rows import rows_of
from openinfer.draw.statements import Labels
from openinfer.dsl import graph, load_graph
from openinfer.ir.graph import Graph
from openinfer.model import Model
from openinfer.validate import resolve

GOLDEN = Path(__file__).parents[1] / "golden" / "draw"
VOID = {"meta", "input", "br"}
HOSTILE = "</script><script>alert(1)</script><!-- ]]> \"'><img src=x onerror=alert(1)> &lt;\n\r\0\u202e\ud800"


class Page(HTMLParser):
    """Elements of a page with their attributes, and the text under rows, titles and items."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]

    def rows(self) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.elements if tag == "li" and "data-detail" in attrs]


def with_scope(name: str) -> Graph:
    built = graph('block entry { scope "s" { op relu(x, s="t") >> x; } }')
    block = built.blocks["entry"]
    nodes = tuple(replace(node, scope=(name,)) for node in block.nodes)
    return replace(built, blocks=MappingProxyType({"entry": replace(block, nodes=nodes)}))


@pytest.mark.parametrize("name", ["control", "decode"])
def test_every_node_is_a_row_and_every_element_is_closed(name: str) -> None:
    built = load_graph(GOLDEN / f"{name}.oi")
    page = Page(html(built))

    assert page.open == []
    assert len(page.rows()) == sum(1 for _ in built.nodes())


def test_every_declaration_block_and_size_is_in_the_sidebar() -> None:
    built = graph("dynamic { x: f32[B]; } constant { g: f32[B] @ref(gain); } block entry { assign t: f32; return; }")
    model = Model.from_arrays({"gain": np.ones(3, np.float32)}, sizevars={"B": 3})
    text = "".join(Page(html(built, resolve(built, model))).texts)

    for expected in ("sizes", "B 3", "x f32[3]", 'g f32[3]@ref("gain"); data: gain', "t f32", "blocks", "entry"):
        assert expected in text


def test_rows_know_what_they_read_write_and_call() -> None:
    built = graph("dynamic { x: f32; } volatile { y: f32; } block entry { op add(x, y) >> y; branch b; } block b { }")
    add, branch = Page(html(built)).rows()

    assert (add["data-reads"], add["data-writes"]) == ("0 1", "1")
    assert branch["data-blocks"] == "1"


def test_the_only_script_is_the_one_that_the_policy_admits() -> None:
    page = Page(html(load_graph(GOLDEN / "control.oi")))
    (script,) = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(attrs["content"] for tag, attrs in page.elements if "http-equiv" in attrs)

    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_nothing_is_loaded() -> None:
    text = html(load_graph(GOLDEN / "control.oi"))
    page = Page(text)

    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "a"} & set(page.tags())
    assert not [name for _, attrs in page.elements for name in attrs if name in ("src", "href", "srcset", "action")]
    assert not re.search(r"https?:|@import|url\((?!#)", text)


@pytest.mark.parametrize("name", [HOSTILE, "<script>alert(1)</script>", "</script>", "\"'", "]]>", "a\nb"])
def test_hostile_names_are_text(name: str) -> None:
    built = with_scope(name)
    plain = Page(html(with_scope("s"), title="t"))
    page = Page(html(built, title=name))

    assert page.tags() == plain.tags(), "not one element more"
    assert [set(attrs) for _, attrs in page.elements] == [set(attrs) for _, attrs in plain.elements]
    assert page.scripts == plain.scripts
    html(built, title=name).encode("utf-8")


@given(st.text(st.characters(exclude_categories=())))
def test_any_name_is_text(name: str) -> None:
    built = with_scope(name)
    block = replace(built.blocks["entry"], name=name)
    page = Page(html(replace(built, blocks=MappingProxyType({name: block})), title=name))

    assert page.tags().count("script") == 1
    assert page.tags().count("li") == 4
    notebook_html(built).encode("utf-8")


def test_bytes_do_not_depend_on_the_process() -> None:
    program = f"from openinfer.draw import html; from openinfer.dsl import load_graph; import sys, hashlib;\n\
print(hashlib.sha256(html(load_graph({str(GOLDEN / 'control.oi')!r})).encode()).hexdigest())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


def laid_out(text: str):
    built = graph(text)
    labels = Labels(built)
    blocks = sorted(built.blocks.values(), key=lambda block: block.name != "entry")
    return lay_out(built, {block.name: rows_of(block, labels) for block in blocks})


def test_cards_do_not_overlap() -> None:
    calls = "".join(f"branch b{i}; " for i in range(150))
    cards = laid_out(f"block entry {{ {calls} }}" + "".join(f"block b{i} {{ barrier; }}" for i in range(151))).cards

    assert len(cards) == 152
    for place, one in enumerate(cards):
        for other in cards[place + 1 :]:
            apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
            apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
            assert apart_x or apart_y


def test_blocks_are_in_layers_by_distance_from_entry() -> None:
    text = "block far { branch entry_2; } block entry { branch near; } block near { branch far; } block alone { }"
    x = {card.name: card.x for card in laid_out(text + "block entry_2 { }").cards}

    assert x["entry"] < x["near"] < x["far"] < x["entry_2"] < x["alone"]


def test_a_long_block_has_several_columns_and_every_row_inside_the_card() -> None:
    (card,) = laid_out("block entry {" + "barrier; " * 5000 + "}").cards

    assert card.columns > 1
    assert 1 < card.width / card.height < 2.5
    for row in (0, card.rows_per_column - 1, card.rows_per_column, 4999):
        x, y = card.row_right(row)
        assert card.x < x <= card.x + card.width
        assert card.y + HEADER < y < card.y + card.height


def test_a_short_block_has_one_column() -> None:
    (card,) = laid_out("block entry {" + "barrier; " * ROWS_IN_ONE_COLUMN + "}").cards

    assert (card.columns, card.height > ROWS_IN_ONE_COLUMN * ROW) == (1, True)


def test_scopes_and_loops_indent() -> None:
    built = graph('block entry { scope "a" { barrier; scope "b" { loop l (i in 0..2) { barrier; } } } barrier; }')
    rows = rows_of(built.blocks["entry"], Labels(built))

    assert [(row.depth, row.text) for row in rows] == [
        (0, 'scope "a"'),
        (1, "barrier"),
        (1, 'scope "b"'),
        (2, "loop l (i in 0..2)"),
        (3, "barrier"),
        (0, "barrier"),
    ]
    assert rows[3].last == 4


def test_a_page_of_many_nodes_is_written_in_linear_time() -> None:
    def seconds(count: int) -> float:
        built = graph("block entry {" + "loop l (i in 0..2) { barrier; op add(x, x) >> x; } " * count + "}")
        start = time.process_time()
        html(built)
        return time.process_time() - start

    seconds(100)

    assert seconds(8000) < 8 * 4 * seconds(1000) + 0.5


# Notebooks


def test_a_notebook_shows_declarations_and_the_program() -> None:
    built = load_graph(GOLDEN / "decode.oi")
    page = Page(built._repr_html_())
    text = "".join(page.texts)

    assert page.open == []
    assert "6 variables, 1 block, 10 nodes" in text
    for expected in ("persistent", "K(l, t)", "@table @fixed(l=2)", "cache.increment step;"):
        assert expected in text


def test_a_notebook_colours_the_program_where_pygments_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygments", reason="pygments, the extra `editors`, is not installed")
    built = graph('volatile { y: f32; }\nblock entry { op fill(y, value=1.0) >> y; scope "<&>" { barrier; } }')
    coloured = notebook_html(built)
    assert 'style="color:' in coloured
    monkeypatch.setitem(sys.modules, "pygments", None)
    plain = notebook_html(built)
    assert 'style="color:' not in plain
    assert "".join(Page(coloured).texts) == "".join(Page(plain).texts)


def test_a_notebook_cuts_long_programs_and_says_so() -> None:
    text = notebook_html(graph("block entry {" + "barrier; " * 1000 + "}"))

    assert text.count("\n") == MAX_LINES
    assert f"and {1002 - MAX_LINES} more lines" in text


def test_a_notebook_escapes_and_runs_nothing() -> None:
    page = Page(notebook_html(with_scope(HOSTILE)))

    assert not {"script", "img", "style"} & set(page.tags())


def test_importing_the_graph_does_not_import_pictures() -> None:
    program = "import sys, openinfer.ir.graph; print([m for m in sys.modules if m.startswith('openinfer.draw')])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert finished.stdout.strip() == "[]"
