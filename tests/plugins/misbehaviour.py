"""Ways in which the code of a plugin can misbehave, and everything of a plugin that can misbehave so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import numpy as np
from openinfer_example_device.backend import AbacusBackend
from openinfer_example_runner.runner import Threads

import openinfer as oi
from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.model import MetadataValue, ModelContents, VarInfo, save_model
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import (
    Composite,
    Elementwise,
    Fold,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    Primitive,
    Reduction,
    Refusal,
)
from openinfer.plugins import types
from openinfer.plugins.environment import Environment
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.simulate.batch import run_batch
from openinfer.synth import Bundle, Synthesizer
from openinfer.synth.target import RunResult

NAME = "theirs"
PARTS = "their_parts"
"""Module in which the heavy parts of the plugin are."""


class Rude(BaseException):
    """Not an `Exception`."""


class Unshowable:
    """Nothing can be asked of it."""

    def __repr__(self) -> str:
        raise Rude

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise Rude

    __hash__ = None  # type: ignore[assignment]


class SilentError(Exception):
    """An exception whose text raises."""

    def __str__(self) -> str:
        raise Rude


def half_way(*_: Any, **__: Any) -> Iterator[object]:
    """Yield something and raise."""
    yield None
    raise KeyError("half-way")


def raising(error: BaseException) -> Callable[..., Any]:
    def misbehave(*_: Any, **__: Any) -> Any:
        raise error

    return misbehave


def returning(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


MISBEHAVIOURS: Mapping[str, Callable[..., Any]] = {
    "raises": raising(KeyError("oops")),
    "raises no exception": raising(Rude("oops")),
    "exits with 0": raising(SystemExit(0)),
    "raises what cannot be shown": raising(SilentError()),
    "returns None": returning(None),
    "returns text": returning("oops"),
    "returns what cannot be shown": returning(Unshowable()),
    "returns a huge number": returning(10**5000),
    "raises half-way": half_way,
}

Act = Callable[..., Any]


@dataclass(frozen=True)
class Spot:
    """Something of a plugin that may misbehave.

    Attributes:
        plugin: makes the plugin, of which ``act`` is called there.
        use: leads to the call.
        legal: misbehaviours that are none here.
    """

    plugin: Callable[[Act], ModuleType]
    use: Callable[[Environment, Path], object]
    legal: tuple[str, ...] = ()


def module(**hooks: Callable[..., Any]) -> ModuleType:
    """Return a plugin with hooks, by their names without prefix."""
    made = ModuleType(NAME)
    made.OPENINFER_API = types.API_VERSION
    for name, function in hooks.items():
        function.__name__ = f"openinfer_{name}"
        setattr(made, function.__name__, hookimpl(function))
    return made


def parts(**attributes: object) -> None:
    """Set the heavy parts of the plugin."""
    sys.modules[PARTS] = SimpleNamespace(**attributes)  # type: ignore[assignment]


def environment_with(plugin: object, **options: Any) -> Environment:
    """Return what the packages of this repository and a plugin offer."""
    return load_environment(allow=("oinf", "cpu", "c"), extra=[(NAME, plugin)], **options)


def act_in(spot: Spot, act: Act) -> Environment:
    """Return an environment in which a plugin misbehaves at a spot."""
    return environment_with(spot.plugin(act))


# Operators

X = TensorType(F32, (2,))
MODEL = oi.Model.from_arrays({})
PROGRAM = "dynamic { x: f32[2]; } volatile { y: f32[2]; }\nblock entry {\n  op their_op(x) >> y;\n  return y;\n}\n"


def same_type(inputs: Any, *_: Any) -> tuple[TensorType, ...]:
    return (inputs[0],)


def first_type(inputs: Any, *_: Any) -> tuple[TensorType, ...]:
    return (TensorType(inputs[0].dtype, inputs[0].shape[1:]),)


def negated(inputs: Any, *_: Any) -> Any:
    return tree.neg(inputs[0])


def summed(element: Any, _: Any, __: Any) -> Fold:
    value = tree.Input(0, element)
    return Fold(tree.Literal(0.0, element), value, tree.add(value, tree.Input(1, element)), value)


def operator(**changes: Any) -> OpSchema:
    fields: dict[str, Any] = {
        "name": "their_op",
        "summary": "theirs",
        "category": "test",
        "inputs": (InputSpec(name="x"),),
        "dtypes": frozenset({"f32"}),
        "infer": same_type,
        "definition": Elementwise(negated),
        "examples": (OpExample(inputs=(Operand(shape=(2,)),)),),
    }
    return OpSchema(**{**fields, **changes})


def with_operator(**changes: Any) -> ModuleType:
    return module(ops=lambda: [operator(**changes)])


def run_program(environment: Environment, _: Path, device: str = "cpu", program: str = PROGRAM) -> Any:
    with oi.Simulator(MODEL, oi.graph(program), device=device, environment=environment).make_executor() as executor:
        executor.step(x=[1.0, -2.0])
        return executor.fetch("y")


def reduced(environment: Environment, folder: Path) -> Any:
    return run_program(environment, folder, program=PROGRAM.replace("y: f32[2]", "y: f32"))


OPERATORS = {
    "infer": Spot(lambda act: with_operator(infer=act), run_program),
    "build": Spot(lambda act: with_operator(definition=Elementwise(act)), run_program),
    "refusal": Spot(
        lambda act: with_operator(definition=Elementwise(negated, Refusal(act, "none"))), run_program, ("returns None",)
    ),
    "axes": Spot(lambda act: with_operator(infer=first_type, definition=Reduction(act, summed)), reduced),
    "fold": Spot(lambda act: with_operator(infer=first_type, definition=Reduction(lambda *_: (0,), act)), reduced),
    "decompose": Spot(lambda act: with_operator(definition=Composite(act)), run_program),
}


# Kernels


def bind_negation(call: OpCall, inputs: Any, outputs: Any) -> Callable[[], object]:
    del call
    return lambda: np.negative(inputs[0], out=outputs[0])


def with_kernel(target: str = "cpu", **fields: Any) -> ModuleType:
    spec = types.KernelSpec(**{"op": "their_op", "kernel": bind_negation, **fields})
    wanted = target
    return module(
        ops=lambda: [operator(definition=Primitive())],
        kernels=lambda target: [spec] if target == wanted else [],
    )


def kernels_of_cpu(environment: Environment, _: Path) -> object:
    return environment.kernels("cpu")["matmul"]


RELU = OpCall(op="relu", inputs=(X,), outputs=(X,), settings={})


def choice_on_cpu(environment: Environment, _: Path) -> object:
    return environment.kernel_choice(RELU, [types.KernelSpec(op="relu", kernel="a:b")], "cpu")


def emit_program(environment: Environment, folder: Path, target: str = "c") -> Path:
    return Synthesizer(target, environment=environment).synthesize(MODEL, oi.graph(PROGRAM)).emit(folder / "out")


def named(act: Act) -> ModuleType:
    parts(kernel=act)
    return with_kernel(kernel=f"{PARTS}:kernel")


CALLED_IN_STEPS = (
    "returns None",
    "returns text",
    "returns what cannot be shown",
    "returns a huge number",
    "raises half-way",
)
"""What a bound call returns is not looked at."""

KERNELS = {
    "supports": Spot(lambda act: with_kernel(supports=act), run_program),
    "binding a kernel": Spot(lambda act: with_kernel(kernel=act), run_program),
    "binding a kernel that is named": Spot(named, run_program),
    "running a kernel": Spot(lambda act: with_kernel(kernel=lambda *_: act), run_program, CALLED_IN_STEPS),
    "writing a kernel": Spot(
        lambda act: with_kernel("c", kernel=act), emit_program, ("raises half-way", *CALLED_IN_STEPS)
    ),
}


# Devices


def with_device(backend: Any, probe: Any = None, **fields: Any) -> ModuleType:
    parts(Backend=backend, probe=probe or returning(types.Availability(available=True, detail="")))
    spec = types.DeviceSpec(
        **{
            "name": "their_device",
            "summary": "theirs",
            "probe": f"{PARTS}:probe",
            "backend": f"{PARTS}:Backend",
            "expression_dtypes": frozenset({"f32"}),
            **fields,
        }
    )
    return module(devices=lambda: [spec], ops=lambda: [operator()])


def overriding(
    base: type[Any], method: str, make: Callable[[Act], Any] = lambda act: act
) -> Callable[[Act], type[Any]]:
    """Return what makes a class of which one method misbehaves."""
    return lambda act: type("Theirs", (base,), {method: make(act)})


def on_device(environment: Environment, folder: Path) -> Any:
    return run_program(environment, folder, "their_device")


def copies(environment: Environment, folder: Path) -> Any:
    program = PROGRAM.replace("op their_op(x) >> y;", "transfer x >> y;")
    return run_program(environment, folder, "their_device", program)


def sums(environment: Environment, folder: Path) -> Any:
    program = PROGRAM.replace("y: f32[2]", "y: f32").replace("their_op(x)", "sum_axis(x, axis=0)")
    return run_program(environment, folder, "their_device", program)


def starts(environment: Environment, folder: Path) -> Any:
    return run_program(environment, folder, "their_device", PROGRAM.replace("y: f32[2]", "y: f32[2] @init(1.0)"))


def kernel_on_device(act: Act) -> ModuleType:
    made = with_device(overriding(AbacusBackend, "bind_kernel")(act))
    made.openinfer_kernels = with_kernel("their_device").openinfer_kernels
    return made


def device_spot(
    method: str, use: Callable[[Environment, Path], object] = on_device, legal: tuple[str, ...] = ()
) -> Spot:
    return Spot(lambda act: with_device(overriding(AbacusBackend, method)(act)), use, legal)


def bound(method: str, use: Callable[[Environment, Path], object]) -> Spot:
    """Return the spot of the call that a method binds."""
    made = overriding(AbacusBackend, method, lambda act: returning(act))
    return Spot(lambda act: with_device(made(act)), use, CALLED_IN_STEPS)


NO_RESULT = (*(name for name in MISBEHAVIOURS if name.startswith("returns")), "raises half-way")

DEVICES = {
    "opening": Spot(with_device, on_device),
    "name of a device": device_spot("name", legal=tuple(MISBEHAVIOURS)),
    "allocate": device_spot("allocate"),
    "upload": Spot(
        lambda act: with_device(overriding(AbacusBackend, "upload")(act)),
        lambda environment, _: (
            oi.Simulator(
                oi.Model.from_arrays({"w": np.ones(2, np.float32)}),
                oi.graph(
                    "constant { w: f32[2]; } volatile { y: f32[2]; } block entry { op their_op(w) >> y; return y; }"
                ),
                device="their_device",
                environment=environment,
            )
            .make_executor()
            .step()
        ),
    ),
    "write": device_spot("write", legal=NO_RESULT),
    "read": device_spot("read"),
    "bind_copy": device_spot("bind_copy", copies),
    "bound copy": bound("bind_copy", copies),
    "bind_fill": device_spot("bind_fill", starts),
    "bound fill": bound("bind_fill", starts),
    "bind_expression": device_spot("bind_expression"),
    "bound expression": bound("bind_expression", on_device),
    "bind_fold": device_spot("bind_fold", sums),
    "bound fold": bound("bind_fold", sums),
    "bind_kernel": Spot(kernel_on_device, on_device),
    "synchronize": device_spot("synchronize", legal=NO_RESULT),
    "close": device_spot("close", legal=NO_RESULT),
}


# Synth targets


class Target:
    """Writes a file that says nothing."""

    epilogues = False

    def emit(self, *_: object) -> Bundle:
        return Bundle({"main.c": b""})

    def build_and_run(self, *_: object, **__: object) -> RunResult:
        return RunResult({"y": np.zeros(2, np.float32)}, 0.0)


def with_target(target: Any) -> ModuleType:
    parts(Target=target)
    spec = types.SynthTargetSpec(
        name="their_target", summary="theirs", target=f"{PARTS}:Target", expression_dtypes=frozenset({"f32"})
    )
    return module(synth_targets=lambda: [spec], ops=lambda: [operator()])


def written(environment: Environment, folder: Path) -> object:
    return emit_program(environment, folder, "their_target")


def target_spot(method: str, use: Callable[[Environment, Path], object] = written) -> Spot:
    return Spot(lambda act: with_target(overriding(Target, method)(act)), use)


TARGETS = {
    "making a target": Spot(with_target, written),
    "epilogues": Spot(lambda act: with_target(type("Theirs", (Target,), {"epilogues": property(act)})), written),
    "emit": target_spot("emit"),
    "build_and_run": target_spot(
        "build_and_run",
        lambda environment, _: (
            Synthesizer("their_target", environment=environment)
            .synthesize(MODEL, oi.graph(PROGRAM))
            .run({"x": np.zeros(2, np.float32)})
        ),
    ),
}


# Model formats


class Store:
    """A model with one tensor."""

    sizevars: Mapping[str, int] = {"N": 2}
    metadata: Mapping[str, MetadataValue] = {"m": MetadataValue("i32", 3)}
    tensors: Mapping[str, VarInfo] = {"w": VarInfo(name="w", dtype=F32, shape=(2,), has_data=True, offset=0, nbytes=8)}

    def values(self, _: str) -> Any:
        return np.ones(2, np.float32)

    def stored(self, name: str) -> Any:
        return self.values(name).view(np.uint8)

    def close(self) -> None:
        """Release nothing."""


def with_format(open: Any = None, save: Any = None, codes: Any = None) -> ModuleType:  # noqa: A002
    parts(open=open or returning(Store()), save=save, codes=codes)
    spec = types.ModelFormatSpec(
        name="their_format",
        suffixes=(".theirs",),
        magic=b"",
        open=f"{PARTS}:open",
        save=f"{PARTS}:save" if save else None,
        codes=f"{PARTS}:codes",
    )
    return module(model_formats=lambda: [spec], ops=lambda: [operator()])


def loaded(environment: Environment, folder: Path) -> object:
    file = folder / "m.theirs"
    file.write_bytes(b"")
    with oi.ModelLoader.open(file, environment=environment) as model:
        text = "constant { w: f32[N]; } volatile { y: f32[N]; } block entry { op their_op(w) >> y; return y; }"
        executor = oi.Simulator(model, oi.graph(text), environment=environment).make_executor()
        executor.step()
        return executor.fetch("y")


def saved(environment: Environment, folder: Path) -> object:
    contents = ModelContents(sizevars={}, metadata={}, tensors={})
    return save_model(contents, folder / "m.theirs", environment=environment)


def store_spot(method: str, legal: tuple[str, ...] = ()) -> Spot:
    return Spot(lambda act: with_format(returning(overriding(Store, method)(act)())), loaded, legal)


def table_spot(table: str) -> Spot:
    return Spot(lambda act: with_format(returning(type("Theirs", (Store,), {table: property(act)})())), loaded)


FORMATS = {
    "opening a model": Spot(with_format, loaded),
    "sizevars": table_spot("sizevars"),
    "metadata": table_spot("metadata"),
    "tensors": table_spot("tensors"),
    "values": store_spot("values"),
    "closing a model": store_spot("close", NO_RESULT),
    "save": Spot(lambda act: with_format(save=act), saved, NO_RESULT),
}


# Runners and commands


def with_runner(runner: Any) -> ModuleType:
    parts(Runner=runner)
    spec = types.RunnerSpec(name="their_runner", summary="theirs", runner=f"{PARTS}:Runner")
    return module(runners=lambda: [spec], ops=lambda: [operator()])


def spread(environment: Environment, _: Path) -> object:
    inputs = [{"x": np.ones(2, np.float32)} for _ in range(3)]
    graph = oi.graph(PROGRAM)
    found = list(run_batch(MODEL, graph, inputs, runner="their_runner", workers=1, environment=environment))
    for _, result in found:
        if isinstance(result, Exception):
            raise result
    return found


def runner_spot(name: str, make: Callable[[Act], Any] = lambda act: act, legal: tuple[str, ...] = ()) -> Spot:
    return Spot(lambda act: with_runner(overriding(Threads, name, make)(act)), spread, legal)


def silent(self: Any, workers: int | None = None) -> None:
    """Leave attributes to the class."""


RUNNERS = {
    "making a runner": Spot(with_runner, spread),
    "workers": Spot(
        lambda act: with_runner(type("Theirs", (Threads,), {"__init__": silent, "workers": property(act)})), spread
    ),
    "inline": runner_spot("inline", property),
    "start": runner_spot("start"),
    "run": runner_spot("start", lambda act: returning(SimpleNamespace(run=act, close=lambda: None))),
    "closing a runner": runner_spot("close", legal=NO_RESULT),
}


def with_command(command: Any) -> ModuleType:
    parts(command=command)
    spec = types.CommandSpec(name="their-command", summary="theirs", command=f"{PARTS}:command")
    return module(commands=lambda: [spec])


def called(environment: Environment, _: Path) -> object:
    from openinfer.cli.plugin_commands import opened_command

    command = opened_command(environment.commands["their-command"], environment.owner("command", "their-command"))
    return command.main([], standalone_mode=False)


COMMANDS = {
    "a command": Spot(with_command, called),
    "calling a command": Spot(
        lambda act: with_command(click.command()(lambda: act())), called, ("exits with 0", *NO_RESULT)
    ),
}


SPOTS: Mapping[str, Spot] = {**OPERATORS, **KERNELS, **DEVICES, **TARGETS, **FORMATS, **RUNNERS, **COMMANDS}
