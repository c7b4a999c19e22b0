"""Devices that run whole programs say why one runs node by node: executors, `check`, `bench` and `run` alike."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import openinfer as oi
from openinfer.cli import main
from openinfer.diagnostics import Severity
from openinfer.model import ModelContents, save_model
from openinfer.plugins.environment import Environment
from openinfer.simulate.execute.whole_program import device_findings
from openinfer.validate import resolve

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "dynamic { x: f32[2]; b: bool; }\nvolatile { y: f32[2]; }\npersistent { n: i32; K(t): f32[2] @table; }\n"

UNBOUNDED = HEAD + "block entry { cache.write x >> K[n]; cache.increment n; op neg(x) >> y; return y; }"

REASONS = {
    "a cache without a bound": (UNBOUNDED, "cache `K` needs a bound for `t`: its memory is reserved in advance"),
    "resets of entries": (
        HEAD.replace("@table", "@table @fixed(t=4)")
        + "block entry { cache.write x >> K[0]; cache.reset K[0]; op neg(x) >> y; return y; }",
        "which entries of a cache are there depends on resets of single ones",
    ),
    "an input that is written": (
        HEAD + "block entry { cache.increment n; op neg(x) >> x; op neg(x) >> y; return y; }",
        "it writes the dynamic variable `x`",
    ),
    "an input that is returned": (
        "dynamic { x: f32[2]; }\nvolatile { y: f32[2]; }\nblock entry { op neg(x) >> y; return x, y; }",
        "it returns its input `x`",
    ),
    "no return": (
        "dynamic { x: f32[2]; }\nvolatile { y: f32[2]; }\nblock entry { op neg(x) >> y; }",
        "block entry does not end with a return",
    ),
    "two returns": (
        HEAD + "block entry { op neg(x) >> y; loop l (i in 0..n) { return y; } return y; }",
        "which return is taken is known from the nodes only",
    ),
}

DEVICES = [
    pytest.param("c", marks=pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")),
    "vulkan",
]


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "vulkan":
        request.getfixturevalue("vulkan")
    return request.param


@pytest.mark.parametrize("device", DEVICES, indirect=True)
@pytest.mark.parametrize(("text", "reason"), REASONS.values(), ids=REASONS)
def test_an_executor_and_the_check_give_the_same_reason(text: str, reason: str, device: str) -> None:
    model, program = oi.Model.from_arrays({}), oi.graph(text)

    with oi.Simulator(model, program, device=device).make_executor() as executor:
        notes, runs_whole = executor.node_by_node, executor.runs_whole
    findings = device_findings(resolve(program, model), model, device, Environment.default())

    assert not runs_whole
    assert notes == findings
    assert notes[0].severity is Severity.NOTE
    assert notes[0].message.startswith(f"{device} runs the program node by node, which is slower: {reason}")


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_a_program_that_runs_whole_has_no_reason(device: str) -> None:
    model, program = oi.Model.from_arrays({}), oi.graph(UNBOUNDED)

    with oi.Simulator(model, program, device=device, limits={"t": 3}).make_executor() as executor:
        assert executor.runs_whole
        assert executor.node_by_node == ()
    assert device_findings(resolve(program, model), model, device, Environment.default(), {"t": 3}) == ()


def test_a_device_that_always_runs_node_by_node_says_nothing() -> None:
    with oi.Simulator(oi.Model.from_arrays({}), oi.graph(UNBOUNDED), device="cpu").make_executor() as executor:
        assert executor.node_by_node == ()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_the_command_line_says_why_and_what_to_do(tmp_path: Path) -> None:
    program, model = tmp_path / "p.oi", tmp_path / "m.oinf"
    program.write_text(UNBOUNDED, encoding="utf-8")
    save_model(ModelContents(sizevars={}, metadata={}, tensors={}), str(model))
    about = [str(program), "--model", str(model)]
    run = ["--input", "x=zeros", "--input", "b=true", "--device", "c"]
    commands = (["bench", *about, *run, "--repeat", "1", "--json"], ["run", *about, *run])

    said = [CliRunner().invoke(main, command) for command in commands]
    bounded = [CliRunner().invoke(main, [*command, "--limit", "t=9"]) for command in commands]
    checked = CliRunner().invoke(main, ["check", *about, "--device", "c"])
    listed = CliRunner().invoke(main, ["check", *about, "--device", "c", "--json"])
    traced = CliRunner().invoke(main, ["trace", *about, *run, "--limit", "t=9", "--script", "-"], input="c\n")
    compared = CliRunner().invoke(main, ["compare", *about, *run[:-1], "cpu", "--device", "c", "--limit", "t=9"])
    silent = CliRunner().invoke(main, ["check", *about, "--device", "c", "--target", "c", "--limit", "t=9"])

    for result in said:
        assert result.exit_code == 0, result.output
        assert "c runs the program node by node, which is slower: cache `K` needs a bound" in result.stderr
        assert "--limit K.t=N" in result.stderr
        assert "@fixed(t=N)" in result.stderr
    assert [result.stderr for result in (*bounded, traced, compared)] == [""] * 4
    assert compared.exit_code == traced.exit_code == 0
    assert len(json.loads(said[0].stdout)["node_by_node"]) == 1
    assert json.loads(bounded[0].stdout)["node_by_node"] == []
    assert "note[cache-limit]: c runs the program node by node" in checked.output
    assert checked.exit_code == 0
    assert json.loads(listed.stdout)[0]["severity"] == "note"
    assert silent.output == f"{program}: no errors, no warnings\n"
