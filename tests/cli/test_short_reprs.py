"""Objects that users hold are shown in one line without addresses, and in notebooks in tables, escaped and cut."""

from __future__ import annotations

import re
from enum import Enum
from html.parser import HTMLParser
from types import FunctionType

import numpy as np
import pytest

import openinfer as oi
from openinfer.inspect import Inspector

LONGEST = 200
HTML_LONGEST = 100_000
TEXT = """
dynamic { x: f32[3]; }
volatile { y: f32[3]; }
constant { w: f32[3]; }
block entry { op mul(x, w) >> y; branch more; return y; }
block more { op add(y, w) >> y; }
"""
COUNTER = "persistent { n: i64 @init(0); } block entry { return; }"
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>"
MODEL = oi.Model.from_arrays({"w": np.arange(3, dtype=np.float32)})
GRAPH = oi.graph(TEXT)


def rich(graph: oi.Graph, model: oi.Model) -> dict[str, object]:
    """The objects that notebooks have a view of."""
    simulator = oi.Simulator(model, graph)
    synthesis = oi.Synthesizer("c").synthesize(model, graph)
    return {
        "Graph": graph,
        "Simulator": simulator,
        "Executor": simulator.make_executor(),
        "Synthesis": synthesis,
        "ExecutionPlan": synthesis.plan,
        "Model": model,
    }


def node_run() -> object:
    executor = oi.Simulator(MODEL, GRAPH).make_executor()
    executor.insert(x=[1.0, 2.0, 3.0])
    return next(iter(executor.iterate()))


def builder() -> oi.GraphBuilder:
    made = oi.GraphBuilder()
    made.volatile("y", "f32", ())
    return made


RICH = rich(GRAPH, MODEL)
SHOWN = {
    **RICH,
    "Simulator without a program": oi.Simulator(MODEL),
    "Synthesizer": oi.Synthesizer("c"),
    "Bundle": RICH["Synthesis"].bundle,
    "Procedure": RICH["ExecutionPlan"].procedures[0],
    "PackedWeight": RICH["ExecutionPlan"].weights[0],
    "ResolvedGraph": RICH["Executor"].program,
    "Block": GRAPH.blocks["entry"],
    "Environment": oi.Environment.default(),
    "GraphBuilder": builder(),
    "Inspector": Inspector(RICH["Executor"]),
    "NodeRun": node_run(),
    "Snapshot": oi.Simulator(MODEL, "persistent { n: i64 @init(0); } block entry { return; }")
    .make_executor()
    .snapshot(),
}
SAID = {
    "Graph": "<Graph: 3 variables, 2 blocks, 4 nodes>",
    "Model": "<Model <memory>: 1 tensor, 0 sizes, 0 metadata>",
    "Simulator": "<Simulator of <memory> on cpu, <Graph: 3 variables, 2 blocks, 4 nodes>>",
    "Simulator without a program": "<Simulator of <memory> on cpu>",
    "Executor": "<Executor on cpu: 3 variables, 2 blocks, 4 nodes>",
    "Synthesizer": "<Synthesizer for c>",
    "ResolvedGraph": "<ResolvedGraph: 3 variables, 2 blocks, 4 nodes>",
    "Block": "<Block entry: 3 nodes>",
    "GraphBuilder": "<GraphBuilder: 1 declaration, 0 blocks>",
    "Inspector": "<Inspector of <Executor on cpu: 3 variables, 2 blocks, 4 nodes>>",
    "NodeRun": "<NodeRun op mul(x,w) >> y in block entry>",
}
SAID_LIKE = {
    "Synthesis": r"<Synthesis for c: \d+ files, [\d,]+ bytes; \d steps?, weights 12 bytes, arena \d+ bytes>",
    "ExecutionPlan": r"<ExecutionPlan for c: \d steps?, weights 12 bytes, arena \d+ bytes>",
    "Bundle": r"<Bundle: \d+ files, [\d,]+ bytes>",
    "Snapshot": r"<Snapshot of program [0-9a-f]{8}: 1 tensor, 8 bytes>",
    "Environment": r"<Environment: \d+ plugins, \d+ operators, \d+ element types; devices .*cpu.*; targets .*c.*>",
}


@pytest.mark.rule("api.python.4")
@pytest.mark.parametrize("name", SHOWN)
def test_a_repr_is_one_short_line_without_an_address(name):
    shown = repr(SHOWN[name])

    assert len(shown) <= LONGEST
    assert "\n" not in shown
    assert not re.search(r"0x[0-9a-f]{6,}| at 0x|object at", shown)


def test_reprs_say_what_there_is():
    assert {name: repr(SHOWN[name]) for name in SAID} == SAID
    assert [name for name, pattern in SAID_LIKE.items() if not re.fullmatch(pattern, repr(SHOWN[name]))] == []


def test_every_public_class_has_a_repr_of_its_own():
    without = [
        value
        for name in oi.__all__
        if isinstance(value := getattr(oi, name), type)
        and not issubclass(value, BaseException | Enum)
        and value.__repr__ is object.__repr__
        and any(isinstance(found, FunctionType) for found in vars(value).values())
    ]

    # These have static methods only: there are no objects of them.
    assert [kind for kind in without if any(name == "__init__" for name in vars(kind))] == []


class Fragment(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", RICH)
def test_a_notebook_shows_whole_elements(name):
    text = RICH[name]._repr_html_()

    assert Fragment(text).open == []
    assert name.split()[0] in text
    assert len(text) < HTML_LONGEST


def test_hostile_names_are_text_in_a_notebook():
    scoped = TEXT.replace("branch more;", f'scope "{HOSTILE}" {{ branch more; }}')
    model = oi.Model(MODEL.tensor_store(), HOSTILE)
    plain, hostile = rich(GRAPH, MODEL), rich(oi.graph(scoped), model)

    assert HOSTILE in str(hostile["Graph"])
    for name, shown in hostile.items():
        found = Fragment(shown._repr_html_())
        assert found.open == []
        assert set(found.tags) <= set(Fragment(plain[name]._repr_html_()).tags)


def test_a_notebook_cuts_what_is_long():
    many = "".join(f"v{i}: f32[3]; " for i in range(1, 2000))
    work = "".join(f"op cumsum(v{i}, axis=0) >> v{i + 1}; " for i in range(1999))
    graph = oi.graph(f"dynamic {{ v0: f32[3]; }} volatile {{ {many} }} block entry {{ {work} return v1999; }}")

    model = oi.Model.from_arrays({f"a{i}": np.zeros(1, np.float32) for i in range(200)})

    for shown in rich(graph, model).values():
        text = shown._repr_html_()
        assert len(repr(shown)) <= LONGEST
        assert len(text) < HTML_LONGEST
        assert re.search(r"and [\d,]+ more (lines|declarations|tensors)", text)
