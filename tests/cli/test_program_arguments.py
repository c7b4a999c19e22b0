"""A program is given in the same ways wherever one is expected, and what is none is refused with what was expected."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi

TEXT = "dynamic { x: f32[3]; }\nvolatile { y: f32[3]; }\nblock entry { op add(x, x) >> y; return y; }\n"
GRAPH = oi.graph(TEXT)
DOCUMENT = oi.GraphSerialize.json(GRAPH)
MODEL = oi.Model.from_arrays({})


class PathLike:
    def __fspath__(self) -> str:
        return os.path.join("folder", "..", "p.oi")  # noqa: PTH118


FORMS = {
    "graph": lambda: GRAPH,
    "text": lambda: TEXT,
    "text of one line": lambda: TEXT.replace("\n", " "),
    "document": lambda: DOCUMENT,
    "JSON text": lambda: json.dumps(DOCUMENT),
    "path of text": lambda: Path("p.oi"),
    "path of text as str": lambda: "p.oi",
    "absolute path as str": lambda: str(Path("p.oi").absolute()),
    "path of JSON": lambda: Path("p.json"),
    "path of JSON as str": lambda: "p.json",
    "path with another ending": lambda: "my program.txt",
    "path like": lambda: PathLike(),
}


def parsed(program):
    return oi.graph(program)


def simulated(program):
    return oi.Simulator(MODEL, program).make_executor().program.graph


def simulated_with_a_device(program):
    return oi.Simulator(MODEL, "cpu", program).make_executor().program.graph


def bound_late(program):
    simulator = oi.Simulator(MODEL)
    assert simulator.validate(program) == ()
    return simulator.make_executor(program).program.graph


def batched(program):
    ((index, found),) = oi.run_batch(MODEL, program, [{"x": np.ones(3, np.float32)}])
    assert (index, found["y"].tolist()) == (0, [2.0, 2.0, 2.0])
    return GRAPH


def synthesised(program):
    found = oi.Synthesizer("c").synthesize(MODEL, program)
    return GRAPH if [port.name for port in found.plan.outputs] == ["y"] else None


TAKERS = [parsed, simulated, simulated_with_a_device, bound_late, batched, synthesised]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.oi").write_text(TEXT)
    (tmp_path / "my program.txt").write_text(TEXT)
    (tmp_path / "p.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "folder").mkdir()


@pytest.mark.rule("api.python.3")
@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_program_is_taken(take, form):
    assert take(form()) == GRAPH


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("wrong", [3, [TEXT], TEXT.encode(), object()])
def test_only_programs_are_accepted_and_the_error_says_what_was_expected(take, wrong):
    expected = rf"expected a program: a Graph, .* program text, or the path of a file, found {type(wrong).__name__}"
    with pytest.raises(TypeError, match=expected):
        take(wrong)


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("missing", ["nope.oi", "folder/nope.json", Path("nope.oi")])
def test_a_file_that_is_not_there_is_named(take, missing):
    with pytest.raises(FileNotFoundError) as caught:
        take(missing)

    assert caught.value.filename in (missing, str(missing))


def test_what_is_neither_device_nor_program_says_how_both_are_given():
    with pytest.raises(oi.DeviceError, match=r"unknown device 'cpuu'; .* did you mean `cpu`\? \(a program is given as"):
        oi.Simulator(MODEL, "cpuu")


def test_a_device_wins_over_a_file_of_its_name(tmp_path):
    (tmp_path / "cpu").write_text(TEXT)

    assert oi.Simulator(MODEL, "cpu").device == "cpu"


def test_more_than_one_program_is_refused():
    with pytest.raises(TypeError, match="expected one program and one device, found 2 and 0"):
        oi.Simulator(MODEL, TEXT, GRAPH)


def test_findings_name_the_file(tmp_path):
    (tmp_path / "wrong.oi").write_text("block entry { op }")

    for take in (parsed, simulated, synthesised):
        with pytest.raises(oi.DslSyntaxError, match=r"^wrong\.oi:1:18:"):
            take("wrong.oi")


def test_a_checked_graph_keeps_its_warnings():
    unused = "volatile { unused: f32; }\n" + TEXT
    warnings = oi.graph(unused, check=True).warnings

    assert oi.graph(oi.graph(unused), check=True).warnings == warnings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([np.ones(3)],), "arrays: expected a mapping from names to values, found list"),
        ((np.ones(3),), "arrays: expected a mapping from names to values, found ndarray"),
        (({1: np.ones(3)},), "arrays: expected names that are str, found 1"),
    ],
)
def test_a_model_of_arrays_says_what_it_expects(arguments, message):
    with pytest.raises(TypeError, match=message):
        oi.Model.from_arrays(*arguments)


@pytest.mark.parametrize("argument", ["sizevars", "metadata"])
def test_the_tables_of_a_model_of_arrays_are_mappings(argument):
    with pytest.raises(TypeError, match=f"{argument}: expected a mapping from names to values, found list"):
        oi.Model.from_arrays({}, **{argument: [1]})
