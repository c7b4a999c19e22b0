"""The picture of the arena over time: rectangles, and what the SVG says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from openinfer.draw import fragment
from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.plan import make_plan
from openinfer.plan.accesses import walk
from openinfer.plan.execution_plan import Bank
from openinfer.plan.picture import Lifetime, arena_svg, lifetimes, steps_in_order
from openinfer.plan.values import ArenaMemory
from openinfer.plugins.environment import Environment
from openinfer.plugins.selection import KernelTable
from openinfer.validate import resolve

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan

TABLE = KernelTable("test", {}, frozenset({"f32", "i64", "bool"}), computations=True)
SVG = "{http://www.w3.org/2000/svg}"
TEXT = """
dynamic { x: f32[10, 10]; }
volatile { y: f32[100]; }
block entry {
  op cumsum(x, axis=0) >> a;
  op cumsum(a, axis=1) >> b;
  op reshape(b, shape=[100]) >> c;
  op flip(a, axes=[0]) >> d with { fuse = false };
  op reshape(d, shape=[100]) >> e;
  op cumsum(e, axis=0) >> f with { fuse = false };
  op add(c, f) >> y with { fuse = false };
  return y;
}
"""


def plan_of(text: str) -> ExecutionPlan:
    environment = Environment.default()
    model = Model.from_arrays({})
    return make_plan(resolve(graph(text), model, environment=environment), model, environment, TABLE)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_value_lies_from_the_step_that_writes_it_to_the_last_that_reads_it() -> None:
    found = {each.names[0]: each for each in lifetimes(plan_of(TEXT))}

    assert (found["a"].first, found["a"].last) == (0, 3)
    # b is the same memory as c, its view, and is needed by the sum in the end.
    assert found["b"] == Lifetime(("b", "c"), "f32[10,10]", 0, found["b"].offset, 400, 1, 6)


def test_rectangles_do_not_overlap() -> None:
    found = lifetimes(plan_of(TEXT))

    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            # A result may lie where a step reads for the last time: both are there in that step.
            together = min(one.last, other.last) - max(one.first, other.first)
            apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
            assert together <= 0 or apart, (one, other)


def test_the_svg_names_values_steps_and_sizes() -> None:
    svg = arena_svg(plan_of(TEXT))

    root = ET.fromstring(svg)
    titles = [element.text for element in root.iter(f"{SVG}title")]
    plan = plan_of(TEXT)
    assert f"Arena over time: {plan.arena_nbytes:,} bytes" in texts(svg)
    assert "1 cumsum >> a" in texts(svg)
    assert any(title is not None and title.startswith("a: f32[10,10]\nbytes ") for title in titles)
    assert not list(root.iter(f"{SVG}script"))


def test_each_memory_has_a_panel() -> None:
    plan = plan_of(TEXT)
    values = [replace(v, memory=ArenaMemory(0, bank=1)) if v.name == "a" else v for v in plan.values]
    spread = replace(plan, values=tuple(values), banks=(Bank("near", "tcm", 4096, 900), Bank("far", "sram", 4096, 400)))

    assert {"near", "far"} <= set(texts(arena_svg(spread)))


def test_names_are_escaped_and_a_program_without_an_arena_has_a_picture() -> None:
    plan = plan_of("dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op neg(x) >> y; return y; }")

    assert "no value lies in the arena" in texts(arena_svg(plan))
    assert "1 neg >> y" in texts(arena_svg(plan))
    assert "neg &gt;&gt; y" in arena_svg(plan)


def test_plans_of_many_steps_number_some_of_them() -> None:
    lines = "\n".join(f"op cumsum(v{n}, axis=0) >> v{n + 1};" for n in range(300))
    text = f"dynamic {{ v0: f32[4]; }} volatile {{ v300: f32[4]; }} block entry {{ {lines} return v300; }}"

    found = texts(arena_svg(plan_of(text)))

    assert "steps" in found
    # Three pixels a step: a number every twenty.
    assert {"1", "21", "41", "301"} <= set(found)
    assert not [label for label in found if label.startswith("1 cumsum")]


CALLS = """
dynamic { x: f32[64]; }
volatile { y: f32[64]; }
block entry {
  op cumsum(x, axis=0) >> a;
  op flip(a, axes=[0]) >> b with { fuse = false };
  branch work;
  branch work;
  op add(c, b) >> y with { fuse = false };
  return y;
}
block work { op cumsum(a, axis=0) >> c; return; }
"""


def test_called_blocks_are_where_they_run_first() -> None:
    plan = plan_of(CALLS)

    blocks = [block for block, _ in steps_in_order(plan)]

    calls = [number for number, block in enumerate(blocks) if block == "work"]
    assert (blocks[0], blocks[-1]) == ("entry", "entry")
    assert calls == list(range(calls[0], calls[-1] + 1))
    assert len(blocks) == sum(len(list(walk(procedure.steps))) for procedure in plan.procedures)


def test_a_value_that_a_call_hands_over_lies_there_without_a_gap() -> None:
    places = [life for life in lifetimes(plan_of(CALLS)) if life.names == ("a",)]

    assert len(places) == 1


def fills(svg: str) -> dict[str, set[str]]:
    """Return the colours of the rectangles of each value, by the names in their titles."""
    colours: dict[str, set[str]] = {}
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        rectangle = group.find(f"{SVG}rect")
        if rectangle is not None:
            names = (group.findtext(f"{SVG}title") or "").partition(":")[0]
            colours.setdefault(names, set()).add(rectangle.get("fill") or "")
    return colours


def test_every_value_has_one_colour_of_its_own() -> None:
    lines = "\n".join(f"op cumsum(v{n}, axis=0) >> v{n + 1} with {{ fuse = false }};" for n in range(20))
    text = f"dynamic {{ v0: f32[4]; }} volatile {{ v20: f32[4]; }} block entry {{ {lines} return v20; }}"

    found = fills(arena_svg(plan_of(text)))

    assert len(found) > 15
    assert all(len(colours) == 1 for colours in found.values())
    assert len({colour for colours in found.values() for colour in colours}) == len(found)


SMALL = """
dynamic { x: f32[1000]; }
volatile { y: f32[1000]; }
block entry {
  op cumsum(x, axis=0) >> large;
  op sum_axis(large, axes=[0], keepdims=true) >> total_of_all_elements;
  op cumsum(large, axis=0) >> other with { fuse = false };
  op mul(other, total_of_all_elements) >> y;
  return y;
}
"""


def test_small_values_have_a_label_that_covers_nothing() -> None:
    root = ET.fromstring(arena_svg(plan_of(SMALL)))

    labels = {text.text: text for text in root.iter(f"{SVG}text")}
    name = labels["total_of_all_elements"]
    x, y = float(name.get("x") or 0), float(name.get("y") or 0)
    width = len(name.text or "") * 6.9
    for rectangle in root.iter(f"{SVG}rect"):
        if rectangle.get("rx") is not None:
            left, top, wide, tall = (float(rectangle.get(key) or 0) for key in ("x", "y", "width", "height"))
            assert x >= left + wide or x + width <= left or y - 10 >= top + tall or y <= top


def test_labels_of_steps_are_whole_and_within_the_picture() -> None:
    svg = arena_svg(plan_of(SMALL))
    root = ET.fromstring(svg)

    rotated = [text for text in root.iter(f"{SVG}text") if (text.get("transform") or "").startswith("rotate(-50")]
    assert "2 sum_axis >> total_of_all_elements" in [text.text for text in rotated]
    for text in rotated:
        length = 6 * len(text.text or "")
        assert float(text.get("x") or 0) - 0.64 * length > 0
        assert float(text.get("y") or 0) + 0.77 * length < float(root.get("height") or 0)


def test_notebooks_show_it() -> None:
    html = fragment("plan", "", *plan_of(TEXT).notebook_parts())

    assert "<details open><summary>arena over time</summary><svg " in html
