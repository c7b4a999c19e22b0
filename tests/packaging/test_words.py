"""The script that finds listed words reads prose only."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "words.py"
LIST = "[tool.wording]\n'told(?! apart)' = \"reported\"\n'held against' = \"compared with\"\n"


def findings(root: Path, name: str, text: str) -> list[str]:
    """Return what the script reports about a repository of one file, without the hints."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (root / "pyproject.toml").write_text(LIST, encoding="utf-8")
    finished = subprocess.run([sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True, check=False)
    found = finished.stdout.split("\n")[:-1]
    assert finished.returncode == (1 if found != [""] else 0), finished.stderr
    return [line.partition(": write")[0] for line in found if line]


def test_words_of_pages_are_found_outside_of_code(tmp_path: Path) -> None:
    text = "What is told,\nand `told`.\n\n```\ntold\n```\n\nIt is held\nagainst this.\n"
    assert findings(tmp_path, "docs/page.md", text) == ["docs/page.md:1: 'told'", "docs/page.md:8: 'held against'"]


def test_comments_docstrings_and_messages_are_prose_and_names_are_not(tmp_path: Path) -> None:
    text = '"""One\n\nheld\nagainst."""\ntold = 1  # told\nmessage = f"{told} is Told, told\\napart"\n'
    name = "openinfer-core/src/module.py"
    expected = [f"{name}:5: 'told'", f"{name}:3: 'held against'", f"{name}:6: 'Told'"]
    assert sorted(findings(tmp_path, name, text)) == sorted(expected)


@pytest.mark.parametrize("name", ["tests/test_it.py", "openinfer-core/tests/test_it.py"])
def test_literals_of_tests_are_data(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path, name, 'assert "told" in "told"\n') == []


def test_golden_texts_are_left_alone(tmp_path: Path) -> None:
    assert findings(tmp_path, "openinfer-core/tests/golden/page.md", "told\n") == []
