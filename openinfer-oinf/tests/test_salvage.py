"""Files whose data and quantisation payloads were grouped although their index interleaves them."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest

from openinfer_oinf import OinfError, QuantParams, QuantScale, TensorSpec, dataclass_to_oinf, open_oinf, salvage_oinf
from openinfer_oinf.cli import main

QUANT = QuantParams("symmetric", QuantScale.per_channel(0, [0.5, 2]))


def sound(count: int, *, quantised: str) -> bytes:
    """Tensors t0, t1, ...; those whose letter in `quantised` is q have parameters."""
    tensors = {
        f"t{at}": TensorSpec(np.array([[at, 1, 2], [3, 4, 5]], np.int8), quant=QUANT if quantised[at] == "q" else None)
        for at in range(count)
    }
    return dataclass_to_oinf({"sizevars": {"B": 1}, "metadata": {"mode": "fast"}, "tensors": tensors})


def grouped(blob: bytes) -> bytes:
    """The same index, but all data first and all quantisation parameters after."""
    with open_oinf(blob) as file:
        rows = file.index.tensors
        start = min(row.offset for row in rows)
    data = [blob[row.offset : row.offset + (row.nbytes + 7) // 8 * 8] for row in rows]
    quants = [blob[row.quant_offset : row.quant_offset + row.quant_nbytes] for row in rows]
    return blob[:start] + b"".join(data) + b"".join(quants)


@pytest.mark.parametrize("quantised", ["qn", "qq", "nqn", "qnq", "qqq"])
def test_grouped_payloads_are_put_right(quantised, tmp_path):
    proper = sound(len(quantised), quantised=quantised)
    source, target = tmp_path / "a.oinf", tmp_path / "b.oinf"
    source.write_bytes(grouped(proper))
    with pytest.raises(OinfError):
        open_oinf(source, verify="eager")
    assert salvage_oinf(source, target) > 0
    assert target.read_bytes() == proper


def test_a_sound_file_needs_no_salvage(tmp_path):
    (tmp_path / "a.oinf").write_bytes(sound(2, quantised="nq"))
    with pytest.raises(OinfError, match="is sound") as caught:
        salvage_oinf(tmp_path / "a.oinf", tmp_path / "b.oinf")
    assert caught.value.code == "E_SALVAGE"


@pytest.mark.parametrize("at", [0, 5, 61, -1, -20, -60, 200])
def test_what_is_broken_otherwise_stays_broken(tmp_path, at):
    blob = bytearray(grouped(sound(3, quantised="qqn")))
    blob[at] ^= 0xFF
    (tmp_path / "a.oinf").write_bytes(blob)
    try:
        salvage_oinf(tmp_path / "a.oinf", tmp_path / "b.oinf")
    except OinfError:
        assert not (tmp_path / "b.oinf").exists()
    else:
        # The damaged byte was a value.
        open_oinf(tmp_path / "b.oinf", verify="eager").close()


def test_the_command(tmp_path, capsys):
    source, target = str(tmp_path / "a.oinf"), str(tmp_path / "b.oinf")
    (tmp_path / "a.oinf").write_bytes(grouped(sound(2, quantised="qn")))
    assert main(["salvage", source, target]) == 0
    head, written = capsys.readouterr().out.splitlines()
    assert head == "2 tensors had other offsets than their index said"
    assert written.startswith(f"written {target} (")
    assert main(["verify", target]) == 0
    capsys.readouterr()
    assert main(["salvage", source, target, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"written": {"path": target, "nbytes": (tmp_path / "b.oinf").stat().st_size}, "moved": 2}
    assert main(["salvage", target, source]) == 1
    assert "E_SALVAGE" in capsys.readouterr().err


@pytest.mark.usefixtures("bars_at_once")
def test_the_command_shows_a_bar_on_a_terminal(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", Terminal())
    (tmp_path / "a.oinf").write_bytes(grouped(sound(2, quantised="qn")))
    assert main(["salvage", str(tmp_path / "a.oinf"), str(tmp_path / "b.oinf")]) == 0
    assert "salvaging [" in sys.stderr.getvalue()
