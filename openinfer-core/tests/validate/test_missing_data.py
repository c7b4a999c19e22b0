"""Misspelt weights: volatile variables without data, and tensors of the model that no program uses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.validate import resolve
from openinfer.validate.missing_data import unused_tensors
from openinfer_oinf import SizeVar, write_oinf

MODEL = oi.Model.from_arrays(
    {name: np.ones(4, np.float32) for name in ("weight", "bias", "W.0", "W.1")}, sizevars={"D": 4}
)


def program(declared: str, statements: str) -> oi.Graph:
    return oi.graph(f"dynamic {{ x: f32[D]; }} {declared} block entry {{ {statements} return; }}")


QUIET = {
    "data of the model": ("volatile { weight: f32[D]; y: f32[D]; }", "op mul(x, weight) >> y;"),
    "data under another name": ("volatile { w: f32[D] @ref(weight); y: f32[D]; }", "op mul(x, w) >> y;"),
    "an initial value": ("volatile { w: f32[D] @init(0.0); y: f32[D]; }", "op mul(x, w) >> y;"),
    "written by a statement": ("volatile { w: f32[D]; y: f32[D]; }", "op exp(x) >> w; op mul(x, w) >> y;"),
    "read by nothing": ("volatile { w: f32[D]; y: f32[D]; }", "op exp(x) >> y;"),
    "a family of tensors": ('volatile { W(l): f32[D] @pattern("W.{l}"); y: f32[D]; }', "op mul(x, W[0]) >> y;"),
}


@pytest.mark.rule("language.data.1")
@pytest.mark.parametrize(("declared", "statements"), QUIET.values(), ids=QUIET)
def test_a_volatile_with_a_value_is_in_order(declared: str, statements: str) -> None:
    assert resolve(program(declared, statements), MODEL).warnings == ()


MISSPELT = ("volatile { weigth: f32[D]; y: f32[D]; }", "op mul(x, weigth) >> y;")


@pytest.mark.rule("language.data.1")
def test_a_misspelt_weight_is_a_warning_with_the_tensor_that_is_meant() -> None:
    (warning,) = resolve(program(*MISSPELT), MODEL).warnings
    assert (warning.code, warning.hint) == ("no-data", "did you mean `weight`?")
    assert warning.message.startswith("volatile `weigth` is read and never written")


def test_it_is_an_error_in_strict_mode() -> None:
    pytest.importorskip("openinfer_backend_cpu", reason="a simulator opens the device cpu")
    with pytest.raises(oi.ValidationError) as caught:
        oi.Simulator(MODEL, program(*MISSPELT), strict=True)
    assert caught.value.code == "no-data"


@pytest.mark.rule("language.data.1")
def test_tensors_that_no_declaration_links_to_are_noted_together() -> None:
    first = resolve(program('constant { W(l): f32[D] @pattern("W.{l}"); }', "op mul(x, W[0]) >> x;"), MODEL)
    second = resolve(program("constant { b: f32[D] @ref(bias); }", "op mul(x, b) >> x;"), MODEL)
    (note,) = unused_tensors([first], MODEL)
    assert note.message == "<memory> has 2 tensors that no declaration links to: `weight`, `bias`"
    (note,) = unused_tensors([first, second], MODEL)
    assert note.message == "<memory> has 1 tensor that no declaration links to: `weight`"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A program that uses one of two tensors, and their model."""
    model, path = tmp_path / "m.oinf", tmp_path / "p.oi"
    write_oinf({"D": SizeVar(4), "weight": np.ones(4, np.float32), "bias": np.ones(4, np.float32)}, model)
    path.write_text("constant { weight: f32[D]; } block entry { op exp(weight) >> y; return y; }", encoding="utf-8")
    return str(path), str(model)


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_check_prints_the_note_and_passes(files: tuple[str, str], strict: tuple[str, ...]) -> None:
    path, model = files
    result = CliRunner().invoke(main, ["check", path, "--model", model, *strict])
    assert result.exit_code == 0
    assert result.output.splitlines()[:2] == [
        f"{path}: no errors, no warnings",
        f"note[unused-tensor]: {model} has 1 tensor that no declaration links to: `bias`",
    ]


def test_check_writes_the_note_as_json(files: tuple[str, str]) -> None:
    path, model = files
    (finding,) = json.loads(CliRunner().invoke(main, ["check", path, "--model", model, "--json"]).output)
    assert (finding["file"], finding["code"], finding["severity"]) == (model, "unused-tensor", "note")
