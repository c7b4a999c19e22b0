"""Devices of plugins that misbehave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from misbehaving import (
    CALLED_IN_STEPS,
    MISBEHAVIOURS,
    NO_RESULT,
    PARTS,
    Act,
    Spot,
    module,
    overriding,
    parts,
    returning,
    value_spot,
)
from misbehaving_operators import PROGRAM, RELU, X, copied, operator, run_program, with_kernel, with_operator
from openinfer_example_device.backend import AbacusBackend, Beads

import openinfer as oi
from openinfer.ir.types import TensorType
from openinfer.ops.schema import Compute
from openinfer.plugins import types
from openinfer.plugins.environment import Environment
from openinfer.simulate.devices.guarded_backend import opened_backend
from openinfer.simulate.devices.programs import Fault


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


class TimedAbacus(AbacusBackend):
    """An abacus with a clock of its own."""

    def timed_synchronize(self) -> int:
        return 1234


class LendingAbacus(AbacusBackend):
    """An abacus that lends beads."""

    def lend(self, type: TensorType) -> Any:
        return np.zeros(type.shape, np.float32)


class StagedAbacus(AbacusBackend):
    """An abacus that copies, whatever the stages are."""

    def bind_computation(self, _: object, inputs: Sequence[Beads], outputs: Sequence[Beads]) -> Callable[[], object]:
        return self.bind_copy(inputs[0], outputs[0])


class LoopAbacus(AbacusBackend):
    """An abacus that copies, whatever the loop program is."""

    def bind_loops(self, _: object, __: Sequence[Beads], outputs: Sequence[Beads]) -> Callable[[], object]:
        return self.bind_fill(outputs[0], 1)


def ranks(environment: Environment, folder: Path) -> Any:
    program = PROGRAM.replace("y: f32[2]", "y: i64[2]").replace("their_op(x)", "argsort(x)")
    return run_program(environment, folder, "their_device", program)


class Program:
    """A program with one variable, ``s``."""

    def step(self) -> None:
        """Do nothing."""

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {}

    def reset(self) -> None:
        """Do nothing."""

    def get(self) -> Mapping[str, Any]:
        return {"s": np.zeros(2, np.float32)}

    def set(self, values: Mapping[str, Any]) -> None:
        """Keep nothing."""


class StateAbacus(WholeAbacus):
    """An abacus that runs whole programs that keep values between steps."""

    def open_program(self, *_: object) -> Program:
        return Program()


def with_state(program: Callable[[], object]) -> ModuleType:
    backend = type("Theirs", (StateAbacus,), {"open_program": lambda *_: program()})
    return with_device(backend, whole_programs=True, state=True)


def keeps(environment: Environment, folder: Path) -> Any:
    program = PROGRAM.replace("volatile", "persistent { s: f32[2]; } volatile").replace(
        "return", "cache.write y >> s; return"
    )
    simulator = oi.Simulator(oi.Model.from_arrays(), oi.graph(program), device="their_device", environment=environment)
    with simulator.make_executor() as executor:
        executor.step(x=[1.0, -2.0])
        executor.reset()
        executor.step(x=[1.0, -2.0])
        return executor.fetch("s")


def state_spot(method: str, make: Callable[[Act], Any] = lambda act: act, legal: tuple[str, ...] = ()) -> Spot:
    return Spot(lambda act: with_state(overriding(Program, method, make)(act)), keeps, legal)


def value_state_spot(method: str, name: str) -> Spot:
    """Return the spot of an entry of what a method returns."""
    return value_spot(lambda value: with_state(type("Theirs", (Program,), {method: returning({name: value})})), keeps)


def fault_spot(field: str, legal: tuple[str, ...]) -> Spot:
    """Return the spot of a field of why a step failed."""

    def plugin(value: Any) -> ModuleType:
        found = Fault(**{"code": "out-of-range", "message": "", "node": None, field: value})
        return with_state(type("Theirs", (Program,), {"step": returning(found)}))

    def fails(environment: Environment, folder: Path) -> None:
        with suppress(oi.ExecutionError):
            keeps(environment, folder)

    return value_spot(plugin, fails, legal)


def with_stages(backend: Any) -> ModuleType:
    made = with_device(backend, computations=True)
    made.openinfer_ops = with_operator(definition=Compute(copied)).openinfer_ops
    return made


def counts(environment: Environment, folder: Path) -> Any:
    """Run a loop whose bound the device holds."""
    program = PROGRAM.replace("dynamic { x: f32[2]; }", "dynamic { x: f32[2]; n: i32 @init(2); }")
    loop = "loop turns (i in 0..n) { op their_op(x) >> y; }"
    return run_program(environment, folder, "their_device", program.replace("op their_op(x) >> y;", loop))


def borrows(environment: Environment, _: Path) -> Any:
    """Fill an array of the device for an input."""
    graph, model = oi.graph(PROGRAM), oi.Model.from_arrays({})
    with oi.Simulator(model, graph, device="their_device", environment=environment).make_executor() as executor:
        x = executor.input_buffer("x")
        x[:] = 1.0
        return x.tolist()


def times(environment: Environment, _: Path) -> Any:
    """Run a step whose operators are timed."""
    graph, model = oi.graph(PROGRAM), oi.Model.from_arrays({})
    simulator = oi.Simulator(
        model, graph, device="their_device", environment=environment, trace=True, timer=True, echo=False
    )
    with simulator.make_executor() as executor:
        executor.step(x=[1.0, -2.0])
        return [event.duration_ns for event in executor.trace() if event.op_name]


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
    legal = CALLED_IN_STEPS if method in ("bind_computation", "bind_loops") else ()
    return {
        method: Spot(lambda act: make(own(act), **fields), use, ("returns None",) if method == "scalar_reader" else ()),
        f"call of {method}": Spot(lambda act: make(its_call(act), **fields), use, legal),
    }


NONE = ("returns None",)
"""Where None stands for the absence of something."""

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
    "concurrent_backend": device_spot("concurrent_backend", hands_over, ("returns None",)),
    **part_of(HostAbacus, "scalar_reader", counts),
    **part_of(WholeAbacus, "bind_program", on_device, whole_programs=True),
    **part_of(StagedAbacus, "bind_computation", on_device, with_stages),
    **part_of(LoopAbacus, "bind_loops", ranks, loop_programs=True, expression_dtypes=None),
    "arch": Spot(lambda act: with_device(type("Theirs", (WholeAbacus,), {"arch": property(act)})), on_device, NONE),
    "schedules": Spot(
        lambda act: with_device(type("Theirs", (WholeAbacus,), {"schedules": property(act)})), on_device, NONE
    ),
    "open_program": Spot(with_state, keeps),
    "step of a program": state_spot("step", legal=NONE),
    "code of a fault": fault_spot("code", ("returns text",)),
    "message of a fault": fault_spot("message", ("returns text",)),
    "node of a fault": fault_spot("node", NONE),
    "shapes of a program": state_spot("shapes"),
    "a shape of a program": value_state_spot("shapes", "y"),
    "reset of a program": state_spot("reset", legal=NO_RESULT),
    "get of a program": state_spot("get"),
    "a value of a program": value_state_spot("get", "s"),
    "set of a program": state_spot("set", legal=NO_RESULT),
    "resized": Spot(lambda act: with_device(overriding(HostAbacus, "resized")(act)), asks("resized", X)),
    "overlap": Spot(lambda act: with_device(overriding(HostAbacus, "overlap")(act)), asks("overlap", None)),
    "timed_synchronize": Spot(
        lambda act: with_device(overriding(TimedAbacus, "timed_synchronize")(act)), times, ("returns None",)
    ),
    "lend": Spot(lambda act: with_device(overriding(LendingAbacus, "lend")(act)), borrows),
    "direct_kernel": Spot(
        lambda act: with_device(overriding(HostAbacus, "direct_kernel")(act)),
        asks("direct_kernel", RELU),
        ("returns None",),
    ),
}
