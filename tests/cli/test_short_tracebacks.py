"""A refusal shows the caller's line, the public function and the error; the rest with OPENINFER_DEBUG only."""

from __future__ import annotations

import inspect
import subprocess
import sys
import traceback
from enum import Enum
from types import FunctionType

import numpy as np
import pytest

import openinfer as oi
from openinfer.boundary import DEBUG, public

TEXT = "dynamic { x: f32[3]; } volatile { y: f32[3]; } block entry { op add(x, x) >> y; return y; }"
WRONG = TEXT.replace("add", "addd")
MODEL = oi.Model.from_arrays({"a": np.ones(3, np.float32)})


def executor() -> oi.Executor:
    return oi.Simulator(MODEL, TEXT).make_executor()


REFUSALS = {
    "syntax": lambda: oi.graph("block entry { op }"),
    "file": lambda: oi.ModelLoader.open("nope.oinf"),
    "program file": lambda: oi.Simulator(MODEL, "nope.oi"),
    "JSON": lambda: oi.GraphDeserialize.from_json("{"),
    "graph JSON": lambda: oi.graph({"vars": 1}),
    "arch": lambda: oi.DeviceArch.load({}),
    "builder": lambda: oi.GraphBuilder().build(check=True),
    "device": lambda: oi.Simulator(MODEL, device="nope"),
    "simulator": lambda: oi.Simulator(MODEL, WRONG),
    "validate": lambda: oi.Simulator(MODEL).validate(WRONG),
    "executor": lambda: oi.Simulator(MODEL).make_executor(WRONG),
    "insert": lambda: executor().insert(x=np.ones(4, np.float32)),
    "step": lambda: executor().step(),
    "iterate": lambda: list(executor().iterate()),
    "fetch": lambda: executor().fetch("nope"),
    "target": lambda: oi.Synthesizer("nope"),
    "synthesize": lambda: oi.Synthesizer("c").synthesize(MODEL, WRONG),
    "emit": lambda: oi.Synthesizer("c").synthesize(MODEL, TEXT).emit("."),
    "batch": lambda: oi.run_batch(MODEL, WRONG, []),
    "batch inputs": lambda: list(oi.run_batch(MODEL, TEXT, "nope/*.npz")),
    "tensor": lambda: MODEL.load_tensor("nope"),
    "arrays": lambda: oi.Model.from_arrays({"a": np.ones(3, np.complex64)}),
    "random": lambda: oi.Random.generate("f32", (-1,)),
    "check": lambda: oi.graph("block main { }").check(),
}


def frames(error: BaseException | None) -> list[str]:
    """Modules of the frames of an error and of those it comes of, this one's left out."""
    found: list[str] = []
    while error is not None:
        found += [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
        error = error.__cause__ or error.__context__
    return [name for name in found if name != __name__]


def refused(refuse) -> BaseException:
    with pytest.raises((oi.OpenInferError, FileNotFoundError)) as caught:
        refuse()
    return caught.value


@pytest.mark.rule("api.python.5")
@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
def test_one_frame_is_of_openinfer(refuse):
    (only,) = frames(refused(refuse))

    assert only.partition(".")[0] == "openinfer"
    assert only != "openinfer.boundary"


def test_the_whole_traceback_is_there_for_debugging(monkeypatch):
    monkeypatch.setenv(DEBUG, "1")

    found = frames(refused(REFUSALS["JSON"]))

    assert found.count("openinfer.boundary") >= 1
    assert "json.decoder" in found
    assert len(found) > 4


def test_what_a_user_sees():
    program = "import openinfer as oi\ndef mine():\n    oi.graph('block b {')\nmine()\n"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    lines = shown.splitlines()

    assert [line.split(", in ")[1] for line in lines if line.startswith("  File")] == ["<module>", "mine", "graph"]
    assert lines[-1].startswith("openinfer.errors.DslSyntaxError: ")


def test_the_cause_stays():
    assert type(refused(REFUSALS["file"]).__cause__) is FileNotFoundError


CALLED = "def call(function):\n    function()\n"
GUARDED = """
def call(function):
    try:
        function()
    except KeyError as error:
        raise KIND("failed") from error
"""


def foreign(namespace: str, text: str = CALLED, **names: object):
    """A function of another module, which calls what it is given."""
    scope: dict[str, object] = {"__name__": namespace, **names}
    exec(text, scope)
    return scope["call"]


@pytest.mark.rule("api.python.5")
@pytest.mark.parametrize("kind", [oi.ExecutionError, oi.PluginError])
def test_frames_of_plugins_are_kept(kind):
    run = public(foreign("openinfer.simulate.execute.executor", GUARDED, KIND=kind))
    plugin, inside = foreign("their_plugin"), foreign("openinfer.array_types")

    error = refused(lambda: run(lambda: plugin(lambda: inside(lambda: {}["oops"]))))

    assert frames(error) == ["openinfer.simulate.execute.executor", "their_plugin"]


def test_an_error_that_the_caller_was_handling_keeps_its_frames():
    def handle() -> None:
        try:
            foreign("their_program")(lambda: {}["missing"])
        except KeyError:
            oi.graph("block entry { op }")

    error = refused(handle)

    assert "their_program" in frames(error.__context__)


def test_mistakes_keep_their_traceback():
    @public
    def mistaken() -> None:
        foreign("openinfer.simulate.program.machine")(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError) as caught:
        mistaken()

    assert "openinfer.simulate.program.machine" in frames(caught.value)


PUBLIC = [getattr(oi, name) for name in oi.__all__]
CLASSES = [
    value
    for value in PUBLIC
    if isinstance(value, type) and not issubclass(value, BaseException | Enum) and value is not oi.GraphBuilder
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_public_method_is_marked(kind):
    methods = {
        name: inspect.unwrap(value, stop=lambda function: function.__globals__["__name__"] == "openinfer.boundary")
        for name, found in vars(kind).items()
        if not name.startswith("_") and isinstance(value := getattr(found, "__func__", found), FunctionType)
    }

    assert [name for name, value in methods.items() if value.__globals__["__name__"] != "openinfer.boundary"] == []


@pytest.mark.parametrize("function", [value for value in PUBLIC if isinstance(value, FunctionType)])
def test_every_public_function_is_marked(function):
    assert function.__globals__["__name__"] == "openinfer.boundary"
    assert inspect.signature(function) == inspect.signature(function.__wrapped__)
