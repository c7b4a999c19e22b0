"""The mutation fuzzer, briefly: in a process of its own, for it limits its address space."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).resolve().parents[1] / "fuzz" / "fuzz_reader.py"


def fuzz(tmp_path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FUZZER), "--keep", str(tmp_path / "kept"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_mutated_files_are_read_or_refused_and_reach_every_verdict(tmp_path):
    # Machines that run tests may be slow, or busy: the limit proper is for runs by hand.
    done = fuzz(tmp_path, "--files", "40000", "--seed", "1", "--limit", "2")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert not (tmp_path / "kept").exists()


def test_equal_seeds_give_equal_files(tmp_path):
    tables = [fuzz(tmp_path, "--files", "3000", "--seed", seed).stdout.split(" files in")[0] for seed in "778"]
    assert tables[0] == tables[1] != tables[2]


def test_a_verdict_that_is_not_reached_is_reported(tmp_path):
    done = fuzz(tmp_path, "--files", "1")
    assert done.returncode == 3
    assert "never reached: " in done.stdout
