"""A plugin that misbehaves in everything that it may offer: a named outcome, and other plugins' work goes on."""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("openinfer_example_device", reason="the packages under tests/plugins are not installed here")

import click
import numpy as np
from click.testing import CliRunner
from misbehaving import MISBEHAVIOURS, NAME, act_in, environment_with, module
from misbehaving_devices import LoopAbacus, WholeAbacus, ranks, with_device
from misbehaving_models import Codes, QuantisedStore, loaded_quantised, loaded_scales, with_format, with_scales
from misbehaving_operators import (
    MODEL,
    PROGRAM,
    X,
    choice_on_cpu,
    kernels_of_cpu,
    operator,
    run_program,
    with_kernel,
    with_operator,
)
from misbehaviour import SPOTS

import openinfer as oi
from openinfer.cli import main
from openinfer.cli.explanations import format_codes
from openinfer.errors import PluginError, PluginStepError
from openinfer.ops.schema import Composite
from openinfer.plugins import types
from openinfer.plugins.crossing import PluginWarning
from openinfer.plugins.environment import Environment, Status
from openinfer.plugins.offers import KINDS
from openinfer.synth import Synthesizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from misbehaving import Act, Spot

    from openinfer.ops.schema import Decomposer, OpSchema

CASES = [
    pytest.param(spot, MISBEHAVIOURS[how], id=f"{where}-{how}")
    for where, spot in SPOTS.items()
    for how in spot.misbehaviours
    if how not in spot.legal
]
LEGAL = [
    pytest.param(spot, MISBEHAVIOURS[how], id=f"{where}-{how}") for where, spot in SPOTS.items() for how in spot.legal
]


def check_that_others_work(environment: Environment) -> None:
    """Run an operator of core on cpu."""
    program = oi.graph(PROGRAM.replace("their_op", "neg"))
    with oi.Simulator(MODEL, program, environment=environment).make_executor() as executor:
        executor.step(x=[1.0, -2.0])
        assert executor.fetch("y").tolist() == [-1.0, 2.0]


@pytest.mark.parametrize(("spot", "act"), CASES)
def test_what_misbehaves_ends_as_an_error_that_names_the_plugin(spot: Spot, act: Act, tmp_path: Path) -> None:
    environment = act_in(spot, act)
    (status,) = (each for each in environment.plugins if each.name == NAME)
    if status.status is Status.FAILED:
        # Definitions of operators are checked when their plugin loads.
        assert "hook openinfer_ops yielded OpSchema 'their_op'" in status.reason
        check_that_others_work(environment)
        return

    with pytest.raises(PluginError) as caught:
        spot.use(environment, tmp_path)

    assert (caught.value.plugin, caught.value.distribution) == (NAME, "(given in the program)")
    assert f"plugin {NAME!r} of distribution (given in the program): " in str(caught.value)
    assert caught.value.code == "plugin"
    check_that_others_work(environment)


IN_LOOP = PROGRAM.replace("op their_op(x) >> y;", "loop l (i in 0..2) {\n op their_op(x) >> y; }")


@pytest.mark.parametrize("program", [PROGRAM, IN_LOOP])
def test_a_kernel_that_is_not_written_in_c_names_its_statement(program: str) -> None:
    environment = act_in(SPOTS["writing a kernel"], MISBEHAVIOURS["raises"])

    with pytest.raises(PluginStepError) as caught:
        Synthesizer("c", environment=environment).synthesize(MODEL, oi.graph(program))

    line = 1 + program[: program.index("their_op")].count("\n")
    assert str(caught.value).startswith(f"line {line}: plugin {NAME!r} of distribution ")
    assert "their_op(x)" in str(caught.value.node_desc)
    assert caught.value.block == "entry"


@pytest.mark.parametrize(("spot", "act"), LEGAL)
def test_return_values_that_are_ignored_may_be_anything(spot: Spot, act: Act, tmp_path: Path) -> None:
    # A command may end the program.
    with suppress(SystemExit):
        spot.use(act_in(spot, act), tmp_path)


@pytest.mark.parametrize("how", MISBEHAVIOURS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.hook)
def test_a_hook_that_misbehaves_fails_its_plugin_alone(kind: Any, how: str) -> None:
    act = MISBEHAVIOURS[how]
    environment = environment_with(module(**{kind.hook.removeprefix("openinfer_"): lambda: act()}))

    (found,) = (info for info in environment.plugins if info.name == NAME)

    # pluggy takes None for the absence of a result.
    assert found.status is (Status.OK if how == "returns None" else Status.FAILED)
    assert found.reason.startswith(f"hook {kind.hook} ") or how == "returns None"
    check_that_others_work(environment)


@pytest.mark.parametrize("how", [how for how in MISBEHAVIOURS if how != "returns None"])
@pytest.mark.parametrize(
    ("hook", "use"), [("kernels", kernels_of_cpu), ("select_kernel", choice_on_cpu)], ids=["kernels", "select_kernel"]
)
def test_a_hook_that_misbehaves_later_is_left_out(hook: str, use: Any, how: str, tmp_path: Path) -> None:
    act = MISBEHAVIOURS[how]
    environment = environment_with(module(**{hook: lambda: act()}))

    with pytest.warns(PluginWarning, match=f"plugin {NAME!r} of distribution .*: hook openinfer_{hook} "):
        assert use(environment, tmp_path)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        check_that_others_work(environment)


# The letters of a text are codes like any.
@pytest.mark.parametrize("how", [how for how in MISBEHAVIOURS if how != "returns text"])
def test_codes_of_a_model_format_that_misbehave_are_left_out(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = type("Theirs", (Codes,), {"keys": MISBEHAVIOURS[how]})()
    environment = environment_with(with_format(codes=codes))
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: environment)

    with pytest.warns(PluginWarning, match=f"plugin {NAME!r} of distribution .*; its codes are left out"):
        found = format_codes()

    assert "E_MAGIC" in found


def test_codes_of_a_model_format_that_behaves_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_with(with_format(codes=Codes()))
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: environment)

    assert format_codes()["E_THEIRS"] == "E_THEIRS is theirs."


def test_quantised_tensors_of_a_model_format_that_behaves(tmp_path: Path) -> None:
    quantised = environment_with(with_format(lambda *_: QuantisedStore()))

    assert loaded_quantised(quantised, tmp_path).tolist() == [0.5, 0.5]


def test_an_operator_takes_stored_scales_along_the_dim_that_it_names(tmp_path: Path) -> None:
    scaled = environment_with(with_scales(lambda *_: 0))

    assert loaded_scales(scaled, tmp_path).tolist() == [1, 1]


@pytest.mark.parametrize("how", [how for how in MISBEHAVIOURS if how != "returns None"])
def test_descriptions_are_checked_in_every_field(how: str) -> None:
    act = MISBEHAVIOURS[how]
    value = act() if how.startswith("returns") else act
    for field in ("name", "summary", "inputs", "dtypes", "settings", "examples", "aliases", "replaces", "definition"):
        environment = environment_with(with_operator(**{field: value}))
        (found,) = (info for info in environment.plugins if info.name == NAME)
        fits = field in ("summary", "name", "replaces") and how == "returns text"
        assert (found.status is Status.OK) == fits, (field, found.reason)


@pytest.mark.parametrize("how", MISBEHAVIOURS)
def test_a_probe_that_misbehaves_makes_its_device_unavailable(how: str) -> None:
    environment = environment_with(with_device(None, MISBEHAVIOURS[how]))

    with pytest.raises(oi.DeviceError, match="device their_device cannot be used here: its probe their_parts:probe"):
        run_program(environment, None, "their_device")

    check_that_others_work(environment)


def run(environment: Environment, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.setattr("openinfer.plugins.loader.default_environment", lambda: environment)
    return CliRunner().invoke(main, [*arguments])


def chatty(act: Any) -> Any:
    """Return a function that prints before it does what another one does."""

    def print_and_act(*args: Any, **kwargs: Any) -> Any:
        click.echo("printed by a plugin")
        return act(*args, **kwargs)

    return print_and_act


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """The program, the same with an operator of core, and a model."""
    from openinfer.model import ModelContents, save_model

    program, other, model = tmp_path / "p.oi", tmp_path / "q.oi", tmp_path / "m.oinf"
    program.write_text(PROGRAM, encoding="utf-8")
    other.write_text(PROGRAM.replace("their_op", "neg"), encoding="utf-8")
    save_model(ModelContents(sizevars={}, metadata={}, tensors={}), model)
    return str(program), str(other), str(model)


RULES = ["infer", "build", "decompose", "binding a kernel", "running a kernel"]


@pytest.mark.parametrize("how", ["raises", "raises no exception", "exits with 0", "raises what cannot be shown"])
@pytest.mark.parametrize("where", RULES)
def test_commands_tell_the_truth_about_an_operator_that_misbehaves(
    where: str, how: str, files: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, other, model = files
    environment = act_in(SPOTS[where], MISBEHAVIOURS[how])

    def command(*arguments: str) -> Any:
        return run(environment, monkeypatch, *arguments)

    ran = command("run", program, "-m", model, "--input", "x=1.0")
    checked = command("check", program, "-m", model, "--device", "cpu", "--json")

    assert ran.exit_code == 1
    assert "error[plugin]: " in ran.stderr
    assert f"plugin {NAME!r} of distribution (given in the program)" in ran.stderr
    assert "p.oi:3:" in ran.stderr
    assert checked.exit_code == (0 if "kernel" in where else 1)
    assert [finding["code"] for finding in json.loads(checked.stdout)] == ([] if "kernel" in where else ["plugin"])
    assert "Traceback" in command("--debug", "run", program, "-m", model, "--input", "x=1.0").stderr
    assert command("run", other, "-m", model, "--input", "x=1.0", "--json").exit_code == 0
    assert command("check", other, "-m", model, "--json").stdout == "[]\n"
    for listing in ("plugins", "ops", "devices"):
        assert json.loads(command(listing, "--json").stdout)
        assert command(listing).exit_code == 0
    rows = json.loads(command("ops", "their_op", "--coverage", "--json").stdout)
    assert {row["target"] for row in rows} >= {"cpu", "c"}
    assert command("ops", "neg", "--coverage", "--json").exit_code == 0


def test_the_pages_of_operators_are_written_without_what_misbehaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment = act_in(SPOTS["infer"], MISBEHAVIOURS["exits with 0"])

    with warnings.catch_warnings():
        warnings.simplefilter("default", PluginWarning)
        result = run(environment, monkeypatch, "ops", "--markdown", str(tmp_path))

    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith(
        f"warning[plugin]: plugin {NAME!r} of distribution (given in the program): rule `infer`"
    )
    assert "their_op(T[2])" in (tmp_path / "their_op.md").read_text(encoding="utf-8")
    assert len(list(tmp_path.glob("*.md"))) > 100


@pytest.mark.parametrize("where", ["infer", "build"])
def test_what_an_operator_prints_is_not_among_results(
    where: str, files: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, _, model = files
    schema = operator()
    act = chatty(schema.infer if where == "infer" else schema.definition.build)
    environment = act_in(SPOTS[where], act)

    ran = run(environment, monkeypatch, "run", program, "-m", model, "--input", "x=2.0", "--json")
    checked = run(environment, monkeypatch, "check", program, "-m", model, "--device", "cpu", "--json")

    assert json.loads(ran.stdout)["outputs"]["y"]["values"] == [-2.0, -2.0]
    assert json.loads(checked.stdout) == []
    assert "printed by a plugin" in ran.stderr
    assert "printed by a plugin" in checked.stderr


@pytest.mark.parametrize("libraries", [False, True], ids=["Python", "library"])
def test_what_a_kernel_prints_is_not_among_results(
    libraries: bool, files: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    program, _, model = files
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for number in range(3):
        np.savez(inputs / f"{number}.npz", x=np.full(2, 2, np.float32))

    def speak() -> None:
        os.write(1, b"printed by a plugin\n") if libraries else print("printed by a plugin")

    def kernel(_: Any, given: Any, made: Any, *__: Any) -> Any:
        return lambda: (speak(), np.negative(given[0], out=made[0]))

    environment = environment_with(with_kernel(kernel=kernel))
    batch = ("run", program, "-m", model, "--batch", str(inputs), "--runner", "in-process")
    script = tmp_path / "script"
    script.write_text("step\nfinish\nprint y\nquit\n", encoding="utf-8")

    as_json = run(environment, monkeypatch, *batch, "--json")
    as_text = run(environment, monkeypatch, *batch)
    traced = run(environment, monkeypatch, "trace", program, "-m", model, "--input", "x=2.0", "--script", str(script))

    out, err = capfd.readouterr()
    assert as_json.exit_code == 0, as_json.output
    document = json.loads(as_json.stdout)
    assert [each["outputs"]["y"]["values"] for each in document["results"]] == [[-2.0, -2.0]] * 3
    for result in (as_json, as_text, traced):
        assert result.exit_code == 0, result.stderr
        assert "printed by a plugin" not in result.stdout
    assert "printed" not in out
    assert (err if libraries else as_json.stderr + as_text.stderr + traced.stderr).count("printed by a plugin") == 7


def test_what_a_device_prints_is_not_among_results(
    files: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from openinfer_example_device.backend import AbacusBackend

    class Chatty(AbacusBackend):
        def __init__(self, ordinal: int = 0) -> None:
            click.echo("opening")
            super().__init__(ordinal)

        def bind_expression(self, *args: Any) -> Any:
            click.echo("binding")
            return chatty(super().bind_expression(*args))

    program, _, model = files
    probe = chatty(lambda: types.Availability(available=True, detail="there"))
    environment = environment_with(with_device(Chatty, probe))

    listed = run(environment, monkeypatch, "devices", "--json")
    ran = run(
        environment, monkeypatch, "run", program, "-m", model, "--device", "their_device", "--input", "x=2.0", "--json"
    )

    assert "their_device" in {row["name"] for row in json.loads(listed.stdout)}
    assert json.loads(ran.stdout)["outputs"]["y"]["values"] == [-2.0, -2.0]
    assert ran.stderr.split("\n")[:-1] == ["printed by a plugin", "opening", "binding", "printed by a plugin"]


def test_the_types_of_an_operator_that_works_are_those_of_its_rule() -> None:
    environment = environment_with(with_operator())

    assert environment.op("their_op").infer((X,), {}, ()) == (X,)
    assert run_program(environment, None).tolist() == [-1.0, 2.0]


def test_a_kernel_that_changes_how_numpy_treats_errors_does_so_for_itself_alone() -> None:
    def zero(_: Any, __: Any, made: Any, *___: Any) -> Any:
        return lambda: (np.seterr(all="raise"), made[0].fill(0))

    program = PROGRAM.replace("y: f32[2]", "y: f32[2]; z: f32[2]").replace("return y", "op div(x, y) >> z; return z")
    environment = environment_with(with_kernel(kernel=zero))

    with oi.Simulator(MODEL, oi.graph(program), environment=environment).make_executor() as executor:
        executor.step(x=[1.0, -2.0])

        assert executor.fetch("z").tolist() == [np.inf, -np.inf]


def in_terms_of(*names: str) -> Composite:
    """Return a definition that applies operators one after the other."""

    def decompose(steps: Decomposer, inputs: Sequence[int | None], _: object) -> tuple[int]:
        value = inputs[0]
        for name in names:
            value = steps.op(name, value)
        assert value is not None
        return (value,)

    return Composite(decompose)


CIRCLE = [operator(definition=in_terms_of("their_b")), operator(name="their_b", definition=in_terms_of("their_op"))]
DOUBLING = [
    operator(definition=in_terms_of("their_0")),
    *(operator(name=f"their_{k}", definition=in_terms_of(*[f"their_{k + 1}"] * 4)) for k in range(20)),
    operator(name="their_20"),
]


@pytest.mark.parametrize("operators", [CIRCLE, DOUBLING], ids=["a circle", "exponentially many"])
def test_definitions_that_never_end_are_refused(operators: Any) -> None:
    environment = environment_with(module(ops=lambda: operators))

    with pytest.raises(oi.ValidationError, match=r"kernel-missing\]: their_op is defined by other operators"):
        run_program(environment, None)
    with pytest.raises(oi.SynthesisError, match="their_op is defined by other operators"):
        Synthesizer("c", environment=environment).synthesize(MODEL, oi.graph(PROGRAM))


def test_a_device_that_runs_loop_programs_receives_them() -> None:
    environment = environment_with(with_device(LoopAbacus, loop_programs=True, expression_dtypes=None))

    assert ranks(environment, None).tolist() == [1, 1]


def test_plans_are_made_for_the_machine_that_a_device_says_it_is() -> None:
    arch = oi.DeviceArch.load({"version": 2, "device": {"type": "cpu", "api": "c", "name": "theirs"}})
    plans: list[Any] = []

    class Machine(WholeAbacus):
        def __init__(self, ordinal: int) -> None:
            super().__init__(ordinal)
            self.arch = arch

        def bind_program(self, plan: Any, *_: object) -> Any:
            plans.append(plan)
            return lambda: True

    run_program(environment_with(with_device(Machine, whole_programs=True)), None, "their_device")

    assert [plan.arch for plan in plans] == [arch]


def test_what_belongs_to_the_process_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    limit = sys.getrecursionlimit()

    def operators() -> list[OpSchema]:
        os.chdir("/")
        sys.setrecursionlimit(limit - 1)
        return [operator()]

    environment = environment_with(module(ops=operators))

    assert "their_op" in environment.ops
    assert Path.cwd() == tmp_path
    assert sys.getrecursionlimit() == limit
