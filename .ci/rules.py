"""Compare the rules of docs/specification with the tests that name them: `rules.py [ROOT]`.

Prints how many rules each page has, and every fault: a rule that no test names, a mark or a citation of a rule that
does not exist, a rule in the wrong place. Exits 1 where there is a fault. A test names its rules with
`@pytest.mark.rule("page.section.number", ...)`; docstrings and comments of the distributions cite a rule, or a
section of rules, as ``specification: page.section``, in double backquotes.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGES = "docs/specification"
TESTS = ("tests", "openinfer-*/tests")
SOURCES = ("openinfer-*/src", "openinfer-*/tests", "tests")

_RULE = re.compile(r"\* \*\*([a-z]+)\.([a-z-]+)\.([1-9]\d*)\*\* \S")
_ITEM = re.compile(r"\* \*\*")
_HEADING = re.compile(r"## (\S.*)")
_CITATION = re.compile(r"``specification: ([^`]*)``")


@dataclass(frozen=True)
class Rule:
    """A rule and its place in a page."""

    page: str
    section: str
    number: int
    place: str

    def __str__(self) -> str:
        return f"{self.page}.{self.section}.{self.number}"


def read_page(path: Path) -> tuple[list[Rule], list[str]]:
    """Return the rules of a page in order, and what is wrong with their form."""
    rules: list[Rule] = []
    faults: list[str] = []
    section = ""
    for line_number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        place = f"{path.name}:{line_number}"
        if heading := _HEADING.fullmatch(line):
            section = heading[1].lower().replace(" ", "-")
        elif found := _RULE.match(line):
            rule = Rule(found[1], found[2], int(found[3]), place)
            last = rules[-1].number if rules and rules[-1].section == section else 0
            if (rule.page, rule.section) != (path.stem, section):
                faults.append(f"{place}: {rule} is in {path.stem}.{section}")
            elif rule.number <= last:
                faults.append(f"{place}: {rule} comes after number {last}")
            rules.append(rule)
        elif _ITEM.match(line) and section not in {"", "exceptions"}:
            faults.append(f"{place}: expected `* **{path.stem}.{section}.N** text`")
    return rules, faults


def marks(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each rule that a test file names, with its place."""
    text = path.read_text(encoding="utf-8")
    if "mark.rule" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.rule":
            for argument in node.args:
                named = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                yield str(named), f"{path.name}:{argument.lineno}"


def citations(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each rule or section that a module cites, with its place."""
    for line_number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for found in _CITATION.finditer(line):
            yield found[1], f"{path.name}:{line_number}"


def python_files(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for found in sorted(root.glob(folder)):
            yield from sorted(found.rglob("*.py")) if found.is_dir() else [found]


def examine(root: Path) -> tuple[list[str], list[str]]:
    """Return the lines of the report, and the faults."""
    rules: list[Rule] = []
    faults: list[str] = []
    for page in sorted((root / PAGES).glob("*.md")):
        found, wrong = read_page(page)
        rules += found
        faults += wrong
    known = {str(rule) for rule in rules}
    sections = {f"{rule.page}.{rule.section}" for rule in rules}
    named = [mark for path in python_files(root, TESTS) for mark in marks(path)]
    tests = Counter(name for name, _ in named)
    faults += [f"{place}: no rule is called {name!r}" for name, place in named if name not in known]
    for path in python_files(root, SOURCES):
        cited = citations(path)
        faults += [f"{place}: no rule or section {name!r}" for name, place in cited if name not in known | sections]
    faults += [f"{rule.place}: no test names {rule}" for rule in rules if not tests[str(rule)]]
    lines = [f"{page:<12} {count} rules" for page, count in sorted(Counter(rule.page for rule in rules).items())]
    return [*lines, f"{len(rules)} rules, named {sum(tests.values())} times by tests"], faults


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    lines, faults = examine(root)
    print("\n".join([*lines, *faults]))
    if faults:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
