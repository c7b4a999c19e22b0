"""Rules, definitions and kernels of operators that misbehave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from misbehaving import CALLED_IN_STEPS, PARTS, Act, Spot, module, parts, value_spot

import openinfer as oi
from openinfer.compute import Builder
from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.loops import Kernel
from openinfer.ops.calls import OpCall
from openinfer.ops.schema import (
    Composite,
    Compute,
    Elementwise,
    Fold,
    InputSpec,
    Loops,
    Operand,
    OpExample,
    OpSchema,
    Primitive,
    Reduction,
    Refusal,
)
from openinfer.plugins import types
from openinfer.plugins.environment import Environment
from openinfer.synth import Synthesizer

ARGSORT = Environment.default().op("argsort")
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


def ranked(call: OpCall) -> Kernel:
    """Return the loop program of an operator of core."""
    definition = ARGSORT.definition
    assert isinstance(definition, Loops)
    return definition.define(call)


def with_ranks(**fields: Any) -> ModuleType:
    """Return a plugin with an operator like argsort whose loop program has other fields."""
    changed = replace(
        ARGSORT, name="their_op", aliases=(), definition=Loops(lambda call: replace(ranked(call), **fields))
    )
    return module(ops=lambda: [changed])


def sorts(environment: Environment, folder: Path) -> Any:
    return run_program(environment, folder, program=PROGRAM.replace("y: f32", "y: i64"))


def expression_spot(make: Callable[[Any, Any], Any], legal: tuple[str, ...] = ()) -> Spot:
    """Return the spot of a part of an expression."""

    def plugin(value: Any) -> ModuleType:
        return with_operator(definition=Elementwise(lambda inputs, *_: make(inputs[0], value)))

    return value_spot(plugin, run_program, legal)


TEXTUAL = ("name", "origin")
"""Fields of loop programs that are text."""

EXPRESSIONS = {
    "function of an expression": expression_spot(lambda x, value: tree.Apply(value, (x,), F32)),
    "arguments of an expression": expression_spot(lambda _, value: tree.Apply("neg", value, F32)),
    "an argument of an expression": expression_spot(lambda x, value: tree.add(x, tree.Apply("neg", (value,), F32))),
    "type of an expression": expression_spot(lambda x, value: tree.cast(tree.Apply("neg", (x,), value), F32)),
    "number of an input of an expression": expression_spot(lambda _, value: tree.Input(value, F32)),
    "a constant of an expression": expression_spot(lambda _, value: tree.Literal(value, F32)),
}

OPERATORS = {
    **EXPRESSIONS,
    **{
        f"{name} of a loop program": value_spot(
            lambda value, name=name: with_ranks(**{name: value}), sorts, ("returns text",) * (name in TEXTUAL)
        )
        for name in ("name", "buffers", "body", "parameters", "origin")
    },
    **{
        f"an entry of {name} of a loop program": value_spot(
            lambda value, name=name: with_ranks(**{name: (value,)}), sorts
        )
        for name in ("buffers", "body", "parameters")
    },
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
    "loop program": Spot(lambda act: with_operator(definition=Loops(act)), run_program),
    "define for some shapes": Spot(lambda act: with_operator(**fine_for_three(act)), run_program),
    "define for some shapes in C": Spot(
        lambda act: with_operator(**fine_for_three(act)), lambda *where: emit_program(*where)
    ),
}


def bind_negation(_: OpCall, inputs: Any, outputs: Any, *__: Any) -> Callable[[], object]:
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


KERNELS = {
    "supports": Spot(lambda act: with_kernel(supports=act), run_program),
    "binding a kernel": Spot(lambda act: with_kernel(kernel=act), run_program),
    "binding a kernel that is named": Spot(named, run_program),
    "running a kernel": Spot(lambda act: with_kernel(kernel=lambda *_: act), run_program, CALLED_IN_STEPS),
    "writing a kernel": Spot(
        lambda act: with_kernel("c", kernel=act), emit_program, ("raises half-way", *CALLED_IN_STEPS)
    ),
}
