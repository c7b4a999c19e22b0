"""Failures of the `oinf` command: documents with `--json`, suggestions, and names that would steer a terminal."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openinfer_oinf import TensorSpec, quantize, write_oinf
from openinfer_oinf.cli import build_parser, main
from openinfer_oinf.errors import shown

FAILURES = {
    "canonicalize": [(["nope", "out.oinf"], "E_FILE", 1), (["broken.oinf", "out.oinf"], "E_MAGIC", 1)],
    "convert": [
        (["nope.npz", "out.oinf"], "E_FILE", 1),
        (["broken.npz", "out.oinf"], "E_SOURCE", 1),
        (["m.oinf"], "E_USAGE", 2),
        (["w.npz", "no/where.oinf"], "E_FILE", 1),
    ],
    "diff": [(["m.oinf", "nope"], "E_FILE", 2), (["m.oinf", "broken.oinf"], "E_MAGIC", 2)],
    "downgrade": [(["broken.oinf", "out.oinf"], "E_MAGIC", 1), (["m.oinf"], "E_USAGE", 2)],
    "extract": [(["m.oinf", "nope", "-o", "x.npy"], "E_ABSENT", 1), (["m.oinf", "w", "-o", "no/x.npy"], "E_FILE", 1)],
    "hash": [(["nope"], "E_FILE", 1), (["."], "E_NOT_A_FILE", 1)],
    "inspect": [(["m.safetensors"], "E_MAGIC", 1), (["m.oinf", "nope"], "E_ABSENT", 1), (["."], "E_NOT_A_FILE", 1)],
    "quantize": [(["m.oinf", "out.oinf", "--dtype", "f8"], "E_DTYPE", 1), (["nope", "out.oinf"], "E_FILE", 1)],
    "salvage": [(["m.oinf", "out.oinf"], "E_SALVAGE", 1)],
    "upgrade": [(["nope", "out.oinf"], "E_FILE", 1)],
    "verify": [([], "E_USAGE", 2)],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_oinf({"mode": "fast", "tensors": {"w": TensorSpec(np.ones((2, 3)), dtype="f32")}}, "m.oinf")
    write_oinf({"w": quantize(np.ones((2, 3)))}, "q.oinf")
    np.savez("w.npz", w=np.ones((2, 3)))
    for name in ("broken.oinf", "broken.npz", "m.safetensors"):
        (tmp_path / name).write_bytes(b"something else, long enough to hold the head of a file of any of these kinds")
    return tmp_path


def ended(command):
    """The exit status of a command, whichever way it ends."""
    try:
        return main(command)
    except SystemExit as error:
        return error.code


def commands() -> dict[str, argparse.ArgumentParser]:
    (actions,) = [each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(actions.choices)


def test_every_command_with_json_is_tried():
    assert {name for name, parser in commands().items() if "--json" in parser._option_string_actions} == {*FAILURES}


@pytest.mark.parametrize(
    ("command", "code", "status"),
    [([name, *rest], code, status) for name, each in FAILURES.items() for rest, code, status in each],
)
def test_failures_are_one_document(folder, capsys, command, code, status):
    assert ended([*command, "--json"]) == status
    captured = capsys.readouterr()
    assert captured.err == ""
    document = json.loads(captured.out)
    assert document.keys() == {"error"}
    error = document["error"]
    assert error.keys() == {"code", "message", "exit_status", "findings"}
    assert (error["code"], error["exit_status"]) == (code, status)
    assert error["message"]
    assert all({"code", "message", "offset", "table", "entry"} == each.keys() for each in error["findings"])
    assert ended(command) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("inspect nope", 1, "error[E_FILE]: No such file or directory: nope\n"),
        ("inspect m.oinf nope", 1, "error[E_ABSENT]: no tensor 'nope'\n"),
        (
            "diff m.oinf",
            2,
            (
                "error[E_USAGE]: the following arguments are required: B\n"
                "  help: usage: oinf diff [OPTIONS] A B; `oinf diff --help` lists the options\n"
            ),
        ),
        (
            "zzzzz",
            2,
            (
                "error[E_USAGE]: unknown command 'zzzzz': `oinf --help` lists them\n"
                "  help: usage: oinf [OPTIONS] COMMAND ...; `oinf --help` lists the options\n"
            ),
        ),
    ],
)
def test_failures_are_in_the_style_of_openinfer(folder, capsys, command, status, text):
    assert ended(command.split()) == status
    assert capsys.readouterr() == ("", text)


def test_findings_are_lines_with_severity_code_and_file(folder, capsys):
    data = bytearray(Path("m.oinf").read_bytes())
    data[9] = 1  # a flag that no version has
    Path("flags.oinf").write_bytes(data)
    assert main(["verify", "broken.oinf", "flags.oinf", "--no-stats"]) == 1
    assert main(["verify", "flags.oinf", "--compat", "--no-stats"]) == 0
    assert main(["inspect", "broken.oinf"]) == 1
    lines = [line.partition(" [")[0].partition(" (")[0] for line in capsys.readouterr().err.splitlines()]
    assert [line[: line.index("]: ") + 3] + line.split()[1] for line in lines] == [
        "error[E_MAGIC]: broken.oinf:",
        "error[E_HEADER_FLAGS]: flags.oinf:",
        "warning[W_HEADER_FLAGS]: flags.oinf:",
        "error[E_MAGIC]: broken.oinf:",
    ]


def test_verify_says_of_each_file_what_is_wrong(folder, capsys):
    assert main(["verify", "--json", "nope", "broken.oinf", "m.oinf"]) == 1
    decoder, text, documents = json.JSONDecoder(), capsys.readouterr().out, []
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        documents.append(document)
        text = text.lstrip()[end:]
    assert [each["valid"] for each in documents] == [False, False, True]
    assert [each["error"]["code"] for each in documents[:2]] == ["E_FILE", "E_MAGIC"]
    assert [each["error"]["exit_status"] for each in documents[:2]] == [1, 1]
    assert "No such file" in documents[0]["error"]["message"]


def test_an_interrupt_is_reported_in_a_line(folder, capsys, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("openinfer_oinf.inspection.inspect_text", interrupted)
    assert main(["inspect", "m.oinf"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(("wrong", "meant"), [("inspet", "inspect"), ("quantise", "quantize"), ("verfy", "verify")])
def test_misspelt_commands_are_suggested(capsys, wrong, meant):
    assert ended([wrong, "m.oinf"]) == 2
    assert f"unknown command '{wrong}': did you mean `{meant}`?" in capsys.readouterr().err
    assert ended([wrong, "m.oinf", "--json"]) == 2
    assert f"did you mean `{meant}`?" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_the_error_about_an_unknown_command_says_where_commands_are_listed(capsys):
    assert ended(["zzzzz"]) == 2
    assert "`oinf --help` lists them" in capsys.readouterr().err


def test_a_misspelt_format_is_suggested(folder, capsys):
    assert main(["convert", "w.npz", "out.oinf", "--from", "tprch"]) == 1
    assert "did you mean `torch`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("m\x1b[31m.oinf", r"m\x1b[31m.oinf"),
        ("a\nb\r\t", r"a\nb\r\t"),
        ("\u202efdp.oinf", r"\u202efdp.oinf"),
        ("\udcff", r"\udcff"),
        ("\x9b31m", r"\x9b31m"),
        ("modèle ö 模型.oinf", "modèle ö 模型.oinf"),
    ],
)
def test_names_are_shown_without_what_steers_a_terminal(text, escaped):
    assert shown(text) == escaped


HOSTILE = "h\x1b]0;title\x07\x1b[2J\n\u202e.\x9b"


@pytest.mark.skipif(os.name == "nt", reason="names of files hold no control characters there")
@pytest.mark.parametrize(
    "command",
    [
        ["verify", "NAME"],
        ["verify", "nope/NAME"],
        ["verify", "BROKEN"],
        ["verify", "NAME", "--compat"],
        ["inspect", "NAME", "--offsets"],
        ["inspect", "NAME", "NAME"],
        ["inspect", "BROKEN"],
        ["inspect", "nope/NAME"],
        ["hash", "NAME", "--tensors"],
        ["hash", "BROKEN"],
        ["diff", "NAME", "q.oinf"],
        ["diff", "BROKEN", "NAME"],
        ["extract", "NAME", "NAME", "-o", "NAME.npy"],
        ["extract", "NAME", "w", "-o", "NAME.npy"],
        ["extract", "NAME", "w", "-o", "nope/NAME.npy"],
        ["convert", "NAME", "NAME.npz"],
        ["convert", "NAME", "NAME.safetensors"],
        ["convert", "NAME", "NAME.h5"],
        ["convert", "NAME", "again"],
        ["convert", "BROKEN.npz", "again"],
        ["convert", "w.npz", "nope/NAME"],
        ["convert", "w.npz", "NAME", "--rename", "NAME=x"],
        ["convert", "w.npz", "NAME", "--rename", "w=NAME"],
        ["convert", "w.npz", "NAME", "--meta", "NAME=NAME"],
        ["convert", "w.npz", "NAME", "--sizevar", "NAME=3"],
        ["convert", "w.npz", "NAME", "--sizevar", "n=NAME"],
        ["convert", "w.npz", "NAME", "--dtype", "w=NAME"],
        ["convert", "w.npz", "NAME", "--from", "NAME"],
        ["convert", "HOSTILE.npz", "NAME"],
        ["quantize", "NAME", "q2.oinf", "--dtype", "NAME"],
        ["quantize", "NAME", "q2.oinf", "--include", "NAME"],
        ["quantize", "NAME", "q2.oinf", "--scheme", "NAME"],
        ["quantize", "NAME", "NAME.q"],
        ["upgrade", "NAME", "NAME.u"],
        ["canonicalize", "BROKEN", "NAME.u"],
        ["salvage", "NAME", "NAME.s"],
        ["NAME"],
        ["verify", "--NAME", "m.oinf"],
        ["verify", "NAME", "--style", "NAME"],
        ["verify", "NAME.oinf.index.json"],
        ["convert", "NAME.safetensors.index.json", "out.oinf"],
    ],
    ids=lambda command: " ".join(command),
)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_name_steers_the_terminal(folder, capsys, command, as_json):
    Path("m.oinf").replace(HOSTILE)
    (folder / f"BROKEN{HOSTILE}").write_bytes(b"no container")
    (folder / f"BROKEN{HOSTILE}.npz").write_bytes(b"PK\3\4 no archive")
    np.savez("HOSTILE.npz", **{HOSTILE: np.ones((2, 3), np.complex64), f"{HOSTILE}2": np.ones(3)})
    for suffix in (".oinf.index.json", ".safetensors.index.json"):
        (folder / f"{HOSTILE}{suffix}").write_text(json.dumps({"weight_map": {HOSTILE: f"{HOSTILE}.oinf"}}))
    named = [word.replace("BROKEN", f"BROKEN{HOSTILE}").replace("NAME", HOSTILE) for word in command]
    ended([*named, *(["--json"] if as_json else [])])
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert text
    assert all(line.isprintable() for line in text.split("\n"))
    assert HOSTILE.split("\n")[1] not in text


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
def test_names_that_are_not_text_are_printed(folder, capsys):
    name = os.fsdecode(b"m\xff.oinf")
    Path("m.oinf").replace(name)
    assert main(["hash", name]) == 0
    assert main(["verify", name + "x"]) == 1
    captured = capsys.readouterr()
    assert r"m\udcff.oinf" in captured.out
    assert r"m\udcff.oinfx" in captured.err


def test_names_that_the_terminal_cannot_show_are_escaped(folder):
    Path("m.oinf").rename("模型.oinf")
    command = [sys.executable, "-m", "openinfer_oinf", "hash", "模型.oinf"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u6a21\u578b.oinf" in done.stdout


@pytest.mark.parametrize(
    ("command", "facts"),
    [
        ("extract m.oinf w -o out.npy", {}),
        ("upgrade m.oinf out.oinf", {"version": 2}),
        ("downgrade m.oinf out.oinf", {"version": 1}),
        ("canonicalize m.oinf out.oinf --align 64", {"version": 2}),
    ],
)
def test_with_json_commands_print_what_they_have_written_as_a_document(folder, capsys, command, facts):
    assert main([*command.split(), "--json"]) == 0
    target = next(word for word in command.split() if word.startswith("out."))
    written = {"path": target, "nbytes": (folder / target).stat().st_size}
    assert json.loads(capsys.readouterr().out) == {"written": written, **facts}


@pytest.mark.parametrize(
    "command",
    [
        ["convert", "w.npz", "out.oinf"],
        ["convert", "m.oinf", "out.npz"],
        ["quantize", "m.oinf", "out.oinf"],
        ["extract", "m.oinf", "w", "-o", "out.npy"],
        ["upgrade", "m.oinf", "out.oinf"],
        ["downgrade", "m.oinf", "out.oinf"],
        ["canonicalize", "m.oinf", "out.oinf"],
    ],
)
def test_commands_say_what_they_have_written(folder, capsys, command):
    assert main(command) == 0
    target = next(word for word in command if word.startswith("out."))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"written {target} ({(folder / target).stat().st_size} B)"
