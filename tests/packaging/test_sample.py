"""`--sample` runs some tests of each file, always the same, and counts the rest as deselected."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    for name, tests in (("some", "abcdefg"), ("more", "xyz")):
        (folder / name).mkdir()
        lines = [f"def test_{each}(): pass\n" for each in tests]
        (folder / name / f"test_{name}.py").write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], "abcdefgxyz"),
        (["some=3"], "adgxyz"),
        ([".=100"], "gz"),
        ([".=2", "some=3"], "adgxz"),
        (["some=2", "more=2"], "acegxz"),
        ([".=4"], "cgz"),
    ],
)
def test_a_sample_has_tests_of_every_file(samples: list[str], expected: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "some", "more", *(f"--sample={sample}" for sample in samples))

    assert "".join(line.split("::test_")[1][0] for line in ran.stdout.splitlines() if " PASSED" in line) == expected
    assert ("deselected" in ran.stdout) == bool(samples)
    assert ran.returncode == 0


@pytest.mark.parametrize("sample", ["some", "some=0", "absent=3", "some=x"])
def test_a_sample_of_nothing_is_an_error(sample: str, tmp_path: Path) -> None:
    ran = run(tmp_path, f"--sample={sample}")

    assert ran.returncode == 4
    assert "expected the path of a folder, `=` and a number from 1 on" in ran.stderr


def test_a_disk_that_is_not_waited_for_still_refuses_closed_descriptors(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        descriptor = file.fileno()
        os.fsync(descriptor)

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fsync(descriptor)
