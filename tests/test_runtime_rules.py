"""`docs/runtime-rules.md`: every rule has its number and its tests, and the tests are there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "runtime-rules.md").read_text(encoding="utf-8")
CHAPTERS = 16

_ROW = re.compile(r"\| (\d+)\.(\d+) \| ([^|]+) \| ([^|]+) \|")
_TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def rows() -> list[tuple[int, int, str, list[tuple[str, str]]]]:
    """Return chapter, number, rule and tests of every row."""
    found = [_ROW.fullmatch(line) for line in PAGE.splitlines()]
    return [(int(m[1]), int(m[2]), m[3], _TEST.findall(m[4])) for m in found if m is not None]


@cache
def defined_in(name: str) -> frozenset[str]:
    """Return the names of the test functions of a file."""
    (path,) = [*ROOT.glob(f"tests/**/{name}"), *ROOT.glob(f"openinfer-*/tests/**/{name}")]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("file", "test"), sorted({test for row in rows() for test in row[3]}))
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    assert test in defined_in(file)


def test_rules_are_numbered_without_gaps() -> None:
    headings = [int(found) for found in re.findall(r"^## (\d+)\. \S", PAGE, re.MULTILINE)]
    assert headings == list(range(1, CHAPTERS + 1))
    counts = Counter(chapter for chapter, *_ in rows())
    expected = [(chapter, number) for chapter in headings for number in range(1, counts[chapter] + 1)]
    assert [(chapter, number) for chapter, number, *_ in rows()] == expected
    assert min(counts[chapter] for chapter in headings) > 0


def test_rules_stand_in_their_chapter() -> None:
    chapter = 0
    for line in PAGE.splitlines():
        heading, row = re.match(r"## (\d+)\.", line), _ROW.fullmatch(line)
        chapter = int(heading[1]) if heading else chapter
        assert row is None or int(row[1]) == chapter, line


def test_every_rule_says_something_and_has_tests() -> None:
    for chapter, number, rule, tests in rows():
        assert len(rule) > 20, f"{chapter}.{number} says nothing"
        assert tests, f"{chapter}.{number} has no test"
        assert len(tests) == len(set(tests)), f"{chapter}.{number} names a test twice"


def test_tests_are_named_in_rows_only() -> None:
    """A row with a mistake in its form would be overlooked otherwise."""
    lines = [line for line in PAGE.splitlines() if "::" in line or re.match(r"\| \d", line)]
    assert [line for line in lines if _ROW.fullmatch(line) is None] == []
    assert PAGE.count("::") == sum(len(tests) for *_, tests in rows())
