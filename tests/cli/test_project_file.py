"""Programs without a model, and `openinfer.toml`, which has the model and other options of the programs of a folder."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import main
from openinfer_oinf import save_file

PLAIN = "dynamic { x: f32[3]; }\nblock entry { op relu(x) >> y; return y; }\n"
SIZED = "dynamic { x: f32[N]; }\nblock entry { op relu(x) >> y; return y; }\n"
SCALED = "dynamic { x: f32[2]; }\nconstant { w: f32[2]; }\nblock entry { op mul(x, w) >> y; return y; }\n"


def is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


pytestmark = pytest.mark.skipif(
    not (is_installed("openinfer-backend-cpu") and is_installed("openinfer-synth-c")),
    reason="the device cpu or the target c is not installed",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    for name, text in {"plain": PLAIN, "sized": SIZED, "nets/scaled": SCALED}.items():
        (tmp_path / f"{name}.oi").write_text(text)
    save_file({"w": np.array([2.0, 3.0], np.float32)}, tmp_path / "scaled.oinf")
    return tmp_path


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line))


def write_project(text: str) -> None:
    Path("openinfer.toml").write_text(text)


@pytest.mark.parametrize(
    "line",
    [
        "run plain.oi --input x=1,2,3",
        "run sized.oi --input x=1,2,3 --size N=3",
        "run sized.oi --input x=1,2,3 --limit N=8",
        "trace plain.oi --input x=zeros --script empty.txt",
        "bench plain.oi --input x=zeros --repeat 1 --warm-up 0",
        "compare plain.oi --input x=random --device cpu --device cpu",
        "plan plain.oi",
        "plan sized.oi --limit N=8",
        "check plain.oi --device cpu --target c --explain-types",
        "fmt plain.oi --assign --check --diff",
    ],
)
def test_programs_that_take_nothing_from_a_model_need_none(folder: Path, line: str) -> None:
    (folder / "empty.txt").write_text("")

    result = run(line)

    assert result.exit_code == (1 if line.startswith("fmt") else 0), result.output
    assert "model" not in result.stderr


def test_values_that_only_a_model_has_are_named(folder: Path) -> None:
    result = run("run nets/scaled.oi --input x=1,2")

    assert result.exit_code == 2
    assert "nets/scaled.oi takes variable `w` from a model: give its file with --model (-m)" in result.stderr


def test_types_are_checked_without_a_model_where_none_is_needed(folder: Path) -> None:
    (folder / "wrong.oi").write_text(PLAIN.replace("relu(x)", "matmul(x, x)").replace("f32[3]", "f32[3, 2]"))

    assert "error[shape-mismatch]" in run("check wrong.oi").output
    assert "sizes and types were not checked" in run("check nets/scaled.oi").output


def test_a_project_file_has_the_model_of_a_program(folder: Path) -> None:
    write_project('[program."nets/scaled.oi"]\nmodel = "scaled.oinf"\n')

    outputs = json.loads(run("run nets/scaled.oi --input x=1,2 --json").stdout)["outputs"]

    assert outputs["y"]["values"] == [2.0, 6.0]
    assert run("check .").output == (
        "3 programs checked: no errors, no warnings\nsizes and types were not checked: give a model with --model\n"
    )
    assert run("check nets").output == "nets/scaled.oi: no errors, no warnings\n"
    assert run("plan nets/scaled.oi").exit_code == 0
    assert "assign y: f32[2];" in run("fmt nets/scaled.oi --assign --diff").stdout


def test_a_project_file_has_device_target_and_limits(folder: Path) -> None:
    write_project('[program."sized.oi"]\ndevice = "c"\ntarget = "vulkan"\nlimits = { N = 8 }\n')

    ran = json.loads(run("run sized.oi --input x=1,2 --json").stdout)

    assert ran["device"] == "c"
    assert "x: f32[8]" in run("plan sized.oi --target c").output
    assert "vulkan" in run("plan sized.oi").output


def test_options_of_the_command_line_win(folder: Path) -> None:
    write_project('[program."sized.oi"]\ndevice = "nowhere"\nmodel = "absent.oinf"\nlimits = { N = 8 }\n')
    save_file({}, "own.oinf", sizevars={"N": 2})

    ran = run("run sized.oi -m own.oinf --device cpu --limit N=4 --input x=1,2 --json")

    assert (ran.exit_code, json.loads(ran.stdout)["device"]) == (0, "cpu"), ran.output
    assert "absent.oinf" in run("run sized.oi --device cpu").stderr
    assert "nowhere" in run("run sized.oi -m own.oinf").stderr


def test_the_nearest_project_file_counts(folder: Path) -> None:
    write_project('[program."nets/scaled.oi"]\nmodel = "absent.oinf"\n')
    (folder / "nets" / "openinfer.toml").write_text('[program."scaled.oi"]\nmodel = "../scaled.oinf"\n')

    assert run("run nets/scaled.oi --input x=1,2").exit_code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[program", "openinfer.toml: not TOML"),
        ("[programs]\n", "openinfer.toml: programs: unknown key: did you mean `program`?"),
        ('[program."plain.oi"]\ndevise = "c"\n', '"plain.oi".devise: unknown key: did you mean `device`?'),
        ('[program."plain.oi"]\ndevice = 3\n', '"plain.oi".device: expected a text, found 3'),
        ('[program."plain.oi"]\nlimits = { t = "8" }\n', ".limits.t: expected a number of 1 or more, found '8'"),
        ('program."plain.oi" = "c"\n', """"plain.oi": expected a table, found 'c'"""),
    ],
)
def test_mistakes_in_a_project_file_are_reported(folder: Path, text: str, said: str) -> None:
    write_project(text)

    result = run("run plain.oi --input x=zeros")

    assert (result.exit_code, said in result.stderr) == (1, True), result.stderr
    assert result.stderr.startswith("error[project-file]")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('[program."gone.oi"]\nmodel = "m.oinf"', '"gone.oi": no such program: names are relative to .'),
        ('[program."nets/scaled.oi"]\ndevise = "c"', '"nets/scaled.oi".devise: unknown key: did you mean `device`?'),
        ('[program."nets/scaled.oi"]\ndevice = 3', '"nets/scaled.oi".device: expected a text, found 3'),
    ],
)
@pytest.mark.parametrize(
    "line",
    ["run sized.oi --input x=1,2 --json", "check sized.oi plain.oi", "fmt --check sized.oi --assign", "plan sized.oi"],
)
def test_mistakes_about_other_programs_are_warnings(folder: Path, entry: str, said: str, line: str) -> None:
    own = '[program."sized.oi"]\nlimits = { N = 8 }\n'
    write_project(own)
    run("fmt sized.oi --assign")
    write_project(f"{own}{entry}\n")

    result = run(line)

    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [f"warning[project-file]: openinfer.toml: program.{said}"]


def test_a_mistake_is_no_warning_where_it_is_an_error_too(folder: Path) -> None:
    write_project('[program."nets/scaled.oi"]\ndevise = "c"\n')

    result = run("check plain.oi nets/scaled.oi --json")

    assert [finding["code"] for finding in json.loads(result.stdout)] == ["project-file"]
    assert result.stderr == ""


def test_an_upgrade_takes_the_model_of_the_project_file(folder: Path) -> None:
    earlier = 'dynamic { x: f32[2]; }\nblock entry { op mul(x, model["w"]) >> y; return y; }\n'
    (folder / "nets" / "scaled.oi").write_text(earlier)
    write_project('[program."nets/scaled.oi"]\nmodel = "scaled.oinf"\n')

    result = run("fmt --upgrade nets/scaled.oi")

    assert result.exit_code == 0, result.output
    assert "w: f32[2];" in (folder / "nets" / "scaled.oi").read_text()


def test_an_upgrade_needs_no_model_of_the_project_file(folder: Path) -> None:
    earlier = "dynamic { x: f32[3]; }\nblock entry { y = op relu(x); return y; }\n"
    (folder / "plain.oi").write_text(earlier)
    write_project('[program."plain.oi"]\nmodel = "absent.oinf"\n')

    with_option = run("fmt --upgrade -m absent.oinf plain.oi --json")
    assert (with_option.exit_code, (folder / "plain.oi").read_text()) == (1, earlier)

    result = run("fmt --upgrade plain.oi --json")
    assert result.exit_code == 0, result.output
    assert "op relu(x) >> y;" in (folder / "plain.oi").read_text()
    (warning,) = result.stderr.splitlines()
    assert "plain.oi: upgraded without the model of the project file: " in warning
    assert "absent.oinf" in warning


BOUNDED = "dynamic { x: f32[2]; } block entry { loop l (i in 0..L) { op relu(x) >> x; } return x; }\n"


def test_one_wrong_project_file_or_model_leaves_the_other_reports_in_order(folder: Path) -> None:
    write_project(
        '[program."nets/scaled.oi"]\nmodel = "absent.oinf"\n[program."plain.oi"]\nmodel = "scaled.oinf"\n'
        '[program."sized.oi"]\nlimits = { N = 2 }\n'
    )
    Path("other").mkdir()
    Path("other/openinfer.toml").write_text("[program")
    Path("other/plain.oi").write_text(PLAIN)

    result = run("check sized.oi other/plain.oi nets/scaled.oi plain.oi --target c --json")

    found = [(finding["file"], finding["code"]) for finding in json.loads(result.stdout)]
    assert (result.exit_code, found[:2]) == (1, [("other/plain.oi", "project-file"), ("nets/scaled.oi", found[1][1])])
    assert "absent.oinf" in result.stdout


def test_a_program_that_needs_a_model_is_a_finding_among_others(folder: Path) -> None:
    (folder / "loop.oi").write_text(BOUNDED)

    checked = run("check nets/scaled.oi loop.oi plain.oi --target c --json")
    formatted = run("fmt --assign --check sized.oi plain.oi --json")

    assert [(finding["file"], finding["code"]) for finding in json.loads(checked.stdout)] == [
        ("nets/scaled.oi", "usage"),
        ("loop.oi", "usage"),
    ]
    assert "loop.oi takes size `L` from a model" in checked.stdout
    assert [len(document["findings"]) for document in json.loads(formatted.stdout)] == [1, 0]


def test_a_bound_without_a_model_is_no_error(folder: Path) -> None:
    (folder / "loop.oi").write_text(BOUNDED)

    assert "sizes and types were not checked" in run("check loop.oi").output
    assert run("check loop.oi --size L=2 --explain-types").exit_code == 0


def test_types_are_assigned_for_the_limits_of_the_project_file(folder: Path) -> None:
    write_project('[program."sized.oi"]\nlimits = { N = 8 }\n')

    assert "assign y: f32[N];" in run("fmt sized.oi --assign --diff").stdout


def test_a_device_file_wins_over_the_target_of_the_project_file(folder: Path) -> None:
    write_project('[program."plain.oi"]\ntarget = "absent"\n')

    assert run("plan plain.oi --arch host").exit_code == 0
    assert "absent" in run("plan plain.oi").stderr
