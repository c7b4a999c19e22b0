"""The snippets of docs/oinf.md, executed in order: Python in one namespace, `oinf` lines as commands."""

from __future__ import annotations

import re
import shlex
import sys
import types
from pathlib import Path

import pytest

from openinfer_oinf import __all__ as public_names
from openinfer_oinf.cli import build_parser, main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "oinf.md"

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the page is in a checkout only")


def snippets() -> list[tuple[str, str]]:
    return re.findall(r"```(python|bash)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_snippets_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # Dataclasses look for the module that they are made in.
    module = types.ModuleType("docs")
    monkeypatch.setitem(sys.modules, "docs", module)
    commands = []
    for language, text in snippets():
        if language == "python":
            exec(compile(text, str(PAGE), "exec", dont_inherit=True), vars(module))
            continue
        for line in text.splitlines():
            if line.startswith("oinf "):
                assert main(shlex.split(line)[1:]) == 0, line
                commands.append(line)
    assert len(commands) > 10
    output = capsys.readouterr().out
    for change in re.findall(r"`((?:renamed|cast) [^`]*)`", PAGE.read_text("utf-8")):
        assert f"{change}\n" in output


def test_every_command_is_described():
    (action,) = [each for each in build_parser()._actions if hasattr(each, "choices") and each.choices]
    text = PAGE.read_text("utf-8")
    for name in action.choices:
        assert f"oinf {name}" in text or f"`{name}" in text, name


def test_public_functions_are_described():
    text = PAGE.read_text("utf-8")
    functions = [name for name in public_names if name[0].islower()]
    documented_elsewhere = {"quantize_oinf", "rewrite_oinf", "salvage_oinf"}  # by their commands
    assert [name for name in functions if name not in text and name not in documented_elsewhere] == []
