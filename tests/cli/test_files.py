"""What the commands do with pipes, with devices that never end, and with disks that are full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forked_commands import run_forked

from openinfer.testing.waiting import limit_s
from openinfer_oinf import save_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and limits of file sizes are those of POSIX")

PROGRAM = """
dynamic { x: u64[1000]; }
volatile { o: u64[1000]; }
persistent { k: u64[1000]; }
block entry { op max(x, x) >> o; cache.write x >> k; return o; }
"""
SHORT = "dynamic { x: f32[2]; }\nvolatile { o: f32[2]; }\nblock entry { op abs(x) >> o; return o; }\n"

# Runs a command in a process that cannot write files of more than a kilobyte: a disk that is full, to the writer.
LIMITED = """
import resource, runpy, signal, sys
# Python takes a cache of bytecode that was cut short for a whole one.
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.oi").write_text(PROGRAM)
    (tmp_path / "short.oi").write_text(SHORT)
    (tmp_path / "long.oi").write_text(f"{PROGRAM}   // {'x' * 4000}\n")
    np.savez(tmp_path / "in.npz", x=np.ones((3, 1000), np.uint64))
    save_file({"w": np.ones(1000, np.float32)}, tmp_path / "w.oinf")
    save_file({}, tmp_path / "m.oinf")
    return tmp_path


def outcome(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return run_forked(command, folder)


@pytest.mark.rule("api.commands.5")
@pytest.mark.parametrize(
    ("module", "command", "name"),
    [
        ("openinfer", "run net.oi -m m.oinf --input x=1 --output o=o.npy", "o.npy"),
        ("openinfer", "run net.oi -m m.oinf --input x=1 --steps 30 --trace t.json", "t.json"),
        ("openinfer", "run net.oi -m m.oinf --input x=1 --state s.oinf", "s.oinf"),
        ("openinfer", "run net.oi -m m.oinf --batch in.npz --output-dir out", "out/0.npz"),
        ("openinfer", "run net.oi -m m.oinf --batch in.npz --output o=all.npz", "all.npz"),
        ("openinfer", "synth short.oi -m m.oinf --target c -o bundle", "bundle"),
        ("openinfer", "graph net.oi --html -o page.html", "page.html"),
        ("openinfer", "ops --markdown pages", "pages/add.md"),
        ("openinfer", "fmt long.oi", "long.oi"),
        ("openinfer_oinf", "extract w.oinf w -o w.npy", "w.npy"),
        ("openinfer_oinf", "upgrade w.oinf u.oinf", "u.oinf"),
        ("openinfer_oinf", "canonicalize w.oinf c.oinf", "c.oinf"),
        ("openinfer_oinf", "convert w.oinf w.npz", "w.npz"),
        ("openinfer_oinf", "convert w.oinf w.safetensors", "w.safetensors"),
        ("openinfer_oinf", "convert in.npz in.oinf", "in.oinf"),
        ("openinfer_oinf", "quantize w.oinf q.oinf --dtype i32 --include w", "q.oinf"),
    ],
)
def test_a_write_that_fails_names_its_file(folder: Path, module: str, command: str, name: str) -> None:
    ended = outcome(folder, "-c", LIMITED, module, *command.split())
    assert ended.returncode != 0
    assert "File too large" in ended.stderr
    assert name in ended.stderr
    assert "Errno" not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.rule("api.commands.5")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("run net.oi -m m.oinf --input x=1 --output o=o.npy", "o.npy"),
        ("run net.oi -m m.oinf --input x=1 --steps 30 --trace t.json", "t.json"),
        ("run net.oi -m m.oinf --input x=1 --steps 30 --trace t.perfetto.json", "t.perfetto.json"),
        ("run net.oi -m m.oinf --input x=1 --state s.oinf", "s.oinf"),
        ("run net.oi -m m.oinf --batch in.npz --output o=all.npz", "all.npz"),
        ("graph net.oi --html -o page.html", "page.html"),
        ("ops argmax_axis --markdown .", "argmax_axis.md"),
        ("fmt long.oi", "long.oi"),
    ],
)
@pytest.mark.parametrize("before", [None, b"before"])
def test_a_write_that_fails_leaves_the_folder_as_it_was(
    folder: Path, command: str, name: str, before: bytes | None
) -> None:
    if before is not None and not (folder / name).exists() and not name.endswith(".oinf"):
        (folder / name).write_bytes(before)
    files = contents(folder)
    ended = outcome(folder, "-c", LIMITED, "openinfer", *command.split())
    assert ended.returncode != 0
    assert name in ended.stderr
    assert contents(folder) == files


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("command", "begin"),
    [
        ("graph net.oi -o PATH", b"dynamic {"),
        ("run net.oi -m m.oinf --input x=1 --trace PATH", b"[\n"),
        ("run net.oi -m m.oinf --input x=1 --output o=PATH", b"\x93NUMPY"),
    ],
)
def test_pipes_and_devices_are_written_to_and_links_stay(folder: Path, command: str, begin: bytes) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("linked")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in ("/dev/null", "link", "pipe"):
            ended = outcome(folder, "-m", "openinfer", *command.replace("PATH", path).split())
            assert ended.returncode == 0, ended.stderr
        assert os.read(reader, 64).startswith(begin)
    finally:
        os.close(reader)
    assert Path("/dev/null").is_char_device()
    assert (folder / "link").is_symlink()
    assert (folder / "linked").read_bytes().startswith(begin)


def test_standard_output_that_a_shell_appends_to_a_file_keeps_the_rest(folder: Path) -> None:
    (folder / "log").write_text("before\n")
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "openinfer", "graph", "net.oi", "-o", "/dev/stdout"]
        subprocess.run(command, cwd=folder, stdout=log, timeout=limit_s(60), check=True)
    assert (folder / "log").read_text().startswith("before\ndynamic {")


@pytest.mark.rule("api.commands.6")
@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("openinfer", "check PIPE.oi"),
        ("openinfer", "check PIPE.json"),
        ("openinfer", "graph PIPE.oi"),
        ("openinfer", "fmt PIPE.oi"),
        ("openinfer", "check net.oi -m PIPE.oinf"),
        ("openinfer", "run net.oi -m PIPE.oinf --input x=1"),
        ("openinfer", "run net.oi -m m.oinf --input x=PIPE.npy"),
        ("openinfer", "run net.oi -m m.oinf --input x=1 --state PIPE.oinf"),
        ("openinfer", "run net.oi -m m.oinf --batch PIPE.npz* --output-dir out"),
        ("openinfer", "trace net.oi -m m.oinf --input x=1 --script PIPE.txt"),
        ("openinfer_oinf", "verify PIPE.oinf"),
        ("openinfer_oinf", "verify PIPE.oinf.index.json"),
        ("openinfer_oinf", "inspect PIPE.oinf"),
        ("openinfer_oinf", "hash PIPE.oinf"),
        ("openinfer_oinf", "diff PIPE.oinf m.oinf"),
        ("openinfer_oinf", "convert PIPE.npz m2.oinf"),
        ("openinfer_oinf", "convert PIPE.safetensors.index.json m2.oinf"),
        ("openinfer_oinf", "convert PIPE.pt m2.oinf --from torch"),
    ],
)
def test_a_pipe_is_refused_and_not_waited_for(folder: Path, module: str, command: str) -> None:
    pipe = next(word.partition("=")[2] or word for word in command.split() if "PIPE" in word).rstrip("*")
    os.mkfifo(folder / pipe)
    ended = outcome(folder, "-m", module, *command.split())
    assert ended.returncode != 0
    assert "regular file" in ended.stderr
    assert pipe in ended.stderr


@pytest.mark.parametrize(
    "command", ["check /dev/zero", "fmt /dev/zero", "graph /dev/zero", "check net.oi -m /dev/zero"]
)
def test_a_device_without_end_is_refused(folder: Path, command: str) -> None:
    ended = outcome(folder, "-m", "openinfer", *command.split())
    assert ended.returncode == 1
    assert "expected a regular file, found a device" in ended.stderr


@pytest.mark.rule("api.commands.6")
@pytest.mark.parametrize("command", ["check", "graph", "fmt"])
def test_a_program_that_is_too_long_is_refused(folder: Path, command: str) -> None:
    with (folder / "vast.oi").open("wb") as file:
        file.truncate((64 << 20) + 1)
    ended = outcome(folder, "-m", "openinfer", command, "vast.oi")
    assert ended.returncode == 1
    assert "error[file]: larger than the 64 MiB that such a file may have: vast.oi" in ended.stderr


def test_a_model_is_distinguished_from_a_program_whatever_its_size(folder: Path) -> None:
    with (folder / "w.oinf").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    assert "this is a model file (oinf)" in outcome(folder, "-m", "openinfer", "check", "w.oinf").stderr
