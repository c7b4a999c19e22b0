"""The colours of a graph's page: readable in every pair, in both themes (WCAG 2.1 AA, 1.4.3 and 1.4.11)."""

from __future__ import annotations

import re
from itertools import product

import pytest

from openinfer.draw import html
from openinfer.dsl import graph

LEAST_TEXT = 4.5
LEAST_SHAPE = 3.0
PAGE = html(graph("block entry { return; }"))
STYLE = PAGE[PAGE.index("<style>") + len("<style>") : PAGE.index("</style>")]


def variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", block))


def themes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root([^{]*)\{([^}]*--back[^}]*)\}", STYLE)
    return {selector.strip(): variables(block) for selector, block in blocks}


LIGHT, DARK, SYSTEM_DARK = themes().values()
RULES = STYLE[STYLE.index("* {") :]


def named(pattern: str) -> set[str]:
    """Names of the colours in declarations of some property, those after ``--word`` and its like included."""
    found = set(re.findall(rf"(?<![-\w]){pattern}: var\(--([a-z]+)", RULES))
    after = {name: set(re.findall(rf"--{name}: var\(--([a-z]+)", RULES)) for name in ("word", "kind", "edge")}
    return {name for each in found for name in after.get(each, {each})} | (after["word"] if "word" in found else set())


TEXT = named("color") | {"sub"}
BACKGROUNDS = named("background")
EDGES = named("(?:stroke|fill)")
LINES = {"accent"}


def luminance(colour: str) -> float:
    """Relative luminance of a colour such as ``#a0b1c2``."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_colours_in_use_are_found() -> None:
    assert {"ink", "soft", "type", "branching", "looping", "exchanging", "returning", "accent", "entry", "sub"} <= TEXT
    assert {"back", "card", "strip", "hit", "now", "reads", "writes"} == BACKGROUNDS
    assert {"call", "then", "else", "repeat", "handover"} == EDGES
    assert TEXT | BACKGROUNDS | EDGES | {"rule"} >= set(LIGHT)


def test_every_colour_has_a_name_and_a_value_in_each_theme() -> None:
    assert not re.findall(r"(?<![-\w])(?:color|background|stroke|fill): #[0-9a-f]{3,6}\b", RULES)
    assert set(LIGHT) == set(DARK)
    assert DARK == SYSTEM_DARK


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable_on_every_background(theme: dict[str, str]) -> None:
    pairs = {(text, back): contrast(theme[text], theme[back]) for text, back in product(TEXT, BACKGROUNDS)}

    assert {pair: round(found, 2) for pair, found in pairs.items() if found < LEAST_TEXT} == {}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_edges_and_focus_are_visible(theme: dict[str, str]) -> None:
    pairs = [*product(EDGES, ("back", "card")), *product(LINES, BACKGROUNDS)]

    weak = {(line, back): contrast(theme[line], theme[back]) for line, back in pairs}
    assert {pair: round(found, 2) for pair, found in weak.items() if found < LEAST_SHAPE} == {}


def test_nothing_is_faded() -> None:
    assert set(re.findall(r"opacity: ([\d.]+)", RULES)) <= {"1"}
