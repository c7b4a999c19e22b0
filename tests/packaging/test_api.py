"""The script that compares the public API with its baselines reports every kind of change."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''
__all__ = ["LIMIT", "Shape", "parse"]

LIMIT: int = 3

class Shape(tuple):
    """Extents."""
    kind = "static"
    _secret = 1

    def count(self, start: int, /, *, stop: int | None = None, **options: object) -> int:
        """Return how many."""

    def _hidden(self): ...

def parse(text: str, strict: bool = False) -> Shape:
    """Return a shape."""
'''


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / ".ci" / "api.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of two small packages, with baselines of their API."""
    pytest.importorskip("griffe", reason="griffe, which reads the API, is not installed")
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "api.py", tmp_path / ".ci")
    for name in ("openinfer-core/src/openinfer/plugin.py", "openinfer-oinf/src/openinfer_oinf/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("__all__ = []\n", encoding="utf-8")
    module(tmp_path).write_text(SOURCE, encoding="utf-8")
    assert run(tmp_path, "--write").returncode == 0
    return tmp_path


def module(repository: Path) -> Path:
    return repository / "openinfer-core" / "src" / "openinfer" / "__init__.py"


def test_a_baseline_has_public_names_with_their_signatures(repository: Path) -> None:
    assert (repository / ".ci" / "api" / "openinfer.txt").read_text(encoding="utf-8").splitlines() == [
        "LIMIT: int",
        "class Shape(tuple)",
        "Shape.count(start: int, /, *, stop: int | None = None, **options: object) -> int",
        "Shape.kind = 'static'",
        "parse(text: str, strict: bool = False) -> Shape",
    ]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("strict: bool = False", "strict: bool = True", "+parse(text: str, strict: bool = True) -> Shape"),
        ('"Shape", ', "", "-class Shape(tuple)"),
        ("stop: int | None", "end: int | None", "-Shape.count(start: int, /, *, stop: int | None = None, "),
        ("LIMIT: int = 3", "LIMIT: float = 3", "+LIMIT: float"),
    ],
)
def test_a_change_is_reported(repository: Path, old: str, new: str, line: str) -> None:
    module(repository).write_text(SOURCE.replace(old, new), encoding="utf-8")

    checked = run(repository)

    assert checked.returncode == 1
    assert any(shown.startswith(line) for shown in checked.stdout.splitlines()), checked.stdout


def test_what_is_not_public_may_change(repository: Path) -> None:
    module(repository).write_text(SOURCE.replace("_secret = 1", "_secret = 2").replace("_hidden", "_other"), "utf-8")
    assert (run(repository).returncode, run(repository).stdout) == (0, "")
