"""Bundles are written all at once or not at all, and never over anything else."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openinfer.errors import SynthesisError
from openinfer.scratch import scratch_directory
from openinfer.synth import bundle
from openinfer.synth.bundle import MARKER, Bundle, write_bundle
from openinfer.synth.swapping import exchange
from openinfer.testing.waiting import limit_s

BUNDLE = Bundle({"model.c": b"int x;\n", "Makefile": b"all:\n"}, products=("model",))


def contents(directory: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in directory.iterdir() if entry.name != MARKER}


def test_files_are_written_with_parents(tmp_path):
    target = write_bundle(BUNDLE, tmp_path / "a" / "b")

    assert target == tmp_path / "a" / "b"
    assert contents(target) == dict(BUNDLE.files)
    assert [entry.name for entry in target.parent.iterdir()] == ["b"]


FOLDERS = Bundle({"model.c": b"int x;\n", "examples/infer/infer.ino": b"a\n", "zephyr/module.yml": b"b\n"})


def test_files_in_folders_are_written_and_replaced(tmp_path):
    write_bundle(FOLDERS, tmp_path / "out")
    target = write_bundle(Bundle({**FOLDERS.files, "zephyr/module.yml": b"c\n"}), tmp_path / "out")

    assert (target / "examples" / "infer" / "infer.ino").read_bytes() == b"a\n"
    assert (target / "zephyr" / "module.yml").read_bytes() == b"c\n"
    assert contents(write_bundle(BUNDLE, target)) == dict(BUNDLE.files)


@pytest.mark.parametrize("added", ["zephyr/mine.yml", "zephyr/mine/other.yml", "examples/infer/infer.ino", "mine/a.c"])
def test_what_was_added_or_changed_in_a_folder_is_not_replaced(tmp_path, added):
    target = write_bundle(FOLDERS, tmp_path / "out")
    (target / added).parent.mkdir(exist_ok=True)
    (target / added).write_text("mine")

    with pytest.raises(SynthesisError, match=rf"'{added.removesuffix('/other.yml').removesuffix('/a.c')}', which "):
        write_bundle(BUNDLE, target)

    assert (target / added).read_text() == "mine"


@pytest.mark.parametrize("name", ["../model.c", "/model.c", "a/../model.c", "a//model.c", "a/b/c/d/model.c", ".a/b.c"])
def test_folders_that_lead_elsewhere_are_refused(name):
    with pytest.raises(ValueError, match="plain file names"):
        Bundle({name: b""})


def test_an_empty_directory_is_taken(tmp_path):
    (tmp_path / "out").mkdir()

    assert contents(write_bundle(BUNDLE, tmp_path / "out")) == dict(BUNDLE.files)


@pytest.mark.parametrize("spelled", [".", "..", "inner/..", "../out"])
def test_the_current_directory_is_not_replaced(tmp_path, monkeypatch, spelled):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    if spelled == "..":
        (tmp_path / "out" / "deep").mkdir()
        monkeypatch.chdir(tmp_path / "out" / "deep")

    with pytest.raises(SynthesisError) as caught:
        write_bundle(BUNDLE, spelled)

    assert caught.value.code == "output-directory"
    assert spelled == ".." or "is the current directory or one around it" in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_directory_may_be_named_with_dots(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    assert contents(write_bundle(BUNDLE, "../here/./out")) == dict(BUNDLE.files)


def entries(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def planted(directory: Path, *lines: str) -> None:
    """Write a marker as an earlier version or someone else would."""
    directory.mkdir(exist_ok=True)
    (directory / MARKER).write_text("".join(f"{line}\n" for line in lines))


def refused(*_arguments: object) -> None:
    raise PermissionError


def recorded(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_an_earlier_bundle_is_replaced(tmp_path):
    target = write_bundle(Bundle({"old.c": b"", "model.c": b""}, products=("model",)), tmp_path / "out")

    write_bundle(BUNDLE, target)

    assert contents(target) == dict(BUNDLE.files)
    assert entries(tmp_path) == ["out"]


@pytest.mark.parametrize("links", [True, False])
def test_what_was_built_is_kept_and_older_than_the_sources(tmp_path, monkeypatch, links):
    target = write_bundle(Bundle({"old.c": b""}, products=("model",)), tmp_path / "out")
    (target / "model").write_bytes(b"\x7fELF")
    (target / "model").chmod(0o755)
    if not links:
        monkeypatch.setattr(os, "link", refused)

    write_bundle(BUNDLE, target)

    assert contents(target) == {**BUNDLE.files, "model": b"\x7fELF"}
    assert (target / "model").stat().st_mode & 0o111
    assert (target / "model").stat().st_mtime_ns <= (target / "model.c").stat().st_mtime_ns
    assert entries(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["notes.txt", "model.h", "other"])
def test_a_directory_with_something_else_is_left_alone(tmp_path, name):
    target = write_bundle(BUNDLE, tmp_path / "out")
    (target / name).write_text("mine")

    with pytest.raises(SynthesisError, match=rf"holds '{name}', which is not part of a bundle") as caught:
        write_bundle(BUNDLE, target)

    assert caught.value.code == "output-directory"
    assert (target / name).read_text() == "mine"


def test_a_file_that_was_changed_is_left_alone(tmp_path):
    target = write_bundle(BUNDLE, tmp_path / "out")
    (target / "model.c").write_text("int y;\n")

    with pytest.raises(SynthesisError, match=r"holds 'model\.c', which was changed since it was written: move it away"):
        write_bundle(BUNDLE, target)

    assert (target / "model.c").read_text() == "int y;\n"


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["../sub", "sub/x.c"], "notes.txt"),
        (["notes.txt", "sub"], "notes.txt"),
        ([f"{recorded(b'other')}  notes.txt", f"{recorded(b'')}  sub"], "notes.txt"),
        ([f"{recorded(b'mine')}  notes.txt", f"{recorded(b'')}  sub"], "sub"),
        ([f"{recorded(b'mine')}  notes.txt", f"{recorded(b'y')}  sub/x.c"], "sub/x.c"),
        ([f"{recorded(b'mine')}  ../kept.txt", f"{recorded(b'x')}  model.c"], "notes.txt"),
    ],
)
def test_a_planted_marker_deletes_nothing(tmp_path, lines, named):
    target = tmp_path / "out"
    (target / "sub").mkdir(parents=True)
    (target / "sub" / "x.c").write_text("x")
    (target / "notes.txt").write_text("mine")
    (tmp_path / "kept.txt").write_text("mine")
    planted(target, *lines)

    with pytest.raises(SynthesisError, match=f"holds '{re.escape(named)}'"):
        write_bundle(BUNDLE, target)

    assert sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")) == [
        "kept.txt",
        "out",
        f"out/{MARKER}",
        "out/notes.txt",
        "out/sub",
        "out/sub/x.c",
    ]


def test_a_marker_that_records_no_contents_is_left_alone(tmp_path):
    planted(tmp_path / "out", "model.c", "Makefile")

    with pytest.raises(SynthesisError, match=rf"holds '{re.escape(MARKER)}', which records no contents of files"):
        write_bundle(BUNDLE, tmp_path / "out")


@pytest.mark.parametrize("name", ["model", "model.c"])
@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("elsewhere"), os.mkfifo])
def test_only_plain_files_are_part_of_a_bundle(tmp_path, name, make):
    target = write_bundle(Bundle({"Makefile": b"all:\n"}), tmp_path / "out")
    make(target / name)

    with pytest.raises(SynthesisError, match=rf"holds '{name}', which is not part of a bundle"):
        write_bundle(BUNDLE, target)

    assert entries(target) == sorted([MARKER, "Makefile", name])


@pytest.mark.parametrize("swaps", [True, False])
def test_what_comes_at_the_last_moment_stays(tmp_path, monkeypatch, swaps):
    target = write_bundle(Bundle({"old.c": b"old"}), tmp_path / "out")

    def late(one: Path, other: Path) -> bool:
        (target / "notes.txt").write_text("mine")
        monkeypatch.undo()
        if not swaps:
            monkeypatch.setattr(bundle, "exchange", lambda *_: False)
        return swaps and exchange(one, other)

    monkeypatch.setattr(bundle, "exchange", late)
    with pytest.raises(SynthesisError, match=r"out' holds 'notes\.txt', which is not part of a bundle"):
        write_bundle(BUNDLE, target)

    assert contents(target) == {"old.c": b"old", "notes.txt": b"mine"}
    assert entries(tmp_path) == ["out"]


def test_a_system_without_exchange_renames_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "exchange", lambda *_: False)
    target = write_bundle(Bundle({"old.c": b"old"}), tmp_path / "out")

    write_bundle(BUNDLE, target)

    assert contents(target) == dict(BUNDLE.files)
    assert entries(tmp_path) == ["out"]


# Writes bundles in turn, in processes that are killed: at a random time, or (with a number) before the n-th rename of a
# system that cannot exchange directories. Prints what is there after each kill.
KILLED = """
import itertools, os, random, signal, sys, time
from pathlib import Path
from openinfer.synth import bundle as module
from openinfer.synth.bundle import MARKER, Bundle, write_bundle

target, kills, limit = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
bundles = [Bundle({f"{name}.c": name.encode() * 10_000, "Makefile": b"all:"}, products=("model",)) for name in "ab"]
write_bundle(bundles[0], target)
(target / "model").write_bytes(b"built")


def shown(directory):
    held = {entry.name: entry.read_bytes() for entry in directory.iterdir()} if directory.is_dir() else None
    whole = [held == {**bundle.files, MARKER: held[MARKER], "model": b"built"} for bundle in bundles if held]
    return "whole" if any(whole) else "gone" if held is None else f"broken: {sorted(held)}"


def write_on(left):
    rename = Path.rename

    def counted(self, other):
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, other)

    if left is not None:
        Path.rename, module.exchange = counted, lambda *_: False
    print("-", end="", flush=True)
    for bundle in itertools.cycle(bundles[::-1]):
        write_bundle(bundle, target)


random.seed(1)
for kill in range(kills):
    child = os.fork()
    if child == 0:
        write_on(None if limit == "random" else kill)
    if limit == "random":
        time.sleep(random.random() * 0.03)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(shown(target), flush=True)
write_bundle(bundles[1], target)
print("end", shown(target), [entry.name for entry in target.parent.iterdir()])
"""


def killed(target: Path, kills: int, limit: str) -> list[str]:
    command = [sys.executable, "-c", KILLED, str(target), str(kills), limit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.lstrip("-") for line in done.stdout.splitlines()]


@pytest.mark.rule("api.bundles.4")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_kills_leave_a_whole_bundle_and_the_next_run_removes_the_rest(tmp_path, exchanges):
    *states, end = killed(tmp_path / "out", 100, "random")

    assert end == "end whole ['out']"
    assert states == ["whole"] * 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_kills_between_two_renames_lose_nothing(tmp_path):
    *states, end = killed(tmp_path / "out", 9, "rename")

    assert "gone" in states
    assert set(states) <= {"whole", "gone"}
    assert end == "end whole ['out']"


@pytest.fixture
def exchanges(tmp_path) -> None:
    """Skip where the file system cannot exchange directories."""
    for name in ("one", "other"):
        (tmp_path / "try" / name).mkdir(parents=True)
    able = exchange(tmp_path / "try" / "one", tmp_path / "try" / "other")
    shutil.rmtree(tmp_path / "try")
    if not able:
        pytest.skip("the file system cannot exchange directories")


def test_a_bundle_is_there_at_every_moment(tmp_path, exchanges):
    target = write_bundle(BUNDLE, tmp_path / "out")
    command = [sys.executable, "-c", WATCH, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout.readline() == "watching\n"
        for _ in range(200):
            write_bundle(BUNDLE, target)
        (tmp_path / "stop").touch()
        missing, looks = map(int, watcher.communicate()[0].split())

    assert looks > 0
    assert missing == 0


WATCH = """
import os, sys
target = sys.argv[1]
stop, missing, looks = os.path.join(os.path.dirname(target), "stop"), 0, 0
print("watching", flush=True)
while not os.path.exists(stop):
    missing += not os.path.exists(target)
    looks += 1
print(missing, looks)
"""


def test_concurrent_runs_leave_one_bundle(tmp_path):
    bundles = [Bundle({f"{name}.c": name.encode(), "Makefile": b"all:"}) for name in "abcd"]

    def write(place: int) -> None:
        for _ in range(20):
            write_bundle(bundles[place], tmp_path / "out")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    assert contents(tmp_path / "out") in [dict(one.files) for one in bundles]
    assert entries(tmp_path) == ["out"]


TEMPORARY = """
import subprocess, sys
from openinfer.scratch import scratch_directory
from openinfer.synth.bundle import Bundle, write_bundle
if len(sys.argv) > 1:
    write_bundle(Bundle({"model.c": b"2"}), sys.argv[1])
else:
    with scratch_directory() as directory:
        target = directory / "out"
        write_bundle(Bundle({"model.c": b"1"}), target)
        subprocess.run([sys.executable, __file__, target], check=True)
        write_bundle(Bundle({"model.c": b"3"}), directory / "deep" / "out")
        print((target / "model.c").read_text(), sorted(entry.name for entry in directory.iterdir()))
"""


def test_a_temporary_directory_holds_bundles_of_its_owner_and_of_other_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TEMPORARY)

    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=limit_s(60), check=True
    )

    assert done.stdout == "2 ['deep', 'out']\n"


def test_a_temporary_directory_itself_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with scratch_directory() as directory:
        with pytest.raises(SynthesisError, match="give a directory inside it") as caught:
            write_bundle(BUNDLE, directory)
        assert list(directory.iterdir()) == []

    assert caught.value.code == "output-directory"


def test_a_file_in_the_place_of_the_directory_is_left_alone(tmp_path):
    (tmp_path / "out").write_text("mine")

    with pytest.raises(SynthesisError, match="exists and is not a directory"):
        write_bundle(BUNDLE, tmp_path / "out")

    assert (tmp_path / "out").read_text() == "mine"


def test_a_link_in_the_place_of_the_directory_is_left_alone(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")

    with pytest.raises(SynthesisError, match="exists and is not a directory"):
        write_bundle(BUNDLE, tmp_path / "out")


def test_a_parent_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SynthesisError, match=r"cannot write the bundle to .*: ") as caught:
        write_bundle(BUNDLE, tmp_path / "file" / "out")

    assert caught.value.code == "output-directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory_is_one_clear_error(tmp_path):
    tmp_path.chmod(0o500)

    with pytest.raises(SynthesisError, match="Permission denied"):
        write_bundle(BUNDLE, tmp_path / "out")


@pytest.mark.rule("api.bundles.4")
def test_a_failure_leaves_nothing_half_written(tmp_path, monkeypatch):
    target = write_bundle(BUNDLE, tmp_path / "out")
    opened = Path.open

    def fail_on_c(self, mode="r", *arguments, **named):
        if self.suffix == ".c" and "x" in mode:
            raise OSError(28, "No space left on device")
        return opened(self, mode, *arguments, **named)

    monkeypatch.setattr(Path, "open", fail_on_c)
    with pytest.raises(SynthesisError, match="No space left on device"):
        write_bundle(Bundle({"model.c": b"new"}), target)
    monkeypatch.undo()

    assert contents(target) == dict(BUNDLE.files)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.rule("api.bundles.3")
@pytest.mark.parametrize("name", ["../x.c", "a/../b.c", "", ".hidden", "x", "con:.c", "x.c\n"])
def test_only_plain_file_names_are_taken(name):
    with pytest.raises(ValueError, match="expected plain file names"):
        Bundle({name: b""})


def test_files_come_in_order_of_name():
    assert list(Bundle({"b.c": b"", "a.c": b""}).files) == ["a.c", "b.c"]
