"""Every command of `openinfer` and `oinf` whose standard input or output is closed, full, or has no reader.

One process runs them all: it forks for each, with the streams as they are to be, since to start Python takes longer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pytest

import openinfer_oinf.cli
from openinfer.cli.program import main
from openinfer.testing.waiting import limit_s
from openinfer_oinf import write_oinf

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and writes to /dev/full")

PROGRAM = "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op neg(x) >> y; return y; }\n"
RUN = "g.oi --model m.oinf --input x=random"
RUN_FORM = "usage: openinfer run [OPTIONS] GRAPH; `openinfer run --help` lists the options"
PRINTING = (
    "openinfer --help",
    "openinfer --version",
    "openinfer run --help",
    f"openinfer bench {RUN}",
    "openinfer check g.oi",
    "openinfer check g.oi --json",
    f"openinfer compare {RUN} --device cpu --device cpu",
    "openinfer completion bash",
    "openinfer devices",
    "openinfer doctor",
    "openinfer explain syntax",
    "openinfer fmt --diff h.oi",
    "openinfer graph g.oi",
    "openinfer ops",
    "openinfer plan g.oi --model m.oinf",
    "openinfer plugins",
    f"openinfer run {RUN}",
    f"openinfer run {RUN} --json",
    "openinfer synth g.oi --model m.oinf --target c --output bundle",
    f"openinfer trace {RUN}",
    "oinf --help",
    "oinf --version",
    "oinf inspect --help",
    "oinf inspect m.oinf",
    "oinf inspect m.oinf --json",
    "oinf verify m.oinf",
    "oinf hash m.oinf",
    "oinf diff m.oinf n.oinf",
)
FAILING = (
    "openinfer run missing.oi --model m.oinf --json",
    "openinfer run --nonsense --json",
    "oinf inspect missing.oinf --json",
)
SILENT = (
    "openinfer import net.onnx",
    "openinfer lsp",
    "openinfer quantize g.oi",
    *(f"oinf {name}" for name in ("convert", "extract", "quantize", "upgrade", "downgrade", "canonicalize", "salvage")),
)
"""Commands that write files, or print only what a client asks for."""

READING = ("openinfer check -", "openinfer fmt -", "openinfer graph -", f"openinfer trace {RUN}", "openinfer lsp")

FORKS = """
import json, os, sys
import numpy
import openinfer.cli.program, openinfer_oinf.cli, openinfer.plan.make_plan, openinfer.simulate, openinfer.synth
from openinfer.plugins.environment import Environment

# What most commands import and read, once for all.
Environment.default()

def run(command, way):
    error = os.open("error.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(error, 2)
    if way == "input closed":
        os.close(0)
        sys.stdin = None
    if way == "output closed":
        os.close(1)
        sys.stdout = None
    elif way == "no reader":
        reads, writes = os.pipe()
        os.close(reads)
        os.dup2(writes, 1)
    else:
        os.dup2(os.open("/dev/full" if way == "full" else "/dev/null", os.O_WRONLY), 1)
    if way != "output closed":
        # As the interpreter opens it: whether the parent's output can seek says nothing about this one.
        sys.stdout = open(1, "w", closefd=False)
    program, *arguments = command.split()
    sys.argv = [program, *arguments]
    sys.exit(openinfer.cli.program.main() if program == "openinfer" else openinfer_oinf.cli.main())

results = []
for command, way in json.load(open("runs.json")):
    child = os.fork()
    if child == 0:
        run(command, way)
    _, status = os.waitpid(child, 0)
    results.append([os.waitstatus_to_exitcode(status), open("error.txt").read()])
json.dump(results, open("results.json", "w"))
"""


class Ended(NamedTuple):
    """How a command ended: its exit code and what it wrote to standard error."""

    code: int
    error: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("g.oi").write_text(PROGRAM)
    Path("h.oi").write_text(PROGRAM)
    write_oinf({"w": np.zeros(2, np.float32)}, "m.oinf")
    write_oinf({"w": np.ones(2, np.float32)}, "n.oinf")
    return tmp_path


def ended(commands: list[str], way: str) -> dict[str, Ended]:
    """Run commands, each by itself, with a standard stream that does not work."""
    Path("runs.json").write_text(json.dumps([[command, way] for command in commands]))
    subprocess.run(
        [sys.executable, "-c", FORKS],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=limit_s(120),
        env=os.environ | {"PYTHONUNBUFFERED": ""},
    )
    results = json.loads(Path("results.json").read_text())
    return {command: Ended(*each) for command, each in zip(commands, results, strict=True)}


def failed(command: str) -> int:
    return 2 if command.startswith("oinf diff") else 1


def test_every_command_is_in_the_table() -> None:
    context = click.Context(main)
    commands = {f"openinfer {name}" for name in main.list_commands(context)}
    commands |= {f"oinf {name}" for name in subcommands(openinfer_oinf.cli.build_parser())}
    assert commands <= {" ".join(command.split()[:2]) for command in (*PRINTING, *SILENT)}


def subcommands(parser: argparse.ArgumentParser) -> list[str]:
    text = parser.format_help()
    return re.findall(r"^    ([a-z]+)", text, re.MULTILINE)


def test_closed_standard_output_is_an_error_of_one_line(folder: Path) -> None:
    before = {each.name for each in folder.iterdir()}
    found = ended([*PRINTING, *FAILING, *SILENT], "output closed")
    said = {
        "openinfer": "error[file]: standard output is closed\n",
        "oinf": "error[E_FILE]: standard output is closed\n",
    }
    assert found == {command: Ended(failed(command), said[command.split()[0]]) for command in found}
    assert {each.name for each in folder.iterdir()} - before == {"runs.json", "results.json", "error.txt"}


def test_output_that_cannot_be_written_is_an_error_of_one_line(folder: Path) -> None:
    found = ended(list(PRINTING), "full")
    said = {"openinfer": "error[file]: No space left on device\n", "oinf": "error[E_FILE]: No space left on device\n"}
    assert found == {command: Ended(failed(command), said[command.split()[0]]) for command in found}


def test_a_failure_whose_document_cannot_be_written_is_text(folder: Path) -> None:
    found = ended(list(FAILING), "full")
    assert [(each.code, each.error.splitlines()) for each in found.values()] == [
        (1, ["error[file]: No such file or directory: missing.oi"]),
        (
            2,
            [
                "error[usage]: unknown option --nonsense: did you mean `--no-feed` or `--seed`?",
                f"  help: {RUN_FORM}",
            ],
        ),
        (1, ["error[E_FILE]: No such file or directory: missing.oinf"]),
    ]


def test_commands_without_a_reader_end_as_by_sigpipe(folder: Path) -> None:
    found = ended([*PRINTING, *FAILING], "no reader")
    assert found == dict.fromkeys(found, Ended(128 + signal.SIGPIPE, ""))


def test_reading_from_closed_standard_input_is_an_error_of_one_line(folder: Path) -> None:
    found = ended(list(READING), "input closed")
    assert {command: each.code for command, each in found.items()} == dict.fromkeys(READING, 1)
    assert all(re.fullmatch("error.file.: standard input is closed.*\n", each.error) for each in found.values()), found


def test_commands_that_read_no_standard_input_do_not_miss_it(folder: Path) -> None:
    commands = ["openinfer check g.oi", f"openinfer run {RUN}", "oinf inspect m.oinf"]
    assert ended(commands, "input closed") == dict.fromkeys(commands, Ended(0, ""))
