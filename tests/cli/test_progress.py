"""Commands show what takes them more than two seconds, on a terminal and not with `--json`."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from openinfer.cli import main
from openinfer_oinf import save_file

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
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BEFORE", 0)
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BETWEEN", 0)
    monkeypatch.setattr("openinfer_oinf.progress.ProgressBar.end", shown_at_least_once)


def shown_at_least_once(bar: object) -> None:
    """Show a bar at its end, in place of the seconds that its work does not take here."""
    bar._show_after(-1.0)
    bar._ended.set()


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


def test_what_ends_soon_shows_nothing() -> None:
    assert written_by("run net.oi -m net.oinf --input x=1 --steps 3") == ""
