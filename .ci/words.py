"""Find the words that `tool.wording` of pyproject.toml lists, in prose: `words.py [ROOT]`.

Prose is every Markdown page without its code, every comment and docstring, the texts of explanations, and the string
literals of the distributions, which hold messages and help. The list maps regular expressions to what to write instead.
White space of the prose counts as single spaces, so that phrases are found across the ends of lines.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

FOLDERS = (".ci", "changelog.d", "docs", "examples", "benchmarks", "tests", "openinfer-*")
PAGES = ("*.md", "tox.ini")
SUFFIXES = (".md", ".py", ".toml")
# What other tools wrote, and texts that tests expect word by word.
LEFT_OUT = frozenset({"golden", "golden_traces", "data", "node_modules", "__pycache__"})

_GAPS = re.compile(r"[\s\"'#]+")
_FENCE = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``[^`\n]+``|`[^`\n]+`")


def files(root: Path) -> Iterator[Path]:
    for pattern in PAGES:
        yield from sorted(root.glob(pattern))
    for pattern in FOLDERS:
        for folder in sorted(root.glob(pattern)):
            for path in sorted(folder.rglob("*")):
                if path.suffix in SUFFIXES and LEFT_OUT.isdisjoint(path.relative_to(root).parts):
                    yield path


def blank(found: re.Match[str]) -> str:
    """Return as many lines and characters without any words."""
    return re.sub(r"[^\n]", " ", found[0])


def prose(path: Path, *, literals: bool) -> Iterator[tuple[int, str]]:
    """Yield the pieces of prose of a file, each with the number of its first line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, _FENCE.sub(blank, text)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    tree = ast.parse(text)
    # Also strings below attributes, which describe them.
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (literals or id(node) in docstrings):
            yield node.lineno, node.value


def read_words(pyproject: Path) -> list[tuple[re.Pattern[str], str]]:
    """Return the patterns of words, and what to write instead."""
    table = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["wording"]
    return [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in table.items()]


def on_one_line(text: str) -> tuple[str, list[int]]:
    """Return a text with one space for each stretch of white space, and how many lines precede each character."""
    pieces = [(found[0], text.count("\n", 0, found.start())) for found in re.finditer(r"\S+", text)]
    return " ".join(word for word, _ in pieces), [line for word, line in pieces for _ in range(len(word) + 1)]


def findings(root: Path) -> list[str]:
    """Return a line for each word that is found."""
    words = read_words(root / "pyproject.toml")
    found: dict[tuple[Path, int, int], str] = {}
    for path in files(root):
        name = path.relative_to(root)
        # Most files have none of the words: those need no tokens.
        raw = _GAPS.sub(" ", path.read_text(encoding="utf-8"))
        if not any(pattern.search(raw) for pattern, _ in words):
            continue
        for first, text in prose(path, literals="src" in name.parts):
            bare, lines = on_one_line(_CODE.sub("`", text))
            for number, (pattern, instead) in enumerate(words):
                for match in pattern.finditer(bare):
                    line = first + lines[match.start()]
                    found[path, line, number] = f"{name}:{line}: {match[0]!r}: write {instead}"
    return list(found.values())


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    found = findings(root)
    print("\n".join(found))
    if found:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
