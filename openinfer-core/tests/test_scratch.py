"""Scratch directories are private, removed at the end, and removed by the next run where their process was killed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from openinfer.scratch import scratch_directory

USER = """
import sys
from openinfer.scratch import scratch_directory
with scratch_directory() as directory:
    (directory / "deep").mkdir()
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_scratch_directory_is_private_and_removed(base: Path) -> None:
    with scratch_directory() as directory:
        (directory / "file").write_text("text")
        assert directory.parent == base
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700

    assert list(base.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="no locks that end with the process")
def test_that_of_a_killed_process_is_removed_and_that_of_a_live_one_is_not(base: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(base)}
    command = [sys.executable, "-c", USER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        with scratch_directory():
            assert (theirs / "deep").is_dir()
        process.kill()
        process.wait()

    assert theirs.is_dir()
    with scratch_directory():
        assert not theirs.exists()
