"""Temporary files: those of killed writers are removed, those of live ones and everything else are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer_oinf.atomicfile import AtomicFile
from openinfer_oinf.staging import (
    create_file,
    locked,
    remove_abandoned,
    shortened,
    staged_for,
    staging_directory,
    staging_name,
)

needs_locks = pytest.mark.skipif(os.name == "nt", reason="no locks that end with the process")

LOOK_ALIKES = (
    ".model.oinf.0123456789abcdef.tmp",
    ".model.oinf.0123456789abcdef0123456789abcdef.tmp",
    "model.oinf.tmp",
    ".notes.txt.tmp",
)


def abandoned_file(directory: Path) -> Path:
    path, descriptor = create_file(directory, "model.oinf")
    os.close(descriptor)
    return path


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/\0"), min_size=1, max_size=255))
def test_names_are_recognised_and_short_enough(name):
    made = staging_name(name)

    assert staged_for(made) == shortened(name)
    assert len(os.fsencode(made)) <= 255
    assert staged_for(f"{made}.old") is None
    assert staged_for(name) is None


@needs_locks
def test_what_killed_writers_left_is_removed(tmp_path):
    abandoned_file(tmp_path)
    directory = tmp_path / staging_name("out")
    (directory / "deep").mkdir(parents=True)
    (directory / "deep" / "file").write_text("half")

    remove_abandoned(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_everything_else_is_left_alone(tmp_path):
    for name in LOOK_ALIKES:
        (tmp_path / name).write_text("mine")
    (tmp_path / staging_name("link")).symlink_to(tmp_path / LOOK_ALIKES[0])
    os.mkfifo(tmp_path / staging_name("pipe"))
    before = set(tmp_path.iterdir())

    remove_abandoned(tmp_path)

    assert set(tmp_path.iterdir()) == before


def test_live_writers_keep_their_files(tmp_path):
    with AtomicFile.writing(tmp_path / "a") as a, staging_directory(tmp_path, "b") as b:
        remove_abandoned(tmp_path)
        (b / "file").write_text("b")
        with AtomicFile.writing(tmp_path / "c") as c:
            c.write_whole(b"c")
        a.write_whole(b"a")

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a": "a", "c": "c"}


@needs_locks
def test_a_directory_is_locked_under_every_name(tmp_path):
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out"), locked(tmp_path / "missing"):
        moved = (tmp_path / "out").rename(tmp_path / staging_name("out"))
        remove_abandoned(tmp_path)
        assert moved.is_dir()

    remove_abandoned(tmp_path)
    assert not moved.exists()


LOCKING = """
import fcntl, os, sys
from pathlib import Path
from openinfer_oinf.staging import locked, staging_directory
base = Path(sys.argv[1])
with staging_directory(base, "a") as outer, staging_directory(outer, "b") as inner, locked(inner):
    try:
        fcntl.flock(os.open(base, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked")
"""


@needs_locks
def test_a_directory_around_temporary_ones_is_locked_in_their_place(tmp_path):
    command = [sys.executable, "-c", LOCKING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "locked\n"


@needs_locks
def test_an_entry_that_another_process_takes_before_it_is_locked_is_given_up(tmp_path, monkeypatch):
    opened, taken = os.open, []

    def open_and_lose(path, *arguments, **named):
        descriptor = opened(path, *arguments, **named)
        if not taken:
            taken.append(Path(path))
            Path(path).unlink()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)
    path, descriptor = create_file(tmp_path, "model.oinf")
    os.close(descriptor)

    assert taken
    assert list(tmp_path.iterdir()) == [path]


WRITER = """
import sys
from openinfer_oinf.atomicfile import AtomicFile
file = AtomicFile(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@needs_locks
def test_another_process_removes_a_file_only_once_its_writer_is_dead(tmp_path):
    target = tmp_path / "model.oinf"
    command = [sys.executable, "-c", WRITER, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        remove_abandoned(tmp_path)
        alive = list(tmp_path.iterdir())
        writer.kill()
        writer.wait()

    assert len(alive) == 1
    assert list(tmp_path.iterdir()) == alive
    with AtomicFile.writing(target) as file:
        file.write_whole(b"whole")
    assert list(tmp_path.iterdir()) == [target]
