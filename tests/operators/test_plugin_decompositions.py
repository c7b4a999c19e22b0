"""Operators of plugins that are written in terms of others: with several results, and with inputs that are left out."""

from __future__ import annotations

import shutil
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dtypes import I64
from openinfer.errors import OpenInferError
from openinfer.ir.types import TensorType
from openinfer.ops import Composite, InputSpec, OpSchema
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ops.schema import Decomposer
    from openinfer.plugins.environment import Environment

GIVEN = {"scale": [2.0, 0.5, 1.0, -1.0], "bias": [1.0, 2.0, 3.0, 4.0]}
MODEL = oi.Model.from_arrays({name: np.array(values, np.float32) for name, values in GIVEN.items()})
X = np.array([3.0, -1.0, 7.0, 5.0], np.float32)
FLOATS = frozenset({"f32", "f64"})

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")


def operator(name: str, infer: Any, decompose: Any, *inputs: InputSpec, outputs: tuple[str, ...] = ("y",)) -> OpSchema:
    return OpSchema(
        name=name,
        summary="x",
        category="example",
        inputs=(InputSpec(name="x"), *inputs),
        outputs=outputs,
        dtypes=FLOATS,
        infer=infer,
        definition=Composite(decompose),
        in_place=True,
    )


def greatest(inputs: Sequence[TensorType], *_: object) -> tuple[TensorType, ...]:
    shape = (*inputs[0].shape[:-1], 2)
    return TensorType(inputs[0].dtype, shape), TensorType(I64, shape)


def least_and_greatest(steps: Decomposer, inputs: Sequence[int], *_: object) -> tuple[int, ...]:
    """Return the two greatest elements with their places, the second result of `topk` used by another operator."""
    values, places = steps.ops("topk", inputs[0], k=2)
    return values, steps.op("add", places, steps.op("fill", places, value=10))


def swapped(steps: Decomposer, inputs: Sequence[int], *_: object) -> tuple[int, ...]:
    first, second = steps.ops("split", inputs[0], axis=0, sizes=(1, 3))
    return steps.op("concat", second, first, axis=0), first


def twice(steps: Decomposer, inputs: Sequence[int], *_: object) -> tuple[int, ...]:
    made = steps.op("neg", inputs[0])
    return made, made, inputs[0]


def places_of(steps: Decomposer, inputs: Sequence[int], *_: object) -> tuple[int, ...]:
    return (steps.ops("topk", inputs[0], k=2)[1],)


def normalised(steps: Decomposer, inputs: Sequence[int | None], *_: object) -> tuple[int, ...]:
    x, scale, bias = inputs
    return (steps.op("layer_norm", x, scale, bias),)


def moved(steps: Decomposer, inputs: Sequence[int | None], *_: object) -> tuple[int, ...]:
    x, scale, bias = inputs
    scaled = x if scale is None else steps.op("mul", x, scale)
    return (steps.op("neg", scaled) if bias is None else steps.op("add", scaled, bias),)


def same(inputs: Sequence[TensorType], *_: object) -> tuple[TensorType, ...]:
    return (inputs[0],)


SCALE, BIAS = InputSpec(name="scale", optional=True), InputSpec(name="bias", optional=True)
OPERATORS = (
    operator("two_best", greatest, least_and_greatest, outputs=("values", "places")),
    operator("best_places", lambda *given: greatest(*given)[1:], places_of),
    operator("swapped", lambda i, *_: (i[0], TensorType(i[0].dtype, (1,))), swapped, outputs=("y", "first")),
    operator("twice", lambda i, *_: (i[0],) * 3, twice, outputs=("a", "b", "c")),
    operator("outer", greatest, lambda steps, inputs, _: steps.ops("two_best", inputs[0]), outputs=("a", "b")),
    operator("normalised", same, normalised, SCALE, BIAS),
    operator("moved", same, moved, SCALE, BIAS),
)


@pytest.fixture(scope="module")
def environment() -> Environment:
    module = ModuleType("example_operators")

    @hookimpl
    def openinfer_ops() -> tuple[OpSchema, ...]:
        return OPERATORS

    module.__dict__.update(OPENINFER_API=1, openinfer_ops=openinfer_ops)
    return load_environment(extra=[("example", module)])


def on_device(name: str) -> Callable[..., list[Any]]:
    def run(text: str, outputs: Sequence[str], environment: Environment) -> list[Any]:
        with Simulator(MODEL, graph(text), device=name, environment=environment).make_executor() as executor:
            executor.step(x=X)
            return [executor.fetch(output).tolist() for output in outputs]

    return run


def emitted(text: str, outputs: Sequence[str], environment: Environment) -> list[Any]:
    found = Synthesizer("c", environment=environment).synthesize(MODEL, graph(text)).run({"x": X}).outputs
    return [found[output].tolist() for output in outputs]


PLACES = [
    pytest.param(on_device("cpu"), id="cpu"),
    pytest.param(on_device("c"), id="c", marks=needs_compiler),
    pytest.param(emitted, id="target-c", marks=needs_compiler),
]

RESULTS = {
    "both results": ("two_best(t) >> v, p", "v: f32[2]; p: i64[2];", [[7.0, 5.0], [12, 13]]),
    "the first alone": ("two_best(t) >> v", "v: f32[2];", [[7.0, 5.0]]),
    "the second within": ("best_places(t) >> p", "p: i64[2];", [[2, 3]]),
    "any number": ("swapped(t) >> y, z", "y: f32[4]; z: f32[1];", [[-1.0, 7.0, 5.0, 3.0], [3.0]]),
    "over an input": ("swapped(t) >> t, z", "z: f32[1];", [[3.0]]),
    "one value for several": ("twice(t) >> a, b, d", "a: f32[4]; b: f32[4]; d: f32[4];", [[-3.0, 1.0, -7.0, -5.0]] * 2),
    "one within another": ("outer(t) >> v, p", "v: f32[2]; p: i64[2];", [[7.0, 5.0], [12, 13]]),
}


def program(statement: str, declared: str, returned: str) -> str:
    return (
        f"dynamic {{ x: f32[4]; }} volatile {{ out: f32[4]; {declared} }} block entry {{ assign t: f32[4]; "
        f"transfer x >> t; op {statement}; transfer t >> out; return {returned}; }}"
    )


@pytest.mark.parametrize("run", PLACES)
@pytest.mark.parametrize(("statement", "declared", "expected"), RESULTS.values(), ids=list(RESULTS))
def test_several_results(
    run: Any, statement: str, declared: str, expected: list[Any], environment: Environment
) -> None:
    made = statement.partition(">> ")[2].split(", ")
    outputs = [name for name in made if name != "t"]

    found = run(program(statement, declared, ", ".join([*outputs, "out"])), [*outputs, "out"], environment)

    assert found[: len(expected)] == expected
    assert found[-1] == ([-1.0, 7.0, 5.0, 3.0] if "t" in made else X.tolist())
    if "twice" in statement:
        assert found[2] == X.tolist()


@pytest.mark.parametrize("run", PLACES)
@pytest.mark.parametrize("given", [(), ("scale",), ("bias",), ("scale", "bias")])
@pytest.mark.parametrize("op", ["moved", "normalised"])
def test_inputs_that_may_be_left_out(run: Any, op: str, given: tuple[str, ...], environment: Environment) -> None:
    scale, bias = (np.array(GIVEN[name]) if name in given else None for name in GIVEN)
    declared = "".join(f"{name}: f32[4];" for name in given)
    named = "".join(f", {name}={name}" for name in given)

    (found,) = run(program(f"{op}(t{named}) >> y", f"y: f32[4]; {declared}", "y"), ["y"], environment)

    x = X.astype(np.float64)
    wide = x if op == "moved" else (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    scaled = wide if scale is None else wide * scale
    expected = scaled + bias if bias is not None else -scaled if op == "moved" else scaled
    assert found == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("name", ["add", "concat"])
def test_a_needed_input_that_is_left_out_is_named(name: str) -> None:
    partial = operator("partial", same, lambda steps, *_: (steps.op(name, None),))
    module = ModuleType("without_kernels")

    @hookimpl
    def openinfer_ops() -> tuple[OpSchema, ...]:
        return (partial,)

    module.__dict__.update(OPENINFER_API=1, openinfer_ops=openinfer_ops)

    with pytest.raises(OpenInferError, match=f"{name} needs the input"):
        on_device("cpu")(program("partial(t) >> y", "y: f32[4];", "y"), ["y"], load_environment(extra=[("l", module)]))
