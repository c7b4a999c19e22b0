"""`--placement`: commands that run a program ask for the devices that its hints name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from openinfer.cli import main
from openinfer_oinf import write_oinf

PROGRAM = """dynamic { x: f32; } volatile { y: f32; }
block entry { op neg(x) >> y with { placement = "elsewhere" }; return y; }
"""
ONE = ("--input", "x=1")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("run", ONE),
        ("run", ("--batch", "x.npy")),
        ("run", ("--batch", "x.npy", "--workers", "2")),
        ("bench", (*ONE, "--repeat", "1")),
        ("compare", (*ONE, "--device", "cpu", "--device", "cpu")),
        ("trace", ONE),
    ],
)
def test_hints_name_devices_when_that_is_requested(
    command: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.oi").write_text(PROGRAM)
    write_oinf({}, "m.oinf")
    np.save("x.npy", np.ones(2, np.float32))
    line = [command, "g.oi", "-m", "m.oinf", *arguments]

    without, asked = CliRunner().invoke(main, line), CliRunner().invoke(main, [*line, "--placement"])

    assert (without.exit_code, asked.exit_code) == (0, 1)
    assert "unknown device 'elsewhere'" not in without.stderr
    assert "unknown device 'elsewhere'; known: c" in asked.stderr
