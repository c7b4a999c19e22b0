"""The compiler and what it builds: found or missed, and ended in time."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import MissingDependencyError, SynthesisError
from openinfer.model import Model
from openinfer.synth import Synthesizer
from openinfer.synth.c_host.toolchain import compiler_command, find_compiler, run_tool
from openinfer.testing.waiting import limit_s
from openinfer_synth_c.profiles import host

TEXT = "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op add(x, x) >> y; }"
BROKEN = "import sys; sys.stderr.write('broken'); sys.exit(3)"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")


def synthesis(**options):
    return Synthesizer("c", **options).synthesize(Model.from_arrays({}), graph(TEXT))


def test_a_missing_compiler_is_an_error_of_the_environment(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(MissingDependencyError, match=r"no C compiler found \(looked for cc, gcc, clang\)") as caught:
        synthesis().run({"x": np.zeros(2, np.float32)})

    assert caught.value.code == "no-compiler"


def test_the_compiler_that_cc_names_is_taken(monkeypatch):
    monkeypatch.setenv("CC", sys.executable)

    assert find_compiler() == (sys.executable,)


@needs_compiler
def test_arguments_after_the_name_in_cc_are_handed_on(monkeypatch):
    monkeypatch.setenv("CC", "cc -O1 '-DNAME=two words'")

    assert find_compiler() == (shutil.which("cc"), "-O1", "-DNAME=two words")
    assert compiler_command(("-O3", "-g")) == (shutil.which("cc"), "-O3", "-g", "-O1", "-DNAME=two words")
    assert synthesis().run({"x": np.ones(2, np.float32)}).outputs["y"].tolist() == [2.0, 2.0]


@pytest.fixture
def launcher(tmp_path):
    """A program that notes its arguments, one command on a line, and runs them."""
    file = tmp_path / "launcher"
    file.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(tmp_path / "calls"))}\nexec "$@"\n')
    file.chmod(0o700)
    return file


@needs_compiler
def test_a_bundle_is_compiled_by_the_launcher_in_cc_with_its_options_last(monkeypatch, launcher):
    monkeypatch.setenv("CC", f"{launcher} cc -O0 -w")

    result = synthesis().run({"x": np.ones(2, np.float32)})

    assert result.outputs["y"].tolist() == [2.0, 2.0]
    (called,) = launcher.with_name("calls").read_text().splitlines()
    words = called.split()
    assert words[0] == "cc"
    assert words.index("-O3") < words.index("-O0") < words.index("-w") < words.index("main.c")


@needs_compiler
def test_the_profile_host_is_what_the_options_in_cc_leave_of_this_machine(monkeypatch):
    if platform.machine() != "x86_64":
        pytest.skip("the options are those of x86-64")
    monkeypatch.setenv("CC", "cc -march=x86-64")

    assert (host()["target"]["lanes"], host()["target"]["fma"]) == (4, False)


def test_quotes_in_cc_that_do_not_close_are_reported(monkeypatch):
    monkeypatch.setenv("CC", "cc 'x")

    with pytest.raises(MissingDependencyError, match="which is not a command: No closing quotation"):
        find_compiler()


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ({"x": np.zeros(2, np.float32), "X": 1}, {}, "the program has no input 'X': did you mean `x`"),
        ({"x": [1, 2]}, {}, r"input 'x' is int64\[2\], expected f32\[2\]"),
        ({"x": np.zeros((0, 2), np.float32)}, {"steps": 0}, "steps is 0, expected 1 or more"),
        ({"x": np.zeros(2, np.float32)}, {"repeat": 0}, "repeat is 0, expected 1 or more"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_compiled(monkeypatch, inputs, options, message):
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(SynthesisError, match=message):
        synthesis().run(inputs, **options)


@needs_compiler
def test_what_becomes_an_array_of_the_right_type_is_taken():
    class Sequence:
        def __array__(self, dtype=None, copy=None):
            return np.array([1, 2], np.float32)

    assert synthesis().run({"x": Sequence()}).outputs["y"].tolist() == [2.0, 4.0]


def test_a_compiler_that_fails_is_quoted(tmp_path):
    with pytest.raises(SynthesisError, match="the tool failed with status 3: broken"):
        run_tool(
            [sys.executable, "-c", "import sys; sys.exit(sys.stderr.write('broken') and 3)"], tmp_path, 20, "the tool"
        )


def test_of_many_lines_the_first_error_is_quoted_and_the_others_are_a_note(tmp_path):
    said = "in function f:\\n1:2: error: redefinition\\nnote: here"

    with pytest.raises(SynthesisError) as caught:
        run_tool([sys.executable, "-c", f"import sys; sys.stderr.write('{said}'); sys.exit(3)"], tmp_path, 20, "it")

    assert str(caught.value) == (
        "it failed with status 3: 1:2: error: redefinition (`openinfer --debug` shows all 3 lines)"
    )
    assert caught.value.__notes__ == ["in function f:\n1:2: error: redefinition\nnote: here"]


LINKED = (
    "/lib/libc.a(libc_a-error.o): in function `exit':",
    "exit.c:(.text.exit+0x28): undefined reference to `_exit'",
    "collect2: error: ld returned 1 exit status",
)


def test_of_a_linker_the_line_that_names_what_is_missing_is_quoted(tmp_path):
    failing = f"import sys; sys.exit(sys.stderr.write({chr(10).join(LINKED)!r}) and 1)"

    with pytest.raises(SynthesisError, match=re.escape(f"failed with status 1: {LINKED[1]} (")):
        run_tool([sys.executable, "-c", failing], tmp_path, 20, "it")


@needs_compiler
def test_flags_that_the_compiler_here_refuses_are_said_to_be_those_of_the_device_file():
    device = {
        "version": 2,
        "device": {"type": "cpu", "api": "c"},
        "target": {"flags": ["-mno-such-machine"]},
    }

    with pytest.raises(SynthesisError) as caught:
        synthesis(arch=device).run({"x": np.zeros(2, np.float32)})

    (found,) = caught.value.diagnostics
    assert found.code == "tool-failed"
    assert found.hint.startswith("the flags -mno-such-machine are those of the device file, and --verify runs")
    assert "`--target c` without --arch" in found.hint


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path):
    number = tmp_path / "number"
    child = f"import os, pathlib, time; pathlib.Path({str(number)!r}).write_text(str(os.getpid())); time.sleep(3600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    limit = limit_s(2)

    with pytest.raises(SynthesisError, match=rf"the tool took more than {limit:g} s and was ended") as caught:
        run_tool([sys.executable, "-c", parent], tmp_path, limit, "the tool")

    assert caught.value.code == "tool-timeout"
    until = time.monotonic() + limit_s(20)
    while is_running(int(number.read_text())):
        assert time.monotonic() < until, "the child outlived the tool"
        time.sleep(0.01)


def is_running(number: int) -> bool:
    """Whether a process is there and has not ended: one that waits for whoever asks for its exit code has."""
    stat = Path(f"/proc/{number}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SynthesisError, match="the tool cannot be started"):
        run_tool([str(tmp_path / "nothing")], tmp_path, 5, "the tool")


@needs_compiler
def test_an_input_of_another_shape_or_type_is_refused():
    with pytest.raises(SynthesisError, match=r"input 'x' is float64\[2\], expected f32\[2\]"):
        synthesis().run({"x": np.zeros(2)})


@needs_compiler
def test_a_missing_input_is_reported_by_the_program():
    with pytest.raises(SynthesisError, match="model: input x: no file is given"):
        synthesis().run({})


@needs_compiler
def test_steps_are_stacked_on_a_first_axis_and_timed():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)

    result = synthesis().run({"x": x}, steps=3, repeat=10)

    np.testing.assert_array_equal(result.outputs["y"], x + x)
    assert result.micros >= 0.0
