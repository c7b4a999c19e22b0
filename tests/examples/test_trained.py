"""The examples with trained models: what they print agrees, and the tables of their READMEs say what runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import openinfer as oi
from openinfer.testing.waiting import limit_s

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(run.parent for run in EXAMPLES.glob("*/run.py") if "import agreement" in run.read_text("utf-8"))
MOST_BYTES = 2_000_000

VERIFIED_BYTES = 1 << 20
"""Values of a step in which an import is compared: sequences of hundreds of items, not of thousands."""


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture(scope="module")
def printed(folder: Path) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "run.py"],
        cwd=folder,
        env={**os.environ, "CC": os.environ.get("CC", "cc") + " -O0"},
        capture_output=True,
        text=True,
        timeout=limit_s(180),
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    if lines[0].startswith("skipped: "):
        pytest.skip(lines[0].removeprefix("skipped: "))
    return lines


def rows(folder: Path) -> dict[str, str]:
    """Return what the table of a README says of each device and target: `yes`, or the code of an error."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ((?:device|target) \w+) \| (\w[\w-]*) \|", text, re.MULTILINE))


def test_every_claim_holds_wherever_the_table_says_that_it_runs(folder: Path, printed: list[str]) -> None:
    supported = {place for place, answer in rows(folder).items() if answer == "yes"}
    checked = {place for place in rows(folder) if any(line.startswith(f"ok     {place}") for line in printed)}
    absent = {place for place in rows(folder) if any(line.startswith(f"       {place} ") for line in printed)}

    assert checked | absent == supported
    assert "device cpu" in checked


def test_the_table_has_every_device_and_target_of_the_distributions(folder: Path) -> None:
    environment = oi.Environment.default()
    owned = {f"device {name}" for name in environment.devices} | {f"target {name}" for name in environment.targets}

    assert {"device cpu", "device c", "device vulkan", "target c", "target vulkan"} <= rows(folder).keys()
    assert owned & rows(folder).keys() == rows(folder).keys()


def test_the_figures_of_memory_and_accuracy_are_those_printed(folder: Path, printed: list[str]) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    memory = [line for line in printed if "arena " in line]
    counts = re.findall(r": (\d+) of (\d+) images right", "\n".join(printed))

    assert memory
    assert [figure for line in memory for figure in re.findall(r"([1-9][\d,]*) B\b", line) if figure not in text] == []
    shares = [f"{right} ({int(right) / int(of):.1%})".replace("%", " %") for right, of in counts]
    assert [share for share in shares if share not in text] == []


def test_the_artefacts_are_small(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]

    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_a_fresh_import_of_the_exported_model_computes_the_same(folder: Path) -> None:
    exported = sorted(folder.glob("*.onnx"))
    if not exported:
        pytest.skip("the exported model is not in the repository: train.py makes it")
    pytest.importorskip("onnx", reason="the package onnx, which reads exported models, is not installed")
    from openinfer import importers

    for path in exported:
        imported = importers.load(path)
        assert importers.verify(path, imported, budget=VERIFIED_BYTES).agrees
