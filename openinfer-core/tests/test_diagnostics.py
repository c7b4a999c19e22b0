"""Excerpts of a program in findings: what is shown of long lines, at which width."""

from __future__ import annotations

import difflib
import io
import os
import pty
import random
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.cli.terminal import width_of
from openinfer.diagnostics import Diagnostic, Source, columns, near_names, render


def excerpt(line: str, start: int, end: int, width: int | None) -> tuple[str, str]:
    """Return the line that is shown and the line with the carets, without margins."""
    finding = Diagnostic(code="syntax", message="wrong", span=Source("p.oi", f"\n{line}\n").span(start + 1, end + 1))
    *_, shown, carets = render(finding, width=width).splitlines()
    assert (shown[:4], carets[:4]) == ("2 | ", "  | ")
    return shown[4:], carets[4:]


TEXTS = st.text(st.sampled_from("ab \t\x1b界é\u0301"), max_size=120)


@given(TEXTS, TEXTS, TEXTS, st.one_of(st.none(), st.integers(1, 130)))
def test_excerpts_fit_the_width_and_carets_the_text(left: str, marked: str, right: str, width: int | None) -> None:
    line = left + marked + right
    shown, carets = excerpt(line, len(left), len(left) + len(marked), width)
    room = 300 if width is None else max(width - 4, 20)
    assert columns(shown) <= room
    assert columns(carets) <= max(room, columns(shown) + 1)
    assert set(carets.strip(" ")) == {"^"}


def test_a_line_that_fits_is_shown_as_it_is() -> None:
    assert excerpt("op add(x, z) >> y;", 10, 11, 24) == ("op add(x, z) >> y;", "          ^")


@pytest.mark.parametrize(
    ("place", "shown"), [(0, "0123456789abcdefghi…"), (35, "…hijklmnopqrstuvwxyz"), (18, "…abcdefghijklmnopqr…")]
)
def test_a_long_line_is_cut_around_the_mark(place: int, shown: str) -> None:
    line = "0123456789abcdefghijklmnopqrstuvwxyz"
    found, carets = excerpt(line, place, place + 1, 24)
    assert found == shown
    assert (carets.count("^"), found[carets.index("^")]) == (1, line[place])


def test_a_long_mark_is_cut() -> None:
    shown, carets = excerpt("op " + "x" * 100 + " >> y;", 3, 103, 44)
    assert shown == "op " + "x" * 30 + "… >> y;"
    assert carets == "   " + "^" * 31


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb"), os.fdopen(follower, "w") as terminal:
        termios.tcsetwinsize(follower, (24, 57))
        assert width_of(terminal) == 57
        monkeypatch.setenv("COLUMNS", "31")
        assert width_of(terminal) == 31
    assert width_of(io.StringIO()) is None
    with (tmp_path / "out").open("w") as file:
        assert width_of(file) is None


def test_near_names_are_those_of_difflib() -> None:
    draw = random.Random(5)
    names = ["".join(draw.choices("abT_", k=draw.randint(0, 9))) for _ in range(60)]
    for name in names:
        others = sorted(set(names) - {name})
        same = [other for other in others if other.lower() == name.lower()]
        assert near_names(name, others) == (same[:3] or difflib.get_close_matches(name, others, n=3, cutoff=0.6))
