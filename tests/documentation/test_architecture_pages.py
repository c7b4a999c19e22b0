"""The pages of docs/architecture/life name modules and attributes that exist, and each other in order."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

LIFE = Path(__file__).parents[2] / "docs" / "architecture" / "life"
STAGES = sorted(LIFE.glob("[0-9]*.md"))
NAMES = re.compile(r"`(openinfer\w*(?:\.\w+)*)`")


@pytest.mark.parametrize("page", [LIFE / "README.md", *STAGES], ids=lambda page: page.name)
def test_names_of_modules_exist(page: Path) -> None:
    missing = [name for name in NAMES.findall(page.read_text(encoding="utf-8")) if not exists(name)]
    assert missing == []


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
