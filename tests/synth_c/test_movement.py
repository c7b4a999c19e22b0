"""Data movement, indexing, einsum, resizing and convolution as C: the examples of every operator, and wrong indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from generated_c import needs_gcc, run_sanitised

from openinfer.array_types import storage_dtype
from openinfer.dsl import graph
from openinfer.dtypes import DType, dtype_named
from openinfer.errors import SynthesisError
from openinfer.ir.resolved import SettingValue
from openinfer.ir.types import TensorType
from openinfer.model import Model
from openinfer.ops.calls import OpCall
from openinfer.ops.examples import example_call
from openinfer.ops.schema import OpSchema
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare

FAMILIES = {
    "views": "squeeze unsqueeze expand slice narrow select split flip tile repeat depth_to_space space_to_depth",
    "margins": "concat stack pad triu tril",
    "reading": "gather embedding gather_elements gather_nd one_hot range iota",
    "writing": "scatter scatter_nd",
    "windows": "conv1d conv_transpose2d max_pool1d avg_pool1d resize2d einsum",
}
pytestmark = needs_gcc


def calls_of(schema: OpSchema, dtype: DType, environment: Environment) -> list[tuple[OpCall, list[np.ndarray | None]]]:
    """Return the examples of an operator for a type, with random inputs."""
    rng = np.random.default_rng(0)
    found: list[tuple[OpCall, list[np.ndarray | None]]] = []
    for example in schema.examples:
        legal = schema.dtypes if example.dtypes is None else example.dtypes
        if dtype.name not in legal:
            continue
        call = example_call(schema, example, dtype, environment.dtypes)
        arrays: list[np.ndarray | None] = []
        for kind, operand in zip(call.inputs, example.inputs, strict=True):
            low, high = (operand.low, operand.high) if operand is not None else (None, None)
            arrays.append(None if kind is None else drawn(rng, kind, low, high))
        found.append((call, arrays))
    return found


def drawn(rng: np.random.Generator, kind: TensorType, low: int | None, high: int | None) -> np.ndarray:
    if kind.dtype.is_float:
        return np.asarray(rng.standard_normal(kind.shape)).astype(storage_dtype(kind.dtype))
    first = kind.dtype.minimum or 0 if low is None else low
    last = (1 if kind.dtype.name == "bool" else kind.dtype.maximum or 0) if high is None else high
    return np.asarray(rng.integers(first, last, kind.shape, endpoint=True)).astype(storage_dtype(kind.dtype))


def shown(value: SettingValue) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def program(schemas: Sequence[OpSchema], dtype: DType, environment: Environment) -> tuple[str, dict[str, np.ndarray]]:
    """Return one program with every example of the operators."""
    inputs: dict[str, np.ndarray] = {}
    declared: list[str] = []
    results: list[str] = []
    statements: list[str] = []
    for schema in schemas:
        for number, (call, arrays) in enumerate(calls_of(schema, dtype, environment)):
            given: list[str] = []
            for place, (kind, array) in enumerate(zip(call.inputs, arrays, strict=True)):
                if array is not None:
                    given.append(f"{schema.name}_{number}_x{place}")
                    inputs[given[-1]] = array
                    declared.append(f"{given[-1]}: {kind};")
            outputs = [f"{schema.name}_{number}_y{place}" for place in range(len(call.outputs))]
            results += [f"{name}: {kind};" for name, kind in zip(outputs, call.outputs, strict=True)]
            settings = [f"{n}={shown(v)}" for n, v in written(schema, call).items()]
            statements.append(f"op {schema.name}({', '.join([*given, *settings])}) >> {', '.join(outputs)};")
    names = ", ".join(text.split(":")[0] for text in results)
    dynamic = f"dynamic {{ {' '.join(declared)} }}" if declared else ""
    body = "\n".join(statements)
    return f"{dynamic} volatile {{ {' '.join(results)} }} block entry {{ {body} return {names}; }}", inputs


def written(schema: OpSchema, call: OpCall) -> Mapping[str, SettingValue]:
    """Return the settings that differ from their defaults."""
    return {spec.name: call.settings[spec.name] for spec in schema.settings if call.settings[spec.name] != spec.default}


@pytest.mark.parametrize(
    ("family", "dtype"),
    [*((family, "f32") for family in FAMILIES), ("writing", "i8"), ("margins", "f16"), ("writing", "f16")],
)
def test_generated_code_agrees_with_the_simulator(family: str, dtype: str) -> None:
    environment = Environment.default()
    schemas = [environment.op(name) for name in FAMILIES[family].split()]
    text, inputs = program(schemas, dtype_named(dtype), environment)
    model = Model.from_arrays({})
    synthesis = Synthesizer("c").synthesize(model, graph(text))

    found = run_sanitised(synthesis, inputs)
    executor = Simulator(model, graph(text), device="cpu").make_executor()
    executor.step(**inputs)

    assert found
    for name, array in found.items():
        difference = compare(name, np.asarray(executor.fetch(name), array.dtype).reshape(array.shape), array)
        assert difference.within, difference


def test_an_epilogue_after_scattering_is_a_step_of_its_own() -> None:
    text = """
    dynamic { x: f32[4]; i: i64[3]; u: f32[3]; } volatile { s: f32[4]; y: f32[4]; }
    block entry { op scatter(x, i, u, reduction="add") >> s; op neg(s) >> y; return y; }
    """
    given: dict[str, Any] = {"x": np.ones(4, np.float32), "i": np.array([1, 1, 3]), "u": np.ones(3, np.float32)}

    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), graph(text))
    found = run_sanitised(synthesis, given)

    assert found["y"].tolist() == [-1.0, -3.0, -1.0, -2.0]


WRONG = {
    "gather": ("gather(x, i)", "f32[2, 3]", [0, 4]),
    "embedding": ("embedding(i, x)", "f32[2, 3]", [0, -1]),
    "scatter_nd": ("scatter_nd(x, i, s)", "f32[4, 3]", [4, 0]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_index_ends_the_step_and_reads_nothing(case: str) -> None:
    call, out, index = WRONG[case]
    declared = f"dynamic {{ x: f32[4, 3]; i: i64[2]; s: f32[]; }} volatile {{ y: {out}; }}"
    text = f"{declared} block entry {{ op {call} >> y; return y; }}"
    given: dict[str, Any] = {"x": np.ones((4, 3), np.float32), "i": np.array(index), "s": np.float32(1)}
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), graph(text))

    with pytest.raises(SynthesisError, match="an index is out of range"):
        run_sanitised(synthesis, given)


@pytest.mark.parametrize("device", ["cpu", "c"])
def test_indices_are_not_read_where_the_result_has_no_element(device: str) -> None:
    declared = "dynamic { x: f32[4, 0]; i: i64[2]; } volatile { y: f32[2, 0]; }"
    program = graph(f"{declared} block entry {{ op gather(x, i) >> y; return y; }}")

    with Simulator(Model.from_arrays({}), program, device=device).make_executor() as executor:
        executor.step(x=np.ones((4, 0), np.float32), i=np.array([9, -9]))

        assert executor.fetch("y").shape == (2, 0)


def test_an_index_along_an_axis_of_one_place_is_tested_and_not_used() -> None:
    declared = "volatile { k: f32[1, 2, 2]; } dynamic { i: u8[1, 2, 2]; }"
    program = graph(f"{declared} block entry {{ op gather_nd(k, i) >> k; return k; }}")
    k = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({"k": k}), program)

    found = run_sanitised(synthesis, {"i": np.array([[[0, 1], [0, 0]]], np.uint8)})
    np.testing.assert_array_equal(found["k"], [[[2, 3], [0, 1]]])
    with pytest.raises(SynthesisError, match="an index is out of range"):
        run_sanitised(synthesis, {"i": np.array([[[1, 1], [0, 0]]], np.uint8)})
