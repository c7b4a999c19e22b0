"""Commands show what takes them more than two seconds, on a terminal and not with `--json`."""

from __future__ import annotations

import io
import re
import threading
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openinfer.cli import main
from openinfer.simulate import logs
from openinfer_oinf import save_file

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = pytest.mark.skipif(
    find_spec("openinfer_backend_cpu") is None or find_spec("openinfer_synth_c") is None,
    reason="the device cpu or the target c is not installed",
)

PROGRAM = "dynamic { x: f32[2]; }\nconstant { w: f32[2]; }\nblock entry { op mul(x, w) >> y; return y; }\n"

SHOWN = {
    "run net.oi -m net.oinf --input x=1 --device cpu": {"preparing the program for cpu", "running"},
    "run net.oi -m net.oinf --input x=1 --steps 3": {"preparing the program for cpu", "running ["},
    "trace net.oi -m net.oinf --input x=1 --script script.txt": {"preparing the program for cpu"},
    "bench net.oi -m net.oinf --input x=1 --repeat 2": {"preparing the program for cpu", "measuring ["},
    "compare net.oi -m net.oinf --input x=1 --device cpu --device cpu": {"preparing the program for cpu", "comparing"},
    "plan net.oi -m net.oinf": {"planning"},
    "check net.oi -m net.oinf --target c": {"checking"},
    "synth net.oi -m net.oinf -o out": {"planning"},
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.oi").write_text(PROGRAM)
    Path("script.txt").write_text("continue\n")
    save_file({"w": np.ones(2, np.float32)}, "net.oinf")


@pytest.fixture
def from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is shown from the first step on, not after seconds."""
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BEFORE", 0)
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BETWEEN", 0)


@pytest.fixture
def at_once(from_the_start: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openinfer_oinf.progress.ProgressBar.end", shown_at_least_once)


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Nodes are logged on standard error."""
    monkeypatch.setenv("OPENINFER_TRACE", "1")
    logs.read_environment()
    yield
    monkeypatch.undo()
    logs.read_environment()


def shown_at_least_once(bar: object) -> None:
    """Show a bar at its end, in place of the seconds that its work does not take here."""
    bar._show_after(-1.0)
    bar._ended.set()
    bar._clock.join()


def written_by(command: str) -> str:
    """Return what a command writes to standard error, a terminal."""
    with redirect_stderr(Terminal()) as terminal, pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 0
    return terminal.getvalue()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("command", SHOWN)
def test_long_work_is_shown(command: str) -> None:
    labels = {line.strip() for line in written_by(command).split("\r")}

    assert all(any(line.startswith(label) for line in labels) for label in SHOWN[command]), labels


@pytest.mark.usefixtures("at_once")
def test_verification_counts_its_steps() -> None:
    text = written_by("synth net.oi -m net.oinf --verify --steps 2")

    shares = re.findall(r"verifying \[.*\] +(\d+)%", text.replace("\r", "\n"))
    assert [*dict.fromkeys(shares)] == ["25", "50", "75", "100"]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("command", SHOWN)
def test_documents_have_no_progress(command: str) -> None:
    assert written_by(f"{command} --json") == ""


def test_what_ends_soon_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BEFORE", 3600)

    assert written_by("run net.oi -m net.oinf --input x=1 --steps 3") == ""


@pytest.mark.usefixtures("from_the_start")
def test_the_line_is_erased_and_its_thread_ended_at_the_end() -> None:
    threads = set(threading.enumerate())

    text = written_by("run net.oi -m net.oinf --input x=1 --steps 3")

    last_line, blank, end = text.split("\r")[-3:]
    assert last_line.endswith("100%")
    assert blank == " " * len(last_line)
    assert end == ""
    assert set(threading.enumerate()) <= threads


@pytest.mark.usefixtures("from_the_start", "logged")
def test_logged_nodes_take_the_place_of_the_progress_of_steps() -> None:
    text = written_by("run net.oi -m net.oinf --input x=1 --steps 3")

    assert text.count("op mul(") >= 3
    assert "running" not in text


@pytest.mark.usefixtures("from_the_start", "logged")
def test_logged_messages_have_lines_of_their_own() -> None:
    text = written_by("bench net.oi -m net.oinf --input x=1 --repeat 2")

    messages = [line for line in text.split("\n") if "[TRACE]" in line]
    assert any("measuring" in message for message in messages)
    assert all(re.fullmatch(r"(.*\r +\r)?[0-9:]{8} [^\r]*", message) for message in messages), messages
