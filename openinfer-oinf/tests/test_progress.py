"""The line of a progress bar: one row of printable text, which never ends the work that it is about."""

from __future__ import annotations

import io
import os
import threading
import time

import pytest

from openinfer_oinf.progress import advance, erase, expect, progress_bar

COLUMNS = 60


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class GoneTerminal(Terminal):
    """A terminal that was closed after the first lines."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.attempts = 0

    def write(self, _: str) -> int:
        self.attempts += 1
        raise self.error


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr("openinfer_oinf.progress._terminal_columns", lambda _: COLUMNS)


def first_line(label, total=0):
    out = Terminal()
    with progress_bar(label, out):
        expect(total)
        advance(1)
        line = out.getvalue()
    assert line.startswith("\r")
    return line[1:]


@pytest.mark.usefixtures("bars_at_once")
def test_control_characters_of_a_label_are_escapes():
    assert first_line("importing \x1b[2Jevil\nname.onnx") == "importing \\x1b[2Jevil\\nname.onnx ... 0 s"


@pytest.mark.usefixtures("bars_at_once", "narrow")
@pytest.mark.parametrize("total", [0, 2])
@pytest.mark.parametrize(("letter", "columns"), [("a", 1), ("\u6a21", 2)])
def test_a_long_label_is_cut_so_that_the_line_is_one_row(letter, columns, total):
    line = first_line(letter * 100, total)

    taken = columns * line.count(letter) + len(line.replace(letter, ""))
    assert COLUMNS - 1 - columns < taken <= COLUMNS - 1
    assert line.startswith(letter)
    assert line.endswith("] " + " 50%" if total else "... ... 0 s")


@pytest.mark.usefixtures("bars_at_once")
@pytest.mark.parametrize("columns", [1, 2, 5, 12])
def test_a_terminal_of_few_columns_gets_a_part_of_the_line(monkeypatch, columns):
    monkeypatch.setattr("openinfer_oinf.progress._terminal_columns", lambda _: columns)

    assert len(first_line("converting", 2)) == columns - 1


@pytest.mark.usefixtures("bars_at_once")
def test_the_width_is_that_of_the_terminal_that_is_written_to():
    leader, follower = os.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen, os.fdopen(follower, "w") as out:
        pytest.importorskip("termios").tcsetwinsize(follower, (10, 24))
        with progress_bar("a" * 100, out):
            advance(1)
            assert screen.read(1000) == b"\r" + b"a" * 12 + b"... ... 0 s"


@pytest.mark.usefixtures("bars_at_once")
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ValueError("I/O operation on closed file")])
def test_work_goes_on_when_the_terminal_is_gone(monkeypatch, capfd, error):
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_OF_SILENCE", 0.001)
    out = GoneTerminal(error)
    with progress_bar("writing", out):
        advance(1)
        time.sleep(0.01)
        advance(1)

    assert out.attempts == 1
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("bars_at_once")
def test_other_output_comes_after_the_line_is_erased():
    out = Terminal()
    with progress_bar("writing", out):
        advance(1)
        erase()
        out.write("warning\n")
        advance(1)

    line = "writing ... 0 s"
    blank = " " * len(line)
    assert out.getvalue() == f"\r{line}\r{blank}\rwarning\n\r{line}\r{blank}\r"


@pytest.mark.usefixtures("bars_at_once")
def test_the_thread_of_a_bar_ends_with_it():
    threads = set(threading.enumerate())
    with progress_bar("writing", Terminal()):
        assert len(set(threading.enumerate()) - threads) == 1

    assert set(threading.enumerate()) <= threads
