"""Ways in which the code of a plugin can misbehave, and everything of a plugin that can misbehave so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import numpy as np
from openinfer_example_device.backend import AbacusBackend, Beads
from openinfer_example_runner.runner import Threads

import openinfer as oi
from openinfer.compute import Builder
from openinfer.dtypes import F32, U4
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.model import MetadataValue, ModelContents, VarInfo, save_model
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import (
    Composite,
    Compute,
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
from openinfer.simulate.guarded_backend import opened_backend
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


def copied(k: Builder, _: OpCall) -> None:
    (x,), (y,) = k.given, k.outputs
    axes = k.axes(*y.shape)
    y[axes] = x[axes]


def fine_for_three(act: Act) -> Mapping[str, Any]:
    """Return a definition by stages that misbehaves for other shapes than that of its example."""

    def define(k: Builder, call: OpCall) -> Any:
        return (copied if call.outputs[0].shape == (3,) else act)(k, call)

    return {"definition": Compute(define), "examples": (OpExample(inputs=(Operand(shape=(3,)),)),)}


OPERATORS = {
    "infer": Spot(lambda act: with_operator(infer=act), run_program),
    "build": Spot(lambda act: with_operator(definition=Elementwise(act)), run_program),
    "refusal": Spot(
        lambda act: with_operator(definition=Elementwise(negated, Refusal(act, "none"))), run_program, ("returns None",)
    ),
    "axes": Spot(lambda act: with_operator(infer=first_type, definition=Reduction(act, summed)), reduced),
    "fold": Spot(lambda act: with_operator(infer=first_type, definition=Reduction(lambda *_: (0,), act)), reduced),
    "decompose": Spot(lambda act: with_operator(definition=Composite(act)), run_program),
    "input of a decomposition": Spot(
        lambda act: with_operator(definition=Composite(lambda steps, *_: (steps.op("neg", [act()]),))),
        run_program,
    ),
    "operator of a decomposition": Spot(
        lambda act: with_operator(definition=Composite(lambda steps, inputs, _: (steps.op(act(), inputs[0]),))),
        run_program,
    ),
    "define": Spot(lambda act: with_operator(definition=Compute(act)), run_program),
    "define for some shapes": Spot(lambda act: with_operator(**fine_for_three(act)), run_program),
    "define for some shapes in C": Spot(
        lambda act: with_operator(**fine_for_three(act)), lambda *where: emit_program(*where)
    ),
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


class HostAbacus(AbacusBackend):
    """An abacus whose beads the host reaches."""

    def scalar_reader(self, buffer: Beads) -> Callable[[], Any]:
        return buffer.array.item

    def direct_kernel(self, *_: object) -> None:
        """Bind every kernel."""

    def resized(self, buffer: Beads, type: TensorType) -> Beads:
        return Beads(type, buffer.array.reshape(-1)[: type.count].reshape(type.shape))

    def overlap(self, a: Beads, b: Beads) -> bool:
        return np.shares_memory(a.array, b.array)


class WholeAbacus(AbacusBackend):
    """An abacus that runs whole programs."""

    def bind_program(self, *_: object) -> Callable[[], bool]:
        return lambda: True


class StagedAbacus(AbacusBackend):
    """An abacus that copies, whatever the stages are."""

    def bind_computation(self, _: object, inputs: Sequence[Beads], outputs: Sequence[Beads]) -> Callable[[], object]:
        return self.bind_copy(inputs[0], outputs[0])


def with_stages(backend: Any) -> ModuleType:
    made = with_device(backend, computations=True)
    made.openinfer_ops = with_operator(definition=Compute(copied)).openinfer_ops
    return made


def counts(environment: Environment, folder: Path) -> Any:
    """Run a loop whose bound the device holds."""
    program = PROGRAM.replace("dynamic { x: f32[2]; }", "dynamic { x: f32[2]; n: i32 @init(2); }")
    loop = "loop turns (i in 0..n) { op their_op(x) >> y; }"
    return run_program(environment, folder, "their_device", program.replace("op their_op(x) >> y;", loop))


def hands_over(environment: Environment, folder: Path) -> Any:
    """Run a block concurrently with entry."""
    program = """dynamic { x: f32[2]; } volatile { y: f32[2]; h: f32[2]; }
    block entry { op their_op(x) >> h; yield h; op their_op(x) >> y; await h; return y; }
    block other { await h; op mul(h, h) >> h; yield h; }"""
    return run_program(environment, folder, "their_device", program)


def asks(method: str, *more: object) -> Callable[[Environment, Path], object]:
    """Return a use that calls a method of the device on a buffer."""

    def use(environment: Environment, _: Path) -> object:
        owner = environment.owner("device", "their_device")
        device: Any = opened_backend(environment.devices["their_device"], 0, owner)
        buffer = device.allocate(X)
        return getattr(device, method)(buffer, *(buffer if each is None else each for each in more))

    return use


def part_of(
    base: type[Any], method: str, use: Callable[[Environment, Path], object], make: Any = with_device, **fields: Any
) -> Mapping[str, Spot]:
    """Return the spots of a method that binds a call, and of that call."""
    own, its_call = overriding(base, method), overriding(base, method, lambda act: returning(act))
    legal = CALLED_IN_STEPS if method == "bind_computation" else ()
    return {
        method: Spot(lambda act: make(own(act), **fields), use, ("returns None",) if method == "scalar_reader" else ()),
        f"call of {method}": Spot(lambda act: make(its_call(act), **fields), use, legal),
    }


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
    "beside": device_spot("beside", hands_over, ("returns None",)),
    **part_of(HostAbacus, "scalar_reader", counts),
    **part_of(WholeAbacus, "bind_program", on_device, whole_programs=True),
    **part_of(StagedAbacus, "bind_computation", on_device, with_stages),
    "resized": Spot(lambda act: with_device(overriding(HostAbacus, "resized")(act)), asks("resized", X)),
    "overlap": Spot(lambda act: with_device(overriding(HostAbacus, "overlap")(act)), asks("overlap", None)),
    "direct_kernel": Spot(
        lambda act: with_device(overriding(HostAbacus, "direct_kernel")(act)),
        asks("direct_kernel", RELU),
        ("returns None",),
    ),
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


def target_spot(
    method: str, use: Callable[[Environment, Path], object] = written, make: Callable[[Act], Any] = lambda act: act
) -> Spot:
    return Spot(lambda act: with_target(overriding(Target, method, make)(act)), use)


TARGETS = {
    "making a target": Spot(with_target, written),
    "epilogues": Spot(lambda act: with_target(type("Theirs", (Target,), {"epilogues": property(act)})), written),
    "emit": target_spot("emit"),
    "content of a bundle": target_spot("emit", make=lambda act: lambda *_: Bundle({"main.c": act()})),
    "name in a bundle": target_spot("emit", make=lambda act: lambda *_: Bundle({act(): b""})),
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


W = VarInfo(name="w", dtype=F32, shape=(2,), has_data=True, offset=0, nbytes=8)


class Store:
    """A model with one tensor."""

    sizevars: Mapping[str, int] = {"N": 2}
    metadata: Mapping[str, MetadataValue] = {"m": MetadataValue("i32", 3)}
    tensors: Mapping[str, VarInfo] = {"w": W}

    def values(self, _: str) -> Any:
        return np.ones(2, np.float32)

    def stored(self, name: str) -> Any:
        return self.values(name).view(np.uint8)

    def close(self) -> None:
        """Release nothing."""


class PackedStore(Store):
    """A model with one tensor of a packed type."""

    tensors: Mapping[str, VarInfo] = {"w": replace(W, dtype=U4, nbytes=1)}


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


def loaded(
    environment: Environment, folder: Path, statement: str = "op their_op(w) >> y", dtype: str = "f32"
) -> object:
    file = folder / "m.theirs"
    file.write_bytes(b"")
    with oi.ModelLoader.open(file, environment=environment) as model:
        text = f"constant {{ w: {dtype}[N]; }} volatile {{ y: {dtype}[N]; }} block entry {{ {statement}; return y; }}"
        executor = oi.Simulator(model, oi.graph(text), environment=environment).make_executor()
        executor.step()
        return executor.fetch("y")


def loaded_packed(environment: Environment, folder: Path) -> object:
    return loaded(environment, folder, "transfer w >> y", "u4")


def saved(environment: Environment, folder: Path) -> object:
    contents = ModelContents(sizevars={}, metadata={}, tensors={})
    return save_model(contents, folder / "m.theirs", environment=environment)


def store_spot(method: str, legal: tuple[str, ...] = ()) -> Spot:
    return Spot(lambda act: with_format(returning(overriding(Store, method)(act)())), loaded, legal)


def table_spot(table: str, make: Callable[[Act], Any] | None = None, legal: tuple[str, ...] = ()) -> Spot:
    """Return the spot of a table of a model, or of what ``make`` puts into it."""

    def plugin(act: Act) -> ModuleType:
        found = act if make is None else lambda _: make(act)
        return with_format(returning(type("Theirs", (Store,), {table: property(found)})()))

    return Spot(plugin, loaded, legal)


ANY_VALUE = ("returns text", "returns a huge number")
"""What may be the value of a metadata entry that nothing reads."""

PLACES = ("returns None",)
"""Of a tensor that is in memory."""


FORMATS = {
    "opening a model": Spot(with_format, loaded),
    "sizevars": table_spot("sizevars"),
    "metadata": table_spot("metadata"),
    "tensors": table_spot("tensors"),
    "a metadata entry": table_spot("metadata", lambda act: {"m": MetadataValue("i32", act())}, ANY_VALUE),
    "name of a tensor": table_spot("tensors", lambda act: {"w": replace(W, name=act())}),
    "place of a tensor": table_spot("tensors", lambda act: {"w": replace(W, offset=act())}, PLACES),
    "size of a tensor": table_spot("tensors", lambda act: {"w": replace(W, nbytes=act())}),
    "values": store_spot("values"),
    "stored": Spot(lambda act: with_format(returning(overriding(PackedStore, "stored")(act)())), loaded_packed),
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
    "an answer": runner_spot(
        "start", lambda act: returning(SimpleNamespace(run=lambda _: repr(act()).encode(), close=lambda: None))
    ),
    "closing a worker": runner_spot("start", lambda act: returning(SimpleNamespace(run=lambda _: b"", close=act))),
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
