"""The script that compares rules with tests finds every kind of fault."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "rules.py"

PAGE = """# Memory

Text * **here** is not a rule.

## Life of values

* **memory.life-of-values.1** A value lives.
* **memory.life-of-values.3** It ends.
"""
TEST = """
import pytest

@pytest.mark.rule("memory.life-of-values.1", "memory.life-of-values.3")
def test_a_value_lives_and_ends(): ...
"""


def faults(root: Path, *, page: str = PAGE, test: str = TEST, source: str = "") -> list[str]:
    """Return what the script reports about a small repository, without its counts."""
    files = {"docs/specification/memory.md": page, "tests/test_values.py": test, "openinfer-core/src/values.py": source}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text, encoding="utf-8")
    finished = subprocess.run([sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True, check=False)
    lines = finished.stdout.splitlines()
    found = lines[next(number for number, line in enumerate(lines) if " rules, named " in line) + 1 :]
    assert finished.returncode == (1 if found else 0), finished.stderr
    return found


def test_rules_that_tests_name_are_in_order(tmp_path: Path) -> None:
    section = "specification: memory.life-of-values"
    source = f'"""What lives (``{section}``, ``{section}.3``)."""'
    assert faults(tmp_path, source=source) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("-values.3** It", "-values.4** It", "memory.md:8: no test names memory.life-of-values.4"),
        ("-values.3** It", "-values.1** It", "memory.md:8: memory.life-of-values.1 comes after number 1"),
        ("-values.3** It", "-values** It", "memory.md:8: expected `* **memory.life-of-values.N** text`"),
        ("memory.life-of-values.3", "memory.life.3", "memory.md:8: memory.life.3 is in memory.life-of-values"),
    ],
)
def test_a_fault_in_a_page_is_reported_with_its_line(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert expected in faults(tmp_path, page=PAGE.replace(old, new))


def test_a_mark_of_a_rule_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    test = TEST.replace('values.3"', 'values.3", "memory.life-of-values.2"')
    assert faults(tmp_path, test=test) == ["test_values.py:4: no rule is called 'memory.life-of-values.2'"]


def test_a_citation_of_what_does_not_exist_is_reported(tmp_path: Path) -> None:
    cited = "specification: memory.death"
    source = f"# As ``{cited}`` says."
    assert faults(tmp_path, source=source) == ["values.py:1: no rule or section 'memory.death'"]
