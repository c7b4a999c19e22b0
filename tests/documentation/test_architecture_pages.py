"""Pages name modules and attributes that exist; those of docs/architecture/life name each other in order."""

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIFE = ROOT / "docs" / "architecture" / "life"
STAGES = sorted(LIFE.glob("[0-9]*.md"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("openinfer-*/*.md"), *ROOT.glob("docs/**/*.md")]
HISTORY = ROOT / "CHANGELOG.md"
NAMES = re.compile(r"`(openinfer\w*(?:\.\w+)+)(?<!\.h)(?<!\.json)(?<!\.toml)(?:\(\))?`")
FILES = re.compile(r"`([\w-]+(?:/[\w-]+)+\.py)`")


@pytest.mark.parametrize("page", sorted({*PAGES} - {HISTORY}), ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_modules_and_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = {name for name in NAMES.findall(text) if not exists(name)}
    missing |= {name for name in FILES.findall(text) if not any(file.endswith(f"/{name}") for file in modules())}

    assert missing == set()


@cache
def modules() -> frozenset[str]:
    """Return the paths of the Python files of the repository."""
    folders = (*ROOT.glob("openinfer-*"), *(ROOT / name for name in ("benchmarks", "examples", "tests", ".ci", "docs")))
    return frozenset(f"/{file.relative_to(ROOT)}" for folder in folders for file in folder.rglob("*.py"))


def exists(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    parent, _, last = name.rpartition(".")
    try:
        return find_spec(name) is not None or hasattr(import_module(parent), last)
    except ModuleNotFoundError:
        return bool(parent) and hasattr(import_module(parent), last)


@pytest.mark.parametrize("page", STAGES, ids=lambda page: page.name)
def test_every_stage_has_a_picture_data_and_what_to_change(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("```mermaid") == 1
    assert text.count("```text printed") == 1
    assert "| to change | see |" in text


def test_the_overview_lists_every_stage_in_order() -> None:
    listed = re.findall(
        r"^\| \[\d\. [^]]+\]\(([^)]+)\)", (LIFE / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed == [page.name for page in STAGES]
