"""Files that cannot be read or written end every command of `openinfer` and `oinf` with the same exit code."""

from __future__ import annotations

import os
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pytest
from click.testing import CliRunner

import openinfer_oinf.cli
from openinfer.cli import main
from openinfer_oinf import save_file

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(
    find_spec("openinfer_backend_cpu") is None or find_spec("openinfer_synth_c") is None,
    reason="the device cpu or the target c is not installed",
)

PROGRAM = """dynamic { x: f32[2]; }
persistent { k: f32[2] @init(0.0); }
block entry { op abs(x) >> y; cache.write x >> k; return y; }
"""

READING = (
    *("openinfer check FILE.oi", "openinfer check FILE.json", "openinfer check net.oi -m FILE.oinf"),
    *("openinfer fmt FILE.oi", "openinfer fmt net.oi --assign -m FILE.oinf"),
    *("openinfer graph FILE.oi", "openinfer graph FILE.json", "openinfer graph net.oi --svg -m FILE.oinf"),
    *("openinfer import FILE.onnx", "openinfer import FILE.tflite", "openinfer graph FILE.onnx"),
    *("openinfer run FILE.oi", "openinfer run net.oi -m FILE.oinf --input x=1", "openinfer run FILE.tflite"),
    *("openinfer run net.oi --input x=FILE.npy", "openinfer run net.oi --input x=1 --initial k=FILE.npy"),
    *("openinfer run net.oi --batch FILE.npz", "openinfer run net.oi --batch FILE.npy"),
    *("openinfer trace FILE.oi --script net.txt", "openinfer trace net.oi --input x=1 --script FILE.txt"),
    "openinfer trace net.oi --input x=1 --script net.txt --state FILE.oinf",
    *("openinfer bench FILE.oi", "openinfer bench net.oi --input x=FILE.npy"),
    *("openinfer compare FILE.oi --device cpu --device cpu", "openinfer plan FILE.oi"),
    *("openinfer plan net.oi --arch FILE.toml", "openinfer plan net.oi --schedules FILE.json"),
    *("openinfer synth FILE.oi -o out", "openinfer synth net.oi -o out --arch FILE.toml"),
    *("openinfer synth net.oi -o out --schedules FILE.json", "openinfer synth net.oi -m FILE.oinf -o out"),
    *("openinfer quantize FILE.oi --calibrate net.npz", "openinfer quantize net.oi FILE.oinf --calibrate net.npz"),
    "openinfer quantize net.oi --calibrate FILE.npz",
    *(f"oinf {command} FILE.oinf" for command in ("verify", "inspect", "hash", "verify net.oinf")),
    *(f"oinf {command} FILE.oinf out.oinf" for command in ("upgrade", "downgrade", "canonicalize", "salvage")),
    *(f"oinf convert FILE.{suffix} out.oinf" for suffix in ("npz", "npy", "safetensors", "gguf")),
    *("oinf quantize FILE.oinf out.oinf", "oinf extract FILE.oinf w -o w.npy"),
)
"""Commands; `FILE` is the file that cannot be read."""

WRITING = (
    *("openinfer ops relu --markdown FILE", "openinfer synth net.oi -o FILE", "openinfer graph net.oi -o FILE/net.svg"),
    *("openinfer run net.oi --input x=1 --output y=FILE/y.npy", "openinfer plan net.oi --svg FILE/plan.svg"),
    *("openinfer run net.oi --input x=1 --trace FILE/run.json", "openinfer run net.oi --input x=1 --state FILE/k.oinf"),
    *("openinfer plugins new own --kind elementwise -o FILE", "oinf upgrade net.oinf FILE/net.oinf"),
    *("oinf canonicalize net.oinf FILE/net.oinf", "oinf downgrade net.oinf FILE/net.oinf"),
    *("oinf convert net.npz FILE/net.oinf", "oinf extract net.oinf w -o FILE/w.npy"),
)
"""Commands; `FILE` is a file where they need a folder."""

COMPARING = ("oinf diff FILE.oinf net.oinf", "oinf diff net.oinf FILE.oinf")
"""Commands whose exit code 1 says that the files, which were read, differ."""

FILELESS = {"openinfer completion", "openinfer devices", "openinfer doctor", "openinfer explain", "openinfer lsp"} | {
    "openinfer ops",
    "openinfer plugins",
}

SEARCHED = ("openinfer check FILE.oi", "openinfer check FILE.json", "openinfer fmt FILE.oi")
"""Commands that read the programs of a folder."""

UNREADABLE: dict[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "folder": lambda path: path.mkdir(),
    "without permission": lambda path: (path.write_bytes(b"x"), path.chmod(0)),
    "of another kind": lambda path: path.write_bytes(b"\xff\xfe[something else, as long as a head: " + bytes(99)),
    "damaged": lambda path: path.write_bytes(half_of_a_good_file(path.suffix)),
}

PROBLEMS = [problem for problem in UNREADABLE if problem != "without permission" or os.geteuid() != 0]
"""Root may read every file."""


def half_of_a_good_file(suffix: str) -> bytes:
    good = Path(f"net{suffix}")
    whole = (good.read_bytes() if good.is_file() else b"") or b"\xff[(\x00 no file of its kind begins like this"
    return whole[: len(whole) // 2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.oi").write_text(PROGRAM)
    Path("net.txt").write_text("")
    save_file({"w": np.ones(2, np.float32)}, "net.oinf")
    np.save("net.npy", np.ones(2, np.float32))
    np.savez("net.npz", x=np.ones((3, 2), np.float32))
    return tmp_path


def ended(command: str) -> tuple[int, str]:
    """Return exit code and output of a command of either program, run in this process."""
    program, *arguments = shlex.split(command)
    root = main if program == "openinfer" else container_command
    result = CliRunner().invoke(root, arguments)
    return result.exit_code, result.output


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []})
@click.pass_context
def container_command(context: click.Context) -> None:
    context.exit(openinfer_oinf.cli.main(context.args))


@pytest.mark.rule("api.commands.1")
@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (command, problem)
        for command in (*READING, *COMPARING)
        for problem in PROBLEMS
        if problem != "folder" or command not in SEARCHED
    ],
)
def test_a_file_that_cannot_be_read_is_wrong_input(command: str, problem: str) -> None:
    for package in ("onnx", "gguf"):
        if f".{package}" in command and find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    name = next(word for word in command.replace("=", " ").split() if word.startswith("FILE"))
    UNREADABLE[problem](Path(name))

    code, output = ended(command)

    assert code == (2 if command in COMPARING else 1), output
    assert name in output
    assert "internal" not in output
    assert not {"out", "out.oinf"} & {entry.name for entry in Path.cwd().iterdir()}


def test_every_command_that_reads_files_is_tried() -> None:
    (container,) = (action for action in openinfer_oinf.cli.build_parser()._actions if action.choices)
    commands = {f"openinfer {name}" for name in main.list_commands(click.Context(main))}
    commands |= {f"oinf {name}" for name in container.choices or ()}

    assert commands - {" ".join(command.split()[:2]) for command in (*READING, *COMPARING)} == FILELESS


@pytest.mark.rule("api.commands.1")
@pytest.mark.parametrize("command", WRITING)
def test_a_file_that_cannot_be_written_is_wrong_input(command: str) -> None:
    Path("FILE").write_text("")

    code, output = ended(command)

    assert code == 1, output
    assert "FILE" in output
    assert "internal" not in output
