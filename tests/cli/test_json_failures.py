"""Every command with `--json`, of both programs, reports a failure as one JSON document on standard output."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from openinfer.cli import main
from openinfer_oinf import save_file

PROGRAM = "dynamic { x: f32[2]; }\nvolatile { o: f32[2]; }\nblock entry { op abs(x) >> o; return o; }\n"

FAILURES = {
    "bench": [
        ("nope.oi -m m.oinf", "file", 1),
        ("net.oi -m nope", "model-file", 1),
        *(
            (f"net.oi -m m.oinf --input x=1 --arch cortex-m4 {option}", "usage", 2)
            for option in ("--steps 1", "--initial s=1", "--placement", "--device cpu", "--repeat 2", "--warm-up 0")
        ),
    ],
    "check": [("net.oi -m broken.oinf", "E_TRUNCATED", 1), ("", "usage", 2)],
    "compare": [("nope.oi -m m.oinf --device cpu --device cpu", "file", 1), ("net.oi -m m.oinf", "usage", 2)],
    "completion": [("tcsh", "usage", 2)],
    "devices": [("--nope", "usage", 2)],
    "doctor": [("--nope", "usage", 2)],
    "explain": [("nope", "unknown-code", 1), ("", "usage", 2)],
    "fmt": [("", "usage", 2), ("net.oi -m m.oinf", "usage", 2)],
    "graph": [("nope.oi", "file", 1), ("wrong.oi", "syntax", 1)],
    "import": [
        ("nope.onnx", "import-file", 1),
        ("net.oi", "import-format", 1),
        ("net.oi --set x", "usage", 2),
    ],
    "ops": [("nope", "unknown-op", 1)],
    "plan": [("nope.oi -m m.oinf", "file", 1), ("net.oi -m m.oinf --print-after fuse", "usage", 2)],
    "plugins": [("--nope", "usage", 2)],
    "quantize": [
        ("nope.oi m.oinf --calibrate none.npz -o out", "file", 1),
        ("net.oi m.oinf --calibrate none.npz -o out", None, 1),
        ("net.oi m.oinf", "usage", 2),
    ],
    "run": [
        ("net.oi -m m.oinf", "dynamic-unset", 1),
        ("net.oi -m m.oinf --input x=1 --device nope", "device", 1),
        ("wrong.oi -m m.oinf", "syntax", 1),
        ("net.oi -m m.oinf --input x=1 --steps many", "usage", 2),
    ],
    "synth": [("nope.oi -m m.oinf --target c -o out", "file", 1), ("net.oi -m m.oinf --target nope -o out", None, 1)],
    "trace": [
        ("net.oi --script nope", "file", 1),
        ("net.oi --input x=1 --script wrong.oi", "bad-command", 1),
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.oi").write_text(PROGRAM)
    (tmp_path / "wrong.oi").write_text(PROGRAM.replace(">>", ">"))
    (tmp_path / "broken.oinf").write_bytes(b"OINF\0")
    save_file({}, tmp_path / "m.oinf")
    return tmp_path


def test_every_command_with_json_is_tried() -> None:
    with click.Context(main) as context:
        commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    have = {name for name, each in commands.items() if each and any("--json" in option.opts for option in each.params)}
    assert have == {*FAILURES}


@pytest.mark.rule("api.commands.2")
@pytest.mark.parametrize(
    ("command", "code", "status"),
    [(f"{name} {rest} --json", *expected) for name, each in FAILURES.items() for rest, *expected in each],
)
def test_failures_are_one_document(folder: Path, command: str, code: str | None, status: int) -> None:
    result = CliRunner().invoke(main, shlex.split(command))
    error = only_error(result.stdout)
    assert result.exit_code == error["exit_status"] == status
    assert error["code"] == (code or error["code"])
    assert error["message"]
    assert all({"code", "message", "place", "hint"} <= each.keys() for each in error["findings"])
    assert "error[" not in result.stderr


def only_error(text: str) -> dict[str, Any]:
    document = json.loads(text)
    assert document.keys() == {"error"}
    assert document["error"].keys() == {"code", "message", "exit_status", "findings"}
    return document["error"]


def test_unknown_commands_and_bugs_are_documents_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = CliRunner().invoke(main, ["chekc", "net.oi", "--json"])
    assert "did you mean `check`" in only_error(unknown.stdout)["message"]

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr("openinfer.cli.commands.check.read_program", broken)
    assert only_error(CliRunner().invoke(main, ["check", "net.oi", "--json"]).stdout)["code"] == "internal"


@pytest.mark.rule("api.commands.1", "api.commands.2")
def test_an_interrupt_is_a_document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("openinfer.cli.commands.check.read_program", interrupted)
    result = CliRunner().invoke(main, ["check", "net.oi", "--json"])
    assert only_error(result.stdout)["code"] == "interrupted"
    assert result.exit_code == 130


def test_what_fails_after_its_document_is_reported_on_standard_error(folder: Path) -> None:
    """A missing device ends `doctor` with 3, after everything that it found."""
    result = CliRunner().invoke(main, ["doctor", "--device", "nope", "--json"])
    assert "nope" in json.loads(result.stdout)["missing"][0]
    assert "error[environment]" in result.stderr
    assert result.exit_code == 3


def test_without_the_option_nothing_is_a_document(folder: Path) -> None:
    for arguments in (["check", "nope.oi"], ["check", "--", "--json"]):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 1
        assert not result.stdout
        assert "error[file]" in result.stderr
