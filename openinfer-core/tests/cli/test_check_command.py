"""The commands `openinfer check` and `openinfer graph`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import main
from openinfer.dsl import graph
from openinfer.errors import SynthesisError
from openinfer.model import ModelContents, save_model
from openinfer.plugins import loader
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import DeviceSpec, Fallback, SynthTargetSpec
from openinfer.serialize import GraphDeserialize
from openinfer.synth.bundle import Bundle

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan

GOOD = "dynamic { x: f32[B]; }\nvolatile { y: f32[B]; }\nblock entry { op relu(x) >> y; return; }\n"
ODD = GOOD.replace(" return;", "")
BAD = GOOD.replace("relu(x)", "relu(z)")
BROKEN = GOOD.replace(" >> ", " > ")

UNCHECKED = "sizes and types were not checked: give a model with --model\n"


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=text)


@pytest.fixture
def write(tmp_path):
    def written(text: str, name: str = "model.oi") -> str:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return str(file)

    return written


def test_a_right_program_passes(write) -> None:
    path = write(GOOD)
    result = run("check", path)
    assert (result.exit_code, result.output) == (0, f"{path}: no errors, no warnings\n{UNCHECKED}")


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> str:
    """A device that cannot be used here, computes in f32, and leaves f64 to another one."""
    left, narrow = Fallback(device="host", dtypes=frozenset({"f64"})), frozenset({"f32"})
    parts = {"summary": "", "probe": "x:y", "backend": "x:y"}
    host = DeviceSpec(name="host", expression_dtypes=narrow | {"f64"}, **parts)
    spec = DeviceSpec(name="box", expression_dtypes=narrow, fallback=left, **parts)
    devices = {"box": spec, "host": host}
    offered = replace(Environment.default(), devices=devices, kernel_source=lambda _: ())
    monkeypatch.setattr(loader, "default_environment", lambda: offered)
    return "box"


@pytest.mark.parametrize(
    ("dtype", "code", "reported"),
    [
        ("f32", 0, "no errors, no warnings"),
        ("f64", 0, "warning[kernel-fallback]: box has no relu for f64: it runs on host"),
        ("i8", 1, "error[kernel-missing]: box has no relu for i8"),
    ],
)
def test_a_program_is_checked_for_a_device(write, tmp_path, box: str, dtype: str, code: int, reported: str) -> None:
    model = str(tmp_path / "m.oinf")
    save_model(ModelContents(sizevars={"B": 2}, metadata={}, tensors={}), model)
    path = write(GOOD.replace("f32", dtype))
    result = run("check", path, "--model", model, "--device", box)
    assert (result.exit_code, reported in result.output) == (code, True), result.output
    assert run("check", path, "--model", model).output == f"{path}: no errors, no warnings\n"


def test_a_device_cannot_be_checked_without_a_model_or_a_right_name(write, tmp_path, box: str) -> None:
    model = str(tmp_path / "m.oinf")
    save_model(ModelContents(sizevars={"B": 2}, metadata={}, tensors={}), model)
    without = run("check", write(GOOD), "--device", box)
    unknown = run("check", write(GOOD), "--model", model, "--device", "bix")
    assert (without.exit_code, "--device needs --model" in without.output) == (1, True)
    assert (unknown.exit_code, "unknown device 'bix'; known: box, host" in unknown.stderr) == (1, True)


COUNTING = GOOD.replace("block", "persistent { n: i32; }\nblock").replace("return;", "cache.increment n; return;")


@pytest.mark.parametrize(
    ("text", "code", "reported"),
    [
        (GOOD, 0, "no errors, no warnings"),
        (COUNTING, 1, "`cache.increment` cannot be synthesised: device box supports neither persistent memory nor"),
        (ODD.replace("volatile { y: f32[B]; }", "").replace(">> y", ">> x"), 0, "no errors, 1 warning"),
    ],
    ids=["plain", "persistent memory", "no result"],
)
def test_what_a_device_for_whole_programs_refuses_is_found(write, monkeypatch, box: str, text, code, reported) -> None:
    offered = Environment.default()
    whole = replace(offered.devices[box], whole_programs=True)
    monkeypatch.setattr(
        loader, "default_environment", lambda: replace(offered, devices={**offered.devices, box: whole})
    )
    model = write("", "empty.oinf")
    save_model(ModelContents(sizevars={"B": 2}, metadata={}, tensors={}), model)
    path = write(text)

    result = run("check", path, "--model", model, "--device", box)
    node_by_node = run("check", path, "--model", model, "--device", "host")

    assert (result.exit_code, reported in result.output) == (code, True), result.output
    assert node_by_node.exit_code == 0


class Paper:
    """A synth target that writes no program with more than two steps."""

    epilogues = overlaps = banks = arrangements = False
    options = frozenset[str]()

    def emit(self, plan: ExecutionPlan) -> Bundle:
        steps = [step for procedure in plan.procedures for step in procedure.steps]
        if len(steps) > 2:
            raise SynthesisError(f"paper has room for two steps, found {len(steps)}", code="paper-full")
        return Bundle({"sheet.txt": b"steps"})

    def build_and_run(self, *_: object, **__: object) -> None:
        raise SynthesisError("paper does not run")


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The synth target, which has every function but `exp`."""
    module = ModuleType("paper")
    module.__dict__.update(Paper=Paper, has_function=lambda function, _operands: function != "exp")
    monkeypatch.setitem(sys.modules, "paper", module)
    spec = SynthTargetSpec(
        name="paper",
        summary="",
        target="paper:Paper",
        expression_dtypes=frozenset({"f32"}),
        functions="paper:has_function",
    )
    offered = replace(Environment.default(), targets={"paper": spec}, kernel_source=lambda _: ())
    monkeypatch.setattr(loader, "default_environment", lambda: offered)


@pytest.mark.usefixtures("paper")
@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (
            GOOD.replace("relu", "exp"),
            "error[kernel-missing]: paper has no exp for f32: its expression uses exp of f32",
        ),
        (GOOD.replace("relu", "sigmoid"), "error[kernel-missing]: paper has no sigmoid for f32: its expression uses"),
        (
            GOOD.replace("return;", "op sum_axis(y, axis=0) >> n; op add(x, n) >> y; return;"),
            "error[paper-full]: paper has",
        ),
    ],
    ids=["function", "function of a part", "what only writing it out shows"],
)
def test_check_says_what_synth_refuses(write, tmp_path, text: str, reported: str) -> None:
    model = str(tmp_path / "m.oinf")
    save_model(ModelContents(sizevars={"B": 2}, metadata={}, tensors={}), model)
    path = write(text)

    checked = run("check", path, "--model", model, "--target", "paper", "--size", "B=2")
    written = run("synth", path, "--model", model, "--target", "paper", "--size", "B=2", "-o", str(tmp_path / "out"))

    assert (checked.exit_code, written.exit_code) == (1, 1)
    assert reported in checked.output
    assert reported in written.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("paper")
def test_coverage_asks_for_functions_too() -> None:
    rows = json.loads(run("ops", "exp", "--coverage", "--json").stdout)

    by = {row["dtype"]: (row["by"], row["reason"]) for row in rows if row["target"] == "paper"}
    assert by["f32"] == ("missing", "paper has no exp for f32: its expression uses exp of f32")


@pytest.mark.usefixtures("paper")
def test_a_program_is_checked_for_a_target(write, tmp_path) -> None:
    model = str(tmp_path / "m.oinf")
    save_model(ModelContents(sizevars={"B": 2}, metadata={}, tensors={}), model)
    path = write(COUNTING.replace("cache.increment n;", "cache.increment n; cache.decrement n;"))

    result = run("check", path, "--model", model, "--size", "B=2", "--target", "paper")
    plain = run("check", write(GOOD, "plain.oi"), "--model", model, "--size", "B=2", "--target", "paper")
    without = run("check", path, "--target", "paper")
    unknown = run("check", path, "--model", model, "--target", "paaper")

    assert result.exit_code == 1
    assert [line for line in result.output.splitlines() if line.startswith("error")] == [
        f"error[unsupported]: `cache.{name}` cannot be synthesised: target paper supports neither persistent memory "
        "nor consumers"
        for name in ("increment", "decrement")
    ]
    assert plain.exit_code == 0, plain.output
    assert (without.exit_code, "--target needs --model" in without.output) == (1, True)
    assert (unknown.exit_code, "did you mean `paper`" in unknown.stderr) == (1, True), unknown.stderr


def test_findings_are_shown_with_carets(write) -> None:
    path = write(BAD)
    result = run("check", path)
    assert result.exit_code == 1
    assert result.output == (
        "error[unknown-variable]: unknown variable `z`\n"
        f" --> {path}:3:23\n"
        "  |\n"
        "3 | block entry { op relu(z) >> y; return; }\n"
        "  |                       ^\n"
        f"{path}: 1 error, no warnings\n{UNCHECKED}"
    )


def test_syntax_errors_are_findings_too(write) -> None:
    result = run("check", write(BROKEN))
    assert result.exit_code == 1
    assert "error[syntax]: expected `>>`, found `>`" in result.output


def test_warnings_pass_unless_strict(write) -> None:
    path = write(ODD)
    assert run("check", path).exit_code == 0
    assert "warning[no-return]" in run("check", path).output
    strict = run("check", "--strict", path)
    assert strict.exit_code == 1
    assert "error[no-return]" in strict.output


def test_json_findings_have_places(write) -> None:
    path = write(BAD)
    result = run("check", "--json", path)
    (finding,) = json.loads(result.output)
    assert result.exit_code == 1
    assert finding == {
        "file": path,
        "code": "unknown-variable",
        "severity": "error",
        "message": "unknown variable `z`",
        "hint": None,
        "place": {"file": path, "line": 3, "column": 23, "end_line": 3, "end_column": 24},
        "related": [],
        "block": "entry",
        "node_index": 0,
        "node_desc": "op relu(z) >> y",
        "path": None,
    }
    assert json.loads(run("check", "--json", write(GOOD)).output) == []


def test_many_programs_are_checked_in_one_go(write, tmp_path) -> None:
    good, odd, bad = write(GOOD, "good.oi"), write(ODD, "odd.oi"), write(BAD, "bad.oi")
    result = run("check", good, bad, odd, good)
    assert result.exit_code == 1
    assert [line for line in result.output.splitlines() if ".oi: " in line] == [
        f"{bad}: 1 error, no warnings",
        f"{odd}: no errors, 1 warning",
    ]
    assert result.output.endswith(f"3 programs checked: 1 error, 1 warning\n{UNCHECKED}")
    listed = json.loads(run("check", "--json", good, bad, odd).output)
    assert [(each["file"], each["code"]) for each in listed] == [(bad, "unknown-variable"), (odd, "no-return")]
    assert run("check", good, odd).exit_code == 0
    assert run("check", "--strict", good, odd).exit_code == 1


def test_a_folder_means_the_programs_in_it(write, tmp_path) -> None:
    for name in ("b/two.oi", "b/.hidden/three.oi", ".git/four.oi", "b/graph.json", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(BROKEN, name)
    write(BAD, "a.oi")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    result = run("check", "--json", str(tmp_path), str(tmp_path / "a.oi"), str(tmp_path / "notes.txt"))
    files = [str(tmp_path / name) for name in ("a.oi", "b/two.oi", "notes.txt")]
    assert list(dict.fromkeys(each["file"] for each in json.loads(result.output))) == files


def test_a_folder_without_programs_is_said_to_have_none(tmp_path) -> None:
    result = run("check", str(tmp_path))
    assert (result.exit_code, result.output) == (0, "no programs checked: no errors, no warnings\n")


def test_a_file_that_cannot_be_read_does_not_hide_the_others(write, tmp_path) -> None:
    bad = write(BAD)
    absent = str(tmp_path / "absent.oi")
    result = run("check", absent, bad)
    assert result.exit_code == 1
    assert "error[file]: No such file or directory" in result.output
    assert "error[unknown-variable]" in result.output
    listed = json.loads(run("check", "--json", absent, bad).output)
    assert [(each["file"], each["code"]) for each in listed] == [(absent, "file"), (bad, "unknown-variable")]


def test_graph_json_is_checked_with_pointers(write) -> None:
    document = graph(GOOD).to_json()
    document["next_index"] = -1
    result = run("check", "--json", write(json.dumps(document), "model.json"))
    assert result.exit_code == 1
    assert [finding["path"] for finding in json.loads(result.output)] == ["/next_index"]


def test_a_model_gives_sizes_and_types(write, tmp_path) -> None:
    from openinfer_oinf import SizeVar, write_oinf

    model = tmp_path / "model.oinf"
    write_oinf({"B": SizeVar(4), "y": np.zeros((4,), np.int32)}, model)
    result = run("check", "--model", str(model), write(GOOD))
    assert result.exit_code == 1
    assert "error[model-mismatch]" in result.output


@pytest.mark.parametrize("text", [GOOD, json.dumps(graph(GOOD).to_json())], ids=["text", "json"])
def test_both_forms_are_read_from_standard_input(text: str) -> None:
    assert run("check", "-", text=text).exit_code == 0
    assert graph(run("graph", "-", text=text).output) == graph(GOOD)


def test_graph_prints_canonical_text_by_default(write) -> None:
    path = write(GOOD)
    assert run("graph", path).output == run("graph", "--dsl", path).output == graph(GOOD).to_dsl()


def test_graph_prints_json_that_reads_back(write) -> None:
    result = run("graph", "--json", write(GOOD))
    assert GraphDeserialize.from_json(result.output) == graph(GOOD)


@pytest.mark.parametrize("command", ["check", "graph"])
def test_a_missing_file_is_one_message(command: str) -> None:
    result = run(command, "nowhere.oi")
    assert result.exit_code == 1
    assert "nowhere.oi" in result.output
    assert "Traceback" not in result.output


def test_a_program_that_is_not_utf8_is_one_message(tmp_path) -> None:
    file = tmp_path / "model.oi"
    file.write_bytes(b"block entry { \xff }")
    result = run("check", str(file))
    assert result.exit_code == 1
    assert "not UTF-8 text: byte 0xff at offset 14" in result.output


def test_a_list_on_standard_input_is_json() -> None:
    result = run("check", "-", text="[1]")
    assert result.exit_code == 1
    assert "error[wrong-type]: a graph is an object" in result.output


def test_a_document_as_a_whole_has_no_arrow_to_a_pointer() -> None:
    assert " --> \n" not in run("check", "-", text="[1]").output


@pytest.mark.parametrize("command", ["check", "graph"])
def test_a_model_given_as_the_program_is_named(command: str, tmp_path) -> None:
    from openinfer_oinf import SizeVar, write_oinf

    model = tmp_path / "model.oinf"
    write_oinf({"B": SizeVar(4)}, model)
    result = run(command, str(model))
    assert result.exit_code == 1
    assert "this is a model file (oinf), not program text" in result.output


def test_a_code_is_reported_once(write, tmp_path) -> None:
    model = tmp_path / "empty.oinf"
    model.touch()
    result = run("check", "--model", str(model), write(GOOD))
    assert result.exit_code == 1
    assert result.output.count("E_TRUNCATED") == 1


def test_carets_are_below_wide_characters(write) -> None:
    lines = run("check", write("block entry {\n  /* 日本語 */ tt\n}\n")).output.splitlines()
    assert lines[3:5] == ["2 |   /* 日本語 */ tt", f"  | {' ' * 15}^^"]


MIXED = """dynamic { x: f32[B]; }
volatile { y: f32[B]; z: f33[B]; }
block entry {
  op add(x y) >> y;
  op relu(w) >> y;
  op relu(x,
          alph=0.5) >> y;
  transfer q >> y;
}
"""


def test_findings_of_every_phase_are_reported_at_once(write, tmp_path) -> None:
    from openinfer_oinf import SizeVar, write_oinf

    model = tmp_path / "model.oinf"
    write_oinf({"B": SizeVar(4), "y": np.zeros((3,), np.float32)}, model)
    path = write(MIXED)
    result = run("check", "--json", path)
    found = [(each["severity"], each["code"], each["place"]["line"]) for each in json.loads(result.output)]
    structure = [("error", "unknown-variable", 5), ("error", "unknown-variable", 8)]
    assert found == [
        ("error", "syntax", 4),
        ("error", "unknown-dtype", 2),
        *structure,
        ("error", "unknown-setting", 7),
        ("warning", "no-return", 3),
    ]
    against = json.loads(run("check", "--json", "--model", str(model), path).output)
    assert [(each["code"], each["place"]["line"]) for each in against if each["severity"] == "error"] == [
        ("syntax", 4),
        ("unknown-dtype", 2),
        ("unknown-variable", 5),
        ("unknown-variable", 8),
        ("model-mismatch", 2),
        ("unknown-setting", 7),
    ]
    assert run("check", path).exit_code == 1


def test_commands_that_run_a_program_report_its_other_mistakes_next_to_syntax_errors(write) -> None:
    result = run("graph", write(MIXED))
    assert result.exit_code == 1
    assert [f"error[{code}]" in result.output for code in ("syntax", "unknown-dtype", "unknown-variable")] == [True] * 3
