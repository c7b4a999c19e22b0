"""The example folders run unchanged, and what they compare with NumPy agrees."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openinfer.testing.waiting import limit_s

EXAMPLES = Path(__file__).parents[2] / "examples"
# Those with trained models are in test_trained.py and test_cortex_m4.py.
FOLDERS = sorted(
    run.parent.name
    for run in EXAMPLES.glob("*/run.py")
    if "import agreement" not in run.read_text("utf-8") and run.parent.name != "cortex-m4"
)

SAID = {
    "layer": ["close to NumPy: True"],
    "minimal": ["equal to NumPy: True"],
    "prefix-tables": ["close to NumPy: True"],
    "branching": ["finite: blocks entry, ok, algorithm;", "with a NaN: blocks entry, bad, algorithm;"],
    "cache-decode": ["step.oi: step = 2", "decode.oi: step = 8", "(8, 4, 8)", "close to NumPy: True"],
    "auto-dim": ["step 3: 5 x 6", "row 0 = [3.0, 3.0, 3.0, 3.0, 2.0, 1.0]", "after reset: (2, 3)", "restore: (5, 6)"],
    "yield-await": ["close to NumPy: True", "the readers saw the signal: True"],
    "json": ["comes back is equal: True", "[OpExecute] entry :: mul", "computes the same: True"],
}


def test_every_example_is_tested() -> None:
    assert sorted(SAID) == FOLDERS


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_example_runs(folder: str, tmp_path: Path) -> None:
    # A copy, so that what the example writes stays out of the working tree.
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("digits", "__pycache__", "*.oinf"))

    ran = subprocess.run(
        [sys.executable, "-W", "error", "run.py"],
        cwd=tmp_path / "examples" / folder,
        capture_output=True,
        text=True,
        timeout=limit_s(120),
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    for line in SAID[folder]:
        assert line in ran.stdout


FIRST_SCREEN = 24
"""Lines of a small terminal."""


def test_the_demo_shows_results_first_and_says_what_ran_them() -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "digits" / "demo.py")], capture_output=True, text=True, timeout=300, check=False
    )
    lines = ran.stdout.splitlines()

    assert (ran.returncode, ran.stderr) == (0, "")
    assert any(line.startswith("accuracy ") for line in lines[:FIRST_SCREEN])
    assert not [line for line in lines if re.search(r"-?\d+\.\d{5,}", line)], "no weights"
    device, time = lines[lines.index("== Simulated on vulkan ==") + 1 :][:2]
    if device.startswith("skipped: "):
        pytest.skip("no Vulkan device works here")
    assert device.startswith("device  ")
    assert ("(software," in device.partition(";")[0]) == ("a software device" in time)
