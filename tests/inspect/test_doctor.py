"""`openinfer doctor`: what it finds on machines where things are missing, and its exit codes."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import diagnosis, main
from openinfer.plugin import Availability, Environment, SynthTargetSpec


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of our own, and no switches of whoever runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("OPENINFER_") or name == "CC"]:
        monkeypatch.delenv(name)
    return tmp_path


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def facts(*arguments: str) -> dict[str, Any]:
    document = json.loads(doctor("--json", *arguments).stdout)
    named = {key: {fact["name"]: fact for fact in value} for key, value in document.items() if key not in LISTS}
    return {**named, **{key: document[key] for key in LISTS}}


LISTS = ("problems", "missing")


def test_a_sound_machine_has_no_problems() -> None:
    found = facts()
    assert found["problems"] == found["missing"] == []
    assert found["versions"]["numpy"]["detail"] == np.__version__
    assert found["versions"]["openinfer"]["detail"] == version("openinfer-core")
    assert platform.python_version() in found["versions"]["python"]["detail"]
    assert found["devices"]["cpu"]["state"] == "ok"
    assert found["plugins"]["cpu"]["state"] == "ok"
    result = doctor()
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "no problems found")


def test_what_is_missing_is_a_problem_only_when_it_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = facts()
    assert found["compilers"]["C"]["state"] == found["compilers"]["GLSL"]["state"] == "missing"
    assert "install gcc" in found["compilers"]["C"]["detail"]
    assert doctor().exit_code == 0
    asked = doctor("--compiler", "c")
    assert asked.exit_code == 3
    assert (
        "error[environment]: compiler C cannot be used here: no C compiler found (looked for cc, gcc, clang)"
        in asked.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--device", "cpuu"), "there is no device 'cpuu': did you mean `cpu`"),
        (("--target", "fortran"), "there is no synth target 'fortran'"),
        (("--device", "cpu", "--device", "npu"), "there is no device 'npu'"),
    ],
)
def test_what_is_requested_and_unknown_exits_with_3(arguments: tuple[str, ...], reported: str) -> None:
    result = doctor(*arguments)
    assert (result.exit_code, reported in result.stderr) == (3, True)
    assert json.loads(doctor(*arguments, "--json").stdout)["missing"]


def test_what_is_requested_and_present_exits_with_0() -> None:
    assert doctor("--device", "cpu", "--device", "cpu:0").exit_code == 0


def test_caches_that_others_can_write_to_are_problems(private: Path) -> None:
    (private / "openinfer-open").mkdir()
    (private / "openinfer-open").chmod(0o777)
    (private / "openinfer-file").write_text("")
    (private / "openinfer-sound").mkdir(mode=0o700)
    (private / "openinfer-sound" / "a.spv").write_bytes(bytes(1234))
    found = facts()
    assert found["caches"]["openinfer-sound"]["detail"].endswith("1 files, 1,234 bytes, mode 0700")
    assert "its mode is 0777, expected 0700" in found["caches"]["openinfer-open"]["problem"]
    assert "it is not a directory" in found["caches"]["openinfer-file"]["problem"]
    assert len(found["problems"]) == 2


def test_switches_in_force_are_shown_and_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_TRACE", "yes")
    monkeypatch.setenv("OPENINFER_DEBUG", "1")
    monkeypatch.setenv("OPENINFER_PLUGIN_BLOCK", "x")
    monkeypatch.setenv("OPENINFER_PLUGINS_BLOCK", "vulkn")
    found = facts()
    assert not found["switches"]["OPENINFER_DEBUG"]["problem"]
    assert found["switches"]["OPENINFER_TRACE"]["problem"].endswith("expected 1 or full")
    assert "did you mean `OPENINFER_PLUGINS_BLOCK`" in found["switches"]["OPENINFER_PLUGIN_BLOCK"]["problem"]
    assert found["switches"]["OPENINFER_PLUGINS_BLOCK"]["detail"] == "vulkn"
    assert any("'vulkn', which is not installed" in problem for problem in found["problems"])


def test_a_compiler_named_in_cc_is_the_one_that_is_searched_for(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = private / "mycc"
    tool.write_text("#!/bin/sh\necho my compiler 7\n")
    tool.chmod(0o755)
    monkeypatch.setenv("CC", f"{tool} -O1")
    assert facts()["compilers"]["C"]["detail"] == f"{tool} -O1: my compiler 7"
    monkeypatch.setenv("CC", "'unfinished")
    assert "is not a command" in facts()["compilers"]["CC"]["problem"]


def test_a_launcher_in_front_of_the_compiler_is_started_with_it(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = private / "ccache"
    launcher.write_text('#!/bin/sh\necho "launched $*"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("CC", f"{launcher} gcc")
    assert facts()["compilers"]["C"]["detail"] == f"{launcher} gcc: launched gcc --version"


def test_a_target_whose_tools_are_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("board_tools")
    vars(module)["probe"] = lambda: Availability(available=False, detail="install board-gcc")
    monkeypatch.setitem(sys.modules, "board_tools", module)
    board = SynthTargetSpec(
        name="board", summary="a board", target="a:b", expression_dtypes=None, probe="board_tools:probe"
    )

    (fact,) = diagnosis.targets(Environment(targets={"board": board}))

    assert (fact.state, fact.detail, fact.problem) == ("missing", "a board; install board-gcc", "")


def test_a_compiler_in_cc_that_is_not_there_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "looked for 'no-such-compiler', which CC names" in facts()["compilers"]["CC"]["problem"]


def test_a_compiler_that_hangs_is_given_up(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = private / "slow"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("CC", str(tool))
    monkeypatch.setattr("openinfer.cli.diagnosis.SECONDS", 0.2)
    assert "does not print its version" in facts()["compilers"]["C"]["detail"]
