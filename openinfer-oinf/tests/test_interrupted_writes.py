"""Writes that stop at any point, by a full disk or by a kill, leave the old file or the new one."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openinfer_oinf import OinfWriter, atomicfile, dataclass_to_oinf, open_oinf, write_oinf

OLD = {"tensors": {"w": np.zeros(3, np.float32)}}
NEW = {
    "sizevars": {"B": 4},
    "metadata": {"mode": "fast", "table": [1, 2, 300]},
    "tensors": {"a": np.arange(5, dtype=np.int16), "w": np.ones(3, np.float32), "x": np.eye(4)},
}


class FailingFile:
    """A file that takes `left` writes, then fails as a full disk does; every other write is taken in part only."""

    def __init__(self, file, left: int) -> None:
        self.file = file
        self.left = left

    def write(self, data) -> int:
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1
        return self.file.write(data[: max(1, len(data) // 2)] if self.left % 2 else data)

    def __getattr__(self, name: str):
        return getattr(self.file, name)


@pytest.fixture
def old(tmp_path) -> Path:
    path = tmp_path / "model.oinf"
    write_oinf(OLD, path)
    return path


def only_the_old_file_is_left(old: Path) -> bool:
    return list(old.parent.iterdir()) == [old] and old.read_bytes() == dataclass_to_oinf(OLD)


def limit_writes(monkeypatch, count: int) -> None:
    opened = atomicfile.WrittenFile
    monkeypatch.setattr(atomicfile, "WrittenFile", lambda *a: FailingFile(opened(*a), count))


def is_written(monkeypatch, path: Path, count: int, *, checksums: bool) -> bool:
    with monkeypatch.context() as patch:
        limit_writes(patch, count)
        try:
            write_oinf(NEW, path, checksums=checksums)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
    return True


@pytest.mark.rule("container.writing.3")
@pytest.mark.parametrize("checksums", [False, True])
def test_a_disk_that_fills_up_at_any_write_leaves_the_old_file(old, monkeypatch, checksums):
    new = dataclass_to_oinf(NEW, checksums=checksums)
    for count in range(1000):
        if is_written(monkeypatch, old, count, checksums=checksums):
            break
        assert only_the_old_file_is_left(old)
    assert count > 8
    assert old.read_bytes() == new
    assert list(old.parent.iterdir()) == [old]


def test_a_disk_that_fills_up_leaves_nothing_where_nothing_was(tmp_path, monkeypatch):
    limit_writes(monkeypatch, 3)
    with pytest.raises(OSError, match="No space"):
        write_oinf(NEW, tmp_path / "model.oinf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["os.fsync", "Path.replace"])
def test_a_failure_at_the_end_leaves_the_old_file(old, monkeypatch, call):
    def fail(*_arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(f"openinfer_oinf.atomicfile.{call}", fail)
        with pytest.raises(OSError, match="Input/output"):
            write_oinf(NEW, old)
    assert only_the_old_file_is_left(old)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_exception_between_payloads_leaves_the_old_file(old, interruption):
    def half_of_it():
        yield np.ones(2, np.float32)
        raise interruption

    def write_half() -> None:
        with OinfWriter(old) as writer:
            writer.declare("w", "f32", (4,))
            writer.write("w", half_of_it())

    with pytest.raises(interruption):
        write_half()
    assert only_the_old_file_is_left(old)


def test_a_writer_that_is_dropped_leaves_the_old_file(old):
    writer = OinfWriter(old)
    writer.declare("w", "f32", (4,))
    writer.write("w", np.ones(4, np.float32))
    assert len(list(old.parent.iterdir())) == 2
    writers = [writer]
    del writer
    with pytest.warns(ResourceWarning, match="neither closed nor discarded"):
        writers.clear()
    gc.collect()
    assert only_the_old_file_is_left(old)


DROPPED = """
import os, sys
import numpy as np
from openinfer_oinf import OinfWriter
writer = OinfWriter(sys.argv[1])
writer.declare("w", "f32", (4,))
writer.write("w", np.ones(4, np.float32))
if len(sys.argv) > 2:
    child = os.fork()
    if child == 0:
        del writer
        os._exit(0)
    os.waitpid(child, 0)
    writer.close()
"""


def test_a_writer_that_is_open_when_the_process_ends_leaves_the_old_file(old):
    subprocess.run([sys.executable, "-c", DROPPED, str(old)], check=True, capture_output=True)
    assert only_the_old_file_is_left(old)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_that_drops_the_writer_leaves_it_to_the_other(old):
    subprocess.run([sys.executable, "-W", "error", "-c", DROPPED, str(old), "fork"], check=True, capture_output=True)
    with open_oinf(old) as file:
        assert file["w"].tolist() == [1, 1, 1, 1]


# Forks once for every system call of a write, and kills the child just before that call.
KILLER = """
import os, signal, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np
from pathlib import Path
from openinfer_oinf import atomicfile, write_oinf, dataclass_to_oinf

target = Path(sys.argv[1])
old = {"tensors": {"w": np.zeros(3, np.float32)}}
new = {"tensors": {"w": np.ones(3, np.float32), "x": np.eye(4)}, "metadata": {"mode": "fast"}}
texts = {dataclass_to_oinf(old): "old", dataclass_to_oinf(new): "new"}


class Fuse:
    def __init__(self, left):
        self.left = left

    def before(self, call):
        def guarded(*arguments, **options):
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            return call(*arguments, **options)
        return guarded


class File:
    def __init__(self, file, fuse):
        self._file, self._fuse = file, fuse

    def __getattr__(self, name):
        return self._fuse.before(getattr(self._file, name))


def write(left):
    fuse, opened = Fuse(left), atomicfile.WrittenFile
    atomicfile.WrittenFile = lambda *a: File(opened(*a), fuse)
    for name in ("fsync", "open"):
        setattr(os, name, fuse.before(getattr(os, name)))
    atomicfile.Path.replace = fuse.before(atomicfile.Path.replace)
    write_oinf(new, target)


for left in range(1000):
    write_oinf(old, target)
    assert list(target.parent.iterdir()) == [target], "what the write before left was removed"
    child = os.fork()
    if child == 0:
        write(left)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    print(texts.get(target.read_bytes(), "broken"))
    if status == 0:
        break
"""


@pytest.mark.rule("container.writing.3")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_kill_at_any_system_call_leaves_the_old_file_or_the_new_one(tmp_path):
    command = [sys.executable, "-c", KILLER, str(tmp_path / "model.oinf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    states = done.stdout.split()
    assert len(states) > 10
    assert states == sorted(states, reverse=True)
    assert set(states) == {"old", "new"}
